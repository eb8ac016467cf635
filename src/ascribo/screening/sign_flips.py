"""Is a sum of products above chance? A test by turning the signs of blocks of time.

In each block of time the residual of a channel is multiplied with residuals of features and summed: a vector s_k.
If the channel does not depend on the features, s_k is as likely as -s_k. The statistic is the length of their sum,
S' A S; turning the signs of the blocks gives its distribution under chance, whatever the distribution of the
residuals and however they depend on each other within a block. Several A are tried, and the best is compared with
the best under the same turns.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from ..support.compute import in_threads

__all__ = ["p_values", "quadratic_form"]

FIRST = 1_000
"""Turns that all channels are compared with; channels that are still above most of them get more."""
ENOUGH = 100
"""Turns as large as what was found, from which on a channel's p is known well enough."""


def quadratic_form(sums: np.ndarray, whiten: np.ndarray) -> np.ndarray:
    """Inner products of blocks, s_k' A s_l with A = whiten whiten': (channel, block, block).

    sums : (block, feature, channel). whiten : (feature, rank).
    """
    turned = np.einsum("kfc,fr->ckr", sums, whiten, optimize=True)
    return turned @ turned.transpose(0, 2, 1)


@lru_cache(maxsize=2)
def _signs(flips: int, blocks: int, seed: int) -> np.ndarray:
    """Signs of the blocks, each of `flips` times: (flips, blocks)."""
    return np.random.default_rng(seed).choice(np.array([-1.0, 1.0], dtype=np.float32), (flips, blocks))


@lru_cache(maxsize=8)
def _products(start: int, end: int, flips: int, blocks: int, seed: int) -> np.ndarray:
    """Products of the signs of any two blocks, some of `flips` times: (end - start, pairs of blocks)."""
    signs = np.ascontiguousarray(_signs(flips, blocks, seed)[start:end].T)  # whose rows are copied fast
    rows, columns = np.triu_indices(blocks, 1)
    return (signs[rows] * signs[columns]).T


def p_values(forms: np.ndarray, found: np.ndarray, flips: int, seed: int = 0) -> np.ndarray:
    """p of the largest studentised value over candidates, by turning the signs of blocks: (channel,).

    Channels for which `ENOUGH` turns were as large get no more of the `flips`. One whose values are not numbers has
    1: nothing was found.

    forms : (candidate, channel, block, block), see `quadratic_form`. found : (candidate, channel), the values.
    """
    blocks, channels = forms.shape[-1], forms.shape[1]
    rows, columns = np.triu_indices(blocks, 1)
    centre = np.trace(forms, axis1=2, axis2=3)
    upper = 2 * forms[:, :, rows, columns]
    scale = np.sqrt(np.square(upper).sum(-1))
    scale = np.where(scale > 0, scale, np.inf)
    best = ((found - centre) / scale).max(0)
    upper = (upper / scale[..., None]).astype(np.float32)  # (candidate, channel, pair of blocks)
    count, made = np.zeros(channels), np.zeros(channels)

    open_ = np.arange(channels)
    for a, b in pairwise([0, *range(FIRST, flips, FIRST * 4), flips]):
        goal, values = best[open_] - 1e-6, upper[:, open_].reshape(-1, len(rows)).T

        def as_large(start: int, end: int = b, goal=goal, values=values) -> np.ndarray:
            """How many turns of some are as large as what was found: (open channel,)."""
            turned = _products(start, min(start + FIRST, end), flips, blocks, seed) @ values
            return (turned.reshape(len(turned), len(forms), -1).max(1) >= goal).sum(0)

        count[open_] += np.sum(in_threads(as_large, range(a, b, FIRST)), axis=0)
        made[open_] += b - a
        open_ = np.flatnonzero(count <= ENOUGH)
    return np.where(np.isfinite(best), (1 + count) / (1 + made), 1.0)
