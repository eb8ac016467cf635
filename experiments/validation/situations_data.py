"""Recordings of the situations: variables a and b, something hidden, 40 channels that carry some of them.

Every generator takes a random generator and returns a `Situation`: channels, variables as spaces, and which
channels carry which space. Tuning is a random network of two layers over all that a channel carries, plus one of
each alone, at a signal-to-noise ratio of 1.5; a latent is carried by 45% of the channels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import signal

__all__ = [
    "SITUATIONS",
    "Situation",
    "carriers",
    "correlated",
    "filtered",
    "fold",
    "noisy",
    "ornstein",
    "recorded",
    "registry",
    "signals",
    "three",
    "tuned",
    "unit",
    "walk",
]

STEPS, CHANNELS, CARRY, SNR = 10_000, 40, 0.45, 1.5
Rng = np.random.Generator


class Situation(NamedTuple):
    """channels (time, channel); variables: space -> (time, k), or labels (time,) of integers; truth: space ->
    (channel,) booleans."""

    channels: np.ndarray
    variables: dict[str, np.ndarray]
    truth: dict[str, np.ndarray]


SITUATIONS: dict[str, Callable[[Rng], Situation]] = {}
"""Name -> generator."""


def registry(situations: dict[str, Callable[[Rng], Situation]]):
    """A decorator that registers a generator in a set of situations, under the name that tables show.

    >>> some = {}
    >>> situation = registry(some)
    >>> @situation("nothing happens")
    ... def _nothing(rng): ...
    >>> list(some)
    ['nothing happens']
    """

    def named(name: str):
        def register(make: Callable[[Rng], Situation]):
            situations[name] = make
            return make

        return register

    return named


situation = registry(SITUATIONS)


def unit(values: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1."""
    return (values - values.mean(0)) / values.std(0)


def filtered(drive: np.ndarray, weights: np.ndarray | list[float], decay: float = 0.0) -> np.ndarray:
    """x(t) = decay x(t - 1) + a weighted sum of the drive: (time, k)."""
    out: Any = signal.lfilter(weights, [1, -decay], drive, axis=0)
    return out


def ornstein(rng: Rng, time: float, steps: int = STEPS) -> np.ndarray:
    """An Ornstein-Uhlenbeck process of that correlation time: (steps, 1)."""
    decay = np.exp(-1 / time)
    drive = np.sqrt(1 - decay**2) * rng.standard_normal((steps + 5 * int(time), 1))
    return filtered(drive, [1], decay)[-steps:]


def fold(path: np.ndarray) -> np.ndarray:
    """A path reflected at -1 and 1."""
    return np.abs((path + 1) % 4 - 2) - 1


def walk(rng: Rng, steps: int = STEPS, size: float | np.ndarray = 0.1) -> np.ndarray:
    """A reflected random walk: (steps, 1)."""
    return fold(rng.uniform(-1, 1) + np.cumsum(size * rng.standard_normal((steps, 1)), axis=0))


def tuned(rng: Rng, latents: np.ndarray) -> np.ndarray:
    """A random smooth function of latents (time, k): (time,), of variance 1."""
    out = latents
    for width in (16, 16):
        out = out @ rng.standard_normal((out.shape[1], width)) / np.sqrt(out.shape[1] / 2)
        out = out + 0.6 * rng.standard_normal(width)
        out = np.where(out > 0, out, 0.2 * out)
    return unit(out @ rng.standard_normal((16, 1)))[:, 0]


def carriers(rng: Rng, names: list[str], channels: int = CHANNELS) -> dict[str, np.ndarray]:
    """Which channels carry which latent; each carries at least one."""
    carried = rng.random((channels, len(names))) < CARRY
    carried[np.arange(channels), rng.integers(0, len(names), channels)] |= ~carried.any(1)
    return {name: carried[:, k] for k, name in enumerate(names)}


def signals(rng: Rng, latents: dict[str, np.ndarray], truth: dict[str, np.ndarray]) -> np.ndarray:
    """Noiseless channels: (time, channel)."""
    out = []
    for i in range(len(truth[next(iter(latents))])):
        own = [unit(value) for name, value in latents.items() if truth[name][i]]
        joint = tuned(rng, np.concatenate([value * np.exp(rng.uniform(-0.4, 0.4)) for value in own], axis=1))
        out.append(joint + 0.5 * sum(tuned(rng, value) for value in own))
    return unit(np.stack(out, axis=1))


