"""Channels and variables as a report shows them: over time, and against each other.

A long recording is read once, in parts: a memory-mapped file may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.ndimage import gaussian_filter

from ..data.mapped_files import release
from ..data.recording import Recording
from ..data.standardised_channels import time_chunks
from ..spaces.base import Space

__all__ = ["Shown", "Tuning", "envelope", "shown_variables", "tuning", "variable_envelope"]

BINS = 24
"""Of a tuning curve."""
SIDE = 16
"""Bins of a rate map along each of its two variables."""
MOST_LABELS = 24
MOST_VARIABLES = 12
ENTRIES_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class Shown:
    """A variable as numbers.

    kind : "number", "angle" or "label". values : (time,), NaN where missing; of labels their number in `labels`.
    period : the full turn of an angle, else 0.
    """

    name: str
    kind: str
    values: np.ndarray
    labels: tuple[str, ...] = ()
    period: float = 0.0

    @property
    def range(self) -> tuple[float, float]:
        """Least and greatest value; of an angle 0 and its full turn, of labels those that their bins span."""
        if self.kind == "angle":
            return 0.0, self.period
        if self.kind == "label":
            return -0.5, len(self.labels) - 0.5
        known = self.values[np.isfinite(self.values)]
        return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)

    @property
    def bins(self) -> int:
        """Of its tuning curves."""
        return len(self.labels) if self.kind == "label" else BINS

    def find_bins(self, bins: int) -> np.ndarray:
        """The bin that each value lies in, -1 where it is missing: (time,)."""
        low, high = self.range
        known = np.isfinite(self.values)
        place = (np.where(known, self.values, low) - low) / ((high - low) or 1.0) * bins
        return np.where(known, np.clip(place.astype(np.int64), 0, bins - 1), -1)


def shown_variables(recording: Recording, spaces: Mapping[str, Space]) -> list[Shown]:
    """The variables of the spaces and then the others that vary, as many as a report has room for."""
    owner = {v: s for s in spaces.values() for v in s.variables}
    names = [v for v in owner if v in recording.variables]
    table: Any = recording.variables
    names += [str(v) for v in table if v not in owner and table[v].nunique(dropna=True) > 1]
    return [_shown(name, table[name], owner.get(name)) for name in names[:MOST_VARIABLES]]


def _shown(name: str, column: pd.Series, space: Space | None) -> Shown:
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if not numeric or (space is not None and space.categorical):
        codes, labels = pd.factorize(column, sort=not column.map(type).nunique() > 1)
        names = [str(label) for label in labels]
        if len(names) > MOST_LABELS:  # the rare ones together
            often = np.argsort(-np.bincount(codes[codes >= 0]), kind="stable")[: MOST_LABELS - 1]
            place = np.full(len(names), MOST_LABELS - 1)
            place[np.sort(often)] = np.arange(MOST_LABELS - 1)
            codes = np.where(codes < 0, -1, place[codes])
            names = [names[k] for k in np.sort(often)] + [f"{len(labels) - MOST_LABELS + 1} others"]
        return Shown(name, "label", np.where(codes < 0, np.nan, codes), tuple(names) or ("none",))
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.where(np.isfinite(values), values, np.nan)
    period = dict(zip(space.variables, space.periods, strict=True))[name] if space is not None else 0.0
    return Shown(name, "angle", np.mod(values, period), (), period) if period else Shown(name, "number", values)


def envelope(X: np.ndarray, bins: int) -> np.ndarray:
    """Least and greatest value of each channel in each of so many bins of time: (2, channel, bin) float32.

    >>> envelope(np.array([[1.0], [3.0], [2.0], [0.0]]), 2)[:, 0].tolist()
    [[1.0, 0.0], [3.0, 2.0]]
    """
    edges = np.arange(bins) * len(X) // bins
    out = np.empty((2, X.shape[1], bins), dtype=np.float32)
    stops = np.r_[edges[1:], len(X)]
    rows = max(1, ENTRIES_AT_ONCE // X.shape[1])
    first = 0
    while first < bins:  # whole bins at a time
        last = max(first + 1, int(np.searchsorted(stops, edges[first] + rows, "right")))
        part = X[edges[first] : stops[last - 1]]
        starts = edges[first:last] - edges[first]
        for k, extreme in enumerate((np.minimum, np.maximum)):
            out[k, :, first:last] = extreme.reduceat(part, starts, axis=0).T
        release(part)
        first = last
    return out


def variable_envelope(variables: Sequence[Shown], bins: int, length: int) -> np.ndarray:
    """The same of variables, missing values left out: (2, variable, bin) float32; NaN where all are missing."""
    edges = np.arange(bins) * length // bins
    out = np.full((2, len(variables), bins), np.nan, dtype=np.float32)
    for k, variable in enumerate(variables):
        out[0, k] = np.fmin.reduceat(variable.values, edges)
        out[1, k] = np.fmax.reduceat(variable.values, edges)
    return out


@dataclass(frozen=True, eq=False)
class Tuning:
    """Mean of every channel in bins of variables.

    curves : variable -> (3, channel, bin), over all time, over its first half and over its second half. maps : pair
    of variables -> (channel, bin, bin), smoothed. NaN where the variables have hardly been.
    """

    curves: list[np.ndarray]
    maps: list[np.ndarray]


def tuning(recording: Recording, variables: Sequence[Shown], pairs: Sequence[tuple[int, int]]) -> Tuning:
    """Tuning curves for each variable, and rate maps for each pair of them (numbers of variables)."""
    length, half = len(recording), len(recording) // 2
    where: list[np.ndarray] = []  # the row of a table of sums that each time step is added to, -1: to none
    sizes: list[int] = []
    for variable in variables:
        own = variable.find_bins(variable.bins)
        where.append(np.where(own < 0, -1, own + variable.bins * (np.arange(length) >= half)))
        sizes.append(2 * variable.bins)
    for a, b in pairs:
        one, two = variables[a].find_bins(SIDE), variables[b].find_bins(SIDE)
        where.append(np.where((one < 0) | (two < 0), -1, one * SIDE + two))
        sizes.append(SIDE * SIDE)
    starts = np.r_[0, np.cumsum(sizes)].astype(int)
    sums, counts = _sums(recording.X, where, starts)
    curves, maps = [], []
    for k in range(len(where)):
        total, count = sums[starts[k] : starts[k + 1]], counts[starts[k] : starts[k + 1]]
        if k < len(variables):
            total, count = total.reshape(2, -1, total.shape[1]), count.reshape(2, -1)
            curves.append(
                np.stack([_mean(t, c) for t, c in ((total.sum(0), count.sum(0)), *zip(total, count, strict=True))])
            )
        else:
            maps.append(_smooth(total.T.reshape(-1, SIDE, SIDE), count.reshape(SIDE, SIDE)))
    return Tuning(curves, maps)


def _sums(X: np.ndarray, where: list[np.ndarray], starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums over the time steps of each row, (row, channel), and their numbers, (row,)."""
    sums, counts = np.zeros((starts[-1], X.shape[1])), np.zeros(starts[-1])
    for part in time_chunks(X) if where else ():
        time_steps = np.arange(len(X))[part]
        places = [
            (own[time_steps] + start, own[time_steps] >= 0) for own, start in zip(where, starts, strict=False)
        ]
        row = np.concatenate([place[known] for place, known in places])
        column = np.concatenate([np.flatnonzero(known) for _, known in places])
        one = sparse.csr_matrix((np.ones(len(row)), (row, column)), shape=(starts[-1], len(time_steps)))
        sums += one @ np.asarray(X[part], dtype=np.float64)
        counts += np.bincount(row, minlength=starts[-1])
    return sums, counts


def _mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """(bin, channel) sums over (bin,) counts: (channel, bin). NaN where there are none, or less than a twentieth of
    an even share: the mean of a few time steps would look like a peak."""
    enough = (count > 0) & (20 * len(count) * count >= count.sum())
    return (total / np.where(enough, count, np.nan)[:, None]).T


def _smooth(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Rate maps (channel, bin, bin) of sums over counts, both smoothed over a bin or so; NaN without a count."""
    weight = gaussian_filter(count, 0.8, mode="constant")
    values = gaussian_filter(total, (0, 0.8, 0.8), mode="constant")
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(count > 0, values / weight, np.nan)
