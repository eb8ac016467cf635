"""How far embeddings and maps agree: those of different seeds, of halves of a recording, of sessions.

An identified embedding is the same up to an affine map, so agreement is R² after the best affine map (Schneider et
al. 2025, appendix C). There are two ways to weight it:

- "variance", as in the paper: the share of the target's total variance that is explained. A direction in which an
  embedding varies little counts little, although an affine map could make it as wide as any other.
- "direction": the target is brought to unit variance in every direction first. This is the mean of the squared
  canonical correlations, the same for every basis of either embedding and the same both ways. A direction without
  variance counts as not explained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.stats
import xarray as xr
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..attribution.maps import AttributionMaps
from ..attribution.method_inputs import seed_weights
from ..data.containers import as_recording
from ..data.recording import Recording
from ..metrics.agreement import check_embedding, mean_over_pairs, means_by_label, pairwise_r2
from ..model.estimator import ContrastiveEmbedding
from ..spaces.base import layout, reported
from ..support.memory import refuse_memory

__all__ = ["SplitHalf", "consistency", "consistency_by_label", "map_consistency", "split_half"]
DIMS = ("channel", "space")
WHOLE = "whole"
"""Name of the row about all spaces together."""


def consistency(
    embeddings: Iterable[Any] | Mapping[Any, Any], weight: Literal["variance", "direction"] = "variance"
) -> pd.DataFrame:
    """R² of every embedding from every other one, after the best affine map.

    Parameters
    ----------
    embeddings : (n, time, dim) array, list of (time, dim) arrays, or dict name -> array. Row t is the same time
        step in all of them; the numbers of dimensions may differ.
    weight : "variance" or "direction", see the top of this module.

    Returns
    -------
    DataFrame with one row for each ordered pair: source, target, r2. The consistency is the mean of `r2`. A target
    that does not vary has NaN.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(1000, 2))
    >>> table = consistency({"a": z, "b": z @ [[1, 2], [0, 1]] + 5, "c": rng.normal(size=(1000, 2))})
    >>> table.round(2).head(3)
      source target   r2
    0      a      b  1.0
    1      a      c  0.0
    2      b      a  1.0
    """
    if weight not in ("variance", "direction"):
        raise ValueError(f"weight={weight!r}: expected 'variance' or 'direction'.")
    named = _named(embeddings)
    arrays = [check_embedding(z, name) for name, z in named.items()]
    if len({len(z) for z in arrays}) > 1:
        raise ValueError(
            f"embeddings of {[len(z) for z in arrays]} time steps: expected the same steps of all of them. Compare "
            "different recordings with consistency_by_label."
        )
    names, r2 = list(named), pairwise_r2(arrays, weight)
    pairs = [(i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
    return pd.DataFrame(
        {
            "source": [names[i] for i, _ in pairs],
            "target": [names[j] for _, j in pairs],
            "r2": [r2[i, j] for i, j in pairs],
        }
    )


def consistency_by_label(
    embeddings: Iterable[Any] | Mapping[Any, Any],
    labels: Iterable[Any] | Mapping[Any, Any],
    bins: int | None = 10,
    least: int = 5,
    weight: Literal["variance", "direction"] = "variance",
) -> pd.DataFrame:
    """`consistency` of embeddings of different recordings, matched by the variables that they share.

    Each embedding is averaged within bins of the variables; bins that all recordings visit are the rows that are
    compared. With m such bins, embeddings that have nothing in common reach about dim / (m - 1): use many.

    Parameters
    ----------
    embeddings : list or dict of (time, dim) arrays, one per recording.
    labels : list or dict of (time,) or (time, variable) arrays, in the same order. Steps with missing values are
        left out.
    bins : bins per variable, of equal width over the range that the recordings share. None: every value (or row of
        values) is a bin of its own, for discrete labels.
    least : time steps that a bin must have in every recording.
    weight : "variance" or "direction", see the top of this module.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.uniform(size=2000), rng.uniform(size=3000)
    >>> curve = lambda v: np.stack([np.cos(v), np.sin(v)], axis=1)
    >>> consistency_by_label([curve(x), 3 * curve(y) + 1], [x, y]).round(2)
       source  target   r2
    0       0       1  1.0
    1       1       0  1.0
    """
    named = _named(embeddings)
    given = list(labels.values()) if isinstance(labels, Mapping) else list(labels)
    if len(given) != len(named):
        raise ValueError(f"{len(given)} arrays of labels for {len(named)} embeddings: expected one for each.")
    if isinstance(labels, Mapping) and list(labels) != list(named):
        raise ValueError(
            f"labels of {list(labels)} for embeddings {list(named)}: expected the same names and order."
        )
    means = means_by_label(named, given, bins, least)
    widest, shared = max(z.shape[1] for z in means.values()), len(next(iter(means.values())))
    if shared < widest + 2:
        raise ValueError(
            f"{shared} bins have {least} time steps or more in every recording; embeddings of {widest} "
            f"dimensions need {widest + 2}, better many more. Use other bins (now {bins}), or recordings that "
            "overlap more."
        )
    return consistency(means, weight)


def map_consistency(
    maps: Iterable[AttributionMaps | xr.DataArray] | Mapping[Any, AttributionMaps | xr.DataArray],
) -> pd.DataFrame:
    """Correlation of the scores of every pair of maps over their channels, by space.

    Parameters
    ----------
    maps : list or dict of `AttributionMaps`, or of their `by_space` arrays: of seeds, sessions or halves. Channels
        are matched by name; those and the spaces that are not in all maps are left out.

    Returns
    -------
    DataFrame with one row for each space and pair: space, first, second, spearman, pearson. Both correlations are
    NaN where one of the maps was refused.

    Examples
    --------
    >>> scores = xr.DataArray([[0.1], [0.5], [0.9]], coords=[["a", "b", "c"], ["place"]], dims=["channel", "space"])
    >>> map_consistency({"early": scores, "late": scores[::-1] ** 2}).round(2)
       space  first second  spearman  pearson
    0  place  early   late       1.0     0.97
    """
    named = {name: m.by_space if isinstance(m, AttributionMaps) else m for name, m in _named(maps).items()}
    channels, spaces = (_shared([scores[dim].values.tolist() for scores in named.values()]) for dim in DIMS)
    if len(channels) < 3 or not spaces:
        raise ValueError(
            f"the maps share {len(channels)} channels and {len(spaces)} spaces, by name: expected at least three "
            "channels and one space."
        )
    rows = []
    for space in spaces:
        scores = {name: s.sel(space=space, channel=channels).values for name, s in named.items()}
        ranks = {name: scipy.stats.rankdata(s, nan_policy="propagate") for name, s in scores.items()}
        for first, second in combinations(named, 2):
            spearman, pearson = (_correlation(v[first], v[second]) for v in (ranks, scores))
            rows.append((space, first, second, spearman, pearson))
    return pd.DataFrame(rows, columns=["space", "first", "second", "spearman", "pearson"])


@dataclass(frozen=True)
class SplitHalf:
    """Agreement of two models, each fitted to one half of a recording.

    embeddings : DataFrame with one row for each space and one called "whole": space; consistency and
        variance_weighted, R² of the two embeddings of the whole recording, with every direction counting the same
        or by its variance.
    maps : DataFrame with one row for each space: space; spearman and pearson, correlations of the two maps over
        channels.
    models : the two fitted models.

    >>> rows = {"space": ["place", "whole"], "consistency": [0.97, 0.95]}
    >>> found = SplitHalf(pd.DataFrame(rows), maps=pd.DataFrame(), models=())
    >>> float(found.embeddings.set_index("space")["consistency"]["whole"])
    0.95
    """

    embeddings: pd.DataFrame
    maps: pd.DataFrame
    models: tuple[ContrastiveEmbedding, ContrastiveEmbedding]


def split_half(
    model: ContrastiveEmbedding,
    X: Any,
    y: Any = None,
    *,
    blocks: int = 10,
    method: str = "generative_gradient",
    samples: int | Literal["all"] | None = None,
) -> SplitHalf:
    """Fit two models to the two halves of a recording and see how far they agree on all of it.

    Parameters
    ----------
    model : its parameters are used; it need not be fitted, and is not changed. The halves get random states of
        their own, so that they do not agree because they began alike.
    X, y : the recording.
    blocks : blocks of time that each half is made of, taken in turn. 1: the first and the second half.
    method, samples : of the maps, as in `ContrastiveEmbedding.attribute`.

    Examples
    --------
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=1, hidden=1, channels=(4, 4), steps=2000)
    >>> small = dict(seeds=1, steps=100, batch_size=128, encoder=asc.MLP((16,)), penalty=0, random_state=0)
    >>> model = asc.ContrastiveEmbedding({"position": asc.Follow("x", dim=1)}, **small)
    >>> found = split_half(model, data, blocks=5)
    >>> found.embeddings["space"].tolist(), found.maps.columns.tolist()
    (['position', 'whole'], ['space', 'spearman', 'pearson'])
    """
    refuse_memory(model.memory, "split_half")
    recording = as_recording(X, y)
    fitted = []
    states = check_random_state(model.random_state).randint(np.iinfo(np.int32).max, size=2)
    for k, half in enumerate(_halves(recording, blocks)):
        folder = None if model.checkpoint is None else Path(model.checkpoint) / f"half-{k}"
        copy: ContrastiveEmbedding = clone(model)  # type: ignore[assignment]
        fitted.append(copy.set_params(random_state=int(states[k]), checkpoint=folder).fit(half))
    z = [half.transform(recording) for half in fitted]
    rows = []
    for name, where in {**layout(fitted[0].model_.spaces), WHOLE: slice(None)}.items():
        block = [check_embedding(one[:, where], name) for one in z]
        by_direction, by_variance = (mean_over_pairs(pairwise_r2(block, w)) for w in ("direction", "variance"))
        rows.append({"space": name, "consistency": by_direction, "variance_weighted": by_variance})
    scores = [_scores(half, recording, method, samples) for half in fitted]
    maps = map_consistency(scores).drop(columns=["first", "second"])
    return SplitHalf(pd.DataFrame(rows), maps, (fitted[0], fitted[1]))


def _halves(recording: Recording, blocks: int) -> list[Recording]:
    """Two halves made of blocks of time in turn. Blocks that did not touch are epochs of their own."""
    if isinstance(blocks, bool) or not isinstance(blocks, int | np.integer) or blocks < 1:
        raise ValueError(f"blocks={blocks!r}: expected an integer of at least 1.")
    if len(recording) < 40 * blocks:
        raise ValueError(
            f"{len(recording)} time steps are too few for two halves of {blocks} blocks, 20 steps each at least: "
            "use fewer blocks."
        )
    block = np.arange(len(recording)) * 2 * blocks // len(recording)
    halves = []
    for k in (0, 1):
        mine = block % 2 == k
        pieces = pd.MultiIndex.from_arrays([block[mine], recording.epochs[mine]]).factorize()[0]
        halves.append(
            Recording(
                pd.DataFrame(recording.X[mine], columns=recording.channel_names),
                recording.variables[mine],
                epochs=pieces,
                time=recording.time[mine],
            )
        )
    return halves


def _scores(
    model: ContrastiveEmbedding, recording: Recording, method: str, samples: int | Literal["all"] | None
) -> xr.DataArray:
    """A map by space; NaN everywhere if nothing can be attributed."""
    if seed_weights(model.model_).any():
        return model.attribute(recording, method=method, samples=samples).by_space
    names = [list(model.model_.channels), reported(model.model_.spaces)]
    return xr.DataArray(np.full([len(v) for v in names], np.nan), coords=names, dims=DIMS)


def _named(items: Any) -> dict[Any, Any]:
    """What was given, by name or by number; at least two."""
    named = dict(items) if isinstance(items, Mapping) else dict(enumerate(items))
    if len(named) < 2:
        raise ValueError(f"{len(named)} given: expected at least two to compare.")
    return named


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    if np.ptp(a) == 0 or np.ptp(b) == 0 or not np.isfinite([a, b]).all():
        return np.nan
    return float(np.corrcoef(a, b)[0, 1])


def _shared(names: Sequence[list[Any]]) -> list[Any]:
    """Those of the first list that are in all of them, in its order."""
    others = [set(other) for other in names[1:]]
    return [name for name in names[0] if all(name in other for other in others)]
