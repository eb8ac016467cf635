"""Situations in which channels carry a hidden state that scales the variables' moves, or a tracker misreports them.

Somebody else, who knew what the library promises and nothing of how it goes about it, wrote 150 generators. In some
of them channels were called for variables whose moves a state scales that these channels carry (rates of 0.11 and
0.38; those of `situations_data` have a state that no channel carries), or for one that goes with a variable
that a tracker lost and held (0.20), reported late (0.16), rounded (0.10) or measured now and then (0.19), that dips
after events whose responses come late (0.25), or that says what was chosen in the trial before (0.51). These
generators were written afterwards, when what can be mended had been.
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
    recorded,
    registry,
    tuned,
    unit,
    walk,
)

__all__ = ["STATES"]

STATES: dict[str, Callable[[Rng], Situation]] = {}
"""Name -> generator."""
TRIAL, PAUSE = 50, 15
"""Time steps of a trial, and of the pause at its end."""


state = registry(STATES)


for _name, _time in {"slow": 200, "fast": 15}.items():

    @state(f"arousal that channels carry scales the moves, {_name}")
    def _arousal(rng: Rng, time: int = _time) -> Situation:
        h = ornstein(rng, time)
        size = 0.05 * np.exp(0.8 * h)
        return recorded(rng, {"a": walk(rng, size=size), "b": walk(rng, size=size), "h": h})


def misreported(rng: Rng, report: Callable[[np.ndarray], np.ndarray]) -> Situation:
    """a and b correlate by 0.7, and a tracker makes something else of a."""
    latents = correlated(rng, 0.7)
    return recorded(rng, latents, {"a": report(latents["a"]), "b": latents["b"]})


@state("a tracker that loses a at times and holds its last value, correlation 0.7")
def _held(rng: Rng) -> Situation:
    lost = np.zeros(STEPS, bool)
    for start in rng.integers(100, STEPS, 60):
        lost[start : start + int(rng.exponential(25)) + 3] = True
    last = np.maximum.accumulate(np.where(lost, 0, np.arange(STEPS)))
    return misreported(rng, lambda a: a[last])


@state("a is reported 5 steps late, correlation 0.7")
def _reported_late(rng: Rng) -> Situation:
    return misreported(rng, lambda a: a[np.maximum(np.arange(STEPS) - 5, 0)])


@state("a is rounded to nine values, correlation 0.7")
def _rounded(rng: Rng) -> Situation:
    return misreported(rng, lambda a: np.round(1.5 * np.clip(a, -2.6, 2.6)))


@state("a is measured every ten steps, correlation 0.7")
def _now_and_then(rng: Rng) -> Situation:
    return misreported(rng, lambda a: a[np.arange(STEPS) // 10 * 10])


@state("events with late responses, and speed that dips after each")
def _dips(rng: Rng) -> Situation:
    events = (rng.random((STEPS, 1)) < 0.012).astype(float)
    dips = filtered(events, np.exp(-np.arange(40) / 12))
    speed, h = unit(ornstein(rng, 20)) - unit(dips), ornstein(rng, 50)
    truth = carriers(rng, ["events", "speed", "h"])
    out = np.zeros((STEPS, CHANNELS))
    for i in range(CHANNELS):
        if truth["events"][i]:
            kernel = np.r_[np.zeros(rng.integers(3, 18)), np.exp(-np.arange(40) / rng.uniform(3, 10))]
            out[:, i] += unit(filtered(events, kernel))[:, 0]
        out[:, i] += sum(tuned(rng, own) for name, own in {"speed": speed, "h": h}.items() if truth[name][i])
    known = {"events": events, "speed": speed}
    return Situation(noisy(rng, unit(out)), known, {name: truth[name] for name in known})


@state("what is chosen in a trial and what was in the one before, with pauses")
def _choices(rng: Rng) -> Situation:
    trials = STEPS // TRIAL
    choice = np.cumsum(rng.random(trials) < 0.25) % 2
    since = np.tile(np.arange(TRIAL), trials)
    labels = {"choice": np.repeat(choice, TRIAL), "before": np.repeat(np.r_[0, choice[:-1]], TRIAL)}
    truth, h = carriers(rng, [*labels, "h"]), ornstein(rng, 50)
    out = np.zeros((STEPS, CHANNELS))
    for i in range(CHANNELS):
        for name, own in labels.items():
            if truth[name][i]:
                out[:, i] += unit(own * np.exp(-(((since - rng.uniform(8, 25)) / 6) ** 2)))
        if truth["h"][i]:
            out[:, i] += tuned(rng, h)
    known = {name: np.where(since < TRIAL - PAUSE, own, 2) for name, own in labels.items()}
    return Situation(noisy(rng, unit(out)), known, {name: truth[name] for name in known})
