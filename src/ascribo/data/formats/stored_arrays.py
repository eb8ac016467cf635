"""Arrays in files, read when they are asked for: mapped where they lie, unpacked to be mapped, or into memory.

A large matrix is best mapped: it may be larger than memory, and training reads the rows of its batches as it goes.
Plain float32 numbers that lie in one piece in a file are mapped in place. What is compressed, in chunks or of
another type can be written once to a .npy file (`unpack=FOLDER`), from which it is mapped, then and ever after.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...support.files import check_writable, write_atomically
from ...support.progress import bar
from ..float_precision import Rows, needs_float64
from ..format_registry import FileContentError
from ..standardised_channels import ENTRIES_AT_ONCE, LARGE_BYTES, chunk_bounds
from .hdf5_safety import SMALL, check_size

__all__ = ["StoredArray", "is_large", "make_fingerprint"]

ENTRIES_UNPACKED = 2**26
"""Entries that are unpacked together at most: 256 MB in float32."""


@dataclass(frozen=True)
class StoredArray:
    """An array in a file: its name, shape and type are known, its numbers are read by `load`.

    source : the file or folder.
    rows : reads rows a to b.
    together : rows that are stored together, in a chunk.
    place : where it begins in the file, if it lies there in one piece, in C order and this machine's byte order.
    unpack : a folder to unpack to, or None.
    held : tells the bytes that the file holds of it; None: that is not known.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    source: Path
    rows: Rows
    together: int = 1
    place: int | None = None
    unpack: Path | None = None
    held: Callable[[], int] | None = None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def load(self) -> np.ndarray:
        """The numbers. Large matrices are memory-mapped: in place, or from the folder they are unpacked to."""
        large = self.ndim == 2 and is_large(self.shape)
        plain = self.place is not None and self.dtype == np.float32
        if large and self.place is not None and (plain or self.unpack is None):
            return np.memmap(self.source, self.dtype, "r", self.place, self.shape)
        if large and self.unpack is not None:
            return _unpacked(self, self.unpack)
        instead = "asc.read(..., unpack=FOLDER) (--unpack) writes it to a file that need not fit into memory."
        declared = self.dtype.itemsize * int(np.prod(self.shape, dtype=object))
        stored = self.held() if self.held is not None and declared > SMALL else None
        check_size(self.shape, self.dtype, self.name, instead, stored)
        return self._read(0, len(self))

    def _read(self, a: int, b: int) -> np.ndarray:
        """Rows a to b, as an error of the file's content where that fails."""
        try:
            return np.asarray(self.rows(a, b))
        except (MemoryError, FileContentError):
            raise
        except Exception as error:  # each library fails in its own ways
            raise FileContentError(
                f"{self.name} cannot be read; the file may be damaged. ({type(error).__name__}: {error})"
            ) from error


def is_large(shape: tuple[int, ...]) -> bool:
    """Whether an array is so large that a model does not take a copy of it: over 128 MiB in float32.

    >>> is_large((100_000, 100)), is_large((10_000_000, 100))
    (False, True)
    """
    return 4 * int(np.prod(shape, dtype=object)) > LARGE_BYTES


def make_fingerprint(path: Path) -> str:
    """By this a file, or a folder of files, is taken to be the same as before: place, sizes, times of change."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    marks = [(str(p), (state := p.stat()).st_size, state.st_mtime_ns) for p in files]
    return hashlib.sha256(repr((str(path.absolute()), marks)).encode()).hexdigest()


def _unpacked(stored: StoredArray, folder: Path) -> np.ndarray:
    """The matrix from a .npy file in the folder, mapped; written first if it is not there yet."""
    key = hashlib.sha256(f"{make_fingerprint(stored.source)} {stored.name}".encode()).hexdigest()[:16]
    name = re.sub(r"[^\w.-]+", "_", f"{stored.source.stem}-{stored.name}")[:80]
    path = folder / f"{name}-{key}.npy"
    if (found := _there(path, stored.shape)) is not None:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(path)
    rows = _in_blocks(stored)
    _check_room(stored, folder, np.dtype(np.float32))  # a file may claim any size: before all of it is looked at
    dtype = np.dtype(np.float64 if needs_float64(rows, stored.shape, stored.dtype) else np.float32)
    _check_room(stored, folder, dtype)
    write_atomically(path, lambda place: _write(place, rows, stored, dtype))
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _check_room(stored: StoredArray, folder: Path, dtype: np.dtype) -> None:
    """Refuse what a folder has no room for."""
    size, free = dtype.itemsize * int(np.prod(stored.shape, dtype=object)), shutil.disk_usage(folder).free
    if size > free:
        raise FileContentError(
            f"{stored.name} takes {size / 1e9:.1f} GB unpacked, and {folder} has {free / 1e9:.1f} GB left: choose "
            "another folder for unpack."
        )


def _there(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """A file that was unpacked before, if it is one."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return found if found.shape == shape and found.dtype in (np.float32, np.float64) else None


def _write(path: Path, rows: Rows, stored: StoredArray, dtype: np.dtype) -> None:
    """Write the .npy file a block at a time: through a map, a full disk would end the process."""
    with open(path, "wb") as file, bar(f"unpacking {stored.name}", len(stored)) as shown:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": stored.shape}
        np.lib.format.write_array_header_1_0(file, header)
        for a, b in chunk_bounds(*stored.shape):
            with np.errstate(over="ignore"):  # refused with the recording, where it is said better
                file.write(np.ascontiguousarray(rows(a, b), dtype=dtype).data)
            shown.advance(b - a)


def _in_blocks(stored: StoredArray) -> Callable[[int, int], Any]:
    """Reads rows a to b, of which whole chunks are kept: each chunk is unpacked once in a pass over the array."""
    entries = int(np.prod(stored.shape[1:], dtype=object))
    each = min(stored.together, max(1, ENTRIES_UNPACKED // entries))
    each *= max(1, ENTRIES_AT_ONCE // (each * entries))
    held: dict[int, np.ndarray] = {}

    def block(number: int) -> np.ndarray:
        if number not in held:
            held.clear()
            held[number] = stored._read(number * each, min((number + 1) * each, len(stored)))
        return held[number]

    def rows(a: int, b: int) -> np.ndarray:
        parts = [block(n)[max(0, a - n * each) : b - n * each] for n in range(a // each, -(-b // each))]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    return rows
