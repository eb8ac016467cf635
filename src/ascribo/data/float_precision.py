"""Channels as a recording keeps them: in float32, or in float64 where float32 would lose their changes.

float32 has 24 binary digits. A channel that wanders by 1 around 10,000,000 would be rounded to whole numbers, one
around 2**40 to multiples of 131,072: it would seem constant. Such recordings are kept in float64 and centred before
they are rounded, see `ascribo.data.standardised_channels`. All others are kept in float32, half the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..support.compute import physical_memory
from ..support.names import first_few, plural
from .mapped_files import release
from .standardised_channels import chunk_bounds, time_chunks

__all__ = ["Rows", "as_stored", "exact_in_float32", "needs_float64"]

Rows = Callable[[int, int], np.ndarray]
"""Reads time steps a to b of some channels: (b - a, channel)."""
OFFSET = 2.0**10
"""Standard deviations that a channel's mean may be from zero in float32: 14 binary digits are left for changes."""
WHOLE = 2**24
"""Integers up to this are exact in float32."""
LOST = 1e-3
"""Share of the largest change of a channel of integers that rounding may take away."""
UNCHANGING = 2.0**16
"""A channel that never changes here may do so elsewhere, by who knows how much: beyond this it is kept exactly."""


def as_stored(values: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Channels (time, channel) in C order, float32 or float64; refused where an entry is not finite.

    Values that have this type and order already are shared, not copied. Memory-mapped files are looked at a chunk
    of time at a time.

    >>> wanders = np.array([[0.0], [1.0], [2.0]])
    >>> as_stored(wanders, ["a"]).dtype, as_stored(wanders + 1e7, ["a"]).dtype
    (dtype('float32'), dtype('float64'))
    """

    def rows(a: int, b: int) -> np.ndarray:
        part = np.array(values[a:b])
        release(values[a:b])
        return part

    double = needs_float64(rows, values.shape, values.dtype)
    if double and values.dtype.kind in "iu":
        _check_integers(values, names)
    dtype = np.dtype(np.float64 if double else np.float32)
    shared = values.dtype == dtype and values.flags.c_contiguous
    if not shared:
        _check_room(values, dtype)
    X = np.asarray(values) if shared else np.empty(values.shape, dtype=dtype)
    for part in time_chunks(values):
        with np.errstate(over="ignore"):  # said better below
            if not shared:
                X[part] = values[part]
            finite = np.isfinite(X[part].astype(np.float32, copy=False)).all()
        if not finite:
            raise ValueError(_not_finite(values, names))
    return X


def _check_integers(values: np.ndarray, names: Sequence[str]) -> None:
    """Refuse integers whose changes float64 would lose: those around 2**60 are rounded to multiples of 256."""
    first = np.array(values[0])
    lost = np.zeros(len(first))
    size = np.zeros(len(first))
    for part in time_chunks(values):
        change = np.subtract(values[part], first).astype(np.int64).astype(np.float64)  # before the cast: exact
        rounded = values[part].astype(np.float64) - first.astype(np.float64)
        change = np.where(np.abs(rounded) < 2.0**62, change, rounded)  # else the integers themselves overflow
        lost = np.maximum(lost, np.abs(change - rounded).max(axis=0))
        size = np.maximum(size, np.abs(change).max(axis=0))
    if (gone := lost > LOST * size).any():
        where = [name for name, own in zip(names, gone, strict=True) if own]
        raise ValueError(
            f"X holds integers so large that float64 loses their changes, in {len(where)} of {len(names)} "
            f"channel{plural(len(names))}: {first_few(where)}. Before making a Recording, subtract the same number "
            "from all that you compare, such as X - 2**60."
        )


def _check_room(values: np.ndarray, dtype: np.dtype) -> None:
    """Refuse a copy that this machine has no memory for."""
    size, memory = values.size * dtype.itemsize, physical_memory()
    if memory is not None and size > memory:
        raise ValueError(
            f"X of shape {values.shape} is {values.dtype}: as {dtype} in C order it takes {size / 2**30:,.1f} GiB, "
            f"and this machine has {memory / 2**30:,.1f}. Save it in that form, which is mapped and not copied: "
            "asc.read(path, unpack=FOLDER) (--unpack) does so."
        )


def exact_in_float32(dtype: np.dtype) -> bool:
    """Whether float32 holds all numbers of a type.

    >>> exact_in_float32(np.dtype("int16")), exact_in_float32(np.dtype("int32"))
    (True, False)
    """
    return dtype == np.float32 or dtype.itemsize <= 2


def needs_float64(rows: Rows, shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether float32 would lose the changes of a channel: its mean is far from zero beside its standard deviation.

    rows : reads time steps a to b. shape : (time, channel) of all. dtype : of the numbers as they were measured.
    Integers beyond 2**24 are kept exactly, whatever their mean.
    """
    if exact_in_float32(dtype):
        return False
    first = np.asarray(rows(0, 1))[0].astype(np.float64)
    total, square = np.zeros(shape[1]), np.zeros(shape[1])
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is refused elsewhere
        for a, b in chunk_bounds(*shape):
            part = np.asarray(rows(a, b))
            if dtype.kind in "iu" and max(int(part.max()), -int(part.min())) > WHOLE:
                return True
            change = np.asarray(part, dtype=np.float64) - first
            total, square = total + change.sum(axis=0), square + np.square(change).sum(axis=0)
        mean_change = total / shape[0]
        spread = np.sqrt(np.maximum(square / shape[0] - np.square(mean_change), 0.0))
        limit = np.where(square > 0, OFFSET * spread, UNCHANGING)
        return bool((np.abs(first + mean_change) > limit).any())


def _not_finite(values: np.ndarray, names: Sequence[str]) -> str:
    """What is wrong with which channels: NaN, or else infinity, or else numbers that are too large."""
    nan, infinite, large = (np.zeros(len(names), dtype=np.int64) for _ in range(3))
    for part in time_chunks(values):
        with np.errstate(over="ignore"):
            nan += np.isnan(values[part]).sum(axis=0)
            infinite += np.isinf(values[part]).sum(axis=0)
            large += np.isinf(values[part].astype(np.float32)).sum(axis=0)
    if nan.any():
        counts, what, cure = nan, "NaN", "fill or drop the missing values"
    elif infinite.any():
        counts, what, cure = infinite, "infinity", "clip it, or drop the channels or time steps"
    else:
        counts, what, cure = large, "values too large for float32 (infinity beyond 3.4e38)", "rescale them"
    where = [f"{name} ({n} of {len(values)})" for name, n in zip(names, counts, strict=True) if n]
    return (
        f"X contains {what} in {len(where)} of {len(names)} channel{plural(len(names))}, in time "
        f"steps: {first_few(where)}. Before making a Recording, {cure}."
    )
