"""Regressions on many features, from sums of products over blocks of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg

__all__ = [
    "Penalties",
    "Residuals",
    "Sums",
    "block_sums",
    "choose_penalties",
    "fit_residuals",
    "residual_products",
]

LIGHT = 1e-4
"""Ridge penalty per time step of features of variables, which are of variance about one."""
PENALTIES = (3e-3, 5e-2, 1.0)
"""Penalties of features of the channels' past to choose from."""
SMOOTHNESS = (1e-3, 3e-2)
"""How much of the features' largest variance is added to each in the test: more for smoother tuning."""
MIXTURES = 4
"""Random mixtures of features, for `_size`."""
TIME_STEPS_AT_ONCE = 4_000
"""Time steps that features are made for at once."""
WITHOUT = 1e6
"""A penalty with which the channels' past says nothing."""


@dataclass(frozen=True)
class Sums:
    """Sums of products over each block of time.

    zz (block, p, p): of what is conditioned on; zf, zy (block, p, ...): with the features and with the channels; ff
    (block, f, f), fy (block, f, channel): of the features with each other and with the channels; yy (channel,): of
    each channel with itself, over all blocks; steps: time steps;
    history (p,): True for features of the channels' past.
    """

    zz: np.ndarray
    zf: np.ndarray
    zy: np.ndarray
    ff: np.ndarray
    fy: np.ndarray
    yy: np.ndarray
    steps: int
    history: np.ndarray


def block_sums(parts: Callable[[np.ndarray], tuple[np.ndarray, ...]], blocks: list[np.ndarray]) -> Sums:
    """Sums over blocks of time.

    parts : time steps -> the constant and features of variables, features of the channels' past, features of the
        space, channels; a row for each step.
    """
    own, cross, square = [], [], 0.0
    widths = (0, 0, 0)
    for some in _groups(blocks):
        v, h, f, y = parts(np.concatenate(some))
        widths = v.shape[1], h.shape[1], f.shape[1]
        x, y = np.concatenate([v, h, f], axis=1, dtype=np.float32), y.astype(np.float32, copy=False)
        square = square + np.einsum("tc,tc->c", y, y).astype(float)
        at = 0
        for rows in some:
            part = slice(at, at := at + len(rows))
            own.append(x[part].T @ x[part])
            cross.append(x[part].T @ y[part])
    p, xx, xy = widths[0] + widths[1], np.stack(own), np.stack(cross)
    return Sums(
        zz=xx[:, :p, :p],
        zf=xx[:, :p, p:],
        zy=xy[:, :p],
        ff=xx[:, p:, p:],
        fy=xy[:, p:],
        yy=np.asarray(square),
        steps=sum(map(len, blocks)),
        history=np.arange(p) >= widths[0],
    )


