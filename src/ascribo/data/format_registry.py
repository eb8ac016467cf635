"""The formats that recordings come in: files by the ending of their name, objects by their type.

Each format registers itself here, from its own module in `ascribo.data.formats` or from anywhere else:

- *files*: `file_format(".ending")` decorates a function that takes a path and returns a DataFrame with a row for
  each time step, or a dict of arrays, or a `Recording`. `ascribo.read` then reads such files.
- *objects with time stamps*, such as pynapple's: `register_time_series` takes a `TimeSeriesFormat`. Such objects
  are then welcome wherever data are, as channels and as variables.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..support.names import suggest

__all__ = [
    "FileContentError",
    "TimeSeriesFormat",
    "check_options",
    "file_format",
    "find_loader",
    "find_time_series",
    "is_recording_file",
    "register_time_series",
    "suffixes",
]

Loader = TypeVar("Loader", bound=Callable[..., Any])


class FileContentError(ValueError):
    """What a file holds cannot be used, and the message says why. Raised by functions that read a format."""


@dataclass(frozen=True)
class TimeSeriesFormat:
    """Objects of another library that have time stamps of their own.

    library : its name.
    recognises : whether something is such an object. It must not import the library to tell.
    advice : what to do instead where only an array is expected, to end the sentence "X is a ...; ".
    to_recording : (data, variables, treatment) -> the `Recording`. variables and treatment may be None.
    samples : (data) -> time stamps (n,) in seconds, values (n,) or (n, k) or None for events, and k names or None.
    from_embedding : (values, data, recording, names, spaces) -> an embedding (time, dim) as an object of the
        library. `recording` was made from `data`; names and spaces are those of the dimensions.
    """

    library: str
    recognises: Callable[[Any], bool]
    advice: str
    to_recording: Callable[[Any, Any, Any], Any]
    samples: Callable[[Any], tuple[Any, Any, Sequence[Any] | None]]
    from_embedding: Callable[[np.ndarray, Any, Any, Sequence[str], Sequence[str]], Any]


_LOADERS: dict[str, Callable[..., Any]] = {}
_FOLDERS: set[str] = set()
"""Endings of folders that are read as one file."""
_TIME_SERIES: dict[str, TimeSeriesFormat] = {}


def file_format(*endings: str, folder: bool = False) -> Callable[[Loader], Loader]:
    """Register, as a decorator, the function that reads files with these endings.

    folder : they are folders, which are read as if they were one file.

    The function takes a path, and options of its own by name, which `ascribo.read` passes on. It returns

    - a DataFrame with a row for each time step, or a dict name -> array, and `read` chooses the channels and the
      variables from it; or
    - a `Recording`, if it takes channels, variables and epochs and chooses itself.

    >>> @file_format(".numbers")
    ... def load_numbers(path):
    ...     return {"X": np.loadtxt(path, ndmin=2)}
    >>> find_loader("a.numbers") is load_numbers
    True
    >>> del _LOADERS[".numbers"]
    """

    def register(load: Loader) -> Loader:
        for ending in endings:
            _LOADERS[ending.lower()] = load
            if folder:
                _FOLDERS.add(ending.lower())
        return load

    return register


def suffixes(option: str | None = None) -> list[str]:
    """The endings of all files that can be read, or of those whose function takes an option of this name."""
    return [end for end, load in _LOADERS.items() if option is None or option in _parameters(load)]


def find_loader(path: str | Path) -> Callable[..., Any]:
    """The function that reads a file, by the ending of its name."""
    ending = Path(path).suffix.lower()
    if ending not in _LOADERS:
        raise ValueError(
            f"{path}: cannot read files ending in {Path(path).suffix!r}; expected one of {', '.join(_LOADERS)}."
        )
    return _LOADERS[ending]


def is_recording_file(path: str | Path) -> bool:
    """Whether there is a file, or a folder that is read as one (.zarr).

    >>> is_recording_file("not-there.npz")
    False
    """
    place = Path(path)
    return place.is_dir() if place.suffix.lower() in _FOLDERS else place.is_file()


def check_options(path: str | Path, options: Iterable[str]) -> None:
    """Refuse options that the function for this file does not take, and say which files they are for."""
    known = _parameters(find_loader(path))
    for name in options:
        if name in known:
            continue
        others = suffixes(name)
        if others and "channels" not in known:
            raise TypeError(f"{path}: {name} is for files ending in {', '.join(others)}, not for this one.")
        raise TypeError(f"{path}: there is no option {name!r} for such files{suggest(name, known)}")


def _parameters(load: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(load).parameters)[1:]  # without the path


def register_time_series(format: TimeSeriesFormat) -> None:
    """Make objects of a library welcome as channels and as variables."""
    _TIME_SERIES[format.library] = format


def find_time_series(data: Any) -> TimeSeriesFormat | None:
    """The format of an object with time stamps of its own; None for anything else.

    >>> find_time_series(np.ones(3)) is None
    True
    """
    return next((known for known in _TIME_SERIES.values() if known.recognises(data)), None)
