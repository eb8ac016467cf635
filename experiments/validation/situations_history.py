"""Situations in which channels hold the history of something abrupt, lag behind in much noise, or tell a direction.

Somebody else, who knew what the library promises and nothing of how it goes about it, wrote 151 generators. In some
of them a variable that follows a cue or a stimulus was called for the channels' responses to that (rates of 0.27 to
0.69); slow sensors in noise, directions of running and angular velocities were missed (power 0.01 to 0.8, where a
GLM had 0.94 to 1.00). These generators were written afterwards, when this had been mended.
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

__all__ = ["HISTORIES"]

HISTORIES: dict[str, Callable[[Rng], Situation]] = {}
"""Name -> generator."""
NOISE = 6.0
"""Standard deviation of much noise, where that of the signal is one."""


history = registry(HISTORIES)


def _bump(centre: float, width: float) -> np.ndarray:
    return np.exp(-0.5 * ((np.arange(32) - centre) / width) ** 2)


def _responses(rng: Rng, drive: np.ndarray, carry: np.ndarray, centres: tuple[float, float]) -> np.ndarray:
    """Channels that respond to a drive (time, 1), each after a time of its own: (time, channel)."""
    out = np.zeros((STEPS, CHANNELS))
    for i in np.flatnonzero(carry):
        out[:, i] = unit(filtered(drive, _bump(rng.uniform(*centres), rng.uniform(1, 3))))[:, 0]
    return out * rng.uniform(0.7, 1.3, CHANNELS)


def _with_follower(
    rng: Rng, a: np.ndarray, drive: np.ndarray, b: np.ndarray, late: tuple[float, float]
) -> Situation:
    """Channels carry the history of a, by what drives them, or tuning to b, or to something hidden."""
    truth = carriers(rng, ["a", "b", "h"])
    clean = _responses(rng, drive, truth["a"], late)
    for name, values in {"b": b, "h": ornstein(rng, 40)}.items():
        for i in np.flatnonzero(truth[name]):
            clean[:, i] += tuned(rng, values)
    return Situation(noisy(rng, unit(clean)), {"a": a, "b": b}, {name: truth[name] for name in "ab"})


@history("receptive fields of a white stimulus a, which b follows 8 steps late")
def _stimulus(rng: Rng) -> Situation:
    a = rng.standard_normal((STEPS, 1))
    b = unit(0.7 * unit(filtered(a, _bump(8, 2))) + 0.7 * ornstein(rng, 8))
    return _with_follower(rng, a, a, b, (1, 14))


@history("a cue, and what b does after 6 to 14 steps")
def _cue(rng: Rng) -> Situation:
    a = (rng.random((STEPS, 1)) < 0.01).astype(float)
    b = unit(unit(filtered(a, _bump(10, 2))) + 0.5 * ornstein(rng, 10))
    return _with_follower(rng, a, a, b, (2, 14))


@history("onsets of a state a, which the pupil b follows 6 steps late")
def _onsets(rng: Rng) -> Situation:
    ends = np.cumsum(rng.integers(30, 90, STEPS // 30))
    a = np.searchsorted(ends, np.arange(STEPS), side="right") % 2
    on = np.maximum(np.diff(a, prepend=a[0]), 0)[:, None].astype(float)
    b = unit(unit(filtered(on, _bump(6, 2))) + 0.5 * ornstein(rng, 20))
    return _with_follower(rng, a, on, b, (0, 5))


def _lagging(rng: Rng, time: float) -> Situation:
    """Independent a, b and hidden h; sensors forget in `time` steps, and have much noise."""
    latents = {"a": ornstein(rng, 25), "b": ornstein(rng, 25), "h": ornstein(rng, 40)}
    truth = carriers(rng, [*latents])
    clean = np.zeros((STEPS, CHANNELS))
    for name, values in latents.items():
        clean += (
            unit(filtered(values, [1.0], float(np.exp(-1 / time)))) * truth[name] * rng.uniform(0.7, 1.3, CHANNELS)
        )
    channels = clean + NOISE * rng.standard_normal(clean.shape)
    return Situation(channels, {name: latents[name] for name in "ab"}, {name: truth[name] for name in "ab"})


@history("sensors that take 5 steps to follow, in much noise")
def _lagging_five(rng: Rng) -> Situation:
    return _lagging(rng, 5)


@history("sensors that take 20 steps to follow, in much noise")
def _lagging_twenty(rng: Rng) -> Situation:
    return _lagging(rng, 20)


@history("to and fro: position, speed and direction, spikes")
def _laps(rng: Rng) -> Situation:
    speed = np.exp(0.4 * ornstein(rng, 40))
    phase = np.cumsum(speed / 100)[:, None]
    place, away = np.abs(phase % 2 - 1), (phase[:, 0] % 2 < 1).astype(int)
    truth = carriers(rng, ["place", "speed", "direction"])
    rate = np.full((STEPS, CHANNELS), -1.5)
    for i in range(CHANNELS):
        field = np.exp(-0.5 * ((place[:, 0] - rng.random()) / 0.15) ** 2)
        rate[:, i] += truth["place"][i] * rng.uniform(0.5, 1.5) * field
        rate[:, i] += truth["speed"][i] * rng.uniform(0.2, 0.4) * unit(np.log(speed))[:, 0]
        rate[:, i] += truth["direction"][i] * rng.uniform(0.4, 0.8) * away
    channels = rng.poisson(np.exp(rate)).astype(float)
    return Situation(channels, {"place": place, "speed": speed, "direction": away}, truth)


@history("heading and angular velocity, spikes")
def _heading(rng: Rng) -> Situation:
    turning = ornstein(rng, 6)
    heading = np.cumsum(0.15 * turning)
    truth = carriers(rng, ["heading", "turning"])
    rate = np.full((STEPS, CHANNELS), -2.0)
    for i in range(CHANNELS):
        rate[:, i] += truth["heading"][i] * rng.uniform(0.7, 1.5) * np.cos(heading - rng.uniform(0, 2 * np.pi))
        rate[:, i] += truth["turning"][i] * rng.uniform(0.25, 0.5) * turning[:, 0]
    around = np.stack([np.cos(heading), np.sin(heading)], axis=1)
    return Situation(rng.poisson(np.exp(rate)).astype(float), {"heading": around, "turning": turning}, truth)