def _groups(blocks: list[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Neighbouring blocks, as many as features are made for at once."""
    group: list[np.ndarray] = []
    for rows in blocks:
        if group and sum(map(len, group)) + len(rows) > TIME_STEPS_AT_ONCE:
            yield group
            group = []
        group.append(rows)
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
    number, width = len(sums.zz), sums.zf.shape[2]
    half = np.arange(number) % 2
    zz = [sums.zz[half == k].sum(0) for k in range(2)]  # in single precision: only the best is looked for
    target = np.concatenate([sums.zf, sums.zy], axis=2)
    zt = [target[half == k].sum(0) for k in range(2)]
    errors = np.zeros((len(PENALTIES), target.shape[2]))
    by_block = np.zeros((len(PENALTIES) + 1, number))
    for i, penalty in enumerate((*PENALTIES, WITHOUT)):
        for k in range(2):
            factor = _factor(zz[k].copy(), sums, penalty)
            if penalty == WITHOUT:
                fit = _solve(factor, zt[k][:, :columns])
            else:
                fit = _solve(factor, zt[k])
                errors[i] += (fit * (zz[1 - k] @ fit - 2 * zt[1 - k])).sum(0, dtype=float)
            first = fit[:, :columns]
            for b in np.flatnonzero(half != k):
                by_block[i, b] = (first * (sums.zz[b] @ first - 2 * sums.zf[b][:, :columns])).sum()
    gains = by_block[-1] - by_block[by_block[:-1].sum(1).argmin()]
    total = np.trace(sums.ff.sum(0, dtype=float)[:columns, :columns]) + by_block[-1].sum()
    return Penalties(
        of_features=PENALTIES[errors[:, :width].sum(1).argmin()],
        of_channels=np.array(PENALTIES)[errors[:, width:].argmin(0)],
        gain=float(gains.sum() / max(total, 1e-12)),
        certain=float(gains.mean() / max(gains.std(ddof=1) / np.sqrt(number), 1e-12)),
    )


@dataclass(frozen=True)
class Residuals:
    """What the fits leave.

    by_block : (block, f, channel), in each block the products of the features' residuals with the channels'; over
    all time they are their sum. whitening : for each of `SMOOTHNESS`, (f, f), to make the features' residuals of
    variance about one. size : (smoothness, channel), by how much the fit has made the products in blocks smaller,
    against their sum, than they are without a fit. of_channels : (p, channel), weights of the channels' fits.
    of_features : for some channels each, weights (p, f) of the features' fits. explained : (channel,), variance of
    the channels, of 1, that their fits tell, less what so many weights tell by chance.
    """

    by_block: np.ndarray
    whitening: list[np.ndarray]
    size: np.ndarray
    of_channels: np.ndarray
    of_features: list[tuple[np.ndarray, np.ndarray]]
    explained: np.ndarray

    def products(self, parts: tuple[np.ndarray, ...], direction: np.ndarray) -> np.ndarray:
        """Products of residuals at some time steps, of each channel and a mixture of features: (time, channel).

        parts : see `block_sums`. direction : (f, channel), the mixtures.
        """
        v, h, f, y = parts
        z = np.concatenate([v, h], axis=1)
        left = y - z @ self.of_channels
        out = np.empty(left.shape)
        for mine, weights in self.of_features:
            out[:, mine] = left[:, mine] * ((f - z @ weights) @ direction[:, mine])
        return out


def fit_residuals(sums: Sums, penalties: Penalties) -> Residuals:
    """Regress features and channels on what is conditioned on, in all of the time.

    Products are those of features from which the fit of the channels has been taken too: then what the channels'
    fit gets wrong by chance has no effect on the products over all time.
    """
    zz, zf = sums.zz.sum(0, dtype=float), sums.zf.sum(0, dtype=float)
    used = {penalties.of_features, *penalties.of_channels.tolist()}
    factors = {c: _factor(zz.copy(), sums, c) for c in used}
    wf = _solve(factors[penalties.of_features], zf)
    rf = zf - zz @ wf
    variance, direction = np.linalg.eigh((sums.ff.sum(0, dtype=float) - wf.T @ (zf + rf)) / sums.steps)
    variance = np.maximum(variance, 0)
    whitening = [direction / np.sqrt(variance + share * variance[-1] + 1e-12) for share in SMOOTHNESS]
    by_block, size = np.empty(sums.fy.shape), np.ones((len(whitening), sums.fy.shape[2]))
    of_channels, of_features = np.empty(sums.zy.shape[1:], np.float32), []
    for c in set(penalties.of_channels.tolist()):
        mine = np.flatnonzero(penalties.of_channels == c)
        zy = sums.zy[:, :, mine]
        fit = _solve(factors[c], zy.sum(0, dtype=float)).astype(np.float32)
        twice = wf + _solve(factors[c], rf)
        of_channels[:, mine] = fit
        of_features.append((mine, twice))
        left = zy - sums.zz @ fit
        by_block[:, :, mine] = (
            sums.fy[:, :, mine] - sums.zf.transpose(0, 2, 1) @ fit - twice.T.astype(np.float32) @ left
        )
        for k, each in enumerate(whitening):
            size[k, mine] = _size(sums, twice, each, factors[c], _penalty(sums, c))
    told = (of_channels * (2 * sums.zy.sum(0) - zz.astype(np.float32) @ of_channels)).sum(0, dtype=float)
    left = (sums.yy - told) / max(sums.steps - len(zz), 0.2 * sums.steps)
    return Residuals(by_block, whitening, size, of_channels, of_features, np.clip(1 - left, 0, 1))


def _size(sums: Sums, weights: np.ndarray, whitening: np.ndarray, factor, penalty: np.ndarray) -> float:
    """Products in blocks of features' residuals with the residuals of white noise that was fitted, against those
    with the noise itself.

    Let g be a feature's residual, H the matrix that takes values to their fit. In a block, products of g with noise
    that was fitted have the variance g'(I - H)²g, g being zero in all other blocks. This is taken for some random
    mixtures of the whitened features, summed over blocks, and compared with that of all time at once.
    """
    mix = whitening @ np.random.default_rng(0).standard_normal((whitening.shape[1], MIXTURES))
    mixed = (weights @ mix).astype(np.float32)
    mix = mix.astype(np.float32)
    zf = sums.zf @ mix
    zg = zf - sums.zz @ mixed  # (block, p, mixture): the residuals with what is conditioned on
    gg = (mix * (sums.ff @ mix)).sum() - (mixed * (zf + zg)).sum()

    def lost(products: np.ndarray) -> float:
        solved = _solve(factor, products)
        return float((products * solved).sum() + (penalty @ np.square(solved)).sum())

    blocks = np.ascontiguousarray(zg.transpose(1, 0, 2)).reshape(zg.shape[1], -1).astype(float)
    return float(
        np.sqrt(max(gg - lost(blocks), 0.05 * gg) / max(gg - lost(zg.sum(0, dtype=float)), 1e-12 + 0.05 * gg))
    )


def residual_products(sums: Sums) -> np.ndarray:
    """Products of the features' residuals over all time, whatever the channels: (f, f)."""
    zz, zf = sums.zz.sum(0, dtype=float), sums.zf.sum(0, dtype=float)
    fit = _solve(_factor(zz.copy(), sums, PENALTIES[0]), zf)
    return sums.ff.sum(0, dtype=float) - fit.T @ (2 * zf - zz @ fit)


def _solve(factor, right: np.ndarray) -> np.ndarray:
    return linalg.cho_solve(factor, right, check_finite=False)


def _penalty(sums: Sums, of_history: float) -> np.ndarray:
    penalty = sums.steps * np.where(sums.history, of_history, LIGHT)
    penalty[0] *= 1e-3  # the constant
    return penalty


def _factor(gram: np.ndarray, sums: Sums, of_history: float):
    gram[np.diag_indices_from(gram)] += _penalty(sums, of_history)
    return linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
