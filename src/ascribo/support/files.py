"""Files that are written whole or not at all, and folders with one writer at a time."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

__all__ = [
    "FolderInUse",
    "check_ordinary",
    "check_writable",
    "fill_file",
    "only_writer",
    "room_kept",
    "this_process_writes",
    "write_atomically",
]

LOCK = ".lock"
Result = TypeVar("Result")
_held: set[tuple[int, str]] = set()
"""Folders that a process keeps others from."""


class FolderInUse(ValueError):
    """Somebody else is writing to the folder."""


def check_writable(path: str | Path) -> Path:
    """The path, if a file or folder could be written there: to be asked before work whose result would be lost.

    Nothing is left behind, not even the folders above it that are still missing.
    """
    path = Path(path)
    above = _nearest(path)
    try:
        if not above.is_dir():
            raise NotADirectoryError(20, f"{above} is a file")
        with tempfile.TemporaryFile(dir=above):
            pass
    except OSError as error:
        raise ValueError(f"cannot write to {path}: {error.strerror}. Choose another place.") from error
    return path


def check_ordinary(file: Path) -> None:
    """Refuse what is there but is no ordinary file: to read a pipe or a device may never end."""
    if file.exists() and not file.is_file():
        raise ValueError(f"{file} is not an ordinary file.")


def _nearest(path: Path) -> Path:
    """The folder in which a file or folder would be, or of those above it the first that is there."""
    place = path.absolute()
    return next(folder for folder in (place if place.is_dir() else place.parent, *place.parents) if folder.exists())


@contextmanager
def room_kept(
    folder: str | Path, size: int, more: int = 0, what: str = "the result"
) -> Iterator[Callable[[], None]]:
    """Within the block as many bytes as `size` are taken on the disk of a folder, for what comes of long work.

    The block is given a function that gives the room back, to be called right before the result is written. An
    error says how much is needed and how much there is. The room has no name, so the system gives it back when the
    process ends, however it ends.

    more : bytes that are needed meanwhile: they are looked for, and not kept. what : for the error.

    >>> with room_kept(tempfile.mkdtemp(), 1000) as give_back:
    ...     give_back()
    """
    above = _nearest(Path(folder))
    with tempfile.TemporaryFile(dir=above) as file:
        try:
            _take(file.fileno(), above, size + more)
        except OSError as error:
            free = shutil.disk_usage(above).free
            raise ValueError(
                f"not enough room for {what} in {folder} ({error.strerror}): about {(size + more) / 1e6:,.1f} MB "
                f"are needed, and {free / 1e6:,.1f} MB are free. Make room, or choose another place."
            ) from error
        file.truncate(size)
        yield lambda: (file.truncate(0), None)[1]


def _take(file: int, folder: Path, size: int) -> None:
    """Room for an open file, or an OSError; where the system cannot reserve any, the free space is compared."""
    try:
        os.posix_fallocate(file, 0, max(1, size))
        return
    except AttributeError:  # macOS, Windows
        pass
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):  # a file system that cannot
            raise
    if shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write_atomically(path: str | Path, write: Callable[[Path], Any]) -> Path:
    """Let `write` fill a temporary file beside `path`, then rename it: readers see all of it or nothing.

    >>> folder = Path(tempfile.mkdtemp())
    >>> write_atomically(folder / "a.txt", lambda p: p.write_text("done")).read_text()
    'done'
    """
    path = Path(path)
    try:
        _replace(path, write)
    except OSError as error:
        if error.errno is None:  # it says what is wrong itself
            raise
        raise OSError(
            error.errno,
            f"{path} could not be written ({error.strerror}). Nothing half-written is left: make room or choose "
            "another place, and do it again.",
        ) from error
    return path


def fill_file(
    path: str | Path, shape: tuple[int, ...], fill: Callable[[np.ndarray], Result]
) -> tuple[np.ndarray, Result]:
    """A memory-mapped float32 array in a new .npy file that `fill` fills: the array, and what `fill` returned.

    The file is there when all of it is filled, and its room is taken first: a disk that is full while an array is
    written through a map ends the process.

    >>> values, _ = fill_file(Path(tempfile.mkdtemp()) / "a.npy", (2,), lambda new: new.fill(3))
    >>> values
    memmap([3., 3.], dtype=float32)
    """
    found: list[Result] = []

    def write(place: Path) -> None:
        array = np.lib.format.open_memmap(place, "w+", np.float32, shape)
        if hasattr(os, "posix_fallocate"):
            with open(place, "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, place.stat().st_size)
        found.append(fill(array))
        array.flush()

    write_atomically(path, write)
    return np.load(path, mmap_mode="r+"), found[0]


def _replace(path: Path, write: Callable[[Path], Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{_writer()}", suffix=path.suffix)
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
        _to_disk(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _writer(process: str = "") -> str:
    """This machine and process, in the name of a temporary file."""
    return f"{zlib.crc32(socket.gethostname().encode()):08x}-{process or os.getpid()}-"


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files for `path` whose writer, a process of this machine, was killed."""
    known = re.compile(re.escape(f".{path.name}.") + _writer(r"(\d+)") + r"\w+" + re.escape(path.suffix))
    for entry in os.scandir(path.parent):
        if (found := known.fullmatch(entry.name)) and not _runs(int(found[1])):
            Path(entry.path).unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Whether there is such a process; yes where the system cannot be asked without ending it (Windows)."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


