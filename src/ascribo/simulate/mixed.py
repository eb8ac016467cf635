"""A recording with mixed selectivity: every channel carries its own random subset of several spaces.

In `box` the channels come in two groups. Here what a channel carries is drawn for each, so most channels carry more
than one space; the observed variables may be correlated across spaces, and channels may be counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd
import xarray as xr
from scipy.signal import lfilter
from scipy.special import ndtr

from ..data.recording import Recording
from .box import SLOPE, wander

__all__ = ["MixedRecording", "Tuning", "mixed"]

SPACES: Mapping[str, int] = MappingProxyType({"a": 1, "b": 2})
HIDDEN = "rest"
UNITS = 16
"""Rectifiers in each of the two layers of a channel's network."""
GAINS = (0.5, 2.0)
"""The weights of a carried space are scaled by a gain, log-uniform between these."""
FLOOR = 0.25
"""Least effect of a carried space, in equal shares of the channel's variance; else the network is drawn anew."""
LABEL = "label"
DWELL = 40
"""Time steps that a label lasts on average."""
RATES = (0.3, 3.0)
"""Counts per step at a drive of 0, log-uniform between these."""


@dataclass(frozen=True)
class Tuning:
    """One channel as a function of the latents it carries, and of no others.

    Linear layers with leaky rectifiers between them.

    latents : (d,) positions among all latents.
    layers : pairs of weights (inputs, outputs) and offsets (outputs,); the last has one output.
    """

    latents: np.ndarray
    layers: tuple[tuple[np.ndarray, np.ndarray], ...]

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """(time, latent) -> (time,)."""
        z = z[:, self.latents]
        for weights, offsets in self.layers[:-1]:
            z = z @ weights + offsets
            z = np.maximum(z, SLOPE * z)
        weights, offsets = self.layers[-1]
        return (z @ weights + offsets)[:, 0]


class MixedRecording(Recording):
    """A simulated recording, with all that it was made from.

    spaces : space -> names of its variables; the observed spaces only.
    latents : (time, latent), the hidden ones first, then the variables in order.
    tunings : channel -> its function of the latents.
    effects : (channel, space), the share of the channel's variance (without noise) that is lost when this space is
        unknown and all others are known, the latents being independent and uniform; an estimate, good to a few
        hundredths. Shares add up to more than 1 where spaces interact. 0 exactly where nothing is carried.
    correlation : mean Pearson correlation between numeric variables of different spaces, as realised.
    """

    spaces: dict[str, list[str]]
    latents: np.ndarray
    tunings: dict[str, Tuning]
    effects: xr.DataArray
    correlation: float
    along_time = ("latents",)
    along_channels = ("tunings", "effects")

    def drive(self, latents: np.ndarray) -> np.ndarray:
        """What the channels would be without noise (the log of the rate over its base, for counts).

        (time, latent) -> (time, channel).
        """
        return np.stack([self.tunings[name](latents) for name in self.channel_names], axis=1)


