"""How many dimensions a space needs: as many as models from different seeds agree on.

Up to the true dimension an embedding is identified up to an affine map, so different seeds agree after affine
alignment. With more dimensions the guarantee is gone, and so is the agreement (Schneider et al. 2025, appendix C).
No truth is needed to see it.

The rule is to take **the largest dimension whose consistency is within a tolerance of the best one**. Consistency
is R² with every direction counting the same (`ascribo.evidence.stability`), over the seeds that reached about the
same loss as the best. The reasons, from simulated box data with 3 + 3 latents and ten seeds:

- *The largest, not the best*: too small an embedding agrees just as well, wherever all seeds find the same
  compromise (0.998 for two dimensions of a space that needs three, 0.999 for three), so the best may be too small.
- *Every direction counts the same*: one direction too many does not come back in another seed, which costs up to
  1/dim of this measure (0.77 for four dimensions instead of three). Weighted by variance, as in the paper, it costs
  next to nothing where the spare directions vary little: a space that follows three variables had 0.999 with three
  dimensions and 0.995 with ten.
- *The seeds near the best*: two of ten seeds in a local minimum took the mean over all pairs from 0.999 to 0.93, at
  the true dimension. Their InfoNCE gives them away: in the runs looked at, such seeds lacked 3.6 to 7% of the best
  one's gain over chance, those of one minimum up to 2%.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..data.containers import as_recording
from ..data.recording import Recording
from ..data.segments import evenly
from ..metrics.agreement import mean_over_pairs, pairwise_r2
from ..metrics.bootstrap import bootstrap_interval_of_pairs
from ..model.estimator import ContrastiveEmbedding
from ..model.input_checks import check_dimensions
from ..networks.encoders import build_encoder, input_window
from ..networks.infonce_loss import chance
from ..spaces.base import Space, layout
from ..support.memory import refuse_memory
from ..support.names import suggest
from .stability import WHOLE

__all__ = ["ChosenDimension", "largest_consistent", "seed_consistency", "select_dimension"]

TOLERANCE = 0.03
"""How far under the best consistency a dimension may lie."""
LARGEST = 10
"""Largest dimension that is tried if none are given."""
LOST = 0.03
"""Share of the best seed's gain over chance that another may lack and still count as at the same minimum."""
MEASURES = ("consistency", "ci_low", "ci_high", "bits", "variance_weighted")
Size = TypeVar("Size", int, tuple[int, ...])


@dataclass(frozen=True)
class ChosenDimension:
    """The dimension of one space, and what it was chosen from.

    space : its name.
    dim : the largest dimension whose consistency is within `tolerance` of the best; None if the space collapsed
        whatever its dimension, in which case there is nothing to choose.
    curve : DataFrame with one row for each candidate: dim; consistency, ci_low, ci_high, bits and variance_weighted
        of the space's own dimensions (see `seed_consistency`); whole, the consistency of the whole embedding;
        collapsed.
    tolerance : how far under the best consistency a dimension may lie.

    >>> curve = pd.DataFrame({"dim": [1, 2, 3], "consistency": [0.99, 0.98, 0.71]})
    >>> ChosenDimension("rest", dim=2, curve=curve, tolerance=0.03).dim
    2
    """

    space: str
    dim: int | None
    curve: pd.DataFrame
    tolerance: float


