"""Arrays as compressed text, to be opened by a browser: gzip, then base64."""

from __future__ import annotations

import base64
import gzip
import math
from typing import Any

import numpy as np

__all__ = ["pack", "quantise", "unpack"]

KINDS = {"uint8": "u1", "uint16": "<u2", "uint32": "<u4", "float32": "<f4", "float64": "<f8"}
"""Types that a browser has arrays of."""


def pack(array: np.ndarray) -> dict[str, Any]:
    """An array as type, shape and compressed text, fit for JSON; `unpack` is the way back.

    >>> packed = pack(np.arange(6, dtype=np.uint8).reshape(2, 3))
    >>> packed["type"], packed["shape"], unpack(packed).tolist()
    ('uint8', [2, 3], [[0, 1, 2], [3, 4, 5]])
    """
    kind = array.dtype.name
    if kind not in KINDS:
        raise TypeError(f"arrays of {kind} cannot be packed: expected one of {', '.join(KINDS)}.")
    raw = np.ascontiguousarray(array, dtype=KINDS[kind]).tobytes()
    text = base64.b64encode(gzip.compress(raw, compresslevel=6, mtime=0)).decode("ascii")
    return {"type": kind, "shape": list(array.shape), "data": text}


def unpack(packed: dict[str, Any]) -> np.ndarray:
    """The array that `pack` was given."""
    raw = gzip.decompress(base64.b64decode(packed["data"]))
    return np.frombuffer(raw, dtype=KINDS[packed["type"]]).reshape(packed["shape"])


def quantise(values: np.ndarray, kind: type[np.unsignedinteger] = np.uint8) -> tuple[np.ndarray, np.ndarray]:
    """Each row of `values` (row, ...) as whole numbers between its least and its greatest value.

    Returns the codes, of the shape of `values`, and the ranges (row, 2) as float32. The greatest code stands for a
    missing value.

    >>> codes, ranges = quantise(np.array([[0.0, 0.5, 1.0], [3.0, 3.0, np.nan]]))
    >>> codes.tolist(), ranges.tolist()
    ([[0, 127, 254], [0, 0, 255]], [[0.0, 1.0], [3.0, 3.0]])
    """
    flat = np.asarray(values, dtype=np.float64).reshape(len(values), math.prod(np.shape(values)[1:]))
    known = np.isfinite(flat)
    low = np.where(known, flat, np.inf).min(1, initial=np.inf)
    high = np.where(known, flat, -np.inf).max(1, initial=-np.inf)
    empty = ~known.any(1)
    low[empty], high[empty] = 0.0, 0.0
    most = int(np.iinfo(kind).max) - 1
    wide = np.where(high > low, high - low, 1.0)[:, None]
    codes = np.where(known, np.rint((np.where(known, flat, 0.0) - low[:, None]) / wide * most), most + 1)
    return codes.astype(kind).reshape(np.shape(values)), np.stack([low, high], 1).astype(np.float32)
