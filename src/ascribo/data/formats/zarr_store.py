"""Arrays in a zarr folder (.zarr), of version 2 or 3 of the format; needs the extra `[zarr]`."""

from __future__ import annotations

import json
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
DESCRIPTIONS = {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"}
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
    arrays: dict[str, np.ndarray | StoredArray] = {}
    with warnings.catch_warnings():  # of types that zarr says may be written otherwise in future
        warnings.simplefilter("ignore")
        for folder in _described(path):
            item = zarr.open(LocalStore(folder, read_only=True), mode="r")
            if not isinstance(item, zarr.Array) or item.dtype.kind not in "biufTU":
                continue
            name = "X" if folder == path else folder.relative_to(path).as_posix()
            _check_codecs(name, item)
            chunk = item.shards or item.chunks
            check_size(chunk, item.dtype, f"a chunk of {name}")
            if item.dtype.kind in "TU":
                check_size(item.shape, item.dtype, name, stored=_held(folder))
                arrays[name] = np.asarray(item[...]).astype(str)
            else:
                arrays[name] = StoredArray(
                    *(name, tuple(item.shape), np.dtype(item.dtype), path, _reader(item)),
                    together=chunk[0] if chunk else 1,
                    unpack=None if unpack is None else Path(unpack),
                    held=lambda folder=folder: _held(folder),
                )
    return arrays


def _reader(item: Any) -> Any:
    return lambda a, b: item[a:b] if item.ndim else item[...]


def _held(folder: Path) -> int:
    """Bytes of the chunks that there are of an array: those that are missing are filled up when it is read."""
    files = (file for file in folder.rglob("*") if file.name not in DESCRIPTIONS)
    return sum(file.stat().st_size for file in files if file.is_file())


def _check_codecs(name: str, item: Any) -> None:
    """Refuse an array that is packed by something unknown."""
    used = [*item.filters, *item.compressors, item.serializer]
    for codec in used:
        if codec is not None and type(codec).__name__ not in CODECS:
            raise FileContentError(
                f"{name} is packed by {type(codec).__name__}, which is not read: write it with a common compressor."
            )


def _described(path: Path) -> list[Path]:
    """The folders of groups and arrays, in the order of their names: those that have a description.

    Refused is a folder with links, which could show any file of this machine, or with pipes, which may never end.
    """
    found = []
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in (*folders, *files):
            place = Path(folder) / name
            if place.is_symlink() or not (place.is_dir() or place.is_file()):
                raise FileContentError(
                    f"{place} is a link, a device or a pipe, which is not followed: a folder from elsewhere could "
                    "show any file of this machine. Copy the data into the folder itself."
                )
        for name in set(files) & DESCRIPTIONS:
            if (size := (Path(folder) / name).stat().st_size) > MOST_JSON:
                raise FileContentError(f"{Path(folder) / name} is {size:,} bytes long, too much for a description.")
        if "zarr.json" in files:  # zarr takes one that says nothing for a group
            described = json.loads((Path(folder) / "zarr.json").read_bytes())
            if not isinstance(described, dict) or described.get("node_type") not in ("array", "group"):
                raise FileContentError(f"{Path(folder) / 'zarr.json'} describes neither an array nor a group.")
        if set(files) & {"zarr.json", ".zarray"}:
            found.append(Path(folder))
    if not found:
        raise FileContentError("there is no array in the folder: no zarr.json and no .zarray.")
    return found
