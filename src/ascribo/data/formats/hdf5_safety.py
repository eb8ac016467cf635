"""What an HDF5 file may not do: reach for other files, claim more than memory holds, or be read without end."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...support.compute import physical_memory
from ..format_registry import FileContentError

__all__ = ["check_hdf5", "check_heaps", "check_size", "check_stored", "hdf5_objects", "stored_bytes"]

HEAP = b"GCOL\1\0\0\0"
"""How a heap begins: HDF5 keeps texts and references of any length in heaps."""
HEAP_REFERENCE = np.dtype([("length", "<u4"), ("heap", "<u8"), ("number", "<u4")])
"""What stands in the place of such a text."""
PACKED, SMALL = 1000, 2**28
"""An array may be declared so many times as large as what the file holds of it: compressors come to that where
there is one value only. Below so many bytes it does not matter."""
HEAP_HEAD, OBJECT_HEAD = 16, 16
"""Bytes at the beginning of a heap, the last eight its size, and of each object in it: number, uses, size."""


def check_hdf5(path: str | Path, *, whole: bool = False) -> None:
    """Refuse an HDF5 file with links to other files, or with data that lie in other files.

    HDF5 follows both in silence: a file from a stranger could make another file of this machine part of a
    recording. Links within the file are fine. Texts that are declared longer than the file are refused as well.

    whole : any array may be read, so that all are checked for what is stored of them (`check_stored`).
    """
    import h5py

    with h5py.File(path) as file:
        for _, item in hdf5_objects(file):
            if isinstance(item, h5py.Dataset):
                _check_dataset(item)
                _check_texts(item, Path(path))
                if whole and item.shape is not None:
                    check_stored(item.shape, item.dtype, str(item.name), stored_bytes(item, path))


def hdf5_objects(file: Any) -> Iterator[tuple[str, Any]]:
    """The groups and data sets of an open HDF5 file with their paths, in the order of names, each once.

    A link to another file is refused. HDF5's own way to visit all objects does not end if a damaged group holds
    itself.
    """
    import h5py

    seen, waiting = {hash(file)}, [("", file)]
    while waiting:
        path, item = waiting.pop()
        if path:
            yield path, item
        if not isinstance(item, h5py.Group):
            continue
        found = []
        for name in item:
            inner = f"{path}/{name}" if path else name
            if isinstance(link := item.get(name, getlink=True), h5py.ExternalLink):
                _refuse(f"/{inner}", "is a link to another file", link.filename)
            if not isinstance(link, h5py.HardLink):
                continue  # leads to a place in this file that is visited anyway
            part = item[name]
            if hash(part) not in seen:  # the same for the same place in the file
                seen.add(hash(part))
                found.append((inner, part))
        waiting += reversed(found)


def check_heaps(path: str | Path) -> None:
    """Refuse an HDF5 file with a damaged heap: HDF5 reads some of them without end.

    For files that were written in one go, as maps are: one that was edited may hold the rests of old heaps, which
    nothing refers to.
    """
    content = Path(path).read_bytes()
    start = content.find(HEAP)
    while start >= 0:
        (size,) = struct.unpack_from("<Q", content.ljust(start + HEAP_HEAD, b"\0"), start + 8)
        place, end = start + HEAP_HEAD, start + size
        while place + OBJECT_HEAD <= min(end, len(content)):
            number, length = struct.unpack_from("<H6xQ", content, place)
            # number 0 is the free space at the end, which counts its own head
            place += length if number == 0 else OBJECT_HEAD + -(-length // 8) * 8
            if number == 0 and place != end:
                break
        if not end - OBJECT_HEAD < place <= end <= len(content):
            raise FileContentError(f"the texts of the file are damaged (a heap at byte {start:,}).")
        start = content.find(HEAP, start + HEAP_HEAD)


def check_size(shape: tuple[int, ...], dtype: Any, what: str, instead: str = "", stored: int | None = None) -> None:
    """Refuse an array that is declared to be larger than this machine's memory, or far larger than what is stored.

    instead : a sentence of advice. stored : bytes that the file holds of it; None: that is not known.
    """
    size, memory = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize, physical_memory()
    if memory is not None and size > memory:
        raise FileContentError(
            f"{what} is declared with shape {tuple(shape)}, {size / 2**30:,.0f} GiB, and this machine has "
            f"{memory / 2**30:,.0f}. Either the file is damaged, or it has to be read in parts"
            + (f": {instead}" if instead else ".")
        )
    if stored is not None:
        check_stored(shape, dtype, what, stored, instead)


def check_stored(shape: tuple[int, ...], dtype: Any, what: str, stored: int, instead: str = "") -> None:
    """Refuse an array of which the file holds next to nothing: readers fill up what is missing, however much.

    >>> check_stored((10**9,), "f8", "X", 200)
    Traceback (most recent call last):
    ascribo.data.format_registry.FileContentError: X is declared with shape (1000000000,), 8.0 GB, and the file
    holds 200 bytes of it: ...
    """
    size = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
    if size > max(SMALL, PACKED * stored):
        raise FileContentError(
            f"{what} is declared with shape {tuple(shape)}, {size / 1e9:,.1f} GB, and the file holds {stored:,} "
            "bytes of it: nearly all would be filled up with one value. Either the file is damaged, or the array "
            "has to be written as a whole, without compression" + (f"; or {instead}" if instead else ".")
        )


def stored_bytes(item: Any, path: str | Path) -> int:
    """Bytes that an HDF5 file holds of a data set: of one that is put together from others, all there are."""
    return Path(path).stat().st_size if item.is_virtual else item.id.get_storage_size()


def _check_dataset(item: Any) -> None:
    if item.external:
        _refuse(item.name, "has its data in another file", item.external[0][0])
    if item.is_virtual:
        elsewhere = [source.file_name for source in item.virtual_sources() if source.file_name != "."]
        if elsewhere:
            _refuse(item.name, "is put together from other files", elsewhere[0])


def _check_texts(item: Any, path: Path) -> None:
    """Refuse texts that are said to be longer than the file: HDF5 takes the memory before it looks for them."""
    import h5py

    text = h5py.check_string_dtype(item.dtype)
    varying = h5py.check_vlen_dtype(item.dtype) is not None or (text is not None and text.length is None)
    if not varying or item.id.get_storage_size() != item.size * HEAP_REFERENCE.itemsize:
        return
    place = item.id.get_offset()  # None if they do not lie in one piece
    if place is None or place + item.id.get_storage_size() > (size := path.stat().st_size):
        return
    longest = int(np.fromfile(path, HEAP_REFERENCE, item.size, offset=place)["length"].max(initial=0))
    if longest > size:
        raise FileContentError(f"{item.name} is damaged: a text of {longest:,} bytes in a file of {size:,}.")


def _refuse(name: str, why: str, where: Any) -> None:
    raise FileContentError(
        f"{name} {why} ({where}), which is not followed: a file from elsewhere could show any file of this "
        "machine. Copy the data into the file itself: h5py's File.copy does, with expand_external=True."
    )
