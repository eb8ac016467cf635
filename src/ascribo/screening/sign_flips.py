"""Is a sum of products above chance? A test by turning the signs of blocks of time.

In each block of time the residual of a channel is multiplied with residuals of features and summed: a vector s_k.
If the channel does not depend on the features, s_k is as likely as -s_k. The statistic is the length of their sum,
S' A S; turning the signs of the blocks gives its distribution under chance, whatever the distribution of the
residuals and however they depend on each other within a block. Several A are tried, and the best is compared with
the best under the same turns.
"""

from __future__ import annotations

import numpy as np

__all__ = ["p_values", "quadratic_form"]

ENTRIES_AT_ONCE = 2**24


def quadratic_form(sums: np.ndarray, whiten: np.ndarray) -> np.ndarray:
    """Inner products of blocks, s_k' A s_l with A = whiten whiten': (channel, block, block).

    sums : (block, feature, channel). whiten : (feature, rank).
    """
    turned = np.einsum("kfc,fr->ckr", sums, whiten, optimize=True)
    return turned @ turned.transpose(0, 2, 1)


def p_values(forms: np.ndarray, found: np.ndarray, flips: int, seed: int = 0) -> np.ndarray:
    """p of the largest studentised value over candidates, by turning the signs of blocks: (channel,).

    forms : (candidate, channel, block, block), see `quadratic_form`. found : (candidate, channel), the values.
    """
    blocks, channels = forms.shape[-1], forms.shape[1]
    rows, columns = np.triu_indices(blocks, 1)
    centre = np.trace(forms, axis1=2, axis2=3)
    upper = 2 * forms[:, :, rows, columns]
    scale = np.sqrt(np.square(upper).sum(-1))
    scale = np.where(scale > 0, scale, np.inf)
    best = ((found - centre) / scale).max(0)
    upper = (upper / scale[..., None]).astype(np.float32)
    signs = np.random.default_rng(seed).choice(np.array([-1.0, 1.0], dtype=np.float32), (flips, blocks))
    count = np.zeros(channels)
    size = max(1, ENTRIES_AT_ONCE // max(channels, len(rows)))
    for a in range(0, flips, size):
        products = signs[a : a + size][:, rows] * signs[a : a + size][:, columns]
        turned = np.full((len(products), channels), -np.inf, dtype=np.float32)
        for candidate in upper:
            np.maximum(turned, products @ candidate.T, out=turned)
        count += (turned >= best - 1e-6).sum(0)
    return (1 + count) / (1 + flips)
