"""Small pictures inside results: packed as text, so that a figure can be drawn again from its JSON."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

__all__ = ["pack", "pack_colours", "unpack", "unpack_colours"]


def pack(values: np.ndarray) -> dict[str, Any]:
    """Numbers as text, each picture to 255 steps between minus and plus its largest size.

    values : (..., height, width).

    >>> unpack(pack(np.array([[[0.0, 1.0], [-2.0, 2.0]]]))).round(2).tolist()
    [[[0.0, 0.5], [-1.0, 1.0]]]
    """
    largest = np.abs(values).max((-2, -1), keepdims=True)
    whole = np.round(127 * values / np.where(largest > 0, largest, 1)).astype(np.int8)
    return {"shape": list(whole.shape), "int8": base64.b64encode(whole.tobytes()).decode()}


def unpack(packed: dict[str, Any]) -> np.ndarray:
    """What `pack` packed, from -1 to 1."""
    whole = np.frombuffer(base64.b64decode(packed["int8"]), np.int8)
    return whole.reshape(packed["shape"]) / 127


def pack_colours(images: np.ndarray) -> dict[str, Any]:
    """Images of whole numbers from 0 to 255, uint8 of any shape, as text.

    >>> unpack_colours(pack_colours(np.array([[0, 7], [255, 1]], np.uint8))).tolist()
    [[0, 7], [255, 1]]
    """
    return {"shape": list(images.shape), "uint8": base64.b64encode(np.ascontiguousarray(images).tobytes()).decode()}


def unpack_colours(packed: dict[str, Any]) -> np.ndarray:
    """What `pack_colours` packed."""
    return np.frombuffer(base64.b64decode(packed["uint8"]), np.uint8).reshape(packed["shape"])
