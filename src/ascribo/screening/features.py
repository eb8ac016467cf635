"""Features of variables and channels, all of them within epochs: a lag never crosses an epoch's edge."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import signal, stats
from scipy.sparse import linalg

from ..support.compute import in_threads

__all__ = [
    "as_slice",
    "averages",
    "components",
    "dummies",
    "earlier",
    "epoch_starts",
    "fill_missing",
    "hats",
    "leading_directions",
    "normal_scores",
    "products",
    "sorted_places",
    "standardise",
    "trend",
    "waves",
]

CHANNELS_AT_ONCE = 8
"""Channels that are ranked together: their values lie beside each other in memory."""
ALL_DIRECTIONS = 1_500
"""Channels up to which all principal components are computed, when some are asked for."""
LEAST_CHANGE = 1e-12
"""From its lowest to its highest value, as a share of the larger: what changes less changes by rounding."""
PIECE = 32
"""Time steps of the pieces that exponential averages are computed in."""


def standardise(values: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1, zeros where nothing changes but by rounding; NaN is left out and becomes 0.

    >>> standardise(np.array([[1.0, 5.0], [3.0, 5.0], [np.nan, 5.0]]))
    array([[-1.,  0.],
           [ 1.,  0.],
           [ 0.,  0.]])
    """
    known = np.isfinite(values)
    count = np.maximum(known.sum(0), 1)
    centred = np.where(known, values - np.where(known, values, 0).sum(0) / count, 0.0)
    spread = np.sqrt(np.square(centred).sum(0) / count)
    return centred / np.where(_changes(values, known), spread, np.inf)


