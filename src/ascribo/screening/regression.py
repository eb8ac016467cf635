"""Regressions on many features, from sums of products over blocks of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

__all__ = ["Residuals", "Sums", "block_sums", "fit_residuals", "history_gain"]

LIGHT = 1e-4
"""Ridge penalty per time step of features of variables, which are of variance about one."""
HISTORY = (1e-3, 1e-2, 1e-1, 1.0)
"""Penalties of features of the channels' past to choose from."""


@dataclass(frozen=True)
class Sums:
    """Sums of products over each block of time.

    zz (block, p, p): of what is conditioned on; zf, zy (block, p, ...): with the features and with the channels; ff
    (block, f, f), fy (block, f, channel): of the features with each other and with the channels; yy (block,
    channel): of the squared channels; steps: time steps; history (p,): True for features of the channels' past.
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
    sums: list[list[np.ndarray]] = [[] for _ in range(6)]
    history = np.zeros(0, bool)
    for rows in blocks:
        v, h, f, y = (part.astype(np.float32, copy=False) for part in parts(rows))
        z = np.concatenate([v, h], axis=1)
        history = np.arange(z.shape[1]) >= v.shape[1]
        for k, value in enumerate((z.T @ z, z.T @ f, z.T @ y, f.T @ f, f.T @ y, np.square(y).sum(0))):
            sums[k].append(value.astype(np.float64))
    zz, zf, zy, ff, fy, yy = (np.stack(each) for each in sums)
    return Sums(zz, zf, zy, ff, fy, yy, sum(map(len, blocks)), history)


@dataclass(frozen=True)
class Residuals:
    """What the fits leave.

    ff : (f, f) products of the features' residuals over all time. fy : (f, channel), their products with the
    channels' residuals. within, without (block, f, channel): the same in each block, the channels' residuals being
    those of the fit to all blocks, and to the other blocks. yy : (channel,) residual variances.
    """

    ff: np.ndarray
    fy: np.ndarray
    within: np.ndarray
    without: np.ndarray
    yy: np.ndarray


def fit_residuals(sums: Sums, folds: int) -> Residuals:
    """Regress features and channels on what is conditioned on, in all of the time.

    The penalty of the channels' past is chosen by held-out error, for all features together and for each channel.
    Products are those of features from which the fit of the channels has been taken too: then what the channels'
    fit gets wrong by chance has no effect on the products over all time.
    """
    blocks, _, channels = sums.fy.shape
    fold = np.arange(blocks) * folds // blocks
    all_zz, all_zf, all_zy = sums.zz.sum(0), sums.zf.sum(0), sums.zy.sum(0)
    of_features = HISTORY[_best(sums, sums.zf, fold).sum(1).argmin()]
    of_channels = np.array(HISTORY)[_best(sums, sums.zy, fold).argmin(0)]
    used = {of_features, *of_channels.tolist()}
    factors = {c: _factor(all_zz.copy(), sums, c) for c in used}
    wf = _solve(factors[of_features], all_zf)
    rf = all_zf - all_zz @ wf
    twice = {c: wf + _solve(factors[c], rf) for c in used}
    ff = sums.ff.sum(0) - wf.T @ (all_zf + rf)
    within, without = np.empty_like(sums.fy), np.empty_like(sums.fy)
    yy = np.zeros(channels)
    for k in range(folds):
        own = np.flatnonzero(fold == k)
        gram, cross = all_zz - sums.zz[own].sum(0), all_zy - sums.zy[own].sum(0)
        for c in set(of_channels.tolist()):
            mine = np.flatnonzero(of_channels == c)
            fits = _solve(factors[c], all_zy[:, mine]), _solve(_factor(gram.copy(), sums, c), cross[:, mine])
            for b in own:
                zy = sums.zy[b][:, mine]
                for w, out in zip(fits, (within, without), strict=True):
                    left = zy - sums.zz[b] @ w
                    out[b][:, mine] = sums.fy[b][:, mine] - sums.zf[b].T @ w - twice[c].T @ left
                yy[mine] += sums.yy[b][mine] - (w * (zy + left)).sum(0)
    return Residuals(ff, within.sum(0), within, without, yy / sums.steps)


def _solve(factor, right: np.ndarray) -> np.ndarray:
    return linalg.cho_solve(factor, right, check_finite=False)


def history_gain(sums: Sums, columns: int) -> tuple[float, float]:
    """What the channels' past tells of the first features, given the variables, in blocks not fitted.

    Returns the share of their variance, and how many standard errors (over blocks) it is above zero.
    """
    errors = np.zeros((len(HISTORY) + 1, len(sums.zz)))
    for half in range(2):
        zz, zf = sums.zz[half::2].sum(0), sums.zf[half::2].sum(0)[:, :columns]
        for i, penalty in enumerate((*HISTORY, 1e6)):
            fit = _solve(_factor(zz.copy(), sums, penalty), zf)
            for b in range(1 - half, len(sums.zz), 2):
                errors[i, b] = (fit * (sums.zz[b] @ fit - 2 * sums.zf[b][:, :columns])).sum()
    best = errors[:-1].sum(1).argmin()
    gains = errors[-1] - errors[best]
    total = np.trace(sums.ff.sum(0)[:columns, :columns]) + errors[-1].sum()
    certain = gains.mean() / max(gains.std(ddof=1) / np.sqrt(len(gains)), 1e-12)
    return float(gains.sum() / max(total, 1e-12)), float(certain)


def _factor(gram: np.ndarray, sums: Sums, of_history: float):
    penalty = sums.steps * np.where(sums.history, of_history, LIGHT)
    penalty[0] *= 1e-3  # the constant
    return linalg.cho_factor(gram + np.diag(penalty), overwrite_a=True, check_finite=False)


def _best(sums: Sums, cross: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Errors of fits to half of the blocks on the other half, less a constant: (penalty of the past, column)."""
    zz, zt = ([each[fold % 2 == k].sum(0) for k in range(2)] for each in (sums.zz, cross))
    errors = []
    for penalty in HISTORY:
        fits = [_solve(_factor(zz[k].copy(), sums, penalty), zt[k]) for k in range(2)]
        errors.append(sum((fits[k] * (zz[1 - k] @ fits[k] - 2 * zt[1 - k])).sum(0) for k in range(2)))
    return np.stack(errors)
