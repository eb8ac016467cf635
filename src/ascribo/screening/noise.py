"""Noise that stands for channels which carry nothing: how fits change it in blocks of time and in all of the time.

What a regression leaves of a channel has no part along the regressors. So its products with a feature's residual are
smaller than those of a channel that was not fitted, in each block of time and, to another degree, in their sum. By how
much depends on how long the channel's noise goes on: slow regressors take more of slow noise. Turning the signs of
blocks (`sign_flips`) compares the sum with the blocks, so this has to be known. Columns of noise of several lengths
are therefore put through the same fits as the channels, and a channel is taken for the mixture of them whose residuals
have its residual's autocovariance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize

from .regression import Parts, Residuals

__all__ = ["noise_columns", "sizes_of_blocks"]

LENGTHS = (1, 4, 16, 64)
"""Time steps over which noise goes on: each kind is a moving sum of so many random signs."""
COPIES = 48
"""Columns of noise of each length."""
LOOKED_AT = 2_400
"""Time steps at which autocovariances are taken."""


def noise_columns(steps: int, seed: int = 0) -> np.ndarray:
    """Columns of noise, `COPIES` of each of `LENGTHS` one after the other: (time, columns), small whole numbers.

    The variance of a column is its length. All kinds are sums of the same signs.

    >>> noise = noise_columns(1000)
    >>> noise.shape, noise.dtype
    ((1000, 192), dtype('int8'))
    >>> [round(float(noise[:, k].var())) for k in (0, 48)]
    [1, 4]
    """
    longest = LENGTHS[-1]
    random = np.random.default_rng(seed).bytes((steps + longest) * COPIES // 8)
    signs = 2 * np.unpackbits(np.frombuffer(random, np.uint8)).astype(np.int8) - 1
    total = np.cumsum(signs.reshape(-1, COPIES), axis=0, dtype=np.int32)
    now = total[longest:]
    return np.concatenate(
        [now - total[longest - each :][:steps] for each in LENGTHS], axis=1, dtype=np.int8, casting="unsafe"
    )


def sizes_of_blocks(
    left: Residuals, parts: Callable[[np.ndarray], Parts], blocks: list[np.ndarray], noise: np.ndarray
) -> np.ndarray:
    """By how much products in blocks are larger, against their sum, than independent ones: (smoothness, channel).

    left : what the fits leave. parts : see `block_sums`. noise : see `noise_columns`.
    """
    ours, theirs = _autocovariances(left, parts, blocks, noise)
    size = np.empty((len(left.whitening), ours.shape[1]))
    for fitted, own in zip(left.noise, theirs, strict=True):
        basis = _by_length(own)
        share = np.stack([optimize.nnls(basis, column)[0] for column in ours[:, fitted.channels].T])
        share[share.sum(1) == 0, 0] = 1.0  # nothing is left of these channels
        within, whole = _by_length(fitted.within), _by_length(fitted.whole)
        whole *= (fitted.white / whole[:, 0])[:, None]  # what is known exactly of white noise helps for all
        size[:, fitted.channels] = np.sqrt((within @ share.T) / np.maximum(whole @ share.T, 1e-30))
    return size


def _by_length(columns: np.ndarray) -> np.ndarray:
    """Means over the copies of each length, of values (..., column): (..., length)."""
    return columns.reshape(*columns.shape[:-1], len(LENGTHS), COPIES).mean(-1, dtype=float)


def _autocovariances(
    left: Residuals, parts: Callable[[np.ndarray], Parts], blocks: list[np.ndarray], noise: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Of the residuals of channels, (lag, channel), and of the columns of noise, for each class of channels (lag,
    column), at some time steps, within blocks."""
    several = min(len(blocks), -(-LOOKED_AT // max(map(len, blocks))))
    chosen = [blocks[k][:LOOKED_AT] for k in np.linspace(0, len(blocks) - 1, several).astype(int)]
    lags = max(1, min(LENGTHS[-1], min(map(len, chosen)) // 2))
    ours: list[np.ndarray] = []
    theirs: list[list[np.ndarray]] = [[] for _ in left.noise]
    for rows in chosen:
        found = parts(rows)
        z = found.x[:, : len(left.of_channels)]
        ours.append(_products(found.y - z @ left.of_channels, lags))
        here = noise[rows].astype(np.float32)
        for out, fitted in zip(theirs, left.noise, strict=True):
            out.append(_products(here - z @ fitted.weights, lags))
    steps = sum(map(len, chosen))
    return np.sum(ours, axis=0) / steps, [np.sum(each, axis=0) / steps for each in theirs]


def _products(columns: np.ndarray, lags: int) -> np.ndarray:
    """Sums of products of each column with itself some steps later: (lag, column)."""
    steps = len(columns)
    sums = [np.einsum("tc,tc->c", columns[lag:], columns[: steps - lag]) for lag in range(lags)]
    return np.stack(sums).astype(float)