def noisy(rng: Rng, clean: np.ndarray) -> np.ndarray:
    """With white Gaussian noise."""
    return clean + rng.standard_normal(clean.shape) / np.sqrt(SNR)


def recorded(rng: Rng, latents: dict[str, np.ndarray], measured: dict[str, np.ndarray] | None = None) -> Situation:
    """Channels that carry latents, of which a and b (or `measured`) are known."""
    truth = carriers(rng, list(latents))
    known = {name: latents[name] for name in ("a", "b")} if measured is None else measured
    return Situation(noisy(rng, signals(rng, latents, truth)), known, {name: truth[name] for name in known})


def three(rng: Rng, steps: int = STEPS) -> dict[str, np.ndarray]:
    """Independent walks a, b, h."""
    return {name: walk(rng, steps) for name in "abh"}


def correlated(rng: Rng, by: float | np.ndarray) -> dict[str, np.ndarray]:
    """Processes whose a and b correlate."""
    a, own, h = (ornstein(rng, 80) for _ in range(3))
    return {"a": a, "b": by * a + np.sqrt(1 - by**2) * own, "h": h}


def with_error(rng: Rng, value: np.ndarray, share: float) -> np.ndarray:
    """White measurement error, as a share of the standard deviation."""
    return value + share * value.std() * rng.standard_normal(value.shape)


situation("independent walks")(lambda rng: recorded(rng, three(rng)))
situation("correlation 0.7")(lambda rng: recorded(rng, correlated(rng, 0.7)))
for _share in (0.15, 0.30):

    @situation(f"tracker noise {_share:.0%}, correlation 0.7")
    def _tracker(rng: Rng, share: float = _share) -> Situation:
        latents = correlated(rng, 0.7)
        return recorded(rng, latents, {name: with_error(rng, latents[name], share) for name in "ab"})


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "|a - 1/2|": lambda u: np.abs(u - 0.5),
    "sin 2πa": lambda u: np.sin(2 * np.pi * u),
    "sin 4πa": lambda u: np.sin(4 * np.pi * u),
    "cos πa": lambda u: np.cos(np.pi * u),
    "a step of a": lambda u: (u > 0.5).astype(float),
}
for _name, _function in FUNCTIONS.items():

    @situation(f"b is {_name} plus a little")
    def _of_a(rng: Rng, function: Callable = _function) -> Situation:
        latents = three(rng)
        latents["b"] = unit(function((latents["a"] + 1) / 2)) + 0.25 * unit(walk(rng))
        return recorded(rng, latents)


@situation("correlation changes sign half way")
def _flip(rng: Rng) -> Situation:
    return recorded(rng, correlated(rng, np.where(np.arange(STEPS) < STEPS / 2, 0.7, -0.7)[:, None]))


for _name, _time in {"slow": 500, "fast": 20}.items():

    @situation(f"arousal scales the moves, {_name}")
    def _arousal(rng: Rng, time: int = _time) -> Situation:
        size = 0.05 * np.exp(ornstein(rng, time))
        return recorded(rng, {"a": walk(rng, size=size), "b": walk(rng, size=size), "h": walk(rng)})


