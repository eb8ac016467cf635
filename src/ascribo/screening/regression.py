"""Regressions on many features, from sums of products over blocks of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import linalg

from ..support.compute import in_threads

__all__ = [
    "FittedNoise",
    "Parts",
    "Penalties",
    "Residuals",
    "Sums",
    "block_sums",
    "choose_penalties",
    "fit_residuals",
    "put_together",
    "residual_products",
]

LIGHT = 1e-4
"""Ridge penalty per time step of features of variables, which are of variance about one."""
PENALTIES = (3e-3, 5e-2, 1.0)
"""Penalties of features of the channels' past to choose from."""
SMOOTHNESS = (1e-3, 0.3)
"""How much of the features' largest variance is added to each in the test: more for smoother tuning."""
MIXTURES = 8
"""Random mixtures of features whose products with noise are taken."""
TIME_STEPS_AT_ONCE = 4_000
"""Time steps that features are made for at once."""


@dataclass(frozen=True)
class Sums:
    """Sums of products over each block of time, in single precision.

    For each block, zz (p, p): of what is conditioned on; zf, zy (p, ...): with the features and with the channels;
    ff (f, f), fy (f, channel): of the features with each other and with the channels; zn (p, ...), fn (f, ...): of
    both with columns of noise, if there are any; yy (channel,): of each channel with itself.
    steps: time steps. history (p,): True for features of the channels' past.
    """

    zz: list[np.ndarray]
    zf: list[np.ndarray]
    zy: list[np.ndarray]
    ff: list[np.ndarray]
    fy: list[np.ndarray]
    zn: list[np.ndarray]
    fn: list[np.ndarray]
    yy: list[np.ndarray]
    steps: int
    history: np.ndarray

    @cached_property
    def halves(self) -> list[dict[str, np.ndarray]]:
        """zz, zf and zy, summed over every other block, and over those between."""
        return [{name: _total(getattr(self, name)[k::2]) for name in ("zz", "zf", "zy")} for k in range(2)]

    def total(self, name: str) -> np.ndarray:
        """One of them, zz or another, summed over all blocks."""
        if name in self.halves[0]:
            return self.halves[0][name] + self.halves[1][name]
        return _total(getattr(self, name))


@dataclass(frozen=True)
class Parts:
    """What regressions are made of, at some time steps: a row for each.

    x (time, p + f) : the constant and features of variables, features of the channels' past, features of the space.
    y (time, channel) : the channels. widths : columns of the three in x.
    """

    x: np.ndarray
    y: np.ndarray
    widths: tuple[int, int, int]


def put_together(
    given: list[np.ndarray], past: list[np.ndarray], features: list[np.ndarray], y: np.ndarray
) -> Parts:
    """The parts from lists of columns, (time, ...) each."""
    columns = np.concatenate([*given, *past, *features], axis=1, dtype=np.float32)
    one, two, three = (sum(each.shape[1] for each in some) for some in (given, past, features))
    return Parts(columns, y.astype(np.float32, copy=False), (one, two, three))


def block_sums(
    parts: Callable[[np.ndarray], Parts], blocks: list[np.ndarray], noise: np.ndarray | None = None
) -> Sums:
    """Sums over blocks of time. parts : time steps -> what is summed. noise : (time, columns), none by default."""

    def beside(rows: np.ndarray) -> np.ndarray:
        return np.empty((len(rows), 0), np.float32) if noise is None else noise[rows].astype(np.float32)

    def add(pieces: list[tuple[int, np.ndarray]]):
        """Block, products of x with itself, with y and with noise, and squares of y, of each piece; the widths."""
        found = parts(np.concatenate([rows for _, rows in pieces]))
        edges = np.cumsum([0, *(len(rows) for _, rows in pieces)])
        products = []
        for (block, rows), (a, b) in zip(pieces, pairwise(edges), strict=True):
            x, y = found.x[a:b], found.y[a:b]
            squares = np.einsum("tc,tc->c", y, y).astype(float)
            products.append((block, x.T @ x, x.T @ y, x.T @ beside(rows), squares))
        return products, found.widths

    found = in_threads(add, _groups(blocks))
    sums: dict[int, list[np.ndarray]] = {}
    for products, _ in found:
        for block, *new in products:
            sums[block] = [a + b for a, b in zip(sums[block], new, strict=True)] if block in sums else new
    xx, xy, xn, yy = zip(*sums.values(), strict=True)
    given, past, _ = found[0][1]
    p = given + past
    return Sums(
        zz=[each[:p, :p] for each in xx],
        zf=[each[:p, p:] for each in xx],
        zy=[each[:p] for each in xy],
        ff=[each[p:, p:] for each in xx],
        fy=[each[p:] for each in xy],
        zn=[each[:p] for each in xn],
        fn=[each[p:] for each in xn],
        yy=list(yy),
        steps=sum(map(len, blocks)),
        history=np.arange(p) >= given,
    )


