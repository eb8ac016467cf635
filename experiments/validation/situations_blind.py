"""Situations by somebody who knew what the library promises, and nothing of how it goes about it.

The worst of a hundred that were tried. Half of the 40 channels carry nothing of a space; what is recorded otherwise
differs from one situation to the next, and is said in each.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.validation.situations_data import CHANNELS, Rng, Situation, filtered, registry, unit

__all__ = ["BLIND"]

BLIND: dict[str, Callable[[Rng], Situation]] = {}
"""Name -> generator."""
STEPS = 8_000


blind = registry(BLIND)


def _slow(rng: Rng, time: float, columns: int = 1) -> np.ndarray:
    """Autoregressive noise of variance 1 that forgets in `time` time steps: (STEPS, columns)."""
    return unit(filtered(rng.standard_normal((STEPS, columns)), [1], np.exp(-1 / time)))


def _half(rng: Rng) -> np.ndarray:
    """(channel,) booleans, half of them True."""
    return rng.permutation(CHANNELS) < CHANNELS // 2


def _field(x: np.ndarray, centre: float | np.ndarray, width: float) -> np.ndarray:
    return unit(np.exp(-0.5 * np.square((x - centre) / width)))


@blind("every stimulus evokes the same response, whatever its label")
def _evoked(rng: Rng) -> Situation:
    """Four labels, 50 time steps each; all channels have an onset response, half of them also a level by label."""
    onset, b = np.arange(STEPS) % 50, _slow(rng, 60)
    label = rng.integers(0, 4, STEPS // 50 + 1)[np.arange(STEPS) // 50]
    for_label, for_b = _half(rng), _half(rng)
    channels = np.zeros((STEPS, CHANNELS))
    for i in range(CHANNELS):
        after = onset - rng.integers(0, 6)
        channels[:, i] = unit(np.where(after < 0, 0.0, np.exp(-np.maximum(after, 0) / rng.uniform(3, 10))))
        channels[:, i] += 0.3 * for_label[i] * unit(rng.standard_normal(4)[label])
        channels[:, i] += 0.4 * for_b[i] * np.tanh(rng.normal() + b[:, 0])
    return Situation(channels + _slow(rng, 5, CHANNELS), {"a": label, "b": b}, {"a": for_label, "b": for_b})


@blind("a waveform in every channel that is locked to frames of 20 steps")
def _frames(rng: Rng) -> Situation:
    """A value for every frame, held; half of the channels carry it."""
    value, b = unit(rng.standard_normal(STEPS // 20))[np.arange(STEPS) // 20, None], _slow(rng, 40)
    for_a, for_b = _half(rng), _half(rng)
    waveform = unit(np.tile(rng.standard_normal((20, CHANNELS)), (STEPS // 20, 1)))
    channels = waveform + 0.3 * value * for_a + 0.5 * b * for_b + _slow(rng, 5, CHANNELS)
    return Situation(channels, {"a": value, "b": b}, {"a": for_a, "b": for_b})


@blind("noise of the channels is 1/f, the variables are slow")
def _pink(rng: Rng) -> Situation:
    a, b = _slow(rng, 100), _slow(rng, 300)
    for_a, for_b = _half(rng), _half(rng)
    spectrum = np.fft.rfft(rng.standard_normal((STEPS, CHANNELS)), axis=0)
    noise = unit(np.fft.irfft(spectrum / np.maximum(np.arange(len(spectrum)), 1)[:, None] ** 0.65, STEPS, axis=0))
    carried = [
        0.5 * own[i] * _field(x[:, 0], rng.normal(), 0.5)
        for i in range(CHANNELS)
        for x, own in ((a, for_a), (b, for_b))
    ]
    channels = noise + np.stack([p + q for p, q in zip(carried[::2], carried[1::2], strict=True)], axis=1)
    return Situation(channels, {"a": a, "b": b}, {"a": for_a, "b": for_b})


@blind("fields of b wander through the session, and a goes with b")
def _drifting_fields(rng: Rng) -> Situation:
    b = _slow(rng, 30)
    a = unit(0.85 * b + 0.5 * _slow(rng, 30))
    for_a = _half(rng)
    time = np.linspace(-1, 1, STEPS)
    channels = rng.standard_normal((STEPS, CHANNELS)) + 0.5 * a * for_a
    for i in np.flatnonzero(~for_a):
        channels[:, i] += 0.8 * _field(b[:, 0], rng.normal() + rng.choice([-1.5, 1.5]) * time, 0.4)
    return Situation(channels, {"a": a, "b": b}, {"a": for_a, "b": ~for_a})


@blind("slow indicator (calcium, 80 steps) that saturates")
def _indicator(rng: Rng) -> Situation:
    a, b = _slow(rng, 40), _slow(rng, 40)
    for_a, for_b = _half(rng), _half(rng)
    spikes = rng.poisson(np.exp(-2.5 + 0.9 * a * for_a + 1.1 * b * for_b)).astype(float)
    bound = filtered(spikes, [1], np.exp(-1 / 80))
    channels = bound / (bound + np.median(bound, axis=0) + 1) + 0.03 * rng.standard_normal(bound.shape)
    return Situation(channels, {"a": a, "b": b}, {"a": for_a, "b": for_b})


@blind("40 short events with responses that decay")
def _events(rng: Rng) -> Situation:
    """Of 8 time steps each; the response lags behind."""
    label, b = np.zeros(STEPS, int), _slow(rng, 50)
    for start in rng.choice(STEPS // 20, 40, replace=False) * 20:
        label[start : start + 8] = 1
    for_label, for_b = _half(rng), _half(rng)
    response = unit(filtered(label[:, None].astype(float), [1], 0.8))
    channels = 0.5 * response * for_label + 0.5 * np.tanh(b) * for_b + _slow(rng, 5, CHANNELS)
    return Situation(channels, {"a": label, "b": b}, {"a": for_label, "b": for_b})