def _changes(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which columns change by more than rounding, whatever their unit."""
    high = np.where(known, values, -np.inf).max(0, initial=-np.inf)
    low = np.where(known, values, np.inf).min(0, initial=np.inf)
    return high - low > LEAST_CHANGE * np.maximum(np.abs(high), np.abs(low))


def waves(values: np.ndarray, count: int, low: float, high: float, seed: int = 0) -> np.ndarray:
    """Cosines and sines along random directions, of frequencies from `low` to `high`, the faster the lower.

    Sums of them are smooth functions of all columns together. values : (time, k), standardised.
    Returns (time, 2 count).
    """
    direction, height = _directions(values.shape[1], count, low, high, seed)
    phase = values.astype(np.float32, copy=False) @ direction
    out = np.empty((len(values), 2 * count), dtype=np.float32)
    np.cos(phase, out=out[:, :count])
    np.sin(phase, out=out[:, count:])
    out *= height
    return out


@lru_cache(maxsize=256)
def _directions(columns: int, count: int, low: float, high: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random directions of waves, as long as their frequency, (columns, count), and the heights of cosines and
    sines."""
    rng = np.random.default_rng(seed)
    frequency = np.geomspace(low, high, count)
    direction = rng.standard_normal((columns, count))
    direction *= frequency / np.linalg.norm(direction, axis=0)
    return direction.astype(np.float32), np.tile(np.minimum(1, 1 / frequency), 2).astype(np.float32)


def hats(values: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Piecewise linear functions of one column, each 1 at its knot and 0 at the others, times the root of their
    number: (time, knots) float32. Sums of them are continuous functions, kinks too.

    >>> hats(np.array([0.0, 0.25, 2.0]), np.array([0.0, 0.5, 1.0, 2.0]))
    array([[2., 0., 0., 0.],
           [1., 1., 0., 0.],
           [0., 0., 0., 2.]], dtype=float32)
    """
    left = np.clip(np.searchsorted(knots, values, side="right") - 1, 0, len(knots) - 2)
    share = np.clip((values - knots[left]) / (knots[left + 1] - knots[left]), 0, 1)
    out = np.zeros((len(values), len(knots)), dtype=np.float32)
    height = np.sqrt(len(knots))
    here = out.reshape(-1)
    left += np.arange(0, out.size, len(knots))  # places in all of the table
    here[left], here[left + 1] = height * (1 - share), height * share
    return out


def trend(rows: np.ndarray, steps: int, count: int) -> np.ndarray:
    """Slow cosines of time at some time steps of `steps`: (rows, count) float32."""
    phase = (np.pi / steps * np.arange(1, count + 1) * (rows[:, None] + 0.5)).astype(np.float32)
    return np.cos(phase, out=phase) * np.float32(np.sqrt(2))


def fill_missing(values: np.ndarray, known: np.ndarray, first: np.ndarray, between: bool) -> np.ndarray:
    """Values (time, k) with those that are not known filled in from their own epoch: on a straight line between
    known ones, or (between=False, for labels) as the nearest one is. An epoch without any has zeros.

    >>> values = np.array([[1.0], [np.nan], [3.0], [np.nan]])
    >>> fill_missing(values, np.isfinite(values[:, 0]), np.zeros(4, int), between=True)
    array([[1.],
           [2.],
           [3.],
           [3.]])
    >>> fill_missing(values, np.isfinite(values[:, 0]), np.zeros(4, int), between=False).T
    array([[1., 1., 3., 3.]])
    """
    out = np.where(known[:, None], values, 0.0)
    starts = np.unique(first[~known])
    ends = np.r_[np.unique(first), len(first)]
    for a in starts:
        b = ends[np.searchsorted(ends, a, "right")]
        rows, there = np.arange(a, b), np.flatnonzero(known[a:b]) + a
        if len(there) and between:
            out[a:b] = np.stack([np.interp(rows, there, column[there]) for column in values.T], axis=1)
        elif len(there):
            edges = (there[1:] + there[:-1]) // 2  # half way between known time steps
            out[a:b] = values[there[np.searchsorted(edges, rows)]]
    return out


def earlier(first: np.ndarray, lag: int) -> np.ndarray:
    """The time step `lag` before each, or the first of its epoch; `first` as of `segment_bounds`.

    >>> earlier(np.array([0, 0, 0, 3, 3]), 2)
    array([0, 0, 0, 3, 3])
    """
    return np.maximum(np.arange(len(first)) - lag, first)


def epoch_starts(first: np.ndarray) -> np.ndarray:
    """The first time steps of all epochs.

    >>> epoch_starts(np.array([0, 0, 0, 3, 3]))
    array([0, 3])
    """
    return np.flatnonzero(first == np.arange(len(first)))


def as_slice(rows: np.ndarray) -> slice | np.ndarray:
    """The same time steps, as a slice if they follow on each other: nothing is copied then.

    >>> as_slice(np.array([3, 4, 5])), as_slice(np.array([3, 5]))
    (slice(3, 6, None), array([3, 5]))
    """
    a, b = int(rows[0]), int(rows[-1]) + 1
    return slice(a, b) if b - a == len(rows) and (rows[1:] - rows[:-1] == 1).all() else rows


def normal_scores(channels: np.ndarray) -> np.ndarray:
    """Each channel's ranks as quantiles of a normal distribution, ties in the middle: (time, channel) float32.

    Outliers lose their weight, and what a channel says about a variable is kept. A channel's time steps lie beside
    each other in memory.
    """
    steps = len(channels)
    out = np.empty(channels.shape, dtype=np.float32, order="F")
    normal = _normal_quantiles(steps)
    distinct = normal[::2].copy()

    def rank(start: int) -> None:
        part = slice(start, start + CHANNELS_AT_ONCE)
        columns = np.ascontiguousarray(channels[:, part].T, dtype=np.result_type(channels, np.float32))
        places = sorted_places(columns)
        quantiles = np.tile(distinct, (len(columns), 1))
        tied, half_ranks = _ties(columns.take(places))
        quantiles.reshape(-1)[tied] = normal[half_ranks]
        quantiles -= quantiles.mean(1, keepdims=True)
        spread = np.sqrt(np.square(quantiles).mean(1, keepdims=True))
        quantiles /= np.where(spread > 0, spread, np.inf)
        columns.reshape(-1)[places] = quantiles
        out[:, part] = columns.T

    in_threads(rank, range(0, channels.shape[1], CHANNELS_AT_ONCE))
    return out


@lru_cache(maxsize=2)
def _normal_quantiles(steps: int) -> np.ndarray:
    """Quantiles of a normal distribution at half ranks: (2 steps - 1,)."""
    return stats.norm.ppf(np.arange(1, 2 * steps) / (2 * steps)).astype(np.float32)


def _ties(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places, in all rows one after the other, of values that come more than once in their sorted row, and twice
    the mean place in the row of those that are equal."""
    equal = np.zeros(ordered.shape, dtype=bool)
    np.equal(ordered[:, 1:], ordered[:, :-1], out=equal[:, :-1])  # to the next
    same = np.flatnonzero(equal)
    starts = np.flatnonzero(np.diff(same, prepend=-2) != 1)  # of runs of equal values
    begin, end = same[starts], same[np.r_[starts[1:], len(same)][: len(starts)] - 1] + 1
    length = end - begin + 1
    before = np.cumsum(length) - length
    steps = ordered.shape[1]
    in_row = begin + end - 2 * steps * (begin // steps)
    return np.arange(length.sum()) + np.repeat(begin - before, length), np.repeat(in_row, length)


def sorted_places(rows: np.ndarray) -> np.ndarray:
    """The places of each row's numbers in their order, equal ones as they come: `rows.take(...)` has sorted rows.

    Numpy sorts whole numbers of 64 bits many at a time, but not their places. So the bits of the floating point
    numbers, 32 of them, are put before their places in one whole number each; of double precision the last 32 come
    first, then those before.

    >>> sorted_places(np.array([[2.0, -1.0, 0.5, -1.0], [0.0, 3.0, 1.0, 2.0]]))
    array([[1, 3, 2, 0],
           [4, 6, 7, 5]])
    """
    whole = np.dtype(f"i{rows.itemsize}")
    bits = (rows + rows.dtype.type(0)).view(whole)  # -0.0 becomes 0.0
    bits ^= (bits >> (8 * whole.itemsize - 1)) & np.iinfo(whole).max  # negative numbers are turned round
    bits ^= np.iinfo(whole).min  # and come first
    of_row = np.arange(0, rows.size, rows.shape[1])[:, None]
    order = np.arange(rows.shape[1], dtype=np.uint64)

    def ordered(digits: np.ndarray) -> np.ndarray:
        keys = digits.astype(np.uint64) << np.uint64(32)
        keys |= order
        keys.sort(axis=1)
        keys &= np.uint64(2**32 - 1)
        return keys.view(np.int64) + of_row

    places = ordered(bits.astype(np.uint32))
    for shift in range(32, 8 * whole.itemsize, 32):
        places = places.take(ordered((bits >> shift).astype(np.uint32).take(places)))
    return places


def components(channels: np.ndarray, count: int) -> np.ndarray:
    """Leading principal components, standardised: (time, count) float32."""
    most = 20_000
    few = channels if len(channels) <= most else channels[np.linspace(0, len(channels) - 1, most).astype(int)]
    direction = leading_directions(few, count)[1][:, ::-1]
    beside = direction.T @ channels.T  # a component's time steps lie beside each other
    return standardise(beside.T).astype(np.float32)


def leading_directions(rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of rows' rows, (count,), smallest first, and their directions, (channel, count).

    With many channels only these are computed, by Lanczos: all would take minutes for 10,000.

    >>> leading_directions(np.diag([1.0, 3.0, 2.0]), 2)[0]
    array([4., 9.])
    """
    channels = rows.shape[1]
    if channels <= ALL_DIRECTIONS:
        values, directions = np.linalg.eigh(rows.T @ rows)
        return values[-count:], directions[:, -count:]
    shape, times = (channels, channels), lambda v: rows.T @ (rows @ v)
    product = linalg.LinearOperator(shape=shape, matvec=times, dtype=rows.dtype)  # type: ignore[call-arg]
    start = np.random.default_rng(0).standard_normal(channels).astype(rows.dtype)
    found: Any = linalg.eigsh(product, count, which="LA", v0=start, tol=1e-5)  # type: ignore[arg-type]
    return found


def averages(values: np.ndarray, decay_times: Sequence[float], first: np.ndarray) -> np.ndarray:
    """Exponential averages of the past up to now, within epochs: (decay times, time, k) float32.

    decay_times : in time steps; at an epoch's first step the average is the value there.

    >>> averages(np.array([[0.0], [0.0], [8.0]]), (1 / np.log(2),), np.zeros(3, int)).ravel()
    array([0., 0., 4.], dtype=float32)
    """
    series = np.ascontiguousarray(values.T, dtype=np.float32)
    out = np.empty((len(decay_times), *series.shape), dtype=np.float32)  # a column's time steps beside each other
    starts = epoch_starts(first)
    for a, b in zip(starts, [*starts[1:], len(first)], strict=True):
        for k, tau in enumerate(decay_times):
            _average(series[:, a:b], tau, out[k, :, a:b])
    return out.transpose(0, 2, 1)


def _average(series: np.ndarray, tau: float, out: np.ndarray) -> None:
    """One epoch, (k, time): products with a triangular matrix within pieces of time, to which goes what came before
    each."""
    decay = np.exp(-1 / tau)
    within, fades = _fading(decay)
    columns, steps = series.shape
    whole = steps - steps % PIECE
    pieces = out[:, :whole].reshape(columns, -1, PIECE)  # no copy
    np.matmul(series[:, :whole].reshape(pieces.shape), within.T, out=pieces)
    rest = steps - whole
    out[:, whole:] = series[:, whole:] @ within[:rest, :rest].T
    # the average at the end of each piece, to which what came before counts too
    ends = np.concatenate([series[:, :1], pieces[:, :, -1]], axis=1)
    ends = np.asarray(signal.lfilter([1.0], [1.0, -(decay**PIECE)], ends), np.float32)
    pieces += fades * ends[:, :-1, None]
    out[:, whole:] += fades[:rest] * ends[:, -1:]


@lru_cache(maxsize=64)
def _fading(decay: float) -> tuple[np.ndarray, np.ndarray]:
    """What each step of a piece adds to the average at each later one, (PIECE, PIECE), and what the average before
    the piece does, (PIECE,)."""
    powers = decay ** np.arange(PIECE + 1)
    back = np.subtract.outer(np.arange(PIECE), np.arange(PIECE))
    within = np.where(back >= 0, (1 - decay) * powers[np.abs(back)], 0.0)
    return within.astype(np.float32), powers[1:].astype(np.float32)


def dummies(values: np.ndarray, most: int) -> np.ndarray:
    """The most frequent labels' columns, the others pooled: at most `most` columns, each of them centred."""
    if values.shape[1] > most:
        order = np.argsort(-values.sum(0), kind="stable")
        rare = values[:, order[most - 1 :]].sum(1, keepdims=True)
        values = np.concatenate([values[:, order[: most - 1]], rare], axis=1)
    return values - values.mean(0)


def products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Half of each column of the one times each of the other: (rows, products)."""
    out = (np.float32(0.5) * left).repeat(right.shape[1], axis=1)
    out *= np.tile(right, (1, left.shape[1]))
    return out
