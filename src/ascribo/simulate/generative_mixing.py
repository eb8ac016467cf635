"""Mixings: the injective function g from latents to observations, and a check of one that a user wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from .box import SLOPE, Mixing

__all__ = ["LeakyMixing", "MixingFunction", "check_injective", "leaky_mixing"]

MixingFunction = Callable[[Tensor], Tensor]
"""(..., dim) -> (..., channel)."""


class LeakyMixing:
    """Linear layers without bias, leaky rectifiers between them.

    weights : for each layer (channel, input), or (model, channel, input) for a stack of mixings. slope : of the
        rectifier on its negative side.

    >>> mixing = LeakyMixing([torch.eye(2), -torch.eye(2)])
    >>> mixing(torch.tensor([[1.0, -1.0]]))
    tensor([[-1.0000,  0.2000]])
    """

    def __init__(self, weights: Sequence[Tensor], slope: float = SLOPE):
        if not slope > 0:
            raise ValueError(
                f"slope={slope!r}: with a slope of 0 or less the rectifier maps different latents to the same "
                "observation, and no encoder can tell them apart. Use a number above 0."
            )
        self.weights, self.slope = list(weights), float(slope)

    @classmethod
    def stacked(cls, mixings: Sequence[LeakyMixing]) -> LeakyMixing:
        """Several mixings of one shape as one function of (model, ..., dim)."""
        layers = zip(*(mixing.weights for mixing in mixings), strict=True)
        return cls([torch.stack(layer) for layer in layers], mixings[0].slope)

    @property
    def channels(self) -> int:
        """How many observations there are."""
        return self.weights[-1].shape[-2]

    def to(self, device: torch.device | str) -> LeakyMixing:
        """The same on a device."""
        return LeakyMixing([weight.to(device) for weight in self.weights], self.slope)

    def __call__(self, z: Tensor) -> Tensor:
        """Observations (..., channel) of latents (..., dim)."""
        for k, weight in enumerate(self.weights):
            if k:
                z = nn.functional.leaky_relu(z, self.slope)
            z = z @ weight.to(z).mT
        return z

    def inverse(self, x: Tensor) -> Tensor:
        """Latents (..., dim) of observations (..., channel): the least-squares solution of each layer."""
        for k, weight in reversed(list(enumerate(self.weights))):
            x = x @ torch.linalg.pinv(weight.to(x)).mT
            if k:
                x = nn.functional.leaky_relu(x, 1 / self.slope)
        return x


def leaky_mixing(
    dim: int,
    layers: int = 3,
    *,
    channels: int | None = None,
    slope: float = SLOPE,
    seed: int = 0,
    draws: int | None = None,
) -> LeakyMixing:
    """A random invertible network, as Zimmermann et al. (2021) use it.

    The weights of a layer are uniform from -1 to 1, its columns have length 1, and it is the best conditioned of
    many draws. With `channels` above `dim` the first layer widens (Schneider et al. 2025, appendix B.1).

    Parameters
    ----------
    dim, channels : latents and observations; None: as many observations as latents.
    layers : linear layers; between them are leaky rectifiers of the given slope. With one layer the mixing is
        linear.
    seed : different seeds have different weights.
    draws : how many matrices each layer is chosen from. None: 3,000 for 10 dimensions, fewer for more.

    Examples
    --------
    >>> mixing = leaky_mixing(4, layers=2, draws=100)
    >>> z = torch.rand(10, 4, dtype=torch.float64)
    >>> bool(torch.allclose(mixing.inverse(mixing(z)), z))
    True
    """
    if dim < 1 or layers < 1:
        raise ValueError(f"dim={dim!r}, layers={layers!r}: expected at least one dimension and one layer.")
    channels = dim if channels is None else channels
    draws = int(np.clip(3e6 / max(dim, channels) ** 3, 50, 3_000)) if draws is None else draws
    drawn = Mixing.random(np.random.default_rng([seed, dim, channels]), dim, channels, layers, draws)
    return LeakyMixing([torch.from_numpy(layer) for layer in drawn.layers], slope)


def check_injective(mixing: MixingFunction, latents: Tensor) -> int:
    """Refuse a mixing that is not one to one near the given latents (n, dim); return its number of observations.

    The Jacobian must have full rank everywhere, and if there are as many observations as latents its determinant
    must have one sign: a map that folds has both. Maps that meet themselves elsewhere pass.

    >>> check_injective(lambda z: z**3 + z, torch.randn(50, 2, dtype=torch.float64))
    2
    >>> check_injective(torch.abs, torch.randn(50, 2, dtype=torch.float64))
    Traceback (most recent call last):
    ...
    ValueError: mixing: it folds (the determinant of its Jacobian has both signs), so that different ...
    """
    x = mixing(latents)
    if x.ndim != 2 or len(x) != len(latents) or not torch.isfinite(x).all():
        raise ValueError(
            f"mixing: for latents of shape {tuple(latents.shape)} it returned {tuple(x.shape)}; expected "
            f"({len(latents)}, channel), all of it finite."
        )
    dim, channels = latents.shape[1], x.shape[1]
    if channels < dim:
        raise ValueError(f"mixing: {channels} observations cannot carry {dim} latents; give at least {dim}.")
    jacobian = torch.func.vmap(torch.func.jacfwd(lambda z: mixing(z[None])[0]))(latents)
    values = torch.linalg.svdvals(jacobian)
    if not (values[:, -1] > 1e-6 * values[:, 0].max()).all():
        raise ValueError(
            "mixing: its Jacobian does not have full rank at some latents, so that different latents give the same "
            "observation and no encoder can tell them apart. Use an injective function."
        )
    signs = torch.linalg.det(jacobian).sign() if channels == dim else torch.ones(1)
    if signs.min() != signs.max():
        raise ValueError(
            "mixing: it folds (the determinant of its Jacobian has both signs), so that different latents give the "
            "same observation and no encoder can tell them apart. Use an injective function."
        )
    return channels
