"""Variables that were measured with error: how much of it is white noise, and what they are without it."""

from __future__ import annotations

import numpy as np
from scipy import signal

__all__ = ["measurement_noise", "smooth_jointly"]

CERTAIN = 3.0
"""Standard errors by which noise must show."""
PIECE, WIDE = 512, 96
"""Time steps of the pieces that spectra are averaged over, and of the smoother on either side."""
LEAST = 0.002
"""Share of a variable's variance below which noise does not matter."""
MOST = 0.5
"""Share beyond which it is no noise on a variable, but a variable that is drawn anew at each time step."""


def measurement_noise(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The variance of white noise on each column, 0 where none shows: (k,).

    What moves on smoothly, or by steps that forget each other, has changes of one sign as often as of two; white
    noise of variance r makes neighbouring changes turn back: cov(Δ_t, Δ_{t+1}) = -r, and nothing beyond. Changes
    are clipped at four times their usual size: a few jumps to and fro are not noise.

    values : (time, k), standardised. first : first step of each step's epoch.
    """
    change = np.diff(np.ascontiguousarray(values.T), axis=1)
    usual = np.median(np.abs(change), axis=1) / 0.6745
    usual = np.where(usual > 0, usual, change.std(1))
    change = np.clip(change, -4 * usual[:, None], 4 * usual[:, None])
    change[:, np.diff(first) != 0] = 0

    def turning(lag: int) -> tuple[np.ndarray, np.ndarray]:
        pairs = -change[:, lag:] * change[:, :-lag]
        return pairs.mean(1), pairs.std(1) / np.sqrt(pairs.shape[1])

    (one, error), (two, _), (three, _) = turning(1), turning(2), turning(3)
    beyond = np.maximum(np.abs(two), np.abs(three))
    quiet = np.mean(change == 0, axis=1) < 0.5  # a variable that mostly stands still has no white noise
    found = (one > CERTAIN * error) & (one > 4 * beyond) & (one > LEAST) & (one < MOST) & quiet
    return np.where(found, one, 0.0)


def smooth_jointly(values: np.ndarray, noise: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Wiener's smoother of all columns together: the best linear guess of what they are without their noise.

    The spectra of the columns less the noise say how much of each frequency of each column is to be believed, and
    what the other columns tell about it. It is used as a filter of `2 WIDE + 1` time steps within epochs, whose
    ends are prolonged. values : (time, k). noise : (k,), see `measurement_noise`.
    """
    filters = _wiener(values, noise)  # (2 WIDE + 1, k, k): what a column adds to another
    out = np.zeros_like(values)
    starts = np.unique(first)
    for a, b in zip(starts, [*starts[1:], len(values)], strict=True):
        padded = np.pad(values[a:b], ((WIDE, WIDE), (0, 0)), mode="edge")
        for i in range(values.shape[1]):
            for j in range(values.shape[1]):
                out[a:b, i] += signal.oaconvolve(padded[:, j], filters[:, i, j], mode="valid")
    return out


def _wiener(values: np.ndarray, noise: np.ndarray) -> np.ndarray:
    steps, columns = values.shape
    pieces = [values[a : a + PIECE] for a in range(0, max(1, steps - PIECE // 2), PIECE // 2)]
    window = 0.5 * (1 - np.cos(2 * np.pi * (np.arange(PIECE)[:, None] + 0.5) / PIECE))
    power = np.zeros((PIECE // 2 + 1, columns, columns), complex)
    for piece in pieces:
        if len(piece) == PIECE:
            waves = np.fft.rfft(piece * window, axis=0)
            power += np.einsum("fi,fj->fij", waves, waves.conj()) / np.square(window).sum()
    spectrum = power / max(1, sum(len(piece) == PIECE for piece in pieces))
    size, direction = np.linalg.eigh(spectrum - np.diag(noise))
    true = (direction * np.maximum(size, 1e-9)[:, None, :]) @ direction.conj().transpose(0, 2, 1)
    kept = true @ np.linalg.inv(true + np.diag(noise + 1e-12))
    turned = np.fft.irfft(kept, PIECE, axis=0)
    return np.concatenate([turned[-WIDE:], turned[: WIDE + 1]])
