"""Noise that stands for channels which carry nothing: how fits change it in blocks of time and in all of the time.

What a regression leaves of a channel has no part along the regressors. So its products with a feature's residual
are smaller than those of a channel that was not fitted, in each block of time and, to another degree, in their sum.
By how much depends on how long the channel's noise goes on: slow regressors take more of slow noise. Turning the
signs of blocks (`sign_flips`) compares the sum with the blocks, so this has to be known. Columns of noise of
several lengths are therefore put through the same fits as the channels, and a channel is taken for the mixture of
them whose residuals have its residual's autocovariance.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from .regression import Parts, Residuals

__all__ = ["by_chance", "noise_columns", "sizes_of_blocks"]

LENGTHS = (1, 4, 16, 64)
"""Time steps over which noise goes on: each kind is a moving sum of so many random signs."""
COPIES, FEWEST, ENOUGH = 48, 16, 5_000
"""Columns of noise of each length: so many, and fewer from a number of time steps on, where fits change less."""
LOOKED_AT = 2_400
"""Time steps at which autocovariances are taken."""
LAGS = (0, 1, 2, 3, 5, 8, 12, 18, 27, 40, 60)
"""Lags, in time steps, of autocovariances."""


def noise_columns(steps: int, seed: int = 0) -> np.ndarray:
    """Columns of noise, as many of each of `LENGTHS`, one after the other: (time, columns), small whole numbers.

    The variance of a column is its length. All kinds are sums of the same signs.

    >>> noise = noise_columns(1000)
    >>> noise.shape, noise.dtype
    ((1000, 192), dtype('int8'))
    >>> [round(float(noise[:, k].var())) for k in (0, 48)]
    [1, 4]
    """
    copies = 8 * (min(COPIES, max(FEWEST, COPIES * ENOUGH // steps)) // 8)
    longest = LENGTHS[-1]
    random = np.random.default_rng(seed).bytes((steps + longest) * copies // 8)
    signs = 2 * np.unpackbits(np.frombuffer(random, np.uint8)).astype(np.int8) - 1
    total = np.cumsum(signs.reshape(-1, copies), axis=0, dtype=np.int32)
    kinds = [total[longest:] - total[longest - each :][:steps] for each in LENGTHS]
    return np.concatenate(kinds, axis=1, dtype=np.int8, casting="unsafe")


def sizes_of_blocks(
    left: Residuals, parts: Callable[[np.ndarray], Parts], blocks: list[np.ndarray], noise: np.ndarray
) -> np.ndarray:
    """By how much products in blocks are larger, against their sum, than independent ones: (smoothness, channel).

    left : what the fits leave. parts : see `block_sums`. noise : see `noise_columns`.
    """
    ours, theirs = _autocovariances(left, parts, blocks, noise)
    share = _mixtures(theirs, ours).T  # (channel, length)
    share[share.sum(1) == 0, 0] = 1.0  # nothing is left of these channels
    size = np.empty((len(left.whitening), len(share)))
    for fitted in left.noise:
        own, within, whole = share[fitted.channels].T, _by_length(fitted.within), _by_length(fitted.whole)
        whole /= whole[:, :1]  # which is 1 for white noise, and all kinds are sums of the same signs
        size[:, fitted.channels] = np.sqrt((within @ own) / np.maximum(whole @ own, 1e-30))
    return size


def _mixtures(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    """Weights of parts, (n, k), none below zero, whose sums are nearest to each of some wholes, (n, m): (k, m).

    All choices of a few parts are fitted, and the nearest without weights below zero is taken.

    >>> _mixtures(np.eye(2), np.array([[1.0, 1.0], [2.0, -1.0]]))
    array([[1., 1.],
           [2., 0.]])
    """
    weights, nearest = np.zeros((parts.shape[1], wholes.shape[1])), np.square(wholes).sum(0)
    for number in range(1, parts.shape[1] + 1):
        for some in combinations(range(parts.shape[1]), number):
            fit = np.linalg.lstsq(parts[:, some], wholes, rcond=None)[0]
            error = np.square(wholes - parts[:, some] @ fit).sum(0)
            nearer = (fit >= 0).all(0) & (error < nearest)
            nearest[nearer] = error[nearer]
            weights[:, nearer] = 0
            weights[np.ix_(some, nearer)] = fit[:, nearer]
    return weights


def _by_length(columns: np.ndarray) -> np.ndarray:
    """Means over the copies of each length, of values (..., column): (..., length)."""
    return columns.reshape(*columns.shape[:-1], len(LENGTHS), -1).mean(-1, dtype=float)


def _autocovariances(
    left: Residuals, parts: Callable[[np.ndarray], Parts], blocks: list[np.ndarray], noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of the residuals of channels, (lag, channel), and of noise of each length, (lag, length), fitted as most
    channels are; at some time steps, within blocks."""
    several = min(len(blocks), -(-LOOKED_AT // max(map(len, blocks))))
    chosen = [blocks[k][:LOOKED_AT] for k in np.linspace(0, len(blocks) - 1, several).astype(int)]
    lags = [lag for lag in LAGS if lag <= min(map(len, chosen)) // 2]
    weights = max(left.noise, key=lambda each: len(each.channels)).weights
    ours, theirs = [], []
    for rows in chosen:
        found = parts(rows)
        z = found.x[:, : len(weights)]
        ours.append(_products(found.y - z @ left.of_channels, lags))
        theirs.append(_products(noise[rows].astype(np.float32) - z @ weights, lags))
    return np.sum(ours, axis=0), _by_length(np.sum(theirs, axis=0))


def _products(columns: np.ndarray, lags: list[int]) -> np.ndarray:
    """Sums of products of each column with itself some steps later: (lag, column)."""
    steps = len(columns)
    sums = [np.einsum("tc,tc->c", columns[lag:], columns[: steps - lag]) for lag in lags]
    return np.stack(sums).astype(float)


def by_chance(by_block: np.ndarray, unexplained: np.ndarray) -> np.ndarray:
    """What channels have by chance, (channel,), in proportion to the variance that is left of them, `unexplained`.

    by_block : (channel, block), what each has by chance, as it shows in each block. In short recordings that is
    mostly noise. So proportions are drawn to their median over channels, the more so the less they differ beyond
    what they differ from block to block.
    """
    own = by_block.sum(1)
    some = (unexplained > 1e-9) & (own > 0)
    if some.sum() < 2:
        return own
    share = np.log(own[some] / unexplained[some])
    noise = by_block.shape[1] * np.mean(by_block[some].var(1, ddof=1) / np.square(own[some]))
    kept = max(0.0, 1 - noise / max(share.var(ddof=1), 1e-12))
    out = own.copy()
    out[some] = unexplained[some] * np.exp(np.median(share) + kept * (share - np.median(share)))
    return out