def select_dimension(
    X: Any,
    y: Any = None,
    *,
    spaces: Mapping[str, Space],
    space: str,
    dims: Iterable[int] | None = None,
    seeds: int = 6,
    tolerance: float = TOLERANCE,
    samples: int = 10_000,
    **parameters: Any,
) -> ChosenDimension:
    """Choose the dimension of one space by the agreement of seeds, the other spaces being as they are given.

    Parameters
    ----------
    X, y : the recording, as in `ContrastiveEmbedding.fit`.
    spaces : all spaces of the model. space : the name of the one whose `dim` is to be chosen.
    dims : candidates; None: 2 to 10, or to the number of channels if that is less.
    seeds : models per candidate, trained together. Train them well: a model that is not at its minimum does not
        reproduce either. With two or three, a pair that agrees by accident can mislead.
    tolerance : how far under the best consistency a dimension may lie. A direction too many costs up to 1/dim, so
        this must be less.
    samples : evenly spaced time steps of the recording, held-out ones among them, on which seeds are compared.
    parameters : of `ContrastiveEmbedding` (steps, penalty, n_jobs, random_state, ...).

    Examples
    --------
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=1, hidden=1, channels=(4, 4), steps=1000)
    >>> settings = {"seeds": 2, "steps": 20, "batch_size": 64, "penalty": 0, "random_state": 0}
    >>> chosen = select_dimension(data, spaces={"x": asc.Follow("x", dim=1)}, space="x", dims=(1, 2), **settings)
    >>> list(chosen.curve["dim"])
    [1, 2]
    """
    refuse_memory(parameters.get("memory"), "select_dimension", "leave it out")
    recording = as_recording(X, y)
    if space not in spaces:
        raise ValueError(f"no space {space!r}{suggest(space, spaces)}")
    channels = recording.X.shape[1]
    dims = range(min(2, channels), min(LARGEST, channels) + 1) if dims is None else dims
    dims = _check(dims, seeds, tolerance)
    candidates: list[dict[str, Any]] = [{**spaces, space: replace(spaces[space], dim=dim)} for dim in dims]  # type: ignore[type-var]
    _check_largest(candidates[int(np.argmax(dims))], recording, parameters)
    checkpoint, rows = parameters.pop("checkpoint", None), []
    for dim, candidate in zip(dims, candidates, strict=True):
        model = ContrastiveEmbedding(
            candidate,
            seeds=seeds,
            checkpoint=None if checkpoint is None else Path(checkpoint) / f"dim-{dim}",
            **parameters,
        ).fit(recording)
        found = seed_consistency(model, recording, samples=samples).set_index("space")
        row = {"dim": dim} | {name: float(found.loc[space, name]) for name in MEASURES}  # type: ignore[arg-type]
        gone = bool(model.goodness_of_fit_.set_index("space")["collapsed"][space])
        rows.append({**row, "whole": found.loc[WHOLE, "consistency"], "collapsed": gone})
    curve = pd.DataFrame(rows)
    # a collapsed block is rounding blown up to unit variance: its agreement means nothing
    values = np.where(curve["collapsed"], np.nan, curve["consistency"])
    dim = None if np.isnan(values).all() else largest_consistent(dims, values, tolerance=tolerance)
    return ChosenDimension(space, dim, curve, tolerance)


def largest_consistent(
    dims: Sequence[Size], consistency: ArrayLike, bits: ArrayLike | None = None, tolerance: float = TOLERANCE
) -> Size:
    """The largest of `dims` whose consistency is within `tolerance` of the best; NaN is never chosen.

    For several spaces at once dims are tuples, and the largest is the one with the largest sum. The consistency
    should be the lowest of the spaces', since each of them is to be identified. Of equal sums the one with the most
    bits, summed over spaces, is chosen: dimensions may move consistently to a space that makes less of them.

    >>> largest_consistent([2, 3, 4], [0.998, 0.999, 0.79])
    3
    >>> largest_consistent([(2, 4), (3, 3), (3, 4)], [0.998, 0.997, 0.72], bits=[11.5, 12.0, 11.8])
    (3, 3)
    """
    values = np.asarray(consistency, dtype=float)
    if len(values) != len(dims) or np.isnan(values).all():
        raise ValueError(f"{len(dims)} dimensions with consistency {values}: expected a number for each.")
    near = [k for k in range(len(dims)) if values[k] >= np.nanmax(values) - tolerance]
    ties = values if bits is None else np.asarray(bits, dtype=float)
    return dims[max(near, key=lambda k: (np.sum(dims[k]), ties[k]))]


