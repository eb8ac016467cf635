"""How close an answer is to the truth."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score

from ..support.array_shapes import Array, Bool, Float, Num, shaped

__all__ = ["auroc", "linear_r2"]


def auroc(scores: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Area under the ROC curve of scores (channel,) against a boolean truth (channel,).

    >>> auroc([0.1, 0.9, 0.8], [False, True, True])
    1.0
    """
    given, true = np.asarray(scores, dtype=float).ravel(), np.asarray(truth).ravel().astype(bool)
    if given.shape != true.shape:
        raise ValueError(f"{len(given)} scores for {len(true)} truth values: expected one for each channel.")
    if true.all() or not true.any():
        raise ValueError(
            f"the truth is {'always' if true.all() else 'never'} true over {len(true)} channels: an ROC curve "
            "needs channels of both kinds."
        )
    return _area_under_roc(given, true)


@shaped
def _area_under_roc(scores: Float[Array, " channel"], truth: Bool[Array, " channel"]) -> float:
    return float(roc_auc_score(truth, scores))


def linear_r2(inputs: npt.ArrayLike, targets: npt.ArrayLike) -> float:
    """R² of the best affine map from inputs (time, a) to targets (time, b), averaged over targets.

    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(linear_r2(x, x @ [[1.0, 2.0], [0.0, 1.0]] + 3), 6)
    1.0
    """
    return _affine_r2(np.asarray(inputs), np.asarray(targets))


@shaped
def _affine_r2(inputs: Num[Array, "time a"], targets: Num[Array, "time b"]) -> float:
    return float(LinearRegression().fit(inputs, targets).score(inputs, targets))
