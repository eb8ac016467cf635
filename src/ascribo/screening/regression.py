"""Regressions on many features, from sums of products over blocks of time."""

from __future__ import annotations

from collections.abc import Callable
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
WITHOUT = 1e6
"""A penalty with which the channels' past says nothing."""


@dataclass(frozen=True)
class Sums:
    """Sums of products over each block of time.

    zz (block, p, p): of what is conditioned on; zf, zy (block, p, ...): with the features and with the channels; ff
    (block, f, f), fy (block, f, channel): of the features with each other and with the channels; steps: time steps;
    history (p,): True for features of the channels' past.
    """

    zz: np.ndarray
    zf: np.ndarray
    zy: np.ndarray
    ff: np.ndarray
    fy: np.ndarray
    steps: int
    history: np.ndarray


def block_sums(parts: Callable[[np.ndarray], tuple[np.ndarray, ...]], blocks: list[np.ndarray]) -> Sums:
    """Sums over blocks of time.

    parts : time steps -> the constant and features of variables, features of the channels' past, features of the
        space, channels; a row for each step.
    """
    own, cross = [], []
    widths = (0, 0, 0)
    for rows in blocks:
        v, h, f, y = parts(rows)
        widths = v.shape[1], h.shape[1], f.shape[1]
        x = np.concatenate([v, h, f], axis=1, dtype=np.float32)
        own.append(x.T @ x)
        cross.append(x.T @ y.astype(np.float32, copy=False))
    p, xx, xy = widths[0] + widths[1], np.stack(own), np.stack(cross)
    return Sums(
        zz=xx[:, :p, :p],
        zf=xx[:, :p, p:],
        zy=xy[:, :p],
        ff=xx[:, p:, p:],
        fy=xy[:, p:],
        steps=sum(map(len, blocks)),
        history=np.arange(p) >= widths[0],
    )


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
    zz = [sums.zz[half == k].sum(0, dtype=float) for k in range(2)]
    target = np.concatenate([sums.zf, sums.zy], axis=2)
    zt = [target[half == k].sum(0, dtype=float) for k in range(2)]
    errors = np.zeros((len(PENALTIES), target.shape[2]))
    by_block = np.zeros((len(PENALTIES) + 1, number))
    for i, penalty in enumerate((*PENALTIES, WITHOUT)):
        for k in range(2):
            factor = _factor(zz[k].copy(), sums, penalty)
            if penalty == WITHOUT:
                fit = _solve(factor, zt[k][:, :columns])
            else:
                fit = _solve(factor, zt[k])
                errors[i] += (fit * (zz[1 - k] @ fit - 2 * zt[1 - k])).sum(0)
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

    ff : (f, f) products of the features' residuals over all time. fy : (f, channel), their products with the
    channels' residuals of the fit to all time. by_block : (block, f, channel), the same in each block, the channels'
    residuals being the mean of those of the fit to all blocks and of the fit to other blocks.
    """

    ff: np.ndarray
    fy: np.ndarray
    by_block: np.ndarray


def fit_residuals(sums: Sums, penalties: Penalties, folds: int) -> Residuals:
    """Regress features and channels on what is conditioned on, in all of the time.

    Products are those of features from which the fit of the channels has been taken too: then what the channels'
    fit gets wrong by chance has no effect on the products over all time.
    """
    fold = np.arange(len(sums.fy)) * folds // len(sums.fy)
    all_zz, all_zf, all_zy = (each.sum(0, dtype=float) for each in (sums.zz, sums.zf, sums.zy))
    used = {penalties.of_features, *penalties.of_channels.tolist()}
    factors = {c: _factor(all_zz.copy(), sums, c) for c in used}
    wf = _solve(factors[penalties.of_features], all_zf)
    rf = all_zf - all_zz @ wf
    ff, fy = sums.ff.sum(0, dtype=float) - wf.T @ (all_zf + rf), sums.fy.sum(0, dtype=float)
    by_block = np.empty(sums.fy.shape)
    members = {c: np.flatnonzero(penalties.of_channels == c) for c in set(penalties.of_channels.tolist())}
    twice = {c: wf + _solve(factors[c], rf) for c in members}
    fits = {c: _solve(factors[c], all_zy[:, mine]) for c, mine in members.items()}
    for c, mine in members.items():
        fy[:, mine] -= all_zf.T @ fits[c] + twice[c].T @ (all_zy[:, mine] - all_zz @ fits[c])
    for k in range(folds):
        own = np.flatnonzero(fold == k)
        gram = all_zz - sums.zz[own].sum(0, dtype=float)
        cross = all_zy - sums.zy[own].sum(0, dtype=float)
        for c, mine in members.items():
            mean = (fits[c] + _solve(_factor(gram.copy(), sums, c), cross[:, mine])) / 2
            for b in own:
                left = sums.zy[b][:, mine] - sums.zz[b] @ mean
                by_block[b][:, mine] = sums.fy[b][:, mine] - sums.zf[b].T @ mean - twice[c].T @ left
    return Residuals(ff, fy, by_block)


def residual_products(sums: Sums) -> np.ndarray:
    """Products of the features' residuals over all time, whatever the channels: (f, f)."""
    zz, zf = sums.zz.sum(0, dtype=float), sums.zf.sum(0, dtype=float)
    fit = _solve(_factor(zz.copy(), sums, PENALTIES[0]), zf)
    return sums.ff.sum(0, dtype=float) - fit.T @ (2 * zf - zz @ fit)


def _solve(factor, right: np.ndarray) -> np.ndarray:
    return linalg.cho_solve(factor, right, check_finite=False)


def _factor(gram: np.ndarray, sums: Sums, of_history: float):
    penalty = sums.steps * np.where(sums.history, of_history, LIGHT)
    penalty[0] *= 1e-3  # the constant
    gram[np.diag_indices_from(gram)] += penalty
    return linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