def mixed(
    seed: int = 0,
    spaces: Mapping[str, int] = SPACES,
    hidden: int = 2,
    channels: int = 50,
    steps: int = 20_000,
    *,
    carry: float = 0.4,
    correlation: float = 0.0,
    snr: float | None = None,
    step_size: float = 0.1,
    counts: bool = False,
    labels: int = 0,
) -> MixedRecording:
    """A recording with known truth in which every channel carries a random subset of the spaces.

    A channel is a random network of the latents it carries: two layers of 16 leaky rectifiers. Its terms interact,
    and a linear function gets about three quarters of its variance. Effects vary: the weights of each carried space
    have a gain that is log-uniform in [0.5, 2], and a network is kept only if each of its k spaces accounts for
    at least 0.25 / k of the channel's variance (`.effects` has the shares).

    Hidden latents are independent of the variables. One that is correlated with a variable cannot be told from it:
    the part that they share belongs to either, and there would be no truth to compare with.

    Parameters
    ----------
    seed : different seeds have different latents, truths and networks.
    spaces : name -> number of variables. They are called after the space: "b" with 2 has "b0" and "b1".
    hidden : number of latents that are not given, the space "rest"; 0 for none, which no channel then carries.
    channels, steps : size of the recording.
    carry : probability that a channel carries a space, independently for each space, "rest" included. A channel
        that drew none carries one, chosen uniformly; so with `carry=0` each channel carries exactly one.
    correlation : Pearson correlation of every pair of variables (also within a space: any value in [0, 1) is then
        possible). At 0 the variables take the independent truncated walks of `box`. Above 0 they are correlated
        Gaussian processes turned into uniform variables in [-1, 1], with the autocorrelation time of the walk,
        8 / (π step_size)² steps: 81 for a step size of 0.1. 20,000 steps are then no more than some 250 independent
        samples, and the realised correlation (`.correlation`) is off by several hundredths.
    snr : variance of each channel over the variance of white noise added to it; None for no noise.
    step_size : standard deviation of the walks' Gaussian step, the box being 2 wide.
    counts : channels are Poisson counts with rate base · exp(drive), the base log-uniform in [0.3, 3] per step.
    labels : if above 0, there is one more observed space, "label", whose one variable is text and takes this many
        values, each for 40 steps on average. Channels that carry it are a function of its number.

    Returns
    -------
    MixedRecording with `.truth` (channel, space) for all spaces and "rest", `.spaces`, `.latents`, `.effects`.

    Examples
    --------
    >>> data = mixed(spaces={"place": 2, "speed": 1}, channels=8, steps=500, snr=4)
    >>> data.X.shape, data.spaces, data.truth.dims, data.truth.shape
    ((500, 8), {'place': ['place0', 'place1'], 'speed': ['speed0']}, ('channel', 'space'), (8, 3))
    """
    _check(spaces, hidden, channels, steps, carry, correlation, snr, counts, labels)
    rng = np.random.default_rng(seed)
    unseen = wander(rng, steps, hidden, step_size)
    observed = sum(spaces.values())
    if correlation:
        seen = _correlated(rng, steps, observed, step_size, correlation)
    else:
        seen = wander(rng, steps, observed, step_size)
    variables = pd.DataFrame(seen, columns=[f"{name}{k}" for name, size in spaces.items() for k in range(size)])
    members = {name: [f"{name}{k}" for k in range(size)] for name, size in spaces.items()}
    if labels:
        number = _chain(rng, steps, labels)
        variables[LABEL] = np.array([f"label{k}" for k in range(labels)])[number]
        members[LABEL] = [LABEL]
        seen = np.column_stack([seen, 2 * number / (labels - 1) - 1])
    spaces = {name: len(own) for name, own in members.items()}
    z = np.concatenate([unseen, seen], axis=1)

    names = [*spaces, HIDDEN]
    sizes = [*spaces.values(), hidden]
    owner = np.concatenate([np.full(hidden, len(spaces)), np.repeat(np.arange(len(spaces)), sizes[:-1])])
    truth = rng.random((channels, len(names))) < carry
    if not hidden:
        truth[:, -1] = False
    empty = np.flatnonzero(~truth.any(1))
    truth[empty, rng.integers(len(names) if hidden else len(spaces), size=len(empty))] = True

    called = [f"channel{k}" for k in range(channels)]
    drawn = [_tuning(rng, owner, carried) for carried in truth]
    tunings = dict(zip(called, (tuning for tuning, _ in drawn), strict=True))
    X = np.stack([tuning(z) for tuning in tunings.values()], axis=1)
    if counts:
        X = rng.poisson(_log_uniform(rng, RATES, channels) * np.exp(X))
    elif snr is not None:
        X = X + rng.standard_normal(X.shape) * X.std(0) / np.sqrt(snr)

    coords = {"channel": called, "space": names}
    recording = MixedRecording(
        pd.DataFrame(X, columns=called),
        variables,
        truth=xr.DataArray(truth, dims=("channel", "space"), coords=coords),
    )
    recording.spaces, recording.latents, recording.tunings = members, z, tunings
    recording.effects = xr.DataArray([shares for _, shares in drawn], dims=("channel", "space"), coords=coords)
    numbers = slice(hidden, hidden + observed)
    across = owner[numbers, None] != owner[numbers]
    together = np.atleast_2d(np.corrcoef(z[:, numbers].T))
    recording.correlation = float(together[across].mean()) if across.any() else 0.0
    return recording


def _chain(rng: np.random.Generator, steps: int, labels: int) -> np.ndarray:
    """Numbers 0 to labels - 1, each followed by any of the others after 40 steps on average: (steps,)."""
    jump = np.where(rng.random(steps) < 1 / DWELL, rng.integers(1, labels, steps), 0)
    jump[0] = rng.integers(labels)
    return np.cumsum(jump) % labels


