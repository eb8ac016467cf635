"""Damaged MATLAB files: what a file of version 4 to 7 says of its arrays, checked before anything believes it.

scipy's reader trusts the lengths in the file, and a damaged one can end the whole process. So the elements are read
here first. An element is a tag, a type and a number of bytes, and its data; an array is an element that holds
elements: flags, dimensions, name and values. The MathWorks publish this as the MAT-file format.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..format_registry import FileContentError
from .hdf5_safety import check_size

__all__ = ["readable_arrays"]

HEADER = 128
MATRIX, COMPRESSED = 14, 15
SIZES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
"""Type of an element -> bytes of a number; 16 to 18 are letters."""
INT8, INT32, UINT32, UTF8 = 1, 5, 6, 16
NUMBERS, LETTERS = (1, 2, 3, 4, 5, 6, 7, 9, 12, 13), (1, 2, 3, 4, 16, 17, 18)
CHAR, SPARSE, FIRST_NUMBER, LAST_NUMBER, OPAQUE = 4, 5, 6, 15, 17
COMPLEX = 0x0800
VERSION_4_BYTES = {0: 8, 1: 4, 2: 4, 3: 2, 4: 2, 5: 1}
"""The same of version 4, by its own types."""
START = 4096
"""Bytes of a compressed array that are unpacked at first: flags, dimensions, name, and the tag of its values."""


def readable_arrays(path: str | Path) -> list[str] | None:
    """Names of the arrays of numbers and text in a MATLAB file; None for version 4, which has no others.

    Cells, structures and objects are not among them. What does not add up is an error.
    """
    with open(path, "rb") as file:
        head = file.read(HEADER)
        if len(head) < HEADER or 0 in head[:4]:
            file.seek(0)
            _check_version_4(file, Path(path).stat().st_size)
            return None
        order = {b"IM": "<", b"MI": ">"}.get(head[126:128])
        if order is None:
            raise ValueError("it does not begin as a MATLAB file does")
        if file.seek(0, 2) == HEADER:
            return []
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content, memoryview(content) as whole:
            try:
                return [name for name in _names(whole, order) if name]
            except (struct.error, zlib.error, IndexError) as error:
                raise FileContentError(f"it is damaged: an array ends before it should ({error}).") from error


def _check_version_4(file: BinaryIO, length: int) -> None:
    """Refuse arrays of version 4 that are longer than the file: each is five numbers, a name and the values."""
    place = 0
    while place < length:
        head = file.read(20)
        if len(head) < 20:
            raise FileContentError(f"it is damaged: it ends within what should tell of the array at byte {place}.")
        order = "<" if 0 <= struct.unpack("<i", head[:4])[0] <= 5_000 else ">"
        kind, rows, columns, is_complex, name = struct.unpack(f"{order}5i", head)
        width = VERSION_4_BYTES.get(kind // 10 % 10, 0)
        size = 20 + name + rows * columns * width * (2 if is_complex else 1)
        if min(rows, columns, name) < 0 or not width or size > length - place:
            raise FileContentError(f"it is damaged: what is at byte {place} is no array, or longer than the file.")
        place += size
        file.seek(place)


def _names(whole: memoryview, order: str) -> Iterator[str | None]:
    place = HEADER
    while place < len(whole):
        kind, size = struct.unpack_from(f"{order}II", whole, place)
        if kind not in (MATRIX, COMPRESSED) or size > len(whole) - place - 8:
            raise FileContentError(f"it is damaged: what is at byte {place} is no array, or longer than the file.")
        with whole[place + 8 : place + 8 + size] as data:
            yield _compressed(data, order) if kind == COMPRESSED else _matrix(data, order, len(data))
        place += 8 + size


def _compressed(data: memoryview, order: str) -> str | None:
    start = zlib.decompressobj().decompress(data, START)
    kind, size = struct.unpack_from(f"{order}II", start)
    if kind != MATRIX:
        raise FileContentError("it is damaged: what is compressed is no array.")
    with memoryview(start) as view:
        if not _needs_all(view[8:], order):
            return _matrix(view[8:], order, size)
    check_size((size,), np.dtype(np.uint8), "a compressed array")
    with memoryview(zlib.decompressobj().decompress(data, size + 8)) as view:
        return _matrix(view[8:], order, len(view) - 8)


def _needs_all(start: memoryview, order: str) -> bool:
    """Whether an array has several parts with values, as a sparse matrix has, or is there as a whole already."""
    (flags,) = struct.unpack_from(f"{order}I", start, 8)
    return flags & 0xFF == SPARSE or len(start) + 8 < START


def _matrix(data: memoryview, order: str, size: int) -> str | None:
    """The name of an array, None if it is not one of real numbers or text. size : bytes that there are of it."""
    place, kind, length = _element(data, 0, order, size)
    if kind != UINT32 or length != 8:
        raise FileContentError("it is damaged: an array has no flags.")
    (flags,) = struct.unpack_from(f"{order}I", data, place)
    kind_of_array, place = flags & 0xFF, 16
    if kind_of_array == OPAQUE or flags & COMPLEX:
        return None
    start, kind, length = _element(data, place, order, size)
    if kind not in (INT32, UINT32) or length < 8 or length % 4:
        raise FileContentError("it is damaged: an array has no dimensions.")
    shape = struct.unpack_from(f"{order}{length // 4}i", data, start)
    place = _after(place, start, length)
    start, kind, length = _element(data, place, order, size)
    if kind not in (INT8, UTF8) or min(shape) < 0:
        raise FileContentError("it is damaged: an array has no name, or a dimension below zero.")
    name = bytes(data[start : start + length]).decode("latin1")
    place = _after(place, start, length)
    if kind_of_array == SPARSE:
        _check_sparse(data, place, order, size, shape, name)
    elif kind_of_array == CHAR or FIRST_NUMBER <= kind_of_array <= LAST_NUMBER:
        check_size(shape, np.dtype(np.float64), name)
        start, kind, length = _element(data, place, order, size)
        number = int(np.prod(shape, dtype=object))
        if kind_of_array == CHAR:  # a letter may take several bytes
            fits = kind in LETTERS and number <= length <= 4 * number
        else:
            fits = kind in NUMBERS and length == number * SIZES[kind]
        if not fits:
            raise FileContentError(f"it is damaged: {name!r} has {shape} entries, but {length} bytes.")
    else:
        return None
    return name


def _check_sparse(data: memoryview, place: int, order: str, size: int, shape: tuple[int, ...], name: str) -> None:
    """Rows, starts of columns and values of a sparse matrix must fit each other."""
    check_size(shape, np.dtype(np.float64), name)  # it is made whole
    parts = []
    for wanted in ((INT32, UINT32), (INT32, UINT32), NUMBERS):
        start, kind, length = _element(data, place, order, size)
        if kind not in wanted:
            raise FileContentError(f"it is damaged: the sparse matrix {name!r} is incomplete.")
        parts.append((start, kind, length))
        place = _after(place, start, length)
    rows, columns = (np.frombuffer(data[a : a + n], f"{order}i4") for a, _, n in parts[:2])
    good = len(shape) == 2 and len(columns) == shape[1] + 1 and columns[0] == 0 and (np.diff(columns) >= 0).all()
    number, (_, kind, length) = int(columns[-1]) if good else -1, parts[2]
    enough = number <= len(rows) and (number <= length // SIZES[kind] or number == length)  # True takes one byte
    if not good or not enough or not _inside(rows[:number], shape[0]):
        raise FileContentError(f"it is damaged: entries of the sparse matrix {name!r} lie outside of it.")


def _inside(rows: np.ndarray, most: int) -> bool:
    return bool(((rows >= 0) & (rows < most)).all())


def _element(data: memoryview, place: int, order: str, size: int) -> tuple[int, int, int]:
    """Where the data of an element are, their type and number of bytes; up to four bytes lie in the tag itself."""
    (first,) = struct.unpack_from(f"{order}I", data, place)
    if first >> 16:
        start, kind, length = place + 4, first & 0xFFFF, first >> 16
        if length > 4:
            raise FileContentError("it is damaged: a short element has more than four bytes.")
    else:
        start, kind, length = place + 8, *struct.unpack_from(f"{order}II", data, place)
    if start + length > size:
        raise FileContentError("it is damaged: an element is longer than the array it is in.")
    return start, kind, length


def _after(place: int, start: int, length: int) -> int:
    """Where the next element begins: at a multiple of eight bytes."""
    return place + 8 if start == place + 4 else start + -(-length // 8) * 8
