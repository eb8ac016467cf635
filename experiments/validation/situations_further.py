"""Further situations, written to break the calls after the method was fixed: none of its rules was chosen on them.

As in `situations_data`: variables a and b, something hidden, 40 channels, a signal-to-noise ratio of 1.5.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.validation.situations_data import (
    CHANNELS,
    SNR,
    STEPS,
    Rng,
    Situation,
    carriers,
    correlated,
    filtered,
    fold,
    noisy,
    ornstein,
    recorded,
    registry,
    signals,
    three,
    unit,
    walk,
)

__all__ = ["FURTHER"]

FURTHER: dict[str, Callable[[Rng], Situation]] = {}
"""Name -> generator."""


further = registry(FURTHER)


@further("noise of the channels is slow (AR 0.95)")
def _slow_noise(rng: Rng) -> Situation:
    latents = three(rng)
    truth = carriers(rng, list(latents))
    noise = unit(filtered(rng.standard_normal((STEPS, CHANNELS)), [1], 0.95)) / np.sqrt(SNR)
    known = {name: latents[name] for name in "ab"}
    return Situation(signals(rng, latents, truth) + noise, known, {name: truth[name] for name in known})


@further("noise that all channels share")
def _common_noise(rng: Rng) -> Situation:
    found = recorded(rng, three(rng))
    shared = rng.standard_normal((STEPS, 1)) * rng.uniform(0.5, 1.5, CHANNELS)
    return found._replace(channels=found.channels + shared)


@further("a hidden gain scales all channels")
def _gain(rng: Rng) -> Situation:
    latents = three(rng)
    truth = carriers(rng, list(latents))
    gain = np.exp(0.7 * ornstein(rng, 50))
    known = {name: latents[name] for name in "ab"}
    clean = gain * (2 + signals(rng, latents, truth))
    return Situation(noisy(rng, unit(clean)), known, {name: truth[name] for name in known})


@further("slow indicator (calcium, 20 steps)")
def _calcium(rng: Rng) -> Situation:
    latents = three(rng)
    truth = carriers(rng, list(latents))
    rate = np.exp(1.5 * signals(rng, latents, truth))
    spikes = rng.poisson(0.3 * rate / rate.mean(0)).astype(float)
    channels = filtered(spikes, [1], np.exp(-1 / 20))
    known = {name: latents[name] for name in "ab"}
    noise = 0.2 * channels.std(0) * rng.standard_normal(channels.shape)
    return Situation(channels + noise, known, {name: truth[name] for name in known})


@further("b is a, five steps late, plus a little")
def _late(rng: Rng) -> Situation:
    latents = three(rng)
    late = np.r_[np.repeat(latents["a"][:1], 5, axis=0), latents["a"][:-5]]
    latents["b"] = unit(late) + 0.25 * unit(walk(rng))
    return recorded(rng, latents)


@further("b is the velocity of a, both given")
def _velocity_given(rng: Rng) -> Situation:
    speed = ornstein(rng, 20)
    a = np.cumsum(speed, axis=0)
    a = a - filtered(a, [0.002], 0.998)  # comes back
    return recorded(rng, {"a": unit(a), "b": unit(np.gradient(a, axis=0)), "h": walk(rng)})


@further("narrow fields")
def _fields(rng: Rng) -> Situation:
    latents = three(rng)
    truth = carriers(rng, list(latents))
    clean = np.zeros((STEPS, CHANNELS))
    for i in range(CHANNELS):
        own = np.concatenate([latents[name] for name in latents if truth[name][i]], axis=1)
        centres = rng.uniform(-1, 1, (3, own.shape[1]))
        clean[:, i] = sum(np.exp(-np.square(own - c).sum(1) / (2 * 0.2**2)) for c in centres)
    known = {name: latents[name] for name in "ab"}
    return Situation(noisy(rng, unit(clean)), known, {name: truth[name] for name in known})


@further("variables in ten coarse steps")
def _coarse(rng: Rng) -> Situation:
    latents = correlated(rng, 0.5)
    return recorded(rng, latents, {name: np.round(2 * latents[name]) / 2 for name in "ab"})


@further("variables measured every ten steps")
def _held(rng: Rng) -> Situation:
    latents = correlated(rng, 0.5)
    held = np.arange(STEPS) // 10 * 10
    return recorded(rng, latents, {name: latents[name][held] for name in "ab"})


@further("a tracker that loses a at times")
def _losing(rng: Rng) -> Situation:
    latents = correlated(rng, 0.5)
    lost = filtered((rng.random((STEPS, 1)) < 0.002).astype(float), np.ones(30)) > 0
    return recorded(rng, latents, {"a": np.where(lost, -3.0, latents["a"]), "b": latents["b"]})


@further("trials alike, with a hidden clock")
def _trials(rng: Rng) -> Situation:
    """a follows the same course in each trial, as a clock that channels carry does; b is a value of each trial."""
    phase = (np.arange(STEPS)[:, None] % 200) / 200
    a = np.sin(2 * np.pi * phase) + 0.5 * ornstein(rng, 30)
    b = np.repeat(rng.standard_normal((STEPS // 200, 1)), 200, axis=0)
    return recorded(rng, {"a": a, "b": b, "h": np.exp(-phase * 4)})


@further("rare large moves (Lévy flight)")
def _levy(rng: Rng) -> Situation:
    def path() -> np.ndarray:
        return fold(np.cumsum(0.02 * rng.standard_t(1.2, (STEPS, 1)), axis=0))

    return recorded(rng, {"a": path(), "b": path(), "h": path()})


@further("tuning changes half way")
def _remapping(rng: Rng) -> Situation:
    latents = three(rng)
    truth = carriers(rng, list(latents))
    first, second = signals(rng, latents, truth), signals(rng, latents, truth)
    known = {name: latents[name] for name in "ab"}
    clean = np.where(np.arange(STEPS)[:, None] < STEPS // 2, first, second)
    return Situation(noisy(rng, clean), known, {name: truth[name] for name in known})


@further("three hidden latents, weak channels (SNR 0.3)")
def _weak(rng: Rng) -> Situation:
    latents = {name: walk(rng) for name in ("a", "b", "h", "i", "j")}
    truth = carriers(rng, list(latents))
    clean = signals(rng, latents, truth)
    noise = rng.standard_normal(clean.shape) / np.sqrt(0.3)
    return Situation(clean + noise, {n: latents[n] for n in "ab"}, {n: truth[n] for n in "ab"})


@further("position and heading in a box")
def _box(rng: Rng) -> Situation:
    """a: place in a square (two variables), b: direction of the movement; hidden: speed."""
    heading = np.cumsum(0.25 * rng.standard_normal(STEPS))
    speed = 0.02 * np.exp(0.5 * ornstein(rng, 30)[:, 0])
    step = speed[:, None] * np.stack([np.cos(heading), np.sin(heading)], axis=1)
    place = np.cumsum(step, axis=0)
    moved = np.diff(fold(place), axis=0, prepend=fold(place[:1]) - step[:1])
    true = np.arctan2(moved[:, 1], moved[:, 0])  # walls turn it
    direction = np.stack([np.cos(true), np.sin(true)], axis=1)
    return recorded(rng, {"a": fold(place), "b": direction, "h": np.log(speed)[:, None]})
