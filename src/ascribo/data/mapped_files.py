"""Memory-mapped arrays, read so that the process keeps hold of little of the file.

A part of a mapped file that has been looked at counts as memory of the process until the mapping or the process
ends, though the system may take it back when others need room. A pass over a file of 8 GB therefore looks like 8 GB
of memory: in a job on a cluster, which has a limit, and for whoever watches it. So what has been read is given back
here, a part at a time. It stays in the system's own cache, from which it is there again at once.

Single rows from all over a file are not looked at through the map at all, but read: the system maps 16 pages around
each row, and takes them back one by one. On a busy machine that took four times as long as reading the row.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from io import FileIO
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from ..support.memory import bytes_mapped

__all__ = ["is_mapped", "release", "take_rows"]

_files: WeakKeyDictionary[mmap.mmap, FileIO | None] = WeakKeyDictionary()
"""The files of mappings, opened to read from; None where that cannot be done."""
AROUND = 2**16
"""Bytes around a row that the system maps together with it."""


def is_mapped(X: np.ndarray) -> bool:
    """Whether an array lies in a memory-mapped file, from which it can be read again at any time."""
    return _mapping(X) is not None


def release(X: np.ndarray) -> None:
    """Give back the memory that an array from a mapped file takes, or a part of it such as X[a:b].

    The array stays as it is: what is looked at again is read again. Nothing happens to other arrays.
    """
    if (found := _mapping(X)) is None or not X.size:
        return
    memmap, mapping = found
    first, stop = _byte_bounds(X)
    origin = _byte_bounds(memmap)[0] - memmap.offset % mmap.ALLOCATIONGRANULARITY  # where the mapping begins
    # what was mapped around it goes, too: it would add up
    start = max(0, first - origin - AROUND) // AROUND * AROUND
    mapping.madvise(mmap.MADV_DONTNEED, start, min(stop - origin + AROUND, len(mapping)) - start)


def take_rows(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """X[rows], a copy (n, channel), for rows (n,) in any order, of an array (time, channel).

    Of a mapped file they are read in the order of the file.

    >>> take_rows(np.array([[1.0], [2.0], [3.0]]), np.array([2, 0, 2])).ravel()
    array([3., 1., 3.])
    """
    if not is_mapped(X):
        return X.take(rows, axis=0) if X.flags.c_contiguous else X[rows]  # `take` would copy the whole into C order
    order = np.argsort(rows, kind="stable")
    out = np.empty((len(rows), *X.shape[1:]), X.dtype)
    if (read := _read_rows(X, rows[order])) is not None:
        out[order] = read
        return out
    each = max(1, bytes_mapped() // (AROUND + X.strides[0]))
    for start in range(0, len(rows), each):
        some = order[start : start + each]
        out[some] = X[rows[some]]
        release(X[rows[some[0]] : rows[some[-1]] + 1])
    return out


def _byte_bounds(X: np.ndarray) -> tuple[int, int]:
    """Where an array that is not empty begins and ends in memory. (NumPy's own has another name from 2.0 on.)

    >>> a = np.zeros((4, 3))
    >>> start, stop = _byte_bounds(a)
    >>> stop - start, _byte_bounds(a[1:3, ::-2])[0] - start, stop - _byte_bounds(a[1:3, ::-2])[1]
    (96, 24, 24)
    """
    start = X.__array_interface__["data"][0]
    reach = [(length - 1) * stride for length, stride in zip(X.shape, X.strides, strict=True)]
    return start + sum(min(0, r) for r in reach), start + sum(max(0, r) for r in reach) + X.itemsize


def _read_rows(X: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
    """Rows of a mapped array, in ascending order, read from its file; None where that cannot be done."""
    if not len(rows) or not 0 <= rows[0] <= rows[-1] < len(X) or not X[:1].flags.c_contiguous:
        return None
    if (found := _mapping(X)) is None or (file := _file(*found)) is None:
        return None
    memmap, _ = found
    width = X.itemsize * int(np.prod(X.shape[1:]))
    first = memmap.offset + X.__array_interface__["data"][0] - _byte_bounds(memmap)[0]
    pread, handle = os.pread, file.fileno()
    content = bytearray().join([pread(handle, width, place) for place in (first + rows * X.strides[0]).tolist()])
    if len(content) != width * len(rows):
        raise ValueError(f"{memmap.filename} has become shorter since it was opened: read the recording again.")
    return np.frombuffer(content, X.dtype).reshape(len(rows), *X.shape[1:])


def _file(memmap: np.memmap, mapping: mmap.mmap) -> FileIO | None:
    """The file of a mapping, opened; None if it is not there any more, or if another has taken its name."""
    if mapping not in _files:
        _files[mapping] = None
        with suppress(OSError, ValueError, TypeError):
            file = FileIO(str(memmap.filename))
            state = os.fstat(file.fileno())
            own = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x} {state.st_ino}"
            _files[mapping] = file if own == _mapped_file(_byte_bounds(memmap)[0]) else None
    return _files[mapping]


def _mapped_file(address: int) -> str:
    """Device and number of the file that is mapped at an address, as Linux has them."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, _, _, device, number, *_ = line.split()
        start, stop = (int(edge, 16) for edge in place.split("-"))
        if start <= address < stop:
            return f"{device} {number}"
    return ""


def _mapping(X: np.ndarray) -> tuple[np.memmap, mmap.mmap] | None:
    """The whole memory map that an array is a part of, if what is in memory is no more than a copy of the file."""
    base: object = X
    while isinstance(base, np.ndarray) and isinstance(base.base, np.ndarray):
        base = base.base
    if not isinstance(base, np.memmap) or not isinstance(base.base, mmap.mmap):
        return None
    # changes of a copy-on-write map are in memory alone
    return (base, base.base) if base.mode != "c" and hasattr(mmap, "MADV_DONTNEED") else None