@situation("a label per trial that nothing carries, drift")
def _label(rng: Rng) -> Situation:
    b = walk(rng)
    found = recorded(rng, {"b": b, "h": walk(rng)}, {"b": b})
    drift = unit(np.cumsum(rng.standard_normal((STEPS, CHANNELS)), axis=0))
    labels = np.repeat(rng.integers(0, 4, STEPS // 100), 100)
    nobody = np.zeros(CHANNELS, bool)
    return Situation(found.channels + drift, {"a": labels, "b": b}, {"a": nobody, **found.truth})


@situation("a label per trial, drift")
def _carried_label(rng: Rng) -> Situation:
    labels, b = np.repeat(rng.integers(0, 4, STEPS // 100), 100), walk(rng)
    found = recorded(rng, {"a": rng.standard_normal((4, 1))[labels], "b": b, "h": walk(rng)}, {"a": labels, "b": b})
    drift = unit(np.cumsum(rng.standard_normal((STEPS, CHANNELS)), axis=0))
    return found._replace(channels=found.channels + 0.5 * drift)


@situation("channels drift")
def _drift(rng: Rng) -> Situation:
    found = recorded(rng, three(rng))
    return found._replace(
        channels=found.channels + 2 * unit(np.cumsum(rng.standard_normal((STEPS, CHANNELS)), axis=0))
    )


@situation("hidden latent moves with a (0.5)")
def _company(rng: Rng) -> Situation:
    push = rng.standard_normal((STEPS, 3))
    push[:, 2] = 0.5 * push[:, 0] + np.sqrt(0.75) * push[:, 2]
    paths = filtered(push, [1], 0.99)
    return recorded(rng, {"a": paths[:, :1], "b": paths[:, 1:2], "h": paths[:, 2:]})


@situation("velocity of a is hidden")
def _velocity(rng: Rng) -> Situation:
    speed = ornstein(rng, 10)
    return recorded(rng, {"a": fold(0.05 * np.cumsum(speed, axis=0)), "b": walk(rng), "h": speed})


@situation("a follows a hidden latent")
def _follows(rng: Rng) -> Situation:
    h = walk(rng)
    drive = 0.1 * np.r_[[[0.0]], h[:-1]] + 0.03 * rng.standard_normal((STEPS, 1))
    return recorded(rng, {"a": filtered(drive, [1], 0.95), "b": walk(rng), "h": h})


@situation("two noisy trackers of one thing")
def _trackers(rng: Rng) -> Situation:
    a = ornstein(rng, 80)
    found = recorded(rng, {"a": a, "h": walk(rng)}, {"a": with_error(rng, a, 0.2)})
    nobody = np.zeros(CHANNELS, bool)
    return found._replace(
        variables={**found.variables, "b": with_error(rng, a, 0.2)}, truth={**found.truth, "b": nobody}
    )


@situation("periodic variables")
def _periodic(rng: Rng) -> Situation:
    time = 2 * np.pi * np.arange(STEPS)[:, None]
    return recorded(rng, {"a": np.sin(time / 97), "b": np.sin(time / 211 + 1), "h": walk(rng)})


@situation("an angle at constant speed")
def _wheel(rng: Rng) -> Situation:
    angle = 2 * np.pi * np.arange(STEPS)[:, None] / 150
    return recorded(rng, {"a": np.concatenate([np.cos(angle), np.sin(angle)], 1), "b": walk(rng), "h": walk(rng)})


for _jitter in (0.05, 0.20):

    @situation(f"to and fro on a track, jitter {_jitter:.0%}")
    def _track(rng: Rng, jitter: float = _jitter) -> Situation:
        place = fold(np.cumsum(0.04 * (1 + jitter * rng.standard_normal((STEPS, 1))), axis=0))
        return recorded(rng, {"a": place, "b": walk(rng), "h": walk(rng)})


@situation("circular track: (x, y) and angle")
def _circle(rng: Rng) -> Situation:
    angle = np.cumsum(0.1 * rng.standard_normal((STEPS, 1)), axis=0)
    place = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
    found = recorded(rng, {"a": place, "h": walk(rng)}, {"a": place})
    return found._replace(
        variables={"a": place, "b": place.copy()}, truth={"a": found.truth["a"], "b": found.truth["a"]}
    )


@situation("a zone label of a beside a")
def _zone(rng: Rng) -> Situation:
    a = walk(rng)
    found = recorded(rng, {"a": a, "h": walk(rng)}, {"a": a})
    zone = np.digitize(a[:, 0], [-0.5, 0.0, 0.5])
    return found._replace(variables={"a": a, "b": zone}, truth={"a": found.truth["a"], "b": found.truth["a"]})


@situation("sparse counts (0.03 a bin)")
def _sparse(rng: Rng) -> Situation:
    found = recorded(rng, three(rng))
    rate = np.exp(1.2 * found.channels)
    return found._replace(channels=rng.poisson(0.03 * rate / rate.mean(0)).astype(float))


@situation("heavy-tailed noise (t, 1.5)")
def _heavy(rng: Rng) -> Situation:
    latents = three(rng)
    truth = carriers(rng, list(latents))
    noise = rng.standard_t(1.5, (STEPS, CHANNELS)) / np.sqrt(SNR)
    return Situation(
        signals(rng, latents, truth) + noise,
        {name: latents[name] for name in "ab"},
        {name: truth[name] for name in "ab"},
    )


@situation("channels lead or lag by up to 10")
def _lagged(rng: Rng) -> Situation:
    latents = three(rng)
    truth = carriers(rng, list(latents))
    clean = signals(rng, latents, truth)
    shifted = np.stack([np.roll(column, rng.integers(-10, 11)) for column in clean.T], axis=1)
    known = {name: latents[name] for name in "ab"}
    return Situation(noisy(rng, shifted), known, {name: truth[name] for name in known})


@situation("teleports")
def _teleports(rng: Rng) -> Situation:
    def path() -> np.ndarray:
        jump = np.where(rng.random((STEPS, 1)) < 0.01, rng.uniform(-2, 2, (STEPS, 1)), 0.0)
        return (np.cumsum(0.1 * rng.standard_normal((STEPS, 1)) + jump, axis=0) + 1) % 2 - 1

    return recorded(rng, {"a": path(), "b": path(), "h": walk(rng)})


@situation("a ramp within trials")
def _ramp(rng: Rng) -> Situation:
    ramp = (np.arange(STEPS)[:, None] % 100) / 100
    return recorded(rng, {"a": ramp, "b": walk(rng), "h": walk(rng)})


@situation("interactions only")
def _interactions(rng: Rng) -> Situation:
    latents = {name: unit(value)[:, 0] for name, value in three(rng).items()}
    pairs = [("a", "b"), ("a", "h"), ("b",), ("h",)]
    which = rng.choice(4, CHANNELS, p=[0.3, 0.3, 0.2, 0.2])
    clean = unit(np.stack([np.prod([latents[name] for name in pairs[k]], axis=0) for k in which], axis=1))
    truth = {name: np.array([name in pairs[k] for k in which]) for name in "ab"}
    return Situation(noisy(rng, clean), {name: latents[name][:, None] for name in "ab"}, truth)


@situation("derivatives only")
def _derivatives(rng: Rng) -> Situation:
    smooth = {name: filtered(ornstein(rng, 30), np.ones(5) / 5) for name in "ab"}
    latents = {**{name: np.gradient(value, axis=0) for name, value in smooth.items()}, "h": walk(rng)}
    which = np.array(["a", "b", "h"])[rng.choice(3, CHANNELS, p=[0.4, 0.4, 0.2])]
    clean = np.stack([tuned(rng, unit(latents[name])) for name in which], axis=1)
    return Situation(noisy(rng, clean), smooth, {name: which == name for name in "ab"})


@situation("three variables, interactions of two")
def _three_variables(rng: Rng) -> Situation:
    label = np.cumsum(rng.random(STEPS) < 0.1) % 3
    values = {"a": unit(walk(rng))[:, 0], "b": unit(walk(rng))[:, 0], "c": np.array([-1.2, 0.2, 1.0])[label]}
    carried = [("a",), ("b",), ("c",), ("a", "c"), ("a", "b"), ("b", "c")]
    which = rng.choice(len(carried), CHANNELS)
    clean = unit(np.stack([np.prod([values[name] for name in carried[k]], axis=0) for k in which], axis=1))
    known = {"a": values["a"][:, None], "b": values["b"][:, None], "c": label}
    return Situation(
        noisy(rng, clean), known, {name: np.array([name in carried[k] for k in which]) for name in known}
    )


@situation("values of a missing at times")
def _missing(rng: Rng) -> Situation:
    found = recorded(rng, three(rng))
    a = found.variables["a"].copy()
    a[rng.random(STEPS) < 0.05] = np.nan
    return found._replace(variables={**found.variables, "a": a})


for _steps in (1_000, 2_000, 3_000):
    situation(f"{_steps:,} steps")(lambda rng, steps=_steps: recorded(rng, three(rng, steps)))


@situation("20,000 steps, 100 channels")
def _large(rng: Rng) -> Situation:
    latents = three(rng, 20_000)
    truth = carriers(rng, list(latents), 100)
    known = {name: latents[name] for name in "ab"}
    return Situation(noisy(rng, signals(rng, latents, truth)), known, {name: truth[name] for name in known})
