"""Recordings from files: the format is found by the ending of the name, channels and variables by their names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..support.names import suggest
from . import formats  # each format registers itself
from .format_registry import FileContentError, check_options, find_loader, is_recording_file
from .formats.array_files import recording_from_arrays
from .formats.table_files import recording_from_table
from .recording import Recording

__all__ = ["read"]


def read(
    path: str | Path,
    *,
    channels: str | Sequence[str] | None = None,
    variables: str | Sequence[str] | Mapping[str, str] | None = None,
    epochs: Any = None,
    time: str | None = None,
    smooth: float | None = None,
    transform: str | None = None,
    **options: Any,
) -> Recording:
    """Read a recording from a file.

    In a **table** (.csv, .tsv, .parquet) a row is a time step. Name the channels or the variables
    and the remaining numeric columns become the other; name neither and all of them are channels.
    A column without a name, such as the row numbers pandas writes, is left out. Text files may have commas,
    semicolons or tabs between columns, and decimal commas. A first row of nothing but numbers is refused, unless
    `header=True` says that these are names or `header=False` that they are data.

    In a file of **arrays** (.npz, .mat, .h5, .hdf5, .zarr) the channels are a matrix (time, channel), and
    the variables are all other arrays of numbers with one row per time step, and vectors of text, which are
    labels: a vector under its own name, the k columns of a matrix as name0, name1, ..., and those of "xy" as x and
    y. Arrays inside a group are called "group/name". Python objects are never unpickled. A file of **one array**
    (.npy) holds the channels only, and is memory-mapped. So is a matrix of over 128 MiB that an HDF5 file holds as
    plain float32, neither compressed nor in chunks.

    In an **NWB** file (.nwb) everything has its path and its own time stamps: see
    `ascribo.data.formats.read_nwb`, which takes bin_size and more. A **folder** holds files that pynapple
    saved: see `ascribo.data.formats.read_pynapple_folder`.

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
    options : what a format takes beside these, such as `header` or `bin_size`. For .npy, .mat, .h5, .hdf5 and .zarr
        `unpack`: a folder to which channels of over 128 MiB are unpacked, once, if they cannot be mapped where they
        are (compressed, in chunks, not float32). They are mapped from there, and may be larger than memory.

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
    roles = {"channels": channels, "variables": variables, "epochs": epochs, "time": time}
    treatment = {"smooth": smooth, "transform": transform}
    if path.is_dir() and not is_recording_file(path):
        return _read_folder(path, {k: v for k, v in {**roles, **treatment, **options}.items() if v is not None})
    load = find_loader(path)
    if path.exists() and not is_recording_file(path):
        if path.is_file():
            raise ValueError(f"{path} is a file; what ends in {path.suffix} is expected to be a folder.")
        raise ValueError(f"{path} is a device or a pipe, which may never end: expected an ordinary file.")
    if not path.exists():
        files = [f.name for f in path.parent.iterdir()] if path.parent.is_dir() else []
        raise FileNotFoundError(f"{path}: no such file{suggest(path.name, sorted(files))}")
    takes = inspect.signature(load).parameters
    whole = "channels" in takes  # the function chooses channels and variables itself
    given = {name: value for name, value in {**roles, **treatment}.items() if value is not None}
    check_options(path, {**options, **given} if whole else options)
    try:
        content = load(path, **options, **(given if whole else {}))
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # each format's parser fails in its own ways
        own = isinstance(error, ValueError) or (isinstance(error, TypeError) and _raised_here(error))
        if isinstance(error, FileContentError) or (whole and own):
            raise _said(path, error) from error
        raise ValueError(
            f"{path}: cannot be read as a {path.suffix} file; it may be damaged or of another "
            f"kind. ({type(error).__name__}: {error})"
        ) from error
    if isinstance(content, Recording):
        return content
    try:
        if isinstance(content, pd.DataFrame):
            recording = recording_from_table(content, **roles)
        else:
            recording = recording_from_arrays(content, **roles)
        return recording if smooth is None and transform is None else recording.treat(**treatment)
    except (TypeError, ValueError) as error:
        raise _said(path, error) from error


def _raised_here(error: Exception) -> bool:
    """Whether an error comes from this package, rather than from a library that did not foresee a damaged file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(f"{__package__}.")


def _said(path: Path, error: Exception) -> Exception:
    """The same error with the path before it. Some that Python itself raises cannot be made from a text."""
    kind = next(kind for kind in (FileContentError, TypeError, ValueError) if isinstance(error, kind))
    return kind(f"{path}: {error}")


def _read_folder(path: Path, given: dict[str, Any]) -> Recording:
    """A folder of pynapple's files."""
    if "time" in given:
        raise TypeError(f"{path}: time is for tables and arrays; the files of pynapple have time stamps.")
    try:
        return formats.read_pynapple_folder(path, **given)
    except (TypeError, ValueError) as error:
        raise _said(path, error) from error
