"""Channels that respond late: neurons some time steps after a stimulus, sensors behind what they measure.

What is new in a variable since a few steps ago says nothing to a channel that tells of the value before. So it is
looked at first whether some channels' tuning is best to a value of the past. If so, what is new since still longer
ago is asked about, with the values then among the features; and other spaces are asked about given these values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from .features import trend
from .questions import Variable, epoch_clock

__all__ = ["ANOTHER_AHEAD", "LATE_RESPONSES", "early_leads", "late_lags"]

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

ANOTHER_AHEAD = (
    "channels run ahead of {other!r}, by up to {longest} time steps, so its values then were conditioned on. That "
    "is right if they foretell it, or if it was reported late. If they drive it, as a cursor is driven by the "
    "cells that it is decoded from, those that do may be called for this one."
)


def late_lags(
    variable: Variable, scores: np.ndarray, first: np.ndarray, rows: np.ndarray
) -> tuple[tuple[int, ...], int]:
    """Lags at which channels that respond late tell most of a variable, and the number of these channels.

    Each channel is regressed on functions of the present value, and of the value some steps before. Fits to every
    other block of time are compared in the blocks between, and the other way round. A channel is late if a past
    value is better than the present one, by a t-test over blocks, and if what was new then tells of the channel
    too: a rhythm that the two share is not enough. If only a few of the channels tuned to it are late, none
    is taken for late. Where each channel tells too little to be sure, all that are tuned are asked together.
    Slow drift and, in trials, the time since their start are in all fits. rows : some time steps (n,).
    scores : of the channels there, (n, channel).
    """
    errors = _errors(variable, scores, first, rows)
    none, now = errors(), errors(0)
    gains = now - np.stack([errors(lag) for lag in LAGS])  # (lag, block, channel)
    best = gains.mean(1).argmax(0)

    def gain_over_earlier(k: int) -> np.ndarray:
        """What the value at a lag tells beyond the value before it: (block, channel)."""
        before = LAGS[k] + variable.lag
        return errors(before) - errors(before, LAGS[k])

    late = _p(gains[best, :, np.arange(gains.shape[2])].T) * gains.shape[0] * gains.shape[2] < SURE
    for k in np.unique(best[late]):
        late &= (best != k) | (_p(gain_over_earlier(k)) < SURE)
    tuned = _p(none - now) < SURE
    lags = np.array(LAGS)[best[late]]
    if len(lags) and len(lags) >= FEW * np.count_nonzero(tuned | late):
        kept = np.unique(np.quantile(lags, np.linspace(0, 1, MOST), method="nearest"))
        return tuple(int(lag) for lag in kept), len(lags)
    ever = _p(np.moveaxis(none - now + gains, 1, 0))  # tuned to the value at some lag: (lag, channel)
    some = tuned | (ever.min(0) * len(LAGS) < SURE)
    if not some.any():
        return (), 0
    together = _together(gains[:, :, some])
    k = int(together.mean(1).argmax())
    if _p(together[k]) * len(LAGS) < SURE and _p(_together(gain_over_earlier(k)[:, some])) < SURE:
        return (LAGS[k],), int(np.count_nonzero(some))
    return (), 0


def early_leads(
    variable: Variable, scores: np.ndarray, last: np.ndarray, rows: np.ndarray
) -> tuple[tuple[int, ...], int]:
    """The same for channels that run ahead of a variable, as of one whose tracker lags behind: how many time steps
    later it is what they tell of now, and the number of these channels. last : the last step of each step's epoch.
    """
    end = len(last) - 1  # looked at backwards in time, they respond late
    backwards = replace(variable, values=variable.values[::-1], _visited={}, _knots_by_number={})
    return late_lags(backwards, scores[::-1], end - last[::-1], end - rows[::-1])


def _errors(
    variable: Variable, scores: np.ndarray, first: np.ndarray, rows: np.ndarray
) -> Callable[..., np.ndarray]:
    """Lags -> squared errors of fits to the values at these lags, in blocks that were not fitted, but for what no
    fit changes: (block, channel). Products of all usual lags are summed at once."""
    drift = [np.ones((len(rows), 1)), trend(rows, len(first), 4), *epoch_clock(rows, first, 8)]
    functions = variable.functions(np.arange(len(first)), WAVES, 4.0)
    blocks = [slice(part[0], part[-1] + 1) for part in np.array_split(np.arange(len(rows)), BLOCKS)]

    def sums(lags: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Products of drift and values at some lags with each other and with the channels, by block."""
        values = [functions[np.maximum(rows - lag, first[rows])] for lag in lags]
        design = np.concatenate([*drift, *values], axis=1, dtype=np.float32)
        gram = np.stack([design[some].T @ design[some] for some in blocks]).astype(float)
        return gram, np.stack([design[some].T @ scores[some] for some in blocks]).astype(float)

    usual = (0, *LAGS)
    at_once = sums(usual)
    common, width = sum(part.shape[1] for part in drift), functions.shape[1]

    def errors(*chosen: int) -> np.ndarray:
        known = usual if set(chosen) <= set(usual) else chosen
        own = [common + width * known.index(lag) + np.arange(width) for lag in chosen]
        columns = np.concatenate([np.arange(common), *own])
        gram, cross = at_once if known is usual else sums(chosen)
        xx, xy = gram[:, columns[:, None], columns], cross[:, columns]
        ridge = RIDGE * len(rows) * np.eye(len(columns))
        out = np.empty((BLOCKS, scores.shape[1]))
        for k in range(2):
            fitted, other = slice(k, None, 2), slice(1 - k, None, 2)
            fit = np.linalg.solve(xx[fitted].sum(0) + ridge, xy[fitted].sum(0))
            out[other] = (fit * (xx[other] @ fit - 2 * xy[other])).sum(1)
        return out

    return errors


def _together(gains: np.ndarray) -> np.ndarray:
    """The mean over channels, each in units of its spread over blocks. gains : (..., block, channel)."""
    return (gains / np.maximum(gains.std(-2, ddof=1, keepdims=True), 1e-12)).mean(-1)


def _p(gains: np.ndarray) -> np.ndarray:
    """p of a t-test that the mean over blocks is above zero. gains : (block, ...)."""
    error = gains.std(0, ddof=1) / np.sqrt(len(gains))
    return special.stdtr(len(gains) - 1, -gains.mean(0) / np.maximum(error, 1e-12))
