"""Named arrays in files: .npz, .npy, .mat, .h5 and .hdf5; and a recording from such arrays.

Those of HDF5 files are read when it is known which of them are wanted (`stored_arrays`).
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse

from ...support.names import suggest
from ..format_registry import FileContentError, file_format
from ..recording import Recording
from .hdf5_arrays import hdf5_arrays
from .hdf5_safety import check_size
from .mat_safety import readable_arrays
from .stored_arrays import StoredArray, is_large

__all__ = ["load_hdf5", "load_mat", "load_npy", "load_npz", "recording_from_arrays"]

Arrays = dict[str, np.ndarray]
Found = Mapping[str, np.ndarray | StoredArray]


@file_format(".npz")
def load_npz(path: str | Path) -> Arrays:
    """The arrays of an .npz file, but for those that hold Python objects, which are never unpickled."""
    arrays = {}
    with np.load(path, allow_pickle=False) as file:
        for name, (shape, dtype, stored) in _declared(path).items():
            check_size(shape, dtype, name, stored=stored)
        for name in file.files:
            try:
                arrays[name] = file[name]
            except ValueError as error:
                if "allow_pickle" not in str(error):
                    raise
    return arrays


@file_format(".npy")
def load_npy(path: str | Path, unpack: str | Path | None = None) -> Found:
    """The channels of an .npy file, memory-mapped: a matrix (time, channel), or a vector, which is one channel.

    unpack : see `ascribo.read`; for matrices that are not float32 in C order.
    """
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.ndim not in (1, 2):
        raise FileContentError(f"the array has shape {array.shape}; expected time x channel.")
    array = array if array.ndim == 2 else array[:, None]
    if unpack is None or (array.dtype == np.float32 and array.flags.c_contiguous):
        return {"X": array}
    if not is_large(array.shape):
        return {"X": array}
    rows = lambda a, b: array[a:b]  # noqa: E731
    return {"X": StoredArray("X", array.shape, array.dtype, Path(path), rows, unpack=Path(unpack))}


@file_format(".mat")
def load_mat(path: str | Path, unpack: str | Path | None = None) -> Found:
    """The arrays of a MATLAB file of any version, vectors as vectors; cells and structures are left out.

    unpack : see `ascribo.read`; for files of version 7.3. Others hold no array of over 2 GB.
    """
    import h5py

    if h5py.is_hdf5(path):  # version 7.3; the axes are stored in reverse
        return hdf5_arrays(path, unpack, matlab=True)
    if unpack is not None:
        raise FileContentError("unpack is for MATLAB files of version 7.3; this one is older, and read as it is.")
    content = scipy.io.loadmat(path, variable_names=readable_arrays(path))
    arrays = {
        name: value.toarray() if scipy.sparse.issparse(value) else value
        for name, value in content.items()
        if not name.startswith("__")
    }
    # MATLAB has no vectors, only matrices with one row or one column.
    return {
        name: array.ravel() if array.ndim == 2 and 1 in array.shape else array
        for name, array in arrays.items()
        if array.dtype.kind in "biufU"
    }


@file_format(".h5", ".hdf5")
def load_hdf5(path: str | Path, unpack: str | Path | None = None) -> Found:
    """The arrays of numbers and of text in an HDF5 file; those inside a group are called "group/name".

    unpack : see `ascribo.read`.
    """
    return hdf5_arrays(path, unpack)


def _declared(path: str | Path) -> dict[str, tuple[tuple[int, ...], np.dtype, int]]:
    """Name -> shape and type of the arrays of an .npz file, from their headers, and the bytes they take in it."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.filename.endswith(".npy"):
                with archive.open(entry) as member:
                    read = np.lib.format.read_array_header_1_0
                    if np.lib.format.read_magic(member) != (1, 0):
                        read = np.lib.format.read_array_header_2_0
                    shape, _, dtype = read(member)
                found[entry.filename.removesuffix(".npy")] = shape, dtype, entry.compress_size
    return found


