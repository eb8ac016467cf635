"""A recording made by two random networks: latents wander in a box, and which channels carry which is known.

These are the verification data of Schneider et al. (2025), section 5 and appendix B.1. The latents z take Gaussian
steps truncated to [-1, 1]. The hidden ones, z₁, drive all channels; the observed ones, z₂, only the second group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from ..data.recording import Recording
from ..support.array_shapes import Array, Float, shaped

__all__ = ["BoxRecording", "Mixing", "box", "wander"]

SLOPE = 0.2
"""Slope of the leaky rectifier on its negative side."""


@shaped
def wander(rng: np.random.Generator, steps: int, dim: int, step_size: float) -> Float[Array, "{steps} {dim}"]:
    """A random walk in the box [-1, 1]^dim, its steps Gaussian and truncated to stay inside: (steps, dim).

    >>> z = wander(np.random.default_rng(0), 1000, 2, 0.1)
    >>> z.shape, bool(np.abs(z).max() <= 1)
    ((1000, 2), True)
    """
    out = np.empty((steps, dim))
    for column in out.T:
        # A truncated draw depends on where the last one ended, so this is a loop over time; plain floats keep it at
        # a tenth of a microsecond a step.
        spare, path, place = iter(()), [], float(rng.uniform(-1, 1))
        for _ in range(steps):
            while True:
                jump = next(spare, None)
                if jump is None:
                    spare = iter((step_size * rng.standard_normal(steps)).tolist())
                    continue
                if -1 <= place + jump <= 1:
                    break
            place += jump
            path.append(place)
        column[:] = path
    return out


@dataclass(frozen=True)
class Mixing:
    """An injective network from latents to channels: linear layers with leaky rectifiers between them.

    Every layer keeps or raises the dimension with a well-conditioned matrix, the best of many random ones.
    """

    layers: tuple[np.ndarray, ...]

    @classmethod
    def random(cls, rng: np.random.Generator, dim: int, channels: int, depth: int = 3, tries: int = 200) -> Mixing:
        """Draw a network of `depth` layers; raises if there are fewer channels than latents."""
        if channels < dim:
            raise ValueError(f"{channels} channels cannot carry {dim} latents: an injective map needs as many.")
        layers = []
        for inputs in [dim] + [channels] * (depth - 1):
            draws = rng.uniform(-1, 1, (tries, channels, inputs))
            draws /= np.linalg.norm(draws, axis=1, keepdims=True)
            layers.append(draws[np.argmin(np.linalg.cond(draws))])
        return cls(tuple(layers))

    @shaped
    def __call__(self, z: Float[Array, "time dim"]) -> Float[Array, "time channel"]:
        """(time, dim) -> (time, channel)."""
        for layer in self.layers[:-1]:
            z = z @ layer.T
            z = np.where(z > 0, z, SLOPE * z)
        return z @ self.layers[-1].T

    @shaped
    def jacobian(self, z: Float[Array, "time dim"]) -> Float[Array, "time channel dim"]:
        """∂x/∂z at each step: (time, dim) -> (time, channel, dim)."""
        product = np.broadcast_to(np.eye(z.shape[1]), (len(z), z.shape[1], z.shape[1]))
        for layer in self.layers[:-1]:
            z = z @ layer.T
            product = np.where(z > 0, 1, SLOPE)[:, :, None] * (layer @ product)
            z = np.where(z > 0, z, SLOPE * z)
        return self.layers[-1] @ product


class BoxRecording(Recording):
    """A simulated recording, with all that it was made from.

    latents : (time, latent), the hidden ones first.
    mixings : the networks of the two channel groups; the first sees the hidden latents only.
    outputs : (channel,) which of the outputs of the two networks, counted through, each channel is.
    """

    latents: np.ndarray
    mixings: tuple[Mixing, Mixing]
    outputs: np.ndarray
    along_time = ("latents",)
    along_channels = ("outputs",)

    @shaped
    def jacobian(self, index: Sequence[int] | np.ndarray | slice) -> Float[Array, "time channel latent"]:
        """The true ∂x/∂z at some time steps: (len(index), channel, latent)."""
        g1, g2 = self.mixings
        z, hidden = self.latents[index], g1.layers[0].shape[1]
        first = np.zeros((len(z), g1.layers[-1].shape[0], z.shape[1]))
        first[..., :hidden] = g1.jacobian(z[:, :hidden])
        return np.concatenate([first, g2.jacobian(z)], axis=1)[:, self.outputs]


def box(
    seed: int = 0,
    observed: int = 3,
    hidden: int = 3,
    channels: Sequence[int] = (25, 25),
    steps: int = 100_000,
    *,
    step_size: float = 0.1,
    snr: float | None = None,
) -> BoxRecording:
    """A recording of channels that carry hidden latents, and half of them the observed variables as well.

    Parameters
    ----------
    seed : different seeds have different latents and different mixing networks.
    observed, hidden : number of latents that are given as variables, and that are not.
    channels : sizes of two groups; the first carries the hidden latents only, the second all of them.
    steps : number of time steps.
    step_size : standard deviation of the Gaussian step, the box being 2 wide.
    snr : variance of each channel over the variance of white noise added to it; None for no noise.

    Returns
    -------
    BoxRecording whose variables are the observed latents ("x", "y", "z"; "c0", "c1", ... if more than three), with
    `.truth` (channel, space) for the spaces "position" (observed) and "rest" (hidden), `.latents` and the
    true `.jacobian(index)`.

    Examples
    --------
    >>> data = box(observed=2, hidden=1, channels=(4, 6), steps=500)
    >>> data.X.shape, list(data.variables), int(data.truth.sel(space="position").sum())
    ((500, 10), ['x', 'y'], 6)
    """
    if observed < 1 or hidden < 1 or steps < 2:
        raise ValueError(
            f"box(observed={observed}, hidden={hidden}, steps={steps}): expected at least 1, 1 and 2 of them."
        )
    rng = np.random.default_rng(seed)
    first, second = channels
    z1, z2 = wander(rng, steps, hidden, step_size), wander(rng, steps, observed, step_size)
    z = np.concatenate([z1, z2], axis=1)
    g1, g2 = Mixing.random(rng, hidden, first), Mixing.random(rng, hidden + observed, second)
    X = np.concatenate([g1(z1), g2(z)], axis=1)
    if snr is not None:
        X = X + rng.standard_normal(X.shape) * X.std(0) / np.sqrt(snr)
    names = ["x", "y", "z"][:observed] if observed <= 3 else [f"c{k}" for k in range(observed)]
    labels = [f"channel{k}" for k in range(first + second)]
    truth = np.stack([np.arange(first + second) >= first, np.ones(first + second, dtype=bool)], axis=1)
    recording = BoxRecording(
        pd.DataFrame(X, columns=labels),
        pd.DataFrame(z2, columns=names),
        truth=xr.DataArray(
            truth,
            dims=("channel", "space"),
            coords={"channel": labels, "space": ["position", "rest"]},
        ),
    )
    recording.latents, recording.mixings, recording.outputs = z, (g1, g2), np.arange(first + second)
    return recording
