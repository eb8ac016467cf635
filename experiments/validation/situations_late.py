"""Situations in which channels respond late, or are slow to: some time steps after what they respond to.

Somebody who knew what the library promises, and nothing of how it goes about it, found that such channels were
missed (power 0.00 to 0.7, where a GLM had 0.7 to 1.00), and that a variable which follows another was called in its
place (rates up to 0.42). These generators were written afterwards, when both had been mended.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.validation.situations_data import (
    CHANNELS,
    STEPS,
    Rng,
    Situation,
    carriers,
    filtered,
    noisy,
    ornstein,
    registry,
    tuned,
    unit,
)

__all__ = ["LATE"]

LATE: dict[str, Callable[[Rng], Situation]] = {}
"""Name -> generator."""


late = registry(LATE)


def _before(values: np.ndarray, lag: int) -> np.ndarray:
    """Values (time, k) of `lag` time steps ago; the first ones stand still."""
    return values[np.maximum(np.arange(len(values)) - lag, 0)]


def _three(rng: Rng) -> dict[str, np.ndarray]:
    """Independent processes a, b and a hidden h."""
    return {"a": ornstein(rng, 15), "b": ornstein(rng, 30), "h": ornstein(rng, 40)}


def _heard(
    rng: Rng, latents: dict[str, np.ndarray], delay: Callable[[str, int], int], truth: dict[str, np.ndarray]
) -> np.ndarray:
    """Channels that sum functions of their latents, each of some steps before. delay : latent, channel -> steps."""
    out = np.zeros((STEPS, CHANNELS))
    for name, values in latents.items():
        for i in np.flatnonzero(truth[name]):
            out[:, i] += tuned(rng, _before(values, delay(name, int(i))))
    return out


def _situation(rng: Rng, latents: dict[str, np.ndarray], delay: Callable[[str, int], int]) -> Situation:
    truth = carriers(rng, list(latents))
    channels = noisy(rng, unit(_heard(rng, latents, delay, truth)))
    return Situation(channels, {name: latents[name] for name in "ab"}, {name: truth[name] for name in "ab"})


@late("channels respond 3 steps late")
def _three_steps(rng: Rng) -> Situation:
    return _situation(rng, _three(rng), lambda name, i: 3)


@late("channels respond 10 steps late")
def _ten_steps(rng: Rng) -> Situation:
    return _situation(rng, _three(rng), lambda name, i: 10)


@late("latencies of 0 to 12 steps, each channel its own")
def _spread(rng: Rng) -> Situation:
    own = rng.integers(0, 13, CHANNELS)
    return _situation(rng, _three(rng), lambda name, i: int(own[i]))


@late("a third of the channels respond 6 steps late")
def _some(rng: Rng) -> Situation:
    own = np.where(rng.random(CHANNELS) < 1 / 3, 6, 0)
    return _situation(rng, _three(rng), lambda name, i: int(own[i]))


@late("spikes (0.2 a bin), 5 bins late")
def _spikes(rng: Rng) -> Situation:
    latents = _three(rng)
    truth = carriers(rng, list(latents))
    drive = 0.7 * unit(_heard(rng, latents, lambda name, i: 5, truth))
    counts = rng.poisson(0.2 * np.exp(drive - 0.25)).astype(float)
    return Situation(counts, {name: latents[name] for name in "ab"}, {name: truth[name] for name in "ab"})


@late("responses rise and decay, best after 5 steps")
def _kernel(rng: Rng) -> Situation:
    latents = _three(rng)
    since = np.arange(40) / 5
    kernel = since * np.exp(1 - since)
    return _situation(
        rng, {name: unit(filtered(each, kernel)) for name, each in latents.items()}, lambda name, i: 0
    )._replace(variables={name: latents[name] for name in "ab"})


@late("channels respond to a 6 steps late, and b follows a by 6")
def _follower(rng: Rng) -> Situation:
    latents = _three(rng)
    latents["b"] = unit(_before(latents["a"], 6) + 0.5 * ornstein(rng, 15))
    return _situation(rng, latents, lambda name, i: 6 if name == "a" else 0)


@late("latencies of 0 to 6 steps, and b follows a by 3")
def _spread_follower(rng: Rng) -> Situation:
    latents = _three(rng)
    latents["b"] = unit(_before(latents["a"], 3) + 0.5 * ornstein(rng, 15))
    own = rng.integers(0, 7, CHANNELS)
    return _situation(rng, latents, lambda name, i: int(own[i]))
