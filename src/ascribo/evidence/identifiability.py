"""May the coordinates of an embedding be read one by one? A diagnosis from data alone, without the true latents.

Zimmermann et al. (2021) prove what contrastive learning finds: latents up to a rotation (theorem 2, on a sphere) or
up to order, sign and scale (theorem 6, for pairs that are not normal and a model that matches them). The theorems
assume a distribution of latents and pairs, which nobody knows of a recording. Three things can be seen without the
truth:

- *Do seeds agree?* Encoders that start from other weights end with the same coordinates if these are identified,
  and with coordinates turned against each other if only a linear map is. So R² between seeds says whether anything
  is found, and MCC between seeds whether it may be read coordinate by coordinate. In few dimensions turned
  coordinates agree by chance (two dimensions: MCC 0.9 on average), so it is compared with that of random rotations.
- *Which theorem could hold?* The exponent β of the differences of positive pairs, by maximum likelihood
  (1: Laplace, 2: normal, 3 and more: lighter tails), along the embedding's own axes and along those that are
  farthest from normal (independent component analysis). Where the first is 2 and the second is not, the pairs would
  identify the axes, and the model's similarity does not use it.
  Seeds that agree on axes that no theorem holds may do so because they were trained alike; these coordinates are
  not to be read one by one.
- *Is the marginal uniform?* All theorems assume it, on the sphere or in a box. How far the distribution function of
  the embedding is from a uniform one, along the axes on which that would show.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment, minimize_scalar
from scipy.special import gammaln
from scipy.stats import beta

from ..data.containers import as_recording
from ..metrics.identifiability import held_out_r2, mean_correlation_coefficient
from ..model.estimator import ContrastiveEmbedding
from ..model.generative_process_inversion import Inversion
from ..spaces.base import layout
from ..spaces.pairs import Pairs

__all__ = ["Identifiability", "fit_exponent", "identifiability", "verdict"]

ONE_BY_ONE, LINEAR, NOTHING = "one by one", "up to a linear map", "not identified"
LEAST_MCC, LEAST_R2, LEVEL = 0.9, 0.9, 0.05
"""Between seeds: the least MCC of coordinates that may be read, the least R² of an embedding that is found at all,
and the largest share of random rotations that may agree as well."""
ROTATIONS = 200
EXPONENTS = 0.3, 20.0
"""Smallest and largest exponent that is looked for; a uniform distribution has the largest."""
NORMAL = 1.3, 2.3
"""Exponents that count as normal. The edges of a box and imperfect encoders move them: in the rows of Zimmermann et
al. (2021) normal pairs had 1.5 to 2.0, Laplace ones up to 1.0 along their axes, those of exponent 3 from 2.4 on."""
FAR_FROM_UNIFORM = 0.08
"""A marginal counts as uniform if its distribution function is nowhere farther than this from a uniform one (and
1 / √n for n samples). Encoders bend a little, so that an exact test would refuse all of them. Normal coordinates
are 0.16 away, Laplace ones 0.23, the sum of two uniform ones 0.10."""
INNER = 0.005
"""Share of the samples at either end of a coordinate that say nothing of its uniformity: a few outliers."""


@dataclass(frozen=True)
class Identifiability:
    """What an embedding's coordinates mean, as far as seeds and pairs show; `print` it for a plain answer.

    coordinates : "one by one", "up to a linear map" or "not identified".
    r2, mcc : between seeds, averaged over pairs of them. chance : the share of random rotations with an MCC as
        large. seeds : how many encoders were compared; dim : dimensions of the embedding.
    shape : of the embedding: "sphere", "box" or "unbounded".
    pair_exponent : β of the differences of positive pairs along the embedding's axes, the median of seeds and axes.
    turned_exponent : β along the axes that are farthest from normal.
    marginal_distance : how far the embedding is from uniform, on the sphere or in a box: the largest difference of
        distribution functions (Kolmogorov-Smirnov) along the axes on which it would show. uniform : whether that
        counts as uniform, which all theorems assume of the latents.
    theorem : what these are consistent with, in words.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.uniform(-1, 1, (4000, 2))
    >>> near = z + rng.laplace(scale=0.05, size=z.shape)
    >>> found = identifiability([z, z[:, ::-1], -z], positives=[near, near[:, ::-1], -near])
    >>> found.coordinates, found.shape, found.uniform, found.summary()["seeds"]
    ('one by one', 'box', True, 3)
    """

    coordinates: str
    r2: float
    mcc: float
    chance: float
    shape: str
    pair_exponent: float
    turned_exponent: float
    marginal_distance: float
    uniform: bool
    theorem: str
    seeds: int
    dim: int

    def summary(self) -> dict[str, Any]:
        """The fields as a dictionary, for JSON."""
        return {
            key: value if isinstance(value, str | int) else round(float(value), 4)
            for key, value in vars(self).items()
        }

    def __str__(self) -> str:
        answers = {
            ONE_BY_ONE: "Coordinates may be read one by one",
            LINEAR: "Coordinates may not be read one by one: the embedding is found up to a linear map",
            NOTHING: "The embedding is not identified",
        }
        return (
            f"{answers[self.coordinates]}. {self.seeds} seeds agree with R² {self.r2:.3f} after a linear map and "
            f"MCC {self.mcc:.3f} coordinate by coordinate (random rotations reach that in "
            f"{100 * self.chance:.0f}%). {self.theorem}"
        )


def identifiability(
    model: Inversion | ContrastiveEmbedding | npt.ArrayLike,
    data: Any = None,
    *,
    positives: npt.ArrayLike | None = None,
    space: str | None = None,
    pairs: int = 4000,
    random_state: int = 0,
) -> Identifiability:
    """Whether the coordinates of an embedding may be read one by one, judged without the true latents.

    Parameters
    ----------
    model : several encoders of the same data: a fitted `ContrastiveEmbedding` with two or more seeds, the result of
        `ascribo.invert_process` with two or more seeds (encoders of different processes are not compared with each
        other: in a recording there is one), or an array (seed, sample, dim) of embedded references.
    data : the recording (or array) that a `ContrastiveEmbedding` embeds; best one that it was not fitted to.
    positives : (seed, sample, dim), the embedded positives, where `model` is an array.
    space : of a `ContrastiveEmbedding` with more than one.
    pairs : how many positive pairs are looked at.

    Returns
    -------
    Identifiability. Its `coordinates` is the verdict, and printing it gives the reasons.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.uniform(-1, 1, (4000, 4))
    >>> near = z + rng.laplace(scale=0.05, size=z.shape)
    >>> axes = [np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(3)]
    >>> turned = identifiability([z @ q for q in axes], positives=[near @ q for q in axes])
    >>> same = identifiability([z, -z[:, ::-1], 2 * z], positives=[near, -near[:, ::-1], 2 * near])
    >>> turned.coordinates, same.coordinates
    ('up to a linear map', 'one by one')
    """
    reference, positive, recordings = _embedded(model, data, positives, space, pairs, random_state)
    seeds, _, dim = reference.shape
    agreements = [(i, j) for i, j in combinations(range(seeds), 2) if recordings[i] == recordings[j]]
    r2 = float(np.mean([held_out_r2(reference[i], reference[j]) for i, j in agreements]))
    mcc = float(np.mean([mean_correlation_coefficient(reference[i], reference[j]) for i, j in agreements]))
    chance = _share_of_rotations(mcc, dim, agreements, random_state) if dim > 1 else 0.0
    steps = positive - reference
    own = float(np.median([fit_exponent(column) for seed in steps for column in seed.T]))
    turned = float(np.median([fit_exponent(column) for column in _independent(steps[0], random_state).T]))
    shape, distance = _marginal(reference, random_state)
    uniform = bool(distance <= FAR_FROM_UNIFORM + 1 / np.sqrt(reference.shape[1]))
    coordinates = verdict(shape, r2, mcc, chance, own)
    theorem = f"{_theorem(shape, own, turned)} {_of_the_marginal(uniform, distance)}"
    if _agree(mcc, chance) and not _holds_axes(shape, own):
        theorem += " That seeds agree all the same may be due to their training: no theorem says why."
    if dim > 1 and mcc >= LEAST_MCC and chance > LEVEL:
        theorem += " More seeds are needed: in so few dimensions coordinates agree by chance."
    return Identifiability(coordinates, r2, mcc, chance, shape, own, turned, distance, uniform, theorem, seeds, dim)


def verdict(shape: str, r2: float, mcc: float, chance: float, pair_exponent: float) -> str:
    """The answer that follows from what was measured: "one by one", "up to a linear map" or "not identified".

    Arguments as the fields of `Identifiability`.

    >>> verdict("unbounded", 0.999, 1.0, 0.0, 1.0), verdict("unbounded", 0.998, 0.911, 0.005, 1.7)
    ('one by one', 'up to a linear map')
    """
    if _agree(mcc, chance) and _holds_axes(shape, pair_exponent):
        return ONE_BY_ONE
    return LINEAR if r2 >= LEAST_R2 else NOTHING


def _agree(mcc: float, chance: float) -> bool:
    """Whether seeds agree coordinate by coordinate, better than coordinates that were turned at random."""
    return mcc >= LEAST_MCC and chance <= LEVEL


def fit_exponent(values: npt.ArrayLike) -> float:
    """The exponent β of a generalized normal distribution around 0, density ∝ exp(-(|x| / scale)^β), by likelihood.

    values : numbers in any shape. The result is between 0.3 and 20.

    >>> rng = np.random.default_rng(0)
    >>> [round(fit_exponent(x), 1) for x in (rng.laplace(size=9000), rng.normal(size=9000))]
    [1.0, 2.0]
    >>> fit_exponent(rng.uniform(-1, 1, 9000)) > 10
    True
    """
    size = np.abs(np.asarray(values, dtype=np.float64).ravel())
    size = size[size > 0]
    if len(size) < 10:
        raise ValueError(f"{len(size)} values other than 0: expected ten or more to fit a distribution to.")
    logs = np.log(size / size.max())

    def cost(log_exponent: float) -> float:  # minus the mean log-likelihood at the best scale
        exponent = float(np.exp(log_exponent))
        log_scale = np.log(exponent * np.mean(np.exp(exponent * logs))) / exponent
        return log_scale - log_exponent + float(gammaln(1 / exponent)) + 1 / exponent

    found = minimize_scalar(cost, bounds=tuple(np.log(EXPONENTS)), method="bounded", options={"xatol": 1e-3})
    return float(np.exp(found.x))  # type: ignore[attr-defined]


def _embedded(
    model: Any, data: Any, positives: Any, space: str | None, pairs: int, random_state: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """References and positives, (seed, pair, dim) each, and which recording each seed embeds."""
    several = None
    if isinstance(model, Inversion):
        found: Sequence[Any] = model.embed_pairs(pairs, random_state)
        several = model.recordings
    elif isinstance(model, ContrastiveEmbedding):
        if data is None:
            raise ValueError("identifiability(model, data): give the recording whose pairs are to be embedded.")
        recording, spaces = as_recording(data), model.model_.spaces
        name = _space(spaces, space)
        drawn = Pairs({name: spaces[name]}, recording.variables, recording.epochs)
        row, other, _ = drawn.rows[name]
        steps = drawn.draw(np.random.default_rng(random_state), 1, pairs)[0]
        own = layout(spaces)[name]
        found = [model.embed_seeds(recording, steps[k])[..., own] for k in (row, other)]
    else:
        if positives is None:
            raise ValueError("identifiability: embedded references need their positives=, of the same shape.")
        found = [model, positives]
    reference, positive = (np.asarray(part, dtype=np.float64) for part in found)
    if reference.ndim != 3 or reference.shape != positive.shape or not np.isfinite(reference + positive).all():
        raise ValueError(
            f"references of shape {reference.shape}, positives of {positive.shape}: expected (seed, sample, dim) "
            "of both, alike, all of it finite."
        )
    recordings = np.zeros(len(reference), dtype=int) if several is None else several
    compared = np.bincount(recordings, minlength=1)[recordings] > 1
    if not compared.any():
        raise ValueError(
            "one encoder of each recording: whether coordinates are identified shows in the agreement of encoders "
            "of the same data from different seeds. Fit two or more (seeds=)."
        )
    return reference[compared], positive[compared], recordings[compared]


def _space(spaces: Any, name: str | None) -> str:
    """The contrastive space that is asked about."""
    known = [own for own, space in spaces.items() if space.contrastive]
    if name is None and len(known) == 1:
        return known[0]
    if name is None or name not in known:
        raise ValueError(f"space={name!r}: expected one of {known}, the spaces with positive pairs.")
    return name


def _share_of_rotations(mcc: float, dim: int, agreements: list[tuple[int, int]], random_state: int) -> float:
    """How many stacks of randomly turned seeds agree at least as well, as a share; never quite 0."""
    rng = np.random.default_rng(random_state)
    reached = 0
    for _ in range(ROTATIONS):
        turns = [np.linalg.qr(rng.normal(size=(dim, dim)))[0] for _ in range(1 + max(max(agreements)))]
        found = [_matched(turns[i].T @ turns[j]) for i, j in agreements]
        reached += np.mean(found) >= mcc
    return (reached + 1) / (ROTATIONS + 1)


def _matched(rotation: np.ndarray) -> float:
    return float(np.abs(rotation)[linear_sum_assignment(-np.abs(rotation))].mean())


def _independent(values: np.ndarray, random_state: int) -> np.ndarray:
    """Values (n, dim) along the axes that are farthest from normal."""
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():  # normal values have no such axes, and it does not settle
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(
            FastICA(whiten="unit-variance", random_state=random_state, max_iter=100, tol=1e-3).fit_transform(values)
        )


def _marginal(reference: np.ndarray, random_state: int) -> tuple[str, float]:
    """The shape of the embedding, and how far it is from uniform, the median of seeds."""
    length = np.linalg.norm(reference, axis=-1)
    if reference.shape[2] > 1 and (length.std(1) < 0.01 * length.mean(1)).all():
        directions = reference / length[..., None]
        return "sphere", float(np.median([_from_uniform_sphere(seed) for seed in directions]))
    turned = [max(map(_from_uniform, _independent(seed, random_state).T)) for seed in reference]
    own = np.median([_from_uniform(column) for seed in reference for column in seed.T])
    return "box" if own <= FAR_FROM_UNIFORM else "unbounded", float(np.median(turned))


def _from_uniform(values: np.ndarray) -> float:
    """The largest difference of the distribution function of values (n,) from that of a uniform variable, between
    the smallest and the largest of them (but for a few)."""
    inner = np.sort(values)[int(INNER * len(values)) : len(values) - int(INNER * len(values))]
    wanted = (inner - inner[0]) / max(inner[-1] - inner[0], np.finfo(float).tiny)
    return float(np.abs(wanted - np.linspace(0, 1, len(inner))).max())


def _from_uniform_sphere(points: np.ndarray) -> float:
    """The same for points (n, dim) of length 1, along their mean and their principal axes: on a uniform sphere
    (1 + x) / 2 has a beta distribution along every axis."""
    dim, mean = points.shape[1], points.mean(0)
    axes = np.column_stack([mean / np.linalg.norm(mean), np.linalg.eigh(points.T @ points)[1]])
    wanted = beta((dim - 1) / 2, (dim - 1) / 2).cdf((1 + np.sort(points @ axes, 0)) / 2)
    return float(np.abs(wanted - np.linspace(0, 1, len(points))[:, None]).max())


def _of_the_marginal(uniform: bool, distance: float) -> str:
    if uniform:
        return f"The marginal is uniform as far as can be seen (within {distance:.2f}), as theory assumes."
    return f"The marginal is not uniform ({distance:.2f} away from it), which theory assumes."


def _holds_axes(shape: str, own: float) -> bool:
    """Whether a theorem could hold the axes: pairs that are not normal along them, or a box, which has corners."""
    low, high = NORMAL
    return shape == "box" or (shape != "sphere" and not low <= own <= high)


def _theorem(shape: str, own: float, turned: float) -> str:
    """What exponents and shape are consistent with."""
    low, high = NORMAL
    if shape == "sphere":
        return "The embedding is on a sphere, where theory finds latents up to a rotation (theorem 2)."
    seen = (
        f"Differences of pairs have exponent {own:.1f} along the embedding's axes and {turned:.1f} along the axes "
        "farthest from normal:"
    )
    if not low <= own <= high:
        return f"{seen} not normal along these axes, as where only order, sign and scale are open (theorem 6)."
    if shape == "box":
        return f"{seen} the pairs look normal, and the embedding fills a box, whose corners hold the axes."
    if not low <= turned <= high:
        return (
            f"{seen} the pairs are not normal, but not along these axes. A model with similarity="
            f"ascribo.Lp({max(1.0, turned):.0f}) could find theirs (theorem 6)."
        )
    return f"{seen} the pairs look normal in all directions, and leave a rotation open."
