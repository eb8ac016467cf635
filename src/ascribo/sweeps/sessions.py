"""The recordings of a sweep: where each is, and a fingerprint by which it is known again."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data.format_registry import is_recording_file, suffixes
from ..data.formats.stored_arrays import make_fingerprint
from ..data.recording import Recording
from ..report.methods_text import fingerprint
from ..support.compute import in_threads
from ..support.sealed_json import is_whole, read_json, write_sealed

__all__ = ["Source", "find_sessions", "fingerprints"]

Source = Path | Recording
"""A file to read, or a recording in memory."""
KNOWN = ".fingerprints.json"
"""File of a sweep with the digests of files that have not changed since they were read."""


def find_sessions(given: Any) -> dict[str, Source]:
    """Sessions by name.

    given : a folder (all files in it that can be read), a pattern such as "data/*.nwb", a list of files, or a dict
        of names and files or recordings. Files are called by their name without its ending.
    """
    if isinstance(given, Mapping):
        found = {str(name): one if isinstance(one, Recording) else Path(one) for name, one in given.items()}
    elif isinstance(given, str | Path):
        found = _by_name(_files(str(given)))
    elif isinstance(given, Sequence) and not any(isinstance(one, Recording) for one in given):
        found = _by_name([Path(one) for one in given])
    else:
        raise ValueError(
            f"sessions is a {type(given).__name__}; expected a folder, a pattern such as 'data/*.nwb', a list of "
            "files, or a dict of names and files or recordings."
        )
    if not found:
        raise ValueError(f"sessions={given!r}: there is none. Expected files ending in {', '.join(suffixes())}.")
    for name, one in found.items():
        if isinstance(one, Path) and not is_recording_file(one):
            raise FileNotFoundError(f"session {name!r}: {one} is not there.")
    return found


def _files(given: str) -> list[Path]:
    """The files of a folder or of a pattern, or the one file."""
    if Path(given).is_dir() and not is_recording_file(given):
        return sorted(
            path for path in Path(given).iterdir() if is_recording_file(path) and path.suffix.lower() in suffixes()
        )
    if Path(given).exists() or not glob.has_magic(given):
        return [Path(given)]
    return sorted(path for path in map(Path, glob.glob(given, recursive=True)) if is_recording_file(path))


def _by_name(files: Sequence[Path]) -> dict[str, Source]:
    """Files by their name without ending, or by their whole path where two have the same."""
    stems = [path.stem for path in files]
    return dict(zip(stems if len(set(stems)) == len(stems) else map(str, files), files, strict=True))


def fingerprints(sessions: Mapping[str, Source], folder: Path) -> dict[str, str]:
    """SHA-256 of each session's data. Those of files are kept in the folder, so that they are read once."""
    known = _known(folder)
    marks = {name: _mark(one) for name, one in sessions.items() if isinstance(one, Path)}
    new = [name for name, mark in marks.items() if mark not in known]
    known |= dict(
        zip([marks[name] for name in new], in_threads(lambda name: _digest(sessions[name]), new), strict=True)
    )
    if new:
        write_sealed(folder / KNOWN, known)
    return {
        name: known[marks[name]] if isinstance(one, Path) else fingerprint(one) for name, one in sessions.items()
    }


def _known(folder: Path) -> dict[str, str]:
    """The digests that are kept; none of a file that is damaged or has no checksum: they are worked out again."""
    try:
        found = read_json(folder / KNOWN)
    except (OSError, ValueError):
        return {}
    return {mark: str(digest) for mark, digest in found.items() if mark != "checksum"} if is_whole(found) else {}


def _mark(file: Path) -> str:
    """By this a file is taken to be the same as before: its place, size and time of the last change."""
    if file.is_dir():
        return make_fingerprint(file)
    state = file.stat()
    return f"{file.absolute()} {state.st_size} {state.st_mtime_ns}"


def _digest(file: Any) -> str:
    """SHA-256 of a file; of a folder that is read as one, of its files and their names."""
    if not Path(file).is_dir():
        with open(file, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    files = sorted(path for path in Path(file).rglob("*") if path.is_file())
    parts = [(str(path.relative_to(file)), _digest(path)) for path in files]
    return hashlib.sha256(repr(parts).encode()).hexdigest()
