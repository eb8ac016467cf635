"""The arrays of an HDF5 file (.h5, .hdf5, .mat of version 7.3), read when it is known which of them are wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .hdf5_safety import check_hdf5, check_size, hdf5_objects, stored_bytes
from .stored_arrays import StoredArray

__all__ = ["hdf5_arrays", "place_in_file"]


def hdf5_arrays(
    path: str | Path, unpack: str | Path | None = None, *, matlab: bool = False
) -> dict[str, np.ndarray | StoredArray]:
    """The arrays of numbers and of text; those inside a group are called "group/name".

    unpack : see `ascribo.read`. matlab : written by MATLAB: axes are in reverse, vectors are matrices with one row
    or column, and texts are left out.
    """
    import h5py

    arrays: dict[str, np.ndarray | StoredArray] = {}
    folder = None if unpack is None else Path(unpack)

    def collect(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset) or name.startswith("#") or item.shape is None:
            return  # "#": MATLAB's private groups
        if h5py.check_string_dtype(item.dtype):
            if not matlab:
                check_size(item.shape, item.dtype, name, stored=stored_bytes(item, path))
                arrays[name] = np.asarray(item.asstr()[()])
        elif item.dtype.kind in "biuf" and item.attrs.get("MATLAB_class") != b"char":
            make = _matlab_array if matlab else _array
            arrays[name] = make(Path(path), name, item, folder)

    check_hdf5(path)
    with h5py.File(path) as file:
        for name, item in hdf5_objects(file):
            collect(name, item)
    return arrays


def place_in_file(item: Any) -> int | None:
    """Where the numbers of a data set begin in its file; None unless they lie there as float32 or float64 of this
    machine, in one piece."""
    import h5py

    kinds = {np.dtype("<f4"): h5py.h5t.IEEE_F32LE, np.dtype("<f8"): h5py.h5t.IEEE_F64LE}
    own = kinds.get(item.dtype) if item.dtype.isnative else None
    if own is None or item.chunks is not None or item.external or item.is_virtual or not item.size:
        return None
    if not item.id.get_type().equal(own) or item.id.get_storage_size() != item.size * item.dtype.itemsize:
        return None
    return item.id.get_offset()


def _array(path: Path, name: str, item: Any, unpack: Path | None) -> StoredArray:
    def rows(a: int, b: int) -> np.ndarray:
        return _read(path, name, slice(a, b) if shape else ())

    shape = tuple(item.shape)
    together = item.chunks[0] if item.chunks else 1
    held = stored_bytes(item, path)
    place = place_in_file(item)
    return StoredArray(name, shape, np.dtype(item.dtype), path, rows, together, place, unpack, lambda: held)


def _matlab_array(path: Path, name: str, item: Any, unpack: Path | None) -> StoredArray:
    def rows(a: int, b: int) -> np.ndarray:
        return _read(path, name, ()).ravel()[a:b] if vector else _read(path, name, (..., slice(a, b))).T

    shape = tuple(item.shape)[::-1]
    vector = len(shape) < 2 or (len(shape) == 2 and 1 in shape)
    shape = (int(np.prod(shape, dtype=object)),) if vector else shape
    together = item.chunks[-1] if item.chunks else 1
    held = stored_bytes(item, path)
    return StoredArray(name, shape, np.dtype(item.dtype), path, rows, together, None, unpack, lambda: held)


def _read(path: Path, name: str, part: Any) -> np.ndarray:
    import h5py

    with h5py.File(path) as file:
        data: Any = file[name]
        return np.asarray(data[part])
