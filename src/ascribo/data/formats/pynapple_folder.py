"""A folder of .npz files that pynapple saved: spikes, behaviour and intervals, a file each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ...support.names import first_few, suggest
from ..format_registry import FileContentError
from ..recording import Recording
from .array_files import load_npz
from .pynapple import from_pynapple

__all__ = ["read_pynapple_folder"]

NEEDED = {
    "TsGroup": ("t", "index", "start", "end"),
    "Ts": ("t", "start", "end"),
    "Tsd": ("t", "d", "start", "end"),
    "TsdFrame": ("t", "d", "start", "end"),
    "IntervalSet": ("start", "end"),
}
"""Arrays that the file of each kind holds. Names of columns and metadata are Python objects, and are never read."""
NUMBERS = ("t", "d", "start", "end", "index", "keys")
"""Those of them that are numbers."""


def read_pynapple_folder(
    path: str | Path,
    *,
    channels: str | None = None,
    variables: str | Sequence[str] | Mapping[str, str] | None = None,
    epochs: str | None = None,
    **options: Any,
) -> Recording:
    """A recording from a folder of files that pynapple's `save` wrote; each is called by its name without .npz.

    channels : the spikes (TsGroup) or samples (TsdFrame) that are the channels. Default: the only TsGroup.
    variables : Tsd, TsdFrame or Ts beside them. Default: all that there are.
    epochs : an IntervalSet. Default: the time support of the channels.
    options : of `ascribo.from_pynapple`, such as bin_size, which spikes need.

    >>> import tempfile, pynapple as nap
    >>> folder = tempfile.TemporaryDirectory()
    >>> nap.TsGroup({3: nap.Ts(np.arange(100) / 10)}).save(f"{folder.name}/units.npz")
    >>> nap.Tsd(t=np.arange(10.0), d=np.arange(10.0)).save(f"{folder.name}/speed.npz")
    >>> read_pynapple_folder(folder.name, bin_size=0.5)
    Recording(19 time steps x 1 channel, variables: speed, 1 epoch)
    >>> folder.cleanup()
    """
    kinds, contents = {}, {}
    for file in sorted(Path(path).glob("*.npz")):
        with _refuse_damaged(file):
            found = load_npz(file)
            for name in (name for name in NUMBERS if name in found):
                if found[name].dtype.kind not in "biuf":
                    raise FileContentError(f"{file.name}: {name} holds no numbers ({found[name].dtype}).")
        kind = str(found["type"].ravel()[0]) if "type" in found and found["type"].size else ""
        if kind in NEEDED and set(NEEDED[kind]) <= set(found):
            kinds[file.stem], contents[file.stem] = kind, found
    groups = [name for name, kind in kinds.items() if kind == "TsGroup"]
    if channels is None and len(groups) != 1:
        held = ", ".join(f"{name} ({kind})" for name, kind in kinds.items()) or "no file that pynapple saved"
        raise FileContentError(
            f"the folder holds {held}: expected one TsGroup, or channels= to say which file holds the channels."
        )
    chosen = groups[0] if channels is None else _named(channels, kinds, ("TsGroup", "TsdFrame", "Tsd"), "channels")
    series = ("Tsd", "TsdFrame", "Ts")
    if variables is None:
        named = {name: name for name, kind in kinds.items() if kind in series and name != chosen}
    else:
        given = [variables] if isinstance(variables, str) else variables
        pairs = given.items() if isinstance(given, Mapping) else [(name, name) for name in given]
        named = {str(name): _named(file, kinds, series, "variables") for name, file in pairs}

    def read_object(name: str) -> Any:
        with _refuse_damaged(Path(f"{name}.npz")):
            return _object(kinds[name], contents[name])

    behaviour = {name: read_object(file) for name, file in named.items()}
    intervals = None if epochs is None else contents[_named(epochs, kinds, ("IntervalSet",), "epochs")]
    parts = None if intervals is None else np.stack([intervals["start"], intervals["end"]], axis=1)
    return from_pynapple(read_object(chosen), behaviour or None, epochs=parts, **options)


@contextmanager
def _refuse_damaged(file: Path) -> Iterator[None]:
    """What goes wrong while a file is read is said to be its damage: zip, numpy and pynapple fail in many ways."""
    try:
        yield
    except (ImportError, MemoryError, FileContentError):
        raise
    except Exception as error:
        raise FileContentError(
            f"{file.name} cannot be read; it may be damaged. ({type(error).__name__}: {error})"
        ) from error


def _named(name: str, kinds: Mapping[str, str], wanted: Sequence[str], what: str) -> str:
    """The name of a file of one of the wanted kinds."""
    if kinds.get(name) not in wanted:
        there = [own for own, kind in kinds.items() if kind in wanted]
        raise FileContentError(
            f"{what}={name!r}: expected the name of a {' or '.join(wanted)}{suggest(name, there)} There are "
            f"{first_few(there) or 'none'}."
        )
    return name


def _object(kind: str, found: Mapping[str, np.ndarray]) -> Any:
    """The pynapple object of some arrays."""
    try:
        import pynapple as nap
    except ImportError as error:
        raise ImportError("this needs pynapple: pip install 'ascribo[neuro]'") from error
    support = nap.IntervalSet(found["start"], found["end"])
    if kind == "TsGroup":
        times, owner = found["t"], found["index"]
        units = np.asarray(found.get("keys", np.unique(owner)))
        return nap.TsGroup({int(u): nap.Ts(times[owner == u]) for u in units}, time_support=support)
    if kind == "Ts":
        return nap.Ts(found["t"], time_support=support)
    return getattr(nap, kind)(t=found["t"], d=found["d"], time_support=support)
