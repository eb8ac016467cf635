"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["check_writable", "write_atomically"]


def check_writable(path: str | Path) -> Path:
    """The path, if a file or folder could be written there: to be asked before work whose result would be lost.

    Nothing is left behind, not even the folders above it that are still missing.
    """
    path = Path(path)
    place = path.absolute()
    above = next(
        folder for folder in (place if place.is_dir() else place.parent, *place.parents) if folder.exists()
    )
    try:
        if not above.is_dir():
            raise NotADirectoryError(20, f"{above} is a file")
        with tempfile.TemporaryFile(dir=above):
            pass
    except OSError as error:
        raise ValueError(f"cannot write to {path}: {error.strerror}. Choose another place.") from error
    return path


def write_atomically(path: str | Path, write: Callable[[Path], Any]) -> Path:
    """Let `write` fill a temporary file beside `path`, then rename it: readers see all of it or nothing.

    >>> folder = Path(tempfile.mkdtemp())
    >>> write_atomically(folder / "a.txt", lambda p: p.write_text("done")).read_text()
    'done'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes private files
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
