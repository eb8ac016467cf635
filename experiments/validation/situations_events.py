"""Situations with events that are rare and soon over, as licks and rewards are, and with a sensor that is cut off.

Somebody who knew what the library promises, and nothing of how it goes about it, found that events given as numbers
led to false calls (rates of 0.1 to 0.3), to calls that were lost, and at times to an error, and that nothing was
said of a variable that was cut off. These generators were written afterwards, when this had been mended.
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
    correlated,
    filtered,
    noisy,
    ornstein,
    registry,
    signals,
    tuned,
    unit,
)

__all__ = ["EVENTS"]

EVENTS: dict[str, Callable[[Rng], Situation]] = {}
"""Name -> generator."""


events = registry(EVENTS)


def _with_events(rng: Rng, rate: float, decay: float) -> Situation:
    """a : events, of which channels keep a trace, `decay` of it at each step. b and a hidden h are slow."""
    a = (rng.random((STEPS, 1)) < rate).astype(float)
    slow = {"b": ornstein(rng, 30), "h": ornstein(rng, 40)}
    truth = carriers(rng, ["a", "b", "h"])
    clean = unit(filtered(a, [1.0], decay)) * truth["a"] * rng.uniform(0.7, 1.3, CHANNELS)
    for name, values in slow.items():
        for i in np.flatnonzero(truth[name]):
            clean[:, i] += tuned(rng, values)
    return Situation(noisy(rng, unit(clean)), {"a": a, "b": slow["b"]}, {name: truth[name] for name in "ab"})


@events("a is an event, in 0.6% of time steps")
def _rare(rng: Rng) -> Situation:
    return _with_events(rng, 0.006, 0.0)


@events("a is an event, in 2% of time steps")
def _some(rng: Rng) -> Situation:
    return _with_events(rng, 0.02, 0.0)


@events("responses to a rare event fade in 20 steps")
def _fading(rng: Rng) -> Situation:
    return _with_events(rng, 0.006, float(np.exp(-1 / 20)))


@events("a is cut off at one SD, b moves with it (0.7)")
def _cut_off(rng: Rng) -> Situation:
    latents = correlated(rng, 0.7)
    truth = carriers(rng, list(latents))
    channels = noisy(rng, signals(rng, latents, truth))
    measured = {"a": np.minimum(unit(latents["a"]), 1.0), "b": latents["b"]}
    return Situation(channels, measured, {name: truth[name] for name in "ab"})
