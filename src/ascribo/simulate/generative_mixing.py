"""Mixings: the injective function g from latents to observations, and a check of one that a user wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from .box import SLOPE, Mixing

__all__ = ["LeakyMixing", "MixingFunction", "check_injective", "leaky_mixing"]

SEARCH = 30
"""Steps of the search for two latents with one observation."""
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
        if not (np.isfinite(slope) and slope > 0):
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


def check_injective(
    mixing: MixingFunction, latents: Tensor, space: str = "unbounded", bounds: tuple[float, float] = (0.0, 1.0)
) -> int:
    """Refuse a mixing that is not one to one, as far as the given latents (n, dim) show; return its number of
    observations.

    The Jacobian must have full rank everywhere, and if there are as many observations as latents its determinant
    must have one sign: a map that folds has both. And where a search from other latents finds one of the same space
    with the same observation, it is shown. Maps that meet themselves where no search comes pass.

    space, bounds : of the latents, see `process`.

    >>> check_injective(lambda z: z**3 + z, torch.randn(50, 2))
    2
    >>> check_injective(torch.abs, torch.randn(50, 2))
    Traceback (most recent call last):
    ...
    ValueError: mixing: it folds (the determinant of its Jacobian has both signs), so that different ...
    >>> check_injective(lambda z: torch.cat([z**2, z**4], -1), torch.randn(50, 1))
    Traceback (most recent call last):
    ...
    ValueError: mixing: latents [...] and [...] have the same observation...
    """
    if not callable(mixing):
        raise ValueError(
            f"mixing={mixing!r}: expected a function from latents (n, dim) to observations (n, channel)."
        )
    z, x = _tried(mixing, latents)
    if x.ndim != 2 or len(x) != len(z) or not torch.isfinite(x).all():
        raise ValueError(
            f"mixing: for latents of shape {tuple(z.shape)} it returned {tuple(x.shape)}; expected "
            f"({len(z)}, channel), all of it finite."
        )
    dim, channels = z.shape[1], x.shape[1]
    if channels < dim:
        raise ValueError(f"mixing: {channels} observations cannot carry {dim} latents; give at least {dim}.")
    slopes = _slopes(mixing, z)
    values = torch.linalg.svdvals(slopes)
    smallest = 1e-6 if z.dtype == torch.float64 else 1e-4
    if not (values[:, -1] > smallest * values[:, 0].max()).all():
        raise ValueError(
            "mixing: its Jacobian does not have full rank at some latents, so that different latents give the same "
            "observation and no encoder can tell them apart. Use an injective function."
        )
    signs = torch.linalg.det(slopes).sign() if channels == dim else torch.ones(1)
    if signs.min() != signs.max():
        raise ValueError(
            "mixing: it folds (the determinant of its Jacobian has both signs), so that different latents give the "
            "same observation and no encoder can tell them apart. Use an injective function."
        )
    if (met := _same_observation(mixing, z, space, bounds)) is not None:
        one, other = ([round(float(value), 3) for value in latent] for latent in met)
        raise ValueError(
            f"mixing: latents {one} and {other} have the same observation, and no encoder can tell them apart. Use "
            "an injective function."
        )
    return channels


def _tried(mixing: MixingFunction, latents: Tensor) -> tuple[Tensor, Tensor]:
    """Latents and observations, in double precision if the mixing computes in it."""
    error: Exception | None = None
    for z in (latents.detach().double(), latents.detach().float()):
        try:
            x = mixing(z)
            if not isinstance(x, Tensor):
                raise TypeError(f"it returned {type(x).__name__}")
            again = mixing(z)
        except Exception as raised:  # whatever the user's function raises is told
            error = raised
            continue
        if not torch.equal(torch.nan_to_num(x), torch.nan_to_num(again)):
            raise ValueError("mixing: the same latents gave other observations when it was called again.")
        return z, x.detach()
    raise ValueError(
        f"mixing: called with a torch tensor of shape {tuple(latents.shape)}: {type(error).__name__}: {error}. "
        "Expected a function of torch tensors that returns one."
    ) from error


def _slopes(mixing: MixingFunction, z: Tensor) -> Tensor:
    """The Jacobian (n, channel, dim) at latents (n, dim)."""
    try:
        found = torch.func.vmap(torch.func.jacfwd(lambda own: mixing(own[None])[0]))(z)
    except Exception as error:  # functions of numpy and such as change their input
        raise ValueError(
            f"mixing: torch cannot differentiate it ({error}). Expected a function of torch tensors alone."
        ) from error
    assert isinstance(found, Tensor)
    return found.detach()


def _same_observation(
    mixing: MixingFunction, z: Tensor, space: str, bounds: tuple[float, float]
) -> tuple[Tensor, Tensor] | None:
    """Two latents of the space with one observation, if a search (Gauss-Newton) finds any from other latents."""
    target, at = mixing(z).detach(), z.roll(1, 0)
    size = z.std(0).mean() if len(z) > 1 else z.new_ones(())
    for _ in range(SEARCH):
        missing, slopes = target - mixing(at).detach(), _slopes(mixing, at)
        if space == "sphere":  # one more equation: the length is 1
            missing = torch.cat([missing, (1 - at.square().sum(1, keepdim=True)) / 2], 1)
            slopes = torch.cat([slopes, at[:, None]], 1)
        step = torch.linalg.lstsq(slopes, missing[..., None]).solution[..., 0]
        at = at + step * (size / step.norm(dim=1, keepdim=True).clamp_min(1e-12)).clamp(max=1)
        at = torch.where(torch.isfinite(at), at, z)
    exact = 1e-7 if z.dtype == torch.float64 else 1e-4
    same = (target - mixing(at).detach()).norm(dim=1) < exact * target.std(0).norm()
    if space == "sphere":
        same &= (at.norm(dim=1) - 1).abs() < 1e-3
    low, high = bounds if space == "box" else (z.min(), z.max())
    same &= ((at >= low) & (at <= high)).all(1) & ((at - z).norm(dim=1) > 0.01 * size)
    met = same.nonzero()
    return (z[met[0, 0]], at[met[0, 0]]) if len(met) else None