def recording_from_arrays(
    arrays: Found,
    channels: str | None = None,
    variables: str | Sequence[str] | None = None,
    epochs: str | None = None,
    time: str | None = None,
) -> Recording:
    """A recording from named arrays, a row for each time step: see `ascribo.read`.

    >>> recording_from_arrays({"spikes": np.ones((9, 4)), "xy": np.zeros((9, 2))})
    Recording(9 time steps x 4 channels, variables: x, y, 1 epoch)
    """
    variables = [variables] if isinstance(variables, str) else variables
    if channels is None:
        channels = _only_matrix(arrays)
    elif not isinstance(channels, str):
        raise TypeError(
            f"channels is a {type(channels).__name__}; expected the name of one array. "
            f"The file has {_shapes(arrays)}."
        )
    X = _get(arrays, channels)
    X = X[:, None] if X.ndim == 1 else X  # one channel, asked for by its name
    steps = len(X) if X.ndim else 0
    others = {name: array for name, array in arrays.items() if name != channels and array.ndim in (1, 2)}
    aligned = {name: array for name, array in others.items() if len(array) == steps}
    vectors = [name for name, array in aligned.items() if array.ndim == 1]
    epochs = epochs or _first(("epoch", "epochs", "trial"), vectors, variables)
    time = time or _first(("time",), vectors, variables)
    if variables is None:
        variables = [name for name, array in aligned.items() if name not in (epochs, time) and _varies(array)]
        _warn_of_near_misses(others, steps, {channels, epochs, time})
    table: Arrays = {}
    for name in variables:
        for column, values in _columns(name, _get(arrays, name)).items():
            if column in table:
                raise ValueError(f"two of the variables {', '.join(variables)} give a {column!r}.")
            table[column] = values
    return Recording(
        X,
        table,
        epochs=None if epochs is None else _get(arrays, epochs),
        time=None if time is None else _get(arrays, time),
    )


def _varies(array: np.ndarray | StoredArray) -> bool:
    """Whether an array holds numbers, or labels as text, one for each time step."""
    if isinstance(array, StoredArray) or array.dtype.kind in "biuf":
        return array.dtype.kind in "biuf"
    text = array.dtype.kind in "UT" or (array.dtype.kind == "O" and all(isinstance(one, str) for one in array.flat))
    return text and array.ndim == 1


def _warn_of_near_misses(arrays: Found, steps: int, used: set[str | None]) -> None:
    """Name the arrays that are left out although they are as long as the channels but for 1% or one row."""
    close = [
        f"{name} ({len(array)})"
        for name, array in arrays.items()
        if name not in used and 0 < abs(len(array) - steps) <= max(1, steps // 100)
    ]
    if close:
        warnings.warn(
            f"left out: {', '.join(close)}, with nearly as many rows as the channels ({steps}), but not quite. If "
            "these are variables, cut or pad them to that length; if not, pass variables=[...] to say which are.",
            stacklevel=4,
        )


def _columns(name: str, array: np.ndarray) -> Arrays:
    """A vector as it is; a matrix as one vector for each of its columns."""
    if array.ndim != 2:
        return {name: array}
    if name == "xy" and array.shape[1] == 2:
        return {"x": array[:, 0], "y": array[:, 1]}
    return {f"{name}{i}": column for i, column in enumerate(array.T)}


def _only_matrix(arrays: Found) -> str:
    matrices = [name for name, a in arrays.items() if a.ndim == 2 and a.dtype.kind in "biuf"]
    name = _first(("X", "spikes"), matrices, None)
    if name is None and len(matrices) == 1:
        name = matrices[0]
    if name is None:
        raise ValueError(
            f"{'no' if not matrices else 'more than one'} matrix could be the channels; give its "
            f"name as channels=. The file has {_shapes(arrays)}."
        )
    return name


def _get(arrays: Found, name: str) -> np.ndarray:
    if name not in arrays:
        raise ValueError(
            f"no readable array called {name!r}{suggest(name, arrays)} The file has {_shapes(arrays)}."
        )
    found = arrays[name]
    return found.load() if isinstance(found, StoredArray) else found


def _shapes(arrays: Found) -> str:
    return ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "no arrays"


def _first(wanted: Iterable[str], present: Iterable[str], taken: Iterable[str] | None) -> str | None:
    """The first of the wanted names that is present and not taken, or None."""
    free = set(present) - set(taken or ())
    return next((name for name in wanted if name in free), None)
