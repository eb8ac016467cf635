"""The news of a variable: its change over a few steps, and the same drawn anew given the past."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.preprocessing import PolynomialFeatures

from ..pairs import same_segment

__all__ = ["news_lag", "resample"]

SETTLED = 0.9
"""The news is taken over the first lag at which the variables' autocorrelation has fallen to this."""
LONGEST = 50
WIDE = 20
"""Most columns whose squares and products are used: 20 make 231 features."""
ALIKE = 50
"""Time steps among which news is exchanged."""


def news_lag(values: Sequence[np.ndarray], segments: np.ndarray) -> int:
    """The first lag at which the variables' mean autocorrelation has fallen to 0.9, at most 50.

    values : arrays (time, k), one for each space, NaN where missing.

    >>> walk = np.cumsum(np.random.default_rng(0).normal(size=5000)) % 20
    >>> news_lag([np.cos(walk[:, None] / 20 * 2 * np.pi)], np.zeros(5000, int))
    3
    """
    centred = [v - np.nanmean(v, axis=0) for v in values]
    for lag in range(1, LONGEST + 1):
        inside = np.flatnonzero(same_segment(segments, lag))
        if not len(inside):
            return max(1, lag - 1)
        products = [c[inside] * c[inside + lag] for c in centred]  # NaN where either is missing
        squares = [np.where(np.isnan(p), np.nan, c[inside] ** 2) for p, c in zip(products, centred, strict=True)]
        if np.mean([np.nansum(p) / np.nansum(s) for p, s in zip(products, squares, strict=True)]) <= SETTLED:
            return lag
    return LONGEST


def resample(
    news: np.ndarray, then: np.ndarray, given: np.ndarray, seed: int, *, labels: bool = False
) -> np.ndarray:
    """News drawn anew, given the past: exchanged among time steps at which the past was alike.

    Parameters
    ----------
    news, then : (n, k) the change of a space's variables, and what they were before it.
    given : (n, p) what else the news may depend on: all variables before, and the news of the others. What these
        predict of it, by a quadratic regression (linear above 20 columns), stays where it is.
    labels : the variables are labels, one column each. News is then exchanged among steps that had the same label
        and of which like news was expected, and nothing is added to it: there are no labels between labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> then, news = rng.normal(size=(2, 5000, 1))
    >>> other = resample(news, then, then, 0)
    >>> bool(abs(np.corrcoef(news[:, 0], other[:, 0])[0, 1]) < 0.05), bool(abs(other.std() / news.std() - 1) < 0.02)
    (True, True)
    """
    rng = np.random.default_rng(seed)
    degree = 2 if given.shape[1] <= WIDE else 1
    features = PolynomialFeatures(degree).fit_transform(given.astype(np.float64))
    expected = features @ np.linalg.lstsq(features, news, rcond=None)[0]
    if labels:
        _, label = np.unique(then.round(3), axis=0, return_inverse=True)
        groups = [np.flatnonzero(label.ravel() == k) for k in range(label.max() + 1)]
        cells = [part for group in groups for part in _cells(group, expected)]
    else:
        cells = _cells(np.arange(len(news)), np.concatenate([then, expected], 1))
    source = np.empty(len(news), dtype=int)
    for cell in cells:
        source[cell] = rng.permutation(cell)
    shift = 0 if labels else expected - expected[source]
    return (news[source] + shift).astype(np.float32)


def _cells(steps: np.ndarray, past: np.ndarray) -> list[np.ndarray]:
    """Steps in groups of like past (time, k), halved along the widest direction until few are left in each."""
    cells = [steps]
    while len(cells[0]) > 2 * ALIKE:
        halves = []
        for cell in cells:
            values = past[cell]
            order = cell[np.argsort(values[:, int(np.ptp(values, axis=0).argmax())], kind="stable")]
            halves += [order[: len(order) // 2], order[len(order) // 2 :]]
        cells = halves
    return cells
