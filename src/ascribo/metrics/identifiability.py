"""How far recovered latents are the true ones: up to an affine map, or up to permutation, sign and scale.

The two measures of Zimmermann et al. (2021), section 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from ..support.array_shapes import Array, Float, Int, shaped

__all__ = [
    "MatchedCorrelation",
    "held_out_r2",
    "match_latents",
    "mean_correlation_coefficient",
    "missed_directions",
]


def held_out_r2(embedding: npt.ArrayLike, latents: npt.ArrayLike, fit: float = 0.5) -> float:
    """R² of the latents (n, a) by an affine map from the embedding (n, b), averaged over latents.

    The map is fitted to the first share `fit` of the samples, and scored on the others. (Fitted and scored on the
    same samples, R² would be too high, above 0 even where there is nothing.)

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(200, 2))
    >>> round(held_out_r2(z @ [[1.0, 2.0], [0.0, 1.0]] + 3, z), 6), held_out_r2(rng.normal(size=(200, 50)), z) < 0
    (1.0, True)
    """
    left, truth = _residuals(embedding, latents, fit)
    return float(np.mean(1 - np.square(left).sum(0) / np.square(truth).sum(0)))


@shaped
def missed_directions(
    embedding: npt.ArrayLike, latents: npt.ArrayLike, fit: float = 0.5
) -> Float[Array, " latent"]:
    """Share of the variance of the latents that an affine map of the embedding misses, direction by direction,
    (a,), the most missed first.

    R² is an average: of ten latents, 0.9 may be all of them a little bent, or nine found and one lost altogether.
    Here the first has ten times 0.1, and the second one time 1. Directions are of latents of equal variance
    (whitened); samples are used as in `held_out_r2`.

    >>> z = np.random.default_rng(0).normal(size=(1000, 3))
    >>> missed_directions(z[:, :2], z).round(1)  # the third latent is lost
    array([1., 0., 0.])
    """
    left, truth = _residuals(embedding, latents, fit)
    shares = linalg.eigh(left.T @ left, truth.T @ truth, eigvals_only=True)
    return np.maximum(shares[::-1], 0.0)  # rounding may leave less than nothing


@shaped
def _residuals(
    embedding: npt.ArrayLike, latents: npt.ArrayLike, fit: float
) -> tuple[Float[Array, "scored latent"], Float[Array, "scored latent"]]:
    """What the affine map leaves of the latents on samples that it was not fitted to, and those latents less their
    mean: (n, a) each."""
    inputs, targets = _pair(embedding, latents)
    if not 0 < fit < 1:
        raise ValueError(f"fit={fit!r}: expected a share of the samples, above 0 and below 1.")
    count = round(len(inputs) * fit)
    if not inputs.shape[1] < count < len(inputs) - 1:
        raise ValueError(
            f"{len(inputs)} samples, {count} of them to fit {inputs.shape[1]} dimensions: expected more samples "
            "than dimensions to fit, and at least two to score."
        )
    design = np.column_stack([inputs, np.ones(len(inputs))])
    weights = np.linalg.lstsq(design[:count], targets[:count], rcond=None)[0]
    return targets[count:] - design[count:] @ weights, targets[count:] - targets[count:].mean(0)


class MatchedCorrelation(NamedTuple):
    """Which dimension of the embedding stands for each latent, and how well.

    dimension : (latent,) number of the embedding's dimension. correlation : (latent,) with sign.

    >>> z = np.random.default_rng(0).normal(size=(500, 2))
    >>> found = match_latents(-z, z)
    >>> found.dimension.tolist(), found.correlation.round(6).tolist()
    ([0, 1], [-1.0, -1.0])
    """

    dimension: Int[Array, " latent"]
    correlation: Float[Array, " latent"]


def match_latents(
    embedding: npt.ArrayLike, latents: npt.ArrayLike, correlation: str = "pearson"
) -> MatchedCorrelation:
    """The one-to-one match of dimensions and latents with the largest sum of correlations (Hungarian method).

    embedding : (n, b). latents : (n, a), a ≤ b. correlation : "pearson", or "spearman" for that of ranks, which a
    rising function of a latent leaves at 1.

    >>> z = np.random.default_rng(0).normal(size=(500, 2))
    >>> found = match_latents(z[:, ::-1] * [1, -2], z)
    >>> found.dimension, found.correlation.round(6)
    (array([1, 0]), array([-1.,  1.]))
    """
    inputs, targets = _pair(embedding, latents)
    if correlation not in ("pearson", "spearman"):
        raise ValueError(f"correlation={correlation!r}: expected 'pearson' or 'spearman'.")
    if inputs.shape[1] < targets.shape[1]:
        raise ValueError(
            f"{inputs.shape[1]} dimensions for {targets.shape[1]} latents: expected at least one for each."
        )
    if correlation == "spearman":
        inputs, targets = rankdata(inputs, axis=0), rankdata(targets, axis=0)
    matrix = _standard(targets).T @ _standard(inputs) / len(inputs)
    rows, columns = linear_sum_assignment(-np.abs(matrix))
    return MatchedCorrelation(columns, matrix[rows, columns])


def mean_correlation_coefficient(
    embedding: npt.ArrayLike, latents: npt.ArrayLike, correlation: str = "pearson"
) -> float:
    """MCC: the mean absolute correlation of latents and the dimensions that match them, see `match_latents`.

    1 if every latent is found up to order, sign and scale. Random rotations have 0.6 to 0.8 in five dimensions and
    0.5 in ten.

    >>> z = np.random.default_rng(0).uniform(size=(500, 2))
    >>> mean_correlation_coefficient(z[:, ::-1] ** 3, z, "spearman") > 1 - 1e-9
    True
    """
    return float(np.abs(match_latents(embedding, latents, correlation).correlation).mean())


@shaped
def _standard(values: Float[Array, "sample column"]) -> Float[Array, "sample column"]:
    """Mean 0 and variance 1 by column; a constant column becomes 0."""
    centred = values - values.mean(0)
    spread = centred.std(0)
    return centred / np.where(spread > 0, spread, 1)


@shaped
def _pair(
    embedding: npt.ArrayLike, latents: npt.ArrayLike
) -> tuple[Float[Array, "sample dimension"], Float[Array, "sample latent"]]:
    inputs, targets = np.asarray(embedding, dtype=np.float64), np.asarray(latents, dtype=np.float64)
    for name, values in {"embedding": inputs, "latents": targets}.items():
        if values.ndim != 2 or not np.isfinite(values).all():
            raise ValueError(f"{name} has shape {values.shape}: expected (sample, dimension), all of it finite.")
    if len(inputs) != len(targets):
        raise ValueError(f"{len(inputs)} embedded samples, {len(targets)} of latents: expected as many.")
    return inputs, targets
