"""The simplest methods that work, as peers: least squares of changes, and a linear model with history.

Functions of a recording, its spaces (space -> names of its variables) and a level q, as in `established_methods`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ascribo.data.recording import Recording
from experiments.validation.established_methods import Spaces, calls_table, cross_validated_glm, numeric_values

__all__ = ["PEERS", "glm_with_history", "least_squares_of_changes"]


def least_squares_of_changes(
    recording: Recording, spaces: Spaces, q: float = 0.05, *, lag: int = 5
) -> pd.DataFrame:
    """Regress the channels' changes over `lag` time steps on those of all variables; F-test of those of a space.

    Every lag-th time step is used, so that changes do not overlap. The score is the partial R².
    """
    X, values = recording.X[::lag].astype(float), numeric_values(recording, spaces)
    parts = [np.diff(each[::lag], axis=0) for each in values.values()]
    return _partial_f_tests(recording, spaces, np.diff(X, axis=0), [np.ones((len(X) - 1, 1))], parts, q)


def glm_with_history(recording: Recording, spaces: Spaces, q: float = 0.05) -> pd.DataFrame:
    """Regress the channels on all channels and variables one time step before and on the variables; F-test of those
    of a space. The score is the partial R²."""
    X, values = recording.X.astype(float), numeric_values(recording, spaces)
    given = [np.ones((len(X) - 1, 1)), X[:-1], *(each[:-1] for each in values.values())]
    return _partial_f_tests(recording, spaces, X[1:], given, [each[1:] for each in values.values()], q)


PEERS: dict[str, Callable[..., pd.DataFrame]] = {
    "glm": cross_validated_glm,
    "changes": least_squares_of_changes,
    "history": glm_with_history,
}
"""What stands beside the test of known variables."""


def _partial_f_tests(
    recording: Recording,
    spaces: Spaces,
    y: np.ndarray,
    given: list[np.ndarray],
    parts: list[np.ndarray],
    q: float,
) -> pd.DataFrame:
    """F-tests of each of the parts, given all else: y (time, channel) on columns of `given` and `parts`."""
    owner = np.repeat(
        np.arange(-1, len(parts)), [sum(part.shape[1] for part in given), *(p.shape[1] for p in parts)]
    )
    design = np.concatenate([*given, *parts], axis=1)
    design, y = design - design.mean(0), y - y.mean(0)
    spread = design.std(0)
    design = design / np.where(spread > 0, spread, np.inf)
    gram, cross, total = design.T @ design, design.T @ y, np.square(y).sum(0)

    def left(keep: np.ndarray) -> np.ndarray:
        fit = np.linalg.solve(gram[np.ix_(keep, keep)] + 1e-9 * len(y) * np.eye(keep.sum()), cross[keep])
        return total - (fit * cross[keep]).sum(0)

    full, free = left(owner >= -1), len(y) - 1 - len(gram)
    score, p = np.empty((2, y.shape[1], len(parts)))
    for k, part in enumerate(parts):
        without: Any = left(owner != k)
        gain = np.maximum(without - full, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            p[:, k] = stats.f.sf(gain / part.shape[1] / (full / free), part.shape[1], free)
            score[:, k] = np.nan_to_num(gain / without)
    return calls_table(recording, spaces, score, p, q)
