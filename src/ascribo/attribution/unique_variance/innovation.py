"""The innovation of a space: the change of its variables since one lag ago."""

from __future__ import annotations

import numpy as np

from ...data.segments import same_segment

__all__ = ["innovation_lag"]

CORRELATION_LEFT = 0.9
"""Innovations are taken over the first lag at which the autocorrelation of the variables has fallen to this."""
LONGEST_LAG = 50


def innovation_lag(values: np.ndarray, segments: np.ndarray) -> int:
    """The first lag at which the mean autocorrelation of the variables has fallen to 0.9, at most 50 time steps.

    values : (time, k), NaN where missing.

    >>> walk = np.cumsum(np.random.default_rng(0).normal(size=5000)) % 20
    >>> innovation_lag(np.cos(walk[:, None] / 20 * 2 * np.pi), np.zeros(5000, int))
    3
    """
    present = np.isfinite(values)
    centred = np.where(present, values - np.nanmean(values, axis=0), 0.0)
    for lag in range(1, LONGEST_LAG + 1):
        inside = same_segment(segments, lag)[:-lag, None]
        if not inside.any():
            return max(1, lag - 1)
        both = inside & present[lag:]
        covariance, variance = (centred[:-lag] * later * both for later in (centred[lag:], centred[:-lag]))
        if covariance.sum() / variance.sum() <= CORRELATION_LEFT:
            return lag
    return LONGEST_LAG
