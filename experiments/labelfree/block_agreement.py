"""How well two tables of blocks agree: Spearman's correlation, with p-values from random orders of the blocks."""

from __future__ import annotations

import numpy as np
from scipy import stats

__all__ = ["matrix_correlation", "rank_correlation"]


def rank_correlation(guess: np.ndarray, truth: np.ndarray, orders: int) -> dict[str, float]:
    """Spearman's correlation over blocks, and its p-value from random orders of the blocks."""
    one, other = (_standard(stats.rankdata(values)) for values in (guess, truth))
    rng = np.random.default_rng(0)
    null = np.array([rng.permutation(one) @ other for _ in range(orders)])
    return _verdict(float(one @ other), null, len(guess))


def matrix_correlation(
    guess: np.ndarray, truth: np.ndarray, orders: int, *, diagonal: bool = True
) -> dict[str, float]:
    """The same for all pairs of blocks, the blocks left out put into random order as a whole.

    Each test block's row is taken relative to its mean, so that blocks that all models find hard do not count.
    """
    kept = np.ones(guess.shape, bool) if diagonal else ~np.eye(len(guess), dtype=bool)

    def ranks(matrix: np.ndarray) -> np.ndarray:
        values, out = np.where(kept, matrix, np.nan), np.zeros(matrix.shape)
        out[kept] = _standard(stats.rankdata((values - np.nanmean(values, 1, keepdims=True))[kept]))
        return out

    one, other = ranks(guess), ranks(truth)
    rng = np.random.default_rng(0)
    null = []
    for _ in range(orders):
        order = rng.permutation(len(guess))
        # both axes together: who is left out keeps who it is
        null.append((one[:, order] * other).sum() if diagonal else (one[order][:, order] * other).sum())
    return _verdict(float((one * other).sum()), np.array(null), int(kept.sum()))


def _standard(ranks: np.ndarray) -> np.ndarray:
    """With mean 0 and length 1, so that products are correlations."""
    centred = ranks - ranks.mean()
    return centred / np.linalg.norm(centred)


def _verdict(rho: float, null: np.ndarray, count: int) -> dict[str, float]:
    # Ranks make many orders tie with what was found, but for rounding, which is another on each machine.
    as_large = null >= rho - 1e-9
    return {"rho": rho, "p": float((1 + as_large.sum()) / (1 + len(null))), "n": count}
