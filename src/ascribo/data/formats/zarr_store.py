"""Arrays in a zarr folder (.zarr), of version 2 or 3 of the format; needs the extra `[zarr]`."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ..format_registry import FileContentError, file_format
from .hdf5_safety import check_size
from .stored_arrays import StoredArray

__all__ = ["load_zarr"]

CODECS = {
    *("BytesCodec", "TransposeCodec", "ShardingCodec", "VLenUTF8Codec"),
    *("BloscCodec", "ZstdCodec", "GzipCodec", "Crc32cCodec"),
    *("Blosc", "Zstd", "GZip", "Zlib", "LZ4", "BZ2", "LZMA", "Shuffle", "Delta", "CRC32", "VLenUTF8"),
}
"""What numbers and texts may be packed by. Others are refused: one of them, pickle, runs code from the file."""
MOST_JSON = 2**26
"""Bytes that a description may have: a longer one is not read."""


@file_format(".zarr", folder=True)
def load_zarr(path: str | Path, unpack: str | Path | None = None) -> dict[str, np.ndarray | StoredArray]:
    """The arrays of numbers and of text in a zarr folder; those inside a group are called "group/name".

    unpack : see `ascribo.read`.
    """
    try:
        import zarr
        from zarr.storage import LocalStore
    except ImportError as error:
        raise ImportError("reading .zarr needs zarr: pip install 'ascribo[zarr]'") from error

    path = Path(path)
    _check_files(path)
    with warnings.catch_warnings():  # of types that zarr says may be written otherwise in future
        warnings.simplefilter("ignore")
        root = zarr.open(LocalStore(path, read_only=True), mode="r")
        members = {"X": root} if isinstance(root, zarr.Array) else dict(root.members(max_depth=None))
        arrays: dict[str, np.ndarray | StoredArray] = {}
        for name, item in members.items():
            if not isinstance(item, zarr.Array) or item.dtype.kind not in "biufTU":
                continue
            _check_codecs(name, item)
            chunk = item.shards or item.chunks
            check_size(chunk, item.dtype, f"a chunk of {name}")
            if item.dtype.kind in "TU":
                check_size(item.shape, item.dtype, name)
                arrays[name] = np.asarray(item[...]).astype(str)
            else:
                arrays[name] = StoredArray(
                    *(name, tuple(item.shape), np.dtype(item.dtype), path, _reader(item)),
                    together=chunk[0] if chunk else 1,
                    unpack=None if unpack is None else Path(unpack),
                )
    return arrays


def _reader(item: Any) -> Any:
    return lambda a, b: item[a:b] if item.ndim else item[...]


def _check_codecs(name: str, item: Any) -> None:
    """Refuse an array that is packed by something unknown."""
    used = [*item.filters, *item.compressors, item.serializer]
    for codec in used:
        if codec is not None and type(codec).__name__ not in CODECS:
            raise FileContentError(
                f"{name} is packed by {type(codec).__name__}, which is not read: write it with a common compressor."
            )


def _check_files(path: Path) -> None:
    """Refuse a folder with links, which could show any file of this machine, or with pipes, which may never end."""
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            place = Path(folder) / name
            if place.is_symlink() or not (place.is_dir() or place.is_file()):
                raise FileContentError(
                    f"{place} is a link, a device or a pipe, which is not followed: a folder from elsewhere could "
                    "show any file of this machine. Copy the data into the folder itself."
                )
            if name in ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"):
                if (size := place.stat().st_size) > MOST_JSON:
                    raise FileContentError(f"{place} is {size:,} bytes long, too much for a description of arrays.")
