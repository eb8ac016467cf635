"""Disentanglement scores of a representation with known discrete factors.

BetaVAE (Higgins et al. 2017), FactorVAE (Kim and Mnih 2018), MIG (Chen et al. 2018), DCI (Eastwood and Williams
2018), modularity (Ridgeway and Mozer 2018) and SAP (Kumar et al. 2018), with the settings of the comparison by
Locatello et al. (2019), which Zimmermann et al. (2020) follow.

Factors are integers: factor k has the values 0, ..., sizes[k] - 1. The first two scores draw factors by
themselves, so they take a function from factors (n, factor) to codes (n, dimension); the others take codes and
factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mutual_info_score
from sklearn.svm import LinearSVC

from ..support.array_shapes import Array, Float, Int, Num, shaped

__all__ = [
    "DCI",
    "beta_vae_score",
    "dci_scores",
    "factor_vae_score",
    "modularity_score",
    "mutual_information_gap",
    "sap_score",
]

Encode = Callable[[np.ndarray], npt.ArrayLike]
"""From factors (n, factor), integers, to codes (n, dimension)."""
AT_ONCE = 8192
"""Most samples that are encoded together."""


def beta_vae_score(
    encode: Encode, sizes: Sequence[int], *, train: int = 10_000, test: int = 5_000, batch: int = 64, seed: int = 0
) -> float:
    """BetaVAE: how well a linear classifier tells which factor was kept equal within pairs.

    A point is the mean absolute difference of the codes of `batch` pairs that share the value of one factor, and
    differ at random in the others. train, test : points. Chance is 1 / number of factors.

    >>> beta_vae_score(lambda factors: factors, [3, 4, 5], train=300, test=200)
    1.0
    """
    _check_sizes(sizes)
    rng = np.random.default_rng(seed)
    points, labels = _pair_points(encode, sizes, train + test, batch, rng)
    model = LogisticRegression(max_iter=2000).fit(points[:train], labels[:train])
    return float(model.score(points[train:], labels[train:]))


def factor_vae_score(
    encode: Encode,
    sizes: Sequence[int],
    *,
    train: int = 10_000,
    test: int = 5_000,
    batch: int = 64,
    variance: int = 10_000,
    prune: float = 0.05,
    relative: bool = True,
    seed: int = 0,
) -> float:
    """FactorVAE: how well the dimension that varies least tells which factor was kept constant.

    In each point one factor has one value in all of `batch` samples; the dimension whose variance, relative to
    that over all data, is least votes for the factor. train, test : points that votes are counted on, and that
    they are judged on.
    variance : samples for the variance over all data.
    prune, relative : dimensions with a standard deviation below `prune` are left out; the score is 0 if none is
        left. By default `prune` is a share of the largest standard deviation, so that the score does not depend on
        the scale of the codes. relative=False takes it in the unit of the codes, as published (Locatello et al.
        2019; 0.05): that is made for the codes of a VAE, whose dimensions have a standard deviation of about 1.

    >>> factor_vae_score(lambda factors: 2.0 * factors[:, ::-1], [3, 4, 5], train=300, test=200, variance=1000)
    1.0
    """
    _check_sizes(sizes)
    rng = np.random.default_rng(seed)
    whole = _encode(encode, _factors(rng, sizes, variance)).var(0)
    spread = np.sqrt(whole)
    used = (spread > 0) & (spread >= prune * (spread.max() if relative else 1))
    if not used.any():
        return 0.0
    kept = rng.integers(len(sizes), size=train + test)
    votes = np.empty(train + test, dtype=int)
    for some in _parts(train + test, batch):
        factors = _factors(rng, sizes, len(kept[some]) * batch).reshape(-1, batch, len(sizes))
        rows = np.arange(len(factors))
        factors[rows, :, kept[some]] = factors[rows, :1, kept[some]]
        codes = _encode(encode, factors.reshape(-1, len(sizes))).reshape(len(factors), batch, -1)
        votes[some] = np.argmin(codes[..., used].var(1) / whole[used], axis=1)
    counts = np.zeros((used.sum(), len(sizes)))
    np.add.at(counts, (votes[:train], kept[:train]), 1)
    return float((counts.argmax(1)[votes[train:]] == kept[train:]).mean())


def mutual_information_gap(codes: npt.ArrayLike, factors: npt.ArrayLike, bins: int = 20) -> float:
    """MIG: for each factor how much more the best dimension tells of it than the second best, over its entropy.

    codes : (n, dimension), cut into `bins` bins of equal width. factors : (n, factor). Published with 100,000
        samples.

    >>> factors = np.random.default_rng(0).integers(4, size=(2000, 2))
    >>> round(mutual_information_gap(factors, factors), 2)
    1.0
    >>> round(mutual_information_gap(factors[:, [0, 0, 1]], factors), 2)
    0.5
    """
    values, truth = _check(codes, factors)
    information = _information(values, truth, bins)
    entropy = np.array([mutual_info_score(column, column) for column in truth.T])
    if information.shape[0] < 2:
        raise ValueError("codes have one dimension: a gap needs at least two.")
    best = np.sort(information, axis=0)[::-1]
    return float(((best[0] - best[1]) / entropy).mean())


def modularity_score(codes: npt.ArrayLike, factors: npt.ArrayLike, bins: int = 20) -> float:
    """Modularity: 1 if each dimension tells of one factor alone, averaged over dimensions that tell of any.

    Arguments as of `mutual_information_gap`. A representation with a dimension for one factor only has modularity
    1.

    >>> factors = np.random.default_rng(0).integers(4, size=(2000, 2))
    >>> round(modularity_score(factors, factors), 2)
    1.0
    >>> round(modularity_score(factors.sum(1, keepdims=True), factors), 2)
    0.0
    """
    squares = np.square(_information(*_check(codes, factors), bins))
    if squares.shape[1] < 2:
        raise ValueError("factors have one column: modularity compares at least two.")
    largest = squares.max(1)
    left = (squares.sum(1) - largest) / np.where(largest > 0, largest, 1) / (squares.shape[1] - 1)
    return float(np.where(largest > 0, 1 - left, 0).mean())


class DCI(NamedTuple):
    """Three scores of a representation.

    disentanglement : whether each dimension stands for one factor. completeness : whether each factor stands in
    one dimension. informativeness : accuracy of the predicted factors on test samples.

    >>> factors = np.random.default_rng(0).integers(3, size=(300, 2))
    >>> dci_scores(factors, factors).completeness > 0.95
    True
    """

    disentanglement: float
    completeness: float
    informativeness: float


def dci_scores(
    codes: npt.ArrayLike,
    factors: npt.ArrayLike,
    train: int | None = None,
    seed: int = 0,
    *,
    test: int | None = None,
) -> DCI:
    """DCI: scores from classifiers (gradient-boosted trees) of each factor, and what dimensions matter to them.

    codes : (n, dimension). factors : (n, factor). train : how many samples are fitted, the first; None: two thirds.
        test : how many after them are predicted; None: all others. Published with train=10_000 and test=5_000,
        which is the default with 15,000 samples.

    >>> factors = np.random.default_rng(0).integers(3, size=(600, 2))
    >>> [round(score, 2) for score in dci_scores(factors, factors)]
    [1.0, 1.0, 1.0]
    """
    values, truth = _check(codes, factors)
    fitted, tested = _split(len(values), train, test)
    importance, accuracy = np.zeros((values.shape[1], truth.shape[1])), []
    for k, column in enumerate(truth.T):
        model = GradientBoostingClassifier(random_state=seed).fit(values[fitted], column[fitted])
        importance[:, k] = np.abs(model.feature_importances_)
        accuracy.append(model.score(values[tested], column[tested]))
    return DCI(_weighted_purity(importance), _weighted_purity(importance.T), float(np.mean(accuracy)))


def sap_score(
    codes: npt.ArrayLike,
    factors: npt.ArrayLike,
    train: int | None = None,
    seed: int = 0,
    *,
    test: int | None = None,
) -> float:
    """SAP: for each factor how much better a linear classifier is on the best dimension than on the second best.

    Arguments, and published numbers of samples, as of `dci_scores`. Dimensions that hardly vary count as 0.

    >>> factors = np.random.default_rng(0).integers(2, size=(600, 2))
    >>> round(sap_score(factors, factors), 1)
    0.5
    """
    values, truth = _check(codes, factors)
    fitted, tested = _split(len(values), train, test)
    if values.shape[1] < 2:
        raise ValueError("codes have one dimension: a gap needs at least two.")
    accuracy = np.zeros((values.shape[1], truth.shape[1]))
    for i, dimension in enumerate(values.T):
        if dimension[fitted].var() <= 1e-12:
            continue
        for k, column in enumerate(truth.T):
            model = LinearSVC(C=0.01, class_weight="balanced", random_state=seed)
            model.fit(dimension[fitted, None], column[fitted])
            accuracy[i, k] = model.score(dimension[tested, None], column[tested])
    best = np.sort(accuracy, axis=0)[::-1]
    return float((best[0] - best[1]).mean())


@shaped
def _pair_points(
    encode: Encode, sizes: Sequence[int], count: int, batch: int, rng: np.random.Generator
) -> tuple[Float[Array, "count dimension"], Int[Array, " count"]]:
    """Points (count, dimension) of the BetaVAE score, and which factor was shared."""
    kept = rng.integers(len(sizes), size=count)
    points = []
    for some in _parts(count, 2 * batch):
        factors = _factors(rng, sizes, 2 * batch * len(kept[some])).reshape(-1, 2, batch, len(sizes))
        rows = np.arange(len(factors))
        factors[rows, 1, :, kept[some]] = factors[rows, 0, :, kept[some]]
        codes = _encode(encode, factors.reshape(-1, len(sizes))).reshape(len(factors), 2, batch, -1)
        points.append(np.abs(codes[:, 0] - codes[:, 1]).mean(1))
    return np.concatenate(points), kept


@shaped
def _information(
    codes: Float[Array, "n dimension"], factors: Num[Array, "n factor"], bins: int
) -> Float[Array, "dimension factor"]:
    """Mutual information (dimension, factor) in nats, of codes in bins of equal width."""
    cut = [np.digitize(column, np.histogram(column, bins)[1][:-1]) for column in codes.T]
    return np.array([[mutual_info_score(one, other) for other in factors.T] for one in cut])


@shaped
def _weighted_purity(importance: Float[Array, "row column"]) -> float:
    """1 - entropy of each row of an importance matrix, its entries as shares; rows weigh as much as they hold."""
    total = importance.sum(1)
    if importance.sum() == 0:
        return 0.0
    share = (importance + 1e-11) / (importance + 1e-11).sum(1, keepdims=True)
    purity = 1 + (share * np.log(share)).sum(1) / np.log(importance.shape[1])
    return float((purity * total / total.sum()).sum())


@shaped
def _factors(rng: np.random.Generator, sizes: Sequence[int], count: int) -> Int[Array, "{count} factor"]:
    return np.column_stack([rng.integers(size, size=count) for size in sizes])


@shaped
def _encode(encode: Encode, factors: Int[Array, "n factor"]) -> Float[Array, "n dimension"]:
    codes = np.asarray(encode(factors), dtype=np.float64)
    if codes.ndim != 2 or len(codes) != len(factors) or not np.isfinite(codes).all():
        raise ValueError(
            f"encode: for {len(factors)} rows of factors it returned shape {codes.shape}; expected "
            f"({len(factors)}, dimension), all of it finite."
        )
    return codes


def _parts(count: int, each: int) -> list[slice]:
    """Points that are computed together, so that few samples are in memory."""
    size = max(1, AT_ONCE // each)
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]


def _split(samples: int, train: int | None, test: int | None) -> tuple[slice, slice]:
    """Samples to fit, and samples to predict."""
    fitted = 2 * samples // 3 if train is None else train
    if not 1 <= fitted < samples:
        raise ValueError(f"train={train!r}: expected at least 1 and fewer than the {samples} samples.")
    tested = samples - fitted if test is None else test
    if not 1 <= tested <= samples - fitted:
        raise ValueError(
            f"test={test!r}: expected at least 1 and at most the {samples - fitted} that are not fitted."
        )
    return slice(0, fitted), slice(fitted, fitted + tested)


def _check_sizes(sizes: Sequence[int]) -> None:
    if len(sizes) < 2 or any(size < 2 for size in sizes):
        raise ValueError(f"sizes={list(sizes)}: expected two or more factors of at least two values each.")


@shaped
def _check(
    codes: npt.ArrayLike, factors: npt.ArrayLike
) -> tuple[Float[Array, "n dimension"], Num[Array, "n factor"]]:
    values, truth = np.asarray(codes, dtype=np.float64), np.asarray(factors)
    if values.ndim != 2 or truth.ndim != 2 or len(values) != len(truth) or not np.isfinite(values).all():
        raise ValueError(
            f"codes {values.shape} and factors {truth.shape}: expected (n, dimension), finite, and (n, factor)."
        )
    constant = [k for k, column in enumerate(truth.T) if len(np.unique(column)) < 2]
    if constant:
        raise ValueError(f"factors: column {constant[0]} has one value only; there is nothing to tell of it.")
    return values, truth
