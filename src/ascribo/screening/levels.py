"""How much of a channel the values of a space tell, whatever else goes with them."""

from __future__ import annotations

import numpy as np

from .features import as_slice
from .questions import Variable

__all__ = ["level_scores"]

FUNCTIONS = 16
RIDGE = 1e-3


def level_scores(variable: Variable, scores: np.ndarray, blocks: list[np.ndarray]) -> np.ndarray:
    """Share of the channels' variance that functions of the values tell in blocks that were not fitted: (channel,).

    scores : (time, channel). A share below 0 is 0.
    """
    gram, cross, total = [], [], []
    for rows in blocks:
        own = np.concatenate([np.ones((len(rows), 1)), variable.functions(rows, FUNCTIONS)], 1, dtype=np.float32)
        y = scores[as_slice(rows)]
        gram.append((own.T @ own).astype(float))
        cross.append((own.T @ y).astype(float))
        total.append(np.einsum("tc,tc->c", y, y).astype(float))
    half = np.arange(len(blocks)) % 2
    steps = sum(map(len, blocks))
    error = np.sum(total, axis=0)
    for k in range(2):
        (g, c), (other, goal) = (
            [np.sum([part[b] for b in np.flatnonzero(half == which)], axis=0) for part in (gram, cross)]
            for which in (k, 1 - k)
        )
        fit = np.linalg.solve(g + RIDGE * steps * np.eye(len(g)), c)
        error += (fit * (other @ fit - 2 * goal)).sum(0)
    mean = np.sum([each[0] for each in cross], axis=0) / steps
    whole = np.sum(total, axis=0) - steps * np.square(mean)
    return np.clip(1 - error / np.where(whole > 1e-9 * steps, whole, np.inf), 0, 1) * (whole > 1e-9 * steps)