def seed_consistency(model: ContrastiveEmbedding, X: Any, y: Any = None, *, samples: int = 10_000) -> pd.DataFrame:
    """How far the seeds of a fitted model agree, for each space and for the whole embedding.

    Compared are the seeds that ended near the lowest loss (see `near_best`): what is identified is the minimum of
    the loss, and a seed that ended in a poor local minimum says nothing about it.

    Parameters
    ----------
    X, y : the recording, as a rule the one that the model was fitted to.
    samples : evenly spaced time steps to compare.

    Returns
    -------
    DataFrame with one row for each space and one called "whole": space; dim; consistency, the mean R² over pairs of
    seeds, with every direction counting the same; ci_low and ci_high, its 95% interval, seeds drawn with
    replacement, NaN if fewer than three are compared; variance_weighted, the measure of Schneider et al. (2025)
    over the same pairs; bits; compared, the number of seeds.

    Examples
    --------
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=1, hidden=1, channels=(4, 4), steps=1000)
    >>> small = dict(seeds=2, steps=100, batch_size=64, penalty=0, random_state=0)
    >>> model = asc.ContrastiveEmbedding({"position": asc.Follow("x", dim=1)}, **small).fit(data)
    >>> table = seed_consistency(model, data)
    >>> table["space"].tolist(), bool(table["consistency"].min() > 0.9)
    (['position', 'whole'], True)
    """
    check_is_fitted(model)
    if model.model_.seeds < 2:
        raise ValueError("the model has one seed: fit it with seeds=3 or more to see how far they agree.")
    recording, kept = as_recording(X, y), near_best(model)
    z = model.embed_seeds(recording, evenly(len(recording), samples)).astype(np.float64)
    bits = dict(zip(model.goodness_of_fit_["space"], model.goodness_of_fit_["bits"], strict=True))
    bits[WHOLE] = sum(bits.values())
    rows = []
    for name, where in {**layout(model.model_.spaces), WHOLE: slice(None)}.items():
        block = [z[k][:, where] for k in kept]
        by_direction, by_variance = (pairwise_r2(block, weight) for weight in ("direction", "variance"))
        low, high = bootstrap_interval_of_pairs(by_direction)
        rows.append(
            {
                "space": name,
                "dim": block[0].shape[1],
                "consistency": mean_over_pairs(by_direction),
                "ci_low": low,
                "ci_high": high,
                "variance_weighted": mean_over_pairs(by_variance),
                "bits": float(bits[name]),
                "compared": len(kept),
            }
        )
    return pd.DataFrame(rows)


def near_best(model: ContrastiveEmbedding, last: int = 100) -> list[int]:
    """The seeds whose loss over their last training steps is within 3% of the best; at least two.

    The loss is taken without the penalty, and the 3% are of the best seed's gain over chance, as those that
    `penalty="auto"` may give up.
    """
    history = model.history_
    loss = history["infonce"].sum("space", skipna=False) + history["mse"].sum("regression", skipna=False)
    # a seed that stopped early has NaN after its end
    ends = np.array([curve[np.isfinite(curve)][-last:].mean() for curve in loss.transpose("seed", "step").values])
    # knowing nothing costs log N per contrast and, its targets being standardised, 1 per regression
    ignorant = history.sizes["space"] * chance(model.batch_size_) + history.sizes["regression"]
    near = ends <= ends.min() + LOST * max(0.0, ignorant - ends.min())
    return sorted(np.argsort(ends)[: max(2, int(near.sum()))].tolist())


def _check(dims: Iterable[int], seeds: int, tolerance: float) -> list[int]:
    """The candidates as a list of integers, if they and the other parameters can be used."""
    dims = list(dims)
    if not dims or any(isinstance(d, bool) or not isinstance(d, int | np.integer) or d < 1 for d in dims):
        raise ValueError(f"dims={dims!r}: expected one or more integers of at least 1.")
    if seeds < 2:
        raise ValueError(f"seeds={seeds!r}: agreement needs two seeds, better six.")
    if not 0 <= tolerance < 1 / max(dims):
        raise ValueError(
            f"tolerance={tolerance!r}: expected a number from 0 to less than 1/{max(dims)}, which is what one "
            "direction too many can cost."
        )
    return [int(dim) for dim in dims]


def _check_largest(spaces: Mapping[str, Space], recording: Recording, parameters: Mapping[str, Any]) -> None:
    """Refuse a dimension that the encoder has not the inputs for before any model is trained."""
    channels = recording.X.shape[1]
    module = build_encoder(parameters.get("encoder", "mlp"), channels, sum(s.dim for s in spaces.values()))
    check_dimensions(spaces, channels, input_window(module))
