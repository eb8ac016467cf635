"""Channels that respond late: neurons some time steps after a stimulus, sensors behind what they measure.

What is new in a variable since a few steps ago says nothing to a channel that tells of the value before. So it is
looked at first whether some channels' tuning is best to a value of the past. If so, what is new since still longer
ago is asked about, with the values then among the features; and other spaces are asked about given these values.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from .features import trend
from .questions import Variable, epoch_clock

__all__ = ["LATE_RESPONSES", "late_lags"]

LAGS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 32)
"""Lags, in time steps, that are looked at."""
BLOCKS = 20
WAVES = 4
SURE = 0.01
"""p, over all channels and lags, below which a channel is late."""
MOST = 5
"""Lags that are kept."""
FEW = 0.2
"""Share of the channels tuned to a variable, below which late ones are too few to ask otherwise for their sake."""
RIDGE = 1e-3
LATE_RESPONSES = (
    "{found} channels tell more of what it was up to {longest} time steps ago than of what it is now: they respond "
    "late. What is new in it since before then was asked about, and other spaces given its values then."
)


def late_lags(
    variable: Variable, scores: np.ndarray, first: np.ndarray, rows: np.ndarray
) -> tuple[tuple[int, ...], int]:
    """Lags at which channels that respond late tell most of a variable, and the number of these channels.

    Each channel is regressed on functions of the present value, and of the value some steps before. Fits to every
    other block of time are compared in the blocks between, and the other way round. A channel is late if a past
    value is better than the present one, by a t-test over blocks, and if what was new then tells of the channel
    too: a rhythm that the two share is not enough. If only a few of the channels tuned to it are late, none
    is taken for late. Slow drift and, in trials, the time since their start are in all
    fits. rows : some time steps. scores : (time, channel).
    """
    y = scores[rows]
    drift = [np.ones((len(rows), 1)), trend(rows, len(first), 4), *epoch_clock(rows, first, 8)]
    parts = np.array_split(np.arange(len(rows)), BLOCKS)

    def values(lag: int) -> np.ndarray:
        return variable.functions(np.maximum(rows - lag, first[rows]), WAVES, 4.0)

    def errors(*columns: np.ndarray) -> np.ndarray:
        """Squared errors in blocks that were not fitted, but for what no fit changes: (block, channel)."""
        design = np.concatenate([*drift, *columns], axis=1, dtype=np.float32)
        gram = np.stack([design[some].T @ design[some] for some in parts]).astype(float)
        cross = np.stack([design[some].T @ y[some] for some in parts]).astype(float)
        out = np.empty((BLOCKS, y.shape[1]))
        for k in range(2):
            fitted, other = slice(k, None, 2), slice(1 - k, None, 2)
            ridge = RIDGE * len(rows) * np.eye(design.shape[1])
            fit = np.linalg.solve(gram[fitted].sum(0) + ridge, cross[fitted].sum(0))
            out[other] = (fit * (gram[other] @ fit - 2 * cross[other])).sum(1)
        return out

    now = errors(values(0))
    gains = now - np.stack([errors(values(lag)) for lag in LAGS])  # (lag, block, channel)
    best = gains.mean(1).argmax(0)
    late = _p(gains[best, :, np.arange(y.shape[1])].T) * gains.shape[0] * y.shape[1] < SURE
    for k in np.unique(best[late]):
        before, then = values(LAGS[k] + variable.lag), values(LAGS[k])
        late &= (best != k) | (_p(errors(before) - errors(before, then)) < SURE)
    tuned = _p(errors() - now) < SURE
    lags = np.array(LAGS)[best[late]]
    if len(lags) == 0 or len(lags) < FEW * np.count_nonzero(tuned | late):
        return (), 0
    kept = np.unique(np.quantile(lags, np.linspace(0, 1, MOST), method="nearest"))
    return tuple(int(lag) for lag in kept), len(lags)


def _p(gains: np.ndarray) -> np.ndarray:
    """p of a t-test that the mean over blocks is above zero. gains : (block, channel)."""
    error = gains.std(0, ddof=1) / np.sqrt(len(gains))
    return stats.t.sf(gains.mean(0) / np.maximum(error, 1e-12), len(gains) - 1)
