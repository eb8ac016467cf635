"""Ridge decoders under shifts: do channels tell a variable better than they tell shifted copies of it?

Nothing is trained by gradient: with the channels in place, the decoders of all copies share their matrices, so that
a test of thousands of time steps takes a fraction of a second. Four decoders are asked, since none sees everything:

- the values from the channels, as they are: slow signals, channels that respond late, sparse spikes;
- what is *new* in the values from what is new in the channels, each after its own past step: slow signals agree by
  chance and their copies do, too; what is new does not, so a weak relation stands out;
- the values from the channels and their squares: channels of which a variable changes the variance;
- the squares of the values, from the same: channels that respond to both ends of a variable alike.

A decoder is judged by the covariance of what it predicts with what there was, on blocks of time that it has not
seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve

__all__ = [
    "Scores",
    "decoders_under_shifts",
    "held_out_covariance",
    "innovations",
    "moved_by",
    "moved_by_epochs",
    "standardised",
]

FOLDS = 5
"""Blocks of time, each predicted by a decoder of the others."""
RIDGE = 0.3
"""Penalty on the squared weights of standardised channels, for each time step."""


@dataclass(frozen=True)
class Scores:
    """What was measured of one space: of the recording, and of each copy (copies,).

    low, high : a 95% interval of the recording's, and r2 : how well its plainest decoder predicts; NaN where there
    is none.

    >>> Scores("decoders", 2.0, np.array([1.0, 2.5, 0.5])).p
    0.5
    """

    statistic: str
    real: float
    copies: np.ndarray
    low: float = float("nan")
    high: float = float("nan")
    r2: float = float("nan")

    @property
    def p(self) -> float:
        """The rank of the recording, as a share: at most α with probability α if it is a copy like any other."""
        return float((1 + (self.copies >= self.real).sum()) / (1 + len(self.copies)))


def decoders_under_shifts(
    X: np.ndarray, values: np.ndarray, epochs: np.ndarray, orders: Sequence[np.ndarray]
) -> Scores:
    """How far the decoders of a recording and of its shifted copies stand out, and how well the plainest predicts.

    X : (time, channel). values : (time, k), NaN where they are missing. epochs : (time,) numbers of the epochs.
    orders : for each copy (time,), of which time step each has its value (`moved_by`, `moved_by_epochs`).

    A score is the root of the sum of squares of how many standard deviations each decoder lies above the mean of
    recording and copies. Decoders below the mean count nothing, unless all are: then it is the highest of them. The
    recording and its copies are treated alike, so without a relation all ranks of its score are equally likely. r2
    is the share of the values' variance that the decoder of values from channels predicts on held-out time; it may
    be below 0.

    >>> rng = np.random.default_rng(0)
    >>> x, X = rng.normal(size=(500, 1)), rng.normal(size=(500, 4))
    >>> orders = moved_by([100, 200, 300, 400], 500)
    >>> found = decoders_under_shifts(X + x, x, np.zeros(500, int), orders)
    >>> found.p, round(found.r2, 1)
    (0.2, 0.8)
    """
    channels, y = standardised(X), standardised(values)
    squares = standardised(np.square(channels))
    plain, r2 = held_out_covariance(channels, y, orders)
    new, _ = held_out_covariance(innovations(channels, epochs), innovations(y, epochs), orders)
    both, _ = held_out_covariance(np.hstack([channels, squares]), np.hstack([y, standardised(y**2)]), orders)
    k = y.shape[1]
    of_decoders = np.stack([part.sum(1) for part in (plain, new, both[:, :k], both[:, k:])], 1)
    spread = of_decoders.std(0)
    z = (of_decoders - of_decoders.mean(0)) / np.where(spread > 0, spread, 1)
    scores = np.where(z.max(1) > 0, np.sqrt(np.square(np.maximum(z, 0)).sum(1)), z.max(1))
    return Scores("decoders", float(scores[0]), scores[1:], r2=r2)


def held_out_covariance(
    features: np.ndarray, values: np.ndarray, orders: Sequence[np.ndarray]
) -> tuple[np.ndarray, float]:
    """Covariance of held-out predictions with the values, for the recording and copies of another order.

    features : (time, f) and values : (time, k), standardised. orders : as of `decoders_under_shifts`.

    Returns (1 + copies, k), the recording's first, and R² of the recording, of all values together. Only sums of
    products over blocks of time are needed; nothing is predicted time step by time step.

    >>> x = np.random.default_rng(0).normal(size=(100, 1))
    >>> covariance, r2 = held_out_covariance(x, x, moved_by([50], 100))
    >>> covariance.shape, round(r2, 1)
    ((2, 1), 0.9)
    """
    blocks = np.array_split(np.arange(len(features)), FOLDS)
    moved = [values, *(values[order] for order in orders)]
    size = np.array([len(block) for block in blocks], dtype=float)
    inner = np.stack([features[b].T @ features[b] for b in blocks]).astype(float)  # (block, f, f)
    outer = np.stack([np.hstack([features[b].T @ one[b] for one in moved]) for b in blocks]).astype(float)
    mean_x = np.stack([features[b].sum(0) for b in blocks]).astype(float)  # sums, as all of these
    mean_y = np.stack([np.hstack([one[b].sum(0) for one in moved]) for b in blocks]).astype(float)
    power = np.stack([np.square(values[b]).sum(0) for b in blocks]).astype(float)
    covariance, missed, total = np.zeros(outer.shape[2]), 0.0, 0.0
    ridge, k = RIDGE * len(features) * np.eye(features.shape[1]), values.shape[1]
    for b, steps in enumerate(size):
        rest = size.sum() - steps
        mx, my = ((sums.sum(0) - sums[b]) / rest for sums in (mean_x, mean_y))
        own = inner.sum(0) - inner[b] - rest * np.outer(mx, mx)
        weights = solve(own + ridge, outer.sum(0) - outer[b] - rest * np.outer(mx, my), assume_a="pos")
        # the held-out block about the means of the others
        joint = outer[b] - np.outer(mx, mean_y[b]) - np.outer(mean_x[b], my) + steps * np.outer(mx, my)
        square = inner[b] - np.outer(mx, mean_x[b]) - np.outer(mean_x[b], mx) + steps * np.outer(mx, mx)
        covariance += (weights * joint).sum(0)
        real = weights[:, :k]
        there = (power[b] - 2 * my[:k] * mean_y[b, :k] + steps * my[:k] ** 2).sum()
        missed += there - 2 * (real * joint[:, :k]).sum() + (real * (square @ real)).sum()
        total += there
    return (covariance / size.sum()).reshape(len(moved), k), float(1 - missed / total) if total > 0 else 0.0


def moved_by(lags: Sequence[int], steps: int) -> list[np.ndarray]:
    """Orders that move values later by some lags, the end round to the beginning: (steps,) each.

    >>> moved_by([1], 4)
    [array([3, 0, 1, 2])]
    """
    return [np.roll(np.arange(steps), lag) for lag in lags]


def moved_by_epochs(lags: Sequence[int], epochs: np.ndarray) -> list[np.ndarray]:
    """Orders that give each epoch the first value of the epoch that lies a lag, in epochs, before it: (time,) each.

    For values that do not change within epochs: their copies, too, change where epochs meet, however long they are.

    >>> moved_by_epochs([1], np.array([0, 0, 0, 1, 1, 2]))
    [array([5, 5, 5, 0, 0, 3])]
    """
    starts = np.r_[0, np.flatnonzero(np.diff(epochs)) + 1]
    lengths = np.diff(np.r_[starts, len(epochs)])
    return [np.repeat(np.roll(starts, lag), lengths) for lag in lags]


def standardised(values: np.ndarray) -> np.ndarray:
    """Columns (time, k) with mean 0 and standard deviation 1, float32; 0 where a value is missing.

    >>> standardised(np.array([[1.0], [3.0], [np.nan]])).ravel()
    array([-1.,  1.,  0.], dtype=float32)
    """
    known = np.isfinite(values)
    count = np.maximum(known.sum(0), 1)
    centred = np.where(known, values - np.where(known, values, 0).sum(0, dtype=np.float64) / count, 0)
    spread = np.sqrt(np.square(centred).sum(0, dtype=np.float64) / count)
    return (centred / np.where(spread > 0, spread, 1)).astype(np.float32)


def innovations(values: np.ndarray, epochs: np.ndarray) -> np.ndarray:
    """What a regression on the step before does not tell, of standardised columns (time, k); 0 at starts of epochs.

    >>> walk = np.cumsum(np.random.default_rng(0).normal(size=(1000, 1)), 0)
    >>> new = innovations(standardised(walk), np.zeros(1000, int))
    >>> bool(abs(np.corrcoef(new[1:, 0], np.diff(walk[:, 0]))[0, 1]) > 0.99)
    True
    """
    inside = (epochs[1:] == epochs[:-1])[:, None]
    before = values[:-1] * inside
    power = np.square(before).sum(0)
    kept = (before * values[1:]).sum(0) / np.where(power > 0, power, 1)
    new = np.full_like(values, np.nan)
    new[1:] = np.where(inside, values[1:] - kept * before, np.nan)
    return standardised(new)