def _groups(blocks: list[np.ndarray]) -> Iterator[list[tuple[int, np.ndarray]]]:
    """Numbers and time steps of neighbouring blocks, or of pieces of one: as many as features are made for at
    once."""
    group: list[tuple[int, np.ndarray]] = []
    room = TIME_STEPS_AT_ONCE
    for number, block in enumerate(blocks):
        for rows in np.array_split(block, -(-len(block) // TIME_STEPS_AT_ONCE)):
            if group and len(rows) > room:
                yield group
                group, room = [], TIME_STEPS_AT_ONCE
            group.append((number, rows))
            room -= len(rows)
    yield group


@dataclass(frozen=True)
class Penalties:
    """Penalties of the channels' past, chosen by the error in blocks that were not fitted: one for all features
    of the space, one for each channel. gain, certain : see `choose_penalties`."""

    of_features: float
    of_channels: np.ndarray
    gain: float
    certain: float


def choose_penalties(sums: Sums, columns: int) -> Penalties:
    """Fit to every other block and compare errors in those between; then the other way round.

    gain is the share of the variance of the first `columns` features that the channels' past tells, given the
    variables; certain says by how many standard errors (over blocks) it is above zero.
    """
    number, width = len(sums.zz), sums.zf[0].shape[1]
    zz = [half["zz"] for half in sums.halves]  # in single precision: only the best is looked for
    zt = [np.concatenate([half["zf"], half["zy"]], axis=1) for half in sums.halves]

    def fit(k: int) -> tuple[np.ndarray, np.ndarray]:
        """For each penalty weights of the first columns, the last of them without the channels' past, and the
        errors of all in the other half, but for what no penalty changes.

        Weights of the past, w, leave the rest of the weights U - K w. So the error of U - K w and w in the other
        half is a constant and w'(Q w + 2 linear).
        """
        g = int(np.argmax(np.r_[sums.history, True]))  # features of variables come first
        other, goal = zz[1 - k], zt[1 - k]
        factor = _factor(zz[k][:g, :g].copy(), _penalty(sums, 0.0)[:g])
        solved = _solve(factor, np.concatenate([zz[k][:g, g:], zt[k][:g]], axis=1))
        K, U = np.split(solved, [len(zz[k]) - g], axis=1)
        left, right = zz[k][g:, g:] - zz[k][g:, :g] @ K, zt[k][g:] - zz[k][g:, :g] @ U
        seen = other[:, g:] - other[:, :g] @ K
        Q, linear = seen[g:] - K.T @ seen[:g], seen[:g].T @ U - goal[g:] + K.T @ goal[:g]
        weights, errors = [], []
        for penalty in PENALTIES:
            w = _solve(_factor(left.copy(), np.full(len(left), sums.steps * penalty)), right)
            errors.append(np.einsum("pt,pt->t", w, Q @ w + 2 * linear).astype(float))
            w = w[:, :columns]
            weights.append(np.concatenate([U[:, :columns] - K @ w, w]))
        weights.append(np.concatenate([U[:, :columns], np.zeros((len(left), columns), np.float32)]))
        return np.concatenate(weights, axis=1), np.stack(errors)

    (one, errors), (two, more) = in_threads(fit, range(2))
    errors, first = errors + more, (one, two)  # first : (p, candidate and column) of each half
    by_block = np.empty((len(PENALTIES) + 1, number))
    for b in range(number):
        weights = first[1 - b % 2]
        goal = np.tile(sums.zf[b][:, :columns], len(by_block))
        error = (weights * (sums.zz[b] @ weights - 2 * goal)).sum(0, dtype=float)
        by_block[:, b] = error.reshape(len(by_block), -1).sum(1)
    gains = by_block[-1] - by_block[by_block[:-1].sum(1).argmin()]
    total = sum(np.trace(each[:columns, :columns], dtype=float) for each in sums.ff) + by_block[-1].sum()
    return Penalties(
        of_features=PENALTIES[errors[:, :width].sum(1).argmin()],
        of_channels=np.array(PENALTIES)[errors[:, width:].argmin(0)],
        gain=float(gains.sum() / max(total, 1e-12)),
        certain=float(gains.mean() / max(gains.std(ddof=1) / np.sqrt(number), 1e-12)),
    )


@dataclass(frozen=True)
class FittedNoise:
    """Columns of noise, fitted as some channels are.

    channels : those whose past has this penalty. weights : (p, column) of the fits. within, whole : (smoothness,
    column), squared products of the columns' residuals with those of whitened features, summed over blocks, and of
    the sum over all time; both as shares of what the latter is for white noise of variance one.
    """

    channels: np.ndarray
    weights: np.ndarray
    within: np.ndarray
    whole: np.ndarray


@dataclass(frozen=True)
class Residuals:
    """What the fits leave. Channels are of one class if their past has the same penalty.

    by_block : (block, f, channel), in each block the products of the features' residuals with the channels'; over
    all time they are their sum. whitening : for each of `SMOOTHNESS`, (f, f), to make the features' residuals of
    variance about one. variances : for each, (f,), the variance that they have then. of_channels : (p, channel),
    weights of the channels' fits. of_features : for each class its channels and weights (p, f) of the features'
    fits. noise : for each class. explained : (channel,), variance of the channels, of 1, that their fits tell,
    less what so many weights tell by chance. squares : (block, channel), of what is left of the channels.
    """

    by_block: np.ndarray
    whitening: list[np.ndarray]
    variances: list[np.ndarray]
    of_channels: np.ndarray
    of_features: list[tuple[np.ndarray, np.ndarray]]
    noise: list[FittedNoise]
    explained: np.ndarray
    squares: np.ndarray

    @property
    def least_p(self) -> np.ndarray:
        """The least p that turning the signs of blocks can give a channel: (channel,).

        All that is left of a cell with a single spike lies in one block, whose sign says nothing. With n blocks
        that are alike one arrangement of signs in 2ⁿ⁻¹ is as good as the best. With others n is (Σe)² / Σe²,
        where e are their sums of squares.
        """
        blocks = np.square(self.squares.sum(0)) / np.maximum(np.square(self.squares).sum(0), 1e-30)
        return np.exp2(1 - np.maximum(blocks, 1))

    def products(self, parts: Parts, direction: np.ndarray) -> np.ndarray:
        """Products of residuals at some time steps, of each channel and a mixture of features: (time, channel).

        parts : see `block_sums`. direction : (f, channel), the mixtures.
        """
        z, f = np.split(parts.x, [len(self.of_channels)], axis=1)
        left = parts.y - z @ self.of_channels
        out = np.empty(left.shape)
        for mine, weights in self.of_features:
            out[:, mine] = left[:, mine] * ((f - z @ weights) @ direction[:, mine])
        return out


def fit_residuals(sums: Sums, penalties: Penalties) -> Residuals:
    """Regress features, channels and noise on what is conditioned on, in all of the time.

    Products are those of features from which the fit of the channels has been taken too: then what the channels'
    fit gets wrong by chance has no effect on the products over all time.
    """
    totals = {name: sums.total(name) for name in ("zz", "zf", "zy", "ff", "zn", "fn")}
    zz, zf, zy, ff = (totals[name].astype(float) for name in ("zz", "zf", "zy", "ff"))
    classes = {float(c): np.flatnonzero(penalties.of_channels == c) for c in np.unique(penalties.of_channels)}
    factors = {c: _factor(zz.copy(), _penalty(sums, c)) for c in {penalties.of_features, *classes}}
    wf = _solve(factors[penalties.of_features], zf)
    rf = _penalty(sums, penalties.of_features)[:, None] * wf  # which is zf - zz @ wf
    variance, direction = np.linalg.eigh((ff - wf.T @ (zf + rf)) / sums.steps)
    variance = np.maximum(variance, 0)
    heights = [variance + share * variance[-1] + 1e-12 for share in SMOOTHNESS]
    whitening, variances = [direction / np.sqrt(each) for each in heights], [variance / each for each in heights]
    random = direction.T @ np.random.default_rng(0).standard_normal((len(ff), MIXTURES))  # whatever the signs
    mix = np.concatenate([each @ random for each in whitening], axis=1, dtype=np.float32)  # (f, mixture)
    turn = np.concatenate(whitening, axis=1, dtype=np.float32)
    of_channels, of_features, noise = np.empty(zy.shape, np.float32), [], []
    for c, mine in classes.items():
        of_channels[:, mine] = _solve(factors[c], zy[:, mine])
        of_features.append((mine, wf + _solve(factors[c], rf)))
        single = factors[c][0].astype(np.float32), factors[c][1]
        noise.append(_fit_noise(totals, single, _penalty(sums, c), of_features[-1][1], mix, turn))
    fits, of_mix, of_turn, whole = zip(*noise, strict=True)
    weights = [each.astype(np.float32) for _, each in of_features]
    by_block, within, squares = _products_in_blocks(sums, of_channels, [*classes.values()], weights, mix, fits)
    fitted = [
        FittedNoise(mine, fits[k], _shares(within[k], of_mix[k]), _shares(whole[k], of_turn[k]))
        for k, mine in enumerate(classes.values())
    ]
    left = squares.sum(0) / max(sums.steps - len(zz), 0.2 * sums.steps)
    return Residuals(
        by_block, whitening, variances, of_channels, of_features, fitted, np.clip(1 - left, 0, 1), squares
    )


def _fit_noise(
    totals: Mapping[str, np.ndarray],
    factor,
    penalty: np.ndarray,
    own: np.ndarray,
    mix: np.ndarray,
    turn: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The same fits of columns of noise, for the channels of a class.

    own : (p, f), weights of the features' fits. mix, turn : (f, columns), mixtures of features and whitened ones.
    Returns weights (p, column); squared products with white noise, as they are expected to be, of mixtures and of
    whitened features; and those with each column of noise of whitened features, (feature, column).
    """
    zz, zf, ff, zn, fn = (totals[name] for name in ("zz", "zf", "ff", "zn", "fn"))
    own = own.astype(np.float32)
    zg = zf - zz @ own  # of the features' residuals with what is conditioned on
    fits, solved = np.split(_solve(factor, np.concatenate([zn, zg], axis=1)), [zn.shape[1]], axis=1)
    white = ff - own.T @ (zf + zg) - solved.T @ (zg + penalty.astype(np.float32)[:, None] * solved)
    of_mix, of_turn = (np.einsum("fm,fm->m", each, white @ each) for each in (mix, turn))
    return fits, of_mix, of_turn, np.square(turn.T @ (fn - own.T @ zn - zg.T @ fits))


def _products_in_blocks(
    sums: Sums,
    of_channels: np.ndarray,
    classes: Sequence[np.ndarray],
    of_features: Sequence[np.ndarray],
    mix: np.ndarray,
    of_noise: Sequence[np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Products of the residuals of features and channels in each block, (block, f, channel); for each class
    squared ones of mixtures of features and noise, summed over blocks, (class, mixture, column); and the sums of
    squares of the channels' residuals in each block, (block, channel).

    of_channels, of_features, of_noise : weights of the fits, the last two of each class. mix : (f, mixture).
    """
    of_mix = [own @ mix for own in of_features]
    every = np.concatenate([of_channels, *of_mix], axis=1)
    edges = np.cumsum([of_channels.shape[1], *(each.shape[1] for each in of_mix)])[:-1]

    def products(b: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        told, *mixed = np.split(sums.zz[b] @ every, edges, axis=1)
        left, zf = sums.zy[b] - told, sums.zf[b]
        out = sums.fy[b] - zf.T @ of_channels
        zm, mn, squares = zf @ mix, mix.T @ sums.fn[b], []
        for k, mine in enumerate(classes):
            out[:, mine] -= of_features[k].T @ left[:, mine]
            squares.append(np.square(mn - of_mix[k].T @ sums.zn[b] - (zm - mixed[k]).T @ of_noise[k]))
        own = sums.yy[b] - np.einsum("pc,pc->c", of_channels, sums.zy[b] + left, dtype=float)
        return out, np.stack(squares), np.maximum(own, 0)

    by_block, squares, own = zip(*in_threads(products, range(len(sums.zz))), strict=True)
    return np.stack(by_block).astype(float), np.sum(squares, axis=0), np.stack(own)


def _shares(squares: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Squared products (rows, column) as shares of those expected (rows,), summed for each smoothness."""
    return _sum_parts(squares, len(SMOOTHNESS)) / _sum_parts(expected, len(SMOOTHNESS))[:, None]


def _sum_parts(values: np.ndarray, parts: int) -> np.ndarray:
    """Sums over equal parts of the first axis: (parts, ...)."""
    return values.reshape(parts, -1, *values.shape[1:]).sum(1, dtype=float)


def residual_products(sums: Sums) -> np.ndarray:
    """Products of the features' residuals over all time, whatever the channels: (f, f)."""
    zz, zf = sums.total("zz").astype(float), sums.total("zf").astype(float)
    fit = _solve(_factor(zz.copy(), _penalty(sums, PENALTIES[0])), zf)
    return sums.total("ff") - fit.T @ (2 * zf - zz @ fit)


def _total(each: list[np.ndarray]) -> np.ndarray:
    """The sum of some arrays, in their own precision."""
    out = each[0].copy()
    for other in each[1:]:
        out += other
    return out


def _solve(factor, right: np.ndarray) -> np.ndarray:
    if not right.size:  # without a history there is nothing to solve, which scipy 1.12 refuses
        return np.zeros_like(right)
    return linalg.cho_solve(factor, right, check_finite=False)


def _penalty(sums: Sums, of_history: float) -> np.ndarray:
    penalty = sums.steps * np.where(sums.history, of_history, LIGHT)
    penalty[0] *= 1e-3  # the constant
    return penalty


def _factor(gram: np.ndarray, penalty: np.ndarray):
    """Of gram + diag(penalty); gram is overwritten."""
    gram[np.diag_indices_from(gram)] += penalty
    return linalg.cho_factor(gram.T, overwrite_a=True, check_finite=False)  # as Fortran orders it