def _correlated(rng: np.random.Generator, steps: int, dim: int, step_size: float, correlation: float) -> np.ndarray:
    """Uniform variables in [-1, 1], every pair with this Pearson correlation: (steps, dim).

    Autoregressive Gaussians g with a common part, then 2Φ(g) - 1. Two such variables have the correlation
    6/π arcsin(r/2) where the Gaussians have r; a walk between walls has the slowest mode exp(-π² step_size² t / 8).
    """
    r = 2 * np.sin(np.pi * correlation / 6)
    decay = np.exp(-((np.pi * step_size) ** 2) / 8)
    jumps = np.sqrt(r) * rng.standard_normal((steps, 1)) + np.sqrt(1 - r) * rng.standard_normal((steps, dim))
    jumps[1:] *= np.sqrt(1 - decay**2)  # the first row starts the process in its stationary state
    return 2 * ndtr(lfilter([1.0], [1.0, -decay], jumps, axis=0)) - 1


def _tuning(
    rng: np.random.Generator, owner: np.ndarray, carried: np.ndarray, samples: int = 2000
) -> tuple[Tuning, np.ndarray]:
    """A network of the carried spaces, none of them with a vanishing effect; and their shares of its variance.

    owner : (latent,) the space of each latent. carried : (space,) booleans.
    """
    latents = np.flatnonzero(carried[owner])
    mine = owner[latents]
    sizes = np.bincount(owner, minlength=len(carried))
    box = rng.uniform(-1, 1, (samples, len(owner)))
    # a shift by one sample is an independent draw of the latents of a space
    others = [np.where(owner == k, np.roll(box, 1, axis=0), box) for k in np.flatnonzero(carried)]
    while True:
        gains = _log_uniform(rng, GAINS, len(carried)) / np.sqrt(np.maximum(sizes, 1))
        scale, layers, z = gains[mine, None], [], box[:, latents]
        for outputs in (UNITS, UNITS, 1):
            weights = scale * rng.standard_normal((z.shape[1], outputs))
            z = z @ weights
            # kinks lie where the data are; the channel itself has mean 0 and variance 1
            kinks = rng.uniform(-1, 1, outputs) * z.std(0) if outputs > 1 else 0.0
            size = z.std(0) if outputs == 1 else 1.0
            layers.append((weights / size, (kinks - z.mean(0)) / size))
            z = z + kinks - z.mean(0)
            z = np.maximum(z, SLOPE * z)
            scale = 1 / z.std(0)[:, None]
        tuning = Tuning(latents, tuple(layers))
        x = tuning(box)
        shares = np.zeros(len(carried))
        shares[carried] = [np.mean((x - tuning(other)) ** 2) / 2 for other in others]
        if shares[carried].min() >= FLOOR / carried.sum():
            return tuning, shares


def _log_uniform(rng: np.random.Generator, between: tuple[float, float], size: int) -> np.ndarray:
    low, high = np.log(between)
    return np.exp(rng.uniform(low, high, size))


def _check(
    spaces: Mapping[str, int],
    hidden: int,
    channels: int,
    steps: int,
    carry: float,
    correlation: float,
    snr: float | None,
    counts: bool,
    labels: int,
) -> None:
    if not spaces or HIDDEN in spaces or min(spaces.values()) < 1:
        raise ValueError(
            f"mixed(spaces={dict(spaces)}): expected one name or more, each with at least 1 variable, and none "
            f"called {HIDDEN!r}, which is the hidden one."
        )
    variables = [f"{name}{k}" for name, size in spaces.items() for k in range(size)]
    if len(set(variables)) < len(variables):
        raise ValueError(f"mixed(spaces={dict(spaces)}): two variables would have one name among {variables}.")
    if labels < 0 or labels == 1 or (labels and LABEL in spaces):
        raise ValueError(f"mixed(labels={labels}): expected 0, or at least 2, and no other space called {LABEL!r}.")
    if hidden < 0 or channels < 1 or steps < 2:
        raise ValueError(
            f"mixed(hidden={hidden}, channels={channels}, steps={steps}): expected at least 0, 1 and 2 of them."
        )
    if not 0 <= carry <= 1:
        raise ValueError(f"mixed(carry={carry}): expected a probability.")
    if not 0 <= correlation < 1:
        raise ValueError(f"mixed(correlation={correlation}): expected a number from 0 to below 1.")
    if snr is not None and (counts or not snr > 0):
        raise ValueError(
            f"mixed(snr={snr}, counts={counts}): expected a positive snr, and none with counts, whose noise is "
            "Poisson."
        )
