"""Recordings from files: tables (.csv, .tsv, .parquet), arrays (.npz, .mat, .h5, .hdf5) and .nwb."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse

from ..support.names import suggest
from .recording import Recording

Arrays = dict[str, np.ndarray]


def read(
    path, *, channels=None, variables=None, epochs=None, time=None, smooth=None, transform=None, **nwb
) -> Recording:
    """Read a recording from a file.

    In a **table** (.csv, .tsv, .parquet) a row is a time step. Name the channels or the variables
    and the remaining numeric columns become the other; name neither and all of them are channels.
    A column without a name, such as the row numbers pandas writes, is left out.

    In a file of **arrays** (.npz, .mat, .h5, .hdf5) the channels are a matrix (time, channel), and
    the variables are all other numeric arrays with one row per time step: a vector under its own
    name, the k columns of a matrix as name0, name1, ..., and those of "xy" as x and y. Arrays
    inside a group are called "group/name". Python objects are never unpickled.

    In an **NWB** file (.nwb) everything has its path and its own time stamps: see
    `ascribo.data.formats.read_nwb`, which takes bin_size and more.

    Parameters
    ----------
    path : str or Path
    channels : str or list of str, optional
        Table: column names, or what they begin with: "cell*".
        Arrays: the name of the matrix. Default: "X" or "spikes" or the only matrix there is.
    variables : str or list of str, optional
        Columns, or arrays, that are variables. Text is welcome here.
    epochs, time : str, optional
        The column or array of epoch labels, and of time stamps. Default: "epoch", "epochs" or
        "trial", and "time", where there is one that is neither a channel nor a variable.
    smooth, transform : float and str, optional
        Gaussian smoothing within epochs, its width in seconds, and "sqrt" or "zscore": see `ascribo.Treatment`.
        Time must be in seconds.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "track.npz"
    >>> np.savez(path, spikes=np.ones((9, 4)), xy=np.zeros((9, 2)), trial=np.arange(9) // 3)
    >>> read(path)
    Recording(9 time steps x 4 channels, variables: x, y, 3 epochs)
    >>> folder.cleanup()
    """
    path = Path(path)
    load = _LOADERS.get(path.suffix.lower())
    if load is None and path.suffix.lower() != ".nwb":
        raise ValueError(
            f"{path}: cannot read files ending in {path.suffix!r}; expected one of {', '.join(_LOADERS)}, .nwb."
        )
    if not path.is_file():
        files = [f.name for f in path.parent.iterdir()] if path.parent.is_dir() else []
        raise FileNotFoundError(f"{path}: no such file{suggest(path.name, sorted(files))}")
    if load is None:
        return _nwb(path, channels, variables, epochs, time, {"smooth": smooth, "transform": transform, **nwb})
    if nwb:
        raise TypeError(f"{path}: {', '.join(nwb)} is for NWB files: rows of other files are time steps already.")
    try:
        content = load(path)
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # each format's parser fails in its own ways
        raise ValueError(
            f"{path}: cannot be read as a {path.suffix} file; it may be damaged or of another "
            f"kind. ({type(error).__name__}: {error})"
        ) from error
    roles = (channels, _as_list(variables), epochs, time)
    try:
        recording = (_from_table if isinstance(content, pd.DataFrame) else _from_arrays)(content, *roles)  # type: ignore[arg-type]
        if smooth is None and transform is None:
            return recording
        return recording.treat(smooth=smooth, transform=transform)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{path}: {error}") from error


def _nwb(path: Path, channels, variables, epochs, time, options) -> Recording:
    from .formats.nwb import read_nwb

    if time is not None:
        raise TypeError(f"{path}: time={time!r} is not for NWB files, whose series have their own time stamps.")
    try:
        return read_nwb(path, channels=channels, variables=variables, epochs=epochs, **options)
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read as an NWB file; it may be damaged or of another kind. ({error})"
        ) from error
    except (TypeError, ValueError) as error:
        raise type(error)(f"{path}: {error}") from error


# From what is in a file to a recording


def _from_table(table: pd.DataFrame, channels, variables, epochs, time) -> Recording:
    columns = [str(column) for column in table.columns]
    table = table.set_axis(columns, axis=1)
    if isinstance(channels, str) and channels.endswith("*"):
        prefix = channels[:-1]
        channels = [column for column in columns if column.startswith(prefix)]
        if not channels:
            raise ValueError(f"no column begins with {prefix!r}{suggest(prefix, columns)}")
    channels = _as_list(channels)
    named = [*(channels or []), *(variables or [])]
    epochs = epochs or _first(("epoch", "epochs", "trial"), columns, named)
    time = time or _first(("time",), columns, named)
    for name in (*named, epochs, time):
        if name is not None and name not in columns:
            raise ValueError(f"no column called {name!r}{suggest(name, columns)}")
    used = {*named, epochs, time}
    rest = [column for column in columns if column not in used and pd.api.types.is_numeric_dtype(table[column])]
    if channels is None:
        channels, rest = rest, []
        if not channels:
            raise ValueError(
                f"no numeric columns are left to be channels; the columns are "
                f"{', '.join(f'{c} ({t})' for c, t in table.dtypes.items())}."
            )
    variables = rest if variables is None else variables
    both = set(channels) & {*variables, epochs, time}
    if both:
        raise ValueError(
            f"column {min(both)!r} is a channel and something else; a column can be one of "
            "channel, variable, epochs and time."
        )
    return Recording(
        table[channels],
        table[variables],
        epochs=None if epochs is None else table[epochs],
        time=None if time is None else table[time],
    )


def _from_arrays(arrays: Arrays, channels, variables, epochs, time) -> Recording:
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
    aligned = {
        name: array
        for name, array in arrays.items()
        if name != channels and array.ndim in (1, 2) and len(array) == steps
    }
    vectors = [name for name, array in aligned.items() if array.ndim == 1]
    epochs = epochs or _first(("epoch", "epochs", "trial"), vectors, variables)
    time = time or _first(("time",), vectors, variables)
    if variables is None:
        variables = [
            name for name, array in aligned.items() if name not in (epochs, time) and array.dtype.kind in "biuf"
        ]
    table = {}
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


def _columns(name: str, array: np.ndarray) -> Arrays:
    """A vector as it is; a matrix as one vector for each of its columns."""
    if array.ndim != 2:
        return {name: array}
    if name == "xy" and array.shape[1] == 2:
        return {"x": array[:, 0], "y": array[:, 1]}
    return {f"{name}{i}": column for i, column in enumerate(array.T)}


def _only_matrix(arrays: Arrays) -> str:
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


def _get(arrays: Arrays, name: str) -> np.ndarray:
    if name not in arrays:
        raise ValueError(
            f"no readable array called {name!r}{suggest(name, arrays)} The file has {_shapes(arrays)}."
        )
    return arrays[name]


def _shapes(arrays: Arrays) -> str:
    return ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "no arrays"


def _first(wanted: Iterable[str], present: Iterable[str], taken: Iterable[str] | None):
    """The first of the wanted names that is present and not taken, or None."""
    free = set(present) - set(taken or ())
    return next((name for name in wanted if name in free), None)


def _as_list(names) -> list[str] | None:
    return names if names is None else [names] if isinstance(names, str) else list(names)


# From a file to what is in it


def _csv(path: Path) -> pd.DataFrame:
    return _named_columns(pd.read_csv(path))


def _tsv(path: Path) -> pd.DataFrame:
    return _named_columns(pd.read_csv(path, sep="\t"))


def _named_columns(table: pd.DataFrame) -> pd.DataFrame:
    return table.loc[:, [not str(column).startswith("Unnamed: ") for column in table.columns]]


def _parquet(path: Path) -> pd.DataFrame:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{path}: reading .parquet needs pyarrow: pip install 'ascribo[parquet]'") from error
    table = pd.read_parquet(path, engine="pyarrow")
    # A named index, such as time, is data; row numbers are not.
    return table.reset_index() if any(name is not None for name in table.index.names) else table


def _npz(path: Path) -> Arrays:
    arrays = {}
    with np.load(path, allow_pickle=False) as file:
        for name in file.files:
            try:
                arrays[name] = file[name]
            except ValueError as error:
                if "allow_pickle" not in str(error):
                    raise
    return arrays


def _mat(path: Path) -> Arrays:
    import h5py

    if h5py.is_hdf5(path):  # version 7.3; the axes are stored in reverse
        arrays = {name: array.T for name, array in _hdf5(path).items()}
    else:
        content = scipy.io.loadmat(path)
        arrays = {
            name: value.toarray() if scipy.sparse.issparse(value) else value
            for name, value in content.items()
            if not name.startswith("__")
        }
    # MATLAB has no vectors, only matrices with one row or one column.
    return {
        name: array.ravel() if array.ndim == 2 and 1 in array.shape else array
        for name, array in arrays.items()
        if array.dtype.kind in "biufU"  # not cells and structures
    }


def _hdf5(path: Path) -> Arrays:
    import h5py

    arrays = {}

    def collect(name: str, item) -> None:
        if not isinstance(item, h5py.Dataset) or name.startswith("#"):  # MATLAB's private groups
            return
        if h5py.check_string_dtype(item.dtype):
            arrays[name] = np.asarray(item.asstr()[()])
        elif item.dtype.kind in "biuf" and item.attrs.get("MATLAB_class") != b"char":
            arrays[name] = np.asarray(item[()])

    with h5py.File(path) as file:
        file.visititems(collect)
    return arrays


_LOADERS = {
    ".csv": _csv,
    ".tsv": _tsv,
    ".parquet": _parquet,
    ".npz": _npz,
    ".mat": _mat,
    ".h5": _hdf5,
    ".hdf5": _hdf5,
}
