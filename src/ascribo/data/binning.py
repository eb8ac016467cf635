"""Bins of time within intervals: events counted in them, samples averaged, a chunk of bins at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.compute import physical_memory
from ..support.names import plural
from .float_precision import Rows
from .preprocessing import ENTRIES_TREATED_AT_ONCE

__all__ = ["Bins", "average_samples", "check_intervals", "count_events", "make_bins"]

TOUCH = 2e-6
"""Seconds: pynapple leaves a microsecond between intervals that touch, which is no reason to lose a bin."""
SLACK = 1e-6
"""Share of a bin that is taken for rounding: seconds are rarely exact in binary."""
SHORTEST = 1e-5
"""Seconds: shorter bins would be no longer than what is allowed for between intervals."""
BYTES_PER_BIN, BYTES_PER_ENTRY = 64, 4
"""What a bin costs at least: start, stop and interval, and what they are made from; and each of its channels."""


@dataclass(frozen=True)
class Bins:
    """Bins in order of time.

    start, stop : (bin,) float64, in seconds. A bin holds what lies in [start, stop).
    interval : (bin,) int64, the interval each lies in.
    closed : (bin,) booleans; a bin that ends with its interval holds that end, too, unless the next begins there.
    """

    start: np.ndarray
    stop: np.ndarray
    interval: np.ndarray
    closed: np.ndarray

    def __len__(self) -> int:
        return len(self.start)

    @property
    def centre(self) -> np.ndarray:
        """(bin,) float64."""
        return (self.start + self.stop) / 2

    def take(self, kept: np.ndarray) -> Bins:
        """Some of the bins."""
        return Bins(self.start[kept], self.stop[kept], self.interval[kept], self.closed[kept])


def check_intervals(intervals: Any, what: str = "epochs") -> np.ndarray:
    """Starts and ends (interval, 2) float64 in order of time; refuses those that overlap.

    >>> check_intervals([[5, 7], [0, 4]])
    array([[0., 4.],
           [5., 7.]])
    """
    values = np.asarray(intervals, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != 2 or not len(values):
        raise ValueError(f"{what} has shape {values.shape}; expected a start and an end for each interval: (n, 2).")
    if not np.isfinite(values).all():
        raise ValueError(f"{what} contains NaN or infinity; expected a start and an end for each interval.")
    values = values[np.argsort(values[:, 0], kind="stable")]
    empty = np.flatnonzero(values[:, 1] < values[:, 0])
    if len(empty):
        start, end = values[empty[0]]
        raise ValueError(f"{what}: an interval ends before it starts, at {end:g} s after {start:g} s.")
    over = np.flatnonzero(values[1:, 0] < values[:-1, 1])
    if len(over):
        (a, b), (c, d) = values[over[0]], values[over[0] + 1]
        raise ValueError(
            f"{what}: intervals {a:g}-{b:g} s and {c:g}-{d:g} s overlap (one of {len(over)} such). "
            "Epochs must not: choose some of them, or cut them."
        )
    return values


def make_bins(intervals: np.ndarray, bin_size: float, channels: int = 1) -> Bins:
    """Bins that fill each interval from its start; what is left at its end is less than a bin and not used.

    channels : how many numbers are to be in each bin, so that no more are made than memory holds.

    >>> make_bins(np.array([[0.0, 1.0], [2.0, 2.7]]), 0.3).start.round(1)
    array([0. , 0.3, 0.6, 2. , 2.3])
    """
    starts, ends = intervals.T
    if bin_size < SHORTEST:
        raise ValueError(f"bin_size={bin_size:g} s: expected at least {SHORTEST:g} s. Is bin_size in seconds?")
    whole = np.floor((ends - starts + TOUCH) / bin_size + SLACK)
    size, memory = whole.sum() * (BYTES_PER_BIN + BYTES_PER_ENTRY * channels), physical_memory()
    if memory is not None and size > memory:
        raise ValueError(
            f"bin_size={bin_size:g} s makes {whole.sum():.2g} bins of {(ends - starts).sum():g} s, with "
            f"{channels:,} channel{plural(channels)} {size / 1e9:,.0f} GB, more than memory holds. Is bin_size in "
            "seconds?"
        )
    number = whole.astype(np.int64)
    total = int(number.sum())
    if not total:
        raise ValueError(
            f"bin_size={bin_size:g} s is longer than the longest epoch, {(ends - starts).max():g} s: "
            "use shorter bins."
        )
    interval = np.repeat(np.arange(len(number)), number)
    place = np.arange(total) - np.repeat(np.cumsum(number) - number, number)
    start = starts[interval] + place * bin_size
    stop = starts[interval] + (place + 1) * bin_size
    last = np.append(interval[1:] != interval[:-1], True)
    to_end = stop >= ends[interval] - SLACK * bin_size
    return Bins(start, stop, interval, last & to_end & (np.append(start[1:], np.inf) > stop))


def count_events(times: Sequence[np.ndarray], bins: Bins) -> Rows:
    """Counts (bin, unit) float32 of events, as a function that reads bins a to b.

    times : sorted time stamps of each unit.

    >>> bins = make_bins(np.array([[0.0, 2.0]]), 1.0)
    >>> count_events([np.array([0.1, 0.5, 1.5]), np.array([1.0, 2.0, 3.0])], bins)(0, 2)
    array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    times = [np.asarray(t, dtype=np.float64) for t in times]

    def rows(a: int, b: int) -> np.ndarray:
        start, stop, closed = bins.start[a:b], bins.stop[a:b], bins.closed[a:b]
        entries = []  # of the table of counts, one for each event
        for unit, stamps in enumerate(times):
            first, last = np.searchsorted(stamps, start[0]), np.searchsorted(stamps, stop[-1], "right")
            here = stamps[first:last]
            bin_ = np.searchsorted(start, here, "right") - 1
            inside = (here < stop[bin_]) | (closed[bin_] & (here == stop[bin_]))
            entries.append(bin_[inside] * len(times) + unit)
        out = np.zeros((b - a) * len(times), dtype=np.float32)
        np.add.at(out, np.concatenate(entries), np.float32(1))
        return out.reshape(b - a, len(times))

    return rows