def _to_disk(folder: Path) -> None:
    """The folder's list of names, on disk: a file's new name is lost with the power otherwise."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def only_writer(folder: str | Path) -> Iterator[None]:
    """Keep others from writing to a folder within the block; refuses if somebody is at it already.

    The system gives the lock back when a process ends, however it ends, so that no lock is ever stale. Systems
    without such locks (Windows, some network disks) have none.

    >>> folder = tempfile.mkdtemp()
    >>> with only_writer(folder), only_writer(folder):  # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
    ascribo.support.files.FolderInUse: ... is being written to by process ...: wait until that is done, or ...
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    handle = _locked(folder / LOCK)
    if handle is None:
        yield
        return
    key = _holder(folder)
    _held.add(key)
    try:
        with suppress(OSError):  # on a full disk nobody can be told who it is
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        _held.discard(key)
        (folder / LOCK).unlink(missing_ok=True)
        os.close(handle)


@contextmanager
def this_process_writes(folder: str | Path) -> Iterator[None]:
    """As `only_writer`, but nothing happens where this process keeps others from the folder already.

    >>> folder = tempfile.mkdtemp()
    >>> with only_writer(folder), this_process_writes(folder), this_process_writes(folder):
    ...     pass
    """
    with nullcontext() if _holder(Path(folder)) in _held else only_writer(folder):
        yield


def _holder(folder: Path) -> tuple[int, str]:
    """This process and a folder: a fork of a process does not hold what that holds."""
    return os.getpid(), os.path.realpath(folder)


def _locked(path: Path) -> int | None:
    """A handle of the lock file that only this block has; None where there are no locks."""
    if fcntl is None:
        return None
    while True:
        handle = _opened(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(handle), path.lstat()):
                return handle
            os.close(handle)  # who had it before has just removed it
        except BlockingIOError:
            who = os.read(handle, 200).decode(errors="replace") or "another process"
            os.close(handle)
            raise FolderInUse(
                f"{path.parent} is being written to by {who}: wait until that is done, or choose another folder."
            ) from None
        except OSError as error:
            os.close(handle)
            if error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):
                raise
            return None


def _opened(path: Path) -> int:
    """A handle of the lock file; never of what a link leads to, since it is written over."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _no_lock(path) from None
        raise OSError(
            error.errno,
            f"{path.parent} could not be written to ({error.strerror}): make room or choose another place.",
        ) from error
    state = os.fstat(handle)
    if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:
        os.close(handle)
        raise _no_lock(path)
    return handle


def _no_lock(path: Path) -> ValueError:
    return ValueError(
        f"{path} is a link, a pipe or a folder; expected the lock file that ascribo writes there. Look at what it "
        "is, and remove it if nobody needs it."
    )