def average_samples(values: Any, time: np.ndarray, bins: Bins) -> tuple[Rows, Bins]:
    """Means (bin, channel) float64 of samples, as a function that reads bins a to b; and the bins that hold any.

    values : (sample, channel) array, or something that reads like one in slices (a file's data set).
    time : (sample,) float64, increasing.

    >>> bins = make_bins(np.array([[0.0, 3.0]]), 1.0)
    >>> rows, held = average_samples(np.array([[1.0], [3.0], [5.0]]), np.array([0.0, 0.5, 2.0]), bins)
    >>> rows(0, 2).ravel(), held.start
    (array([2., 5.]), array([0., 2.]))
    """
    slack = SLACK * (bins.stop - bins.start)  # samples at an even rate often lie on an edge, but for rounding
    first = np.searchsorted(time, bins.start - slack)
    last = np.searchsorted(time, bins.stop + np.where(bins.closed, slack, -slack))
    held = last > first
    if not held.any():
        raise ValueError("no bin holds a sample: are bins and samples in the same unit of time?")
    first, last = first[held], last[held]
    most = max(1, ENTRIES_TREATED_AT_ONCE // max(1, int(np.prod(values.shape[1:]))))

    def rows(a: int, b: int) -> np.ndarray:
        out = []
        while a < b:
            # as many bins as make up a chunk of samples, and one at least
            c = min(b, max(a + 1, int(np.searchsorted(last, first[a] + most, "right"))))
            part = np.asarray(values[first[a] : last[c - 1]])
            ends = np.stack([first[a:c], last[a:c]], 1).ravel() - first[a]
            sums = np.add.reduceat(part, ends[:-1], axis=0, dtype=np.float64)[::2]
            out.append(sums / (last[a:c] - first[a:c])[:, None])
            a = c
        return np.concatenate(out)

    return rows, bins.take(held)
