"""Generative processes with known latents: z from a marginal, a positive from a conditional around it, x = g(z).

The setting in which Zimmermann et al. (2021) prove that contrastive learning finds the latents again, and its
violations. Latents are on a sphere, in a box or anywhere; a process makes new samples whenever it is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from ..support.numbers import check_integer, check_number
from .generative_distributions import GeneralizedNormal, Uniform, VonMisesFisher, uniform_on_sphere
from .generative_mixing import LeakyMixing, MixingFunction, check_injective, leaky_mixing

__all__ = ["Process", "process"]

SPACES = ("sphere", "box", "unbounded")
EXPONENTS = {"laplace": 1.0, "normal": 2.0, "generalized_normal": None}
Noise = GeneralizedNormal | VonMisesFisher
CHECKED = 200
"""Latents at which a mixing of the user's own is looked at."""


@dataclass(frozen=True, eq=False)
class Process:
    """A generative process; `ascribo.simulate.process` makes one.

    space : "sphere", "box" or "unbounded". dim : number of latents. channels : number of observations.
    marginal : distribution of a latent; None: uniform on the sphere.
    conditional : distribution of a positive around its latent.
    mixing : the function g from latents (..., dim) to observations (..., channel).
    bounds : of every coordinate, in a box.

    Examples
    --------
    >>> import ascribo as asc
    >>> process = asc.simulate.process("box", dim=3, conditional="laplace", scale=0.05)
    >>> latents, near = process.sample_pairs(100, 0)
    >>> latents.shape, process.mix(latents).shape
    (torch.Size([100, 3]), torch.Size([100, 3]))
    >>> process.sample(5).shape, process.sample_positives(latents[:5]).shape
    (torch.Size([5, 3]), torch.Size([5, 3]))
    >>> bool((process.with_seed(1).mix(latents) == process.mix(latents)).any())
    False
    """

    space: str
    dim: int
    channels: int
    marginal: GeneralizedNormal | Uniform | None
    conditional: Noise
    mixing: MixingFunction
    bounds: tuple[float, float]
    layers: int
    seed: int

    def sample(self, shape: int | Sequence[int], generator: int | torch.Generator = 0) -> Tensor:
        """Latents (*shape, dim) from the marginal.

        generator : a torch generator, whose device the samples are on; or a seed, for samples on the CPU.
        """
        sizes = (shape,) if isinstance(shape, Integral) or not isinstance(shape, Sequence) else shape
        size = (*(check_integer("shape", part, 0) for part in sizes), self.dim)
        rng = _generator(generator)
        if self.marginal is None:
            return uniform_on_sphere(size, rng)
        if isinstance(self.marginal, Uniform):
            return self.marginal.sample(size, rng)
        if self.space == "sphere":  # around a pole, then onto the sphere
            mean = torch.zeros(size, device=rng.device)
            mean[..., 0].fill_(1.0)
            return torch.nn.functional.normalize(self.marginal.sample(mean, rng), dim=-1)
        centre = sum(self.bounds) / 2 if self.space == "box" else 0.0
        return self.marginal.sample(torch.full(size, centre, device=rng.device), rng, *self._limits)

    def sample_positives(self, latents: Tensor, generator: int | torch.Generator = 0) -> Tensor:
        """For each of the latents (..., dim) a positive from the conditional around it.

        The latents must be of the space: on the sphere, or within the bounds of the box. That is not looked up,
        since it would wait for a GPU at every training step.
        """
        if latents.ndim < 1 or latents.shape[-1] != self.dim:
            raise ValueError(f"latents have shape {tuple(latents.shape)}: expected (..., {self.dim}).")
        rng = _generator(generator)
        if isinstance(self.conditional, VonMisesFisher):
            return self.conditional.sample(latents, rng)
        if self.space == "sphere":
            return torch.nn.functional.normalize(self.conditional.sample(latents, rng), dim=-1)
        return self.conditional.sample(latents, rng, *self._limits)

    def sample_pairs(
        self, shape: int | Sequence[int], generator: int | torch.Generator = 0
    ) -> tuple[Tensor, Tensor]:
        """Latents (*shape, dim), and a positive for each of them."""
        rng = _generator(generator)
        latents = self.sample(shape, rng)
        return latents, self.sample_positives(latents, rng)

    def mix(self, latents: Tensor) -> Tensor:
        """Observations (..., channel) of latents (..., dim), a tensor."""
        if not isinstance(latents, Tensor) or latents.ndim < 1 or latents.shape[-1] != self.dim:
            shape = tuple(np.shape(latents))
            raise ValueError(
                f"latents: {type(latents).__name__} of shape {shape}; expected a torch tensor (..., {self.dim})."
            )
        return self.mixing(latents)

    def with_seed(self, seed: int) -> Process:
        """The same process with the mixing of another seed. A mixing of the user's own stays."""
        if not isinstance(self.mixing, LeakyMixing):
            return replace(self, seed=seed)
        mixing = leaky_mixing(self.dim, self.layers, channels=self.channels, slope=self.mixing.slope, seed=seed)
        return replace(self, mixing=mixing, seed=seed)

    @property
    def _limits(self) -> tuple[float, float]:
        return self.bounds if self.space == "box" else (-np.inf, np.inf)


def process(
    space: str = "sphere",
    *,
    dim: int = 10,
    marginal: str = "uniform",
    marginal_scale: float | None = None,
    conditional: str = "von_mises_fisher",
    concentration: float | None = None,
    scale: float | None = None,
    exponent: float | None = None,
    layers: int = 3,
    channels: int | None = None,
    slope: float = 0.2,
    mixing: MixingFunction | None = None,
    bounds: tuple[float, float] | None = None,
    seed: int = 0,
) -> Process:
    """A generative process: latents, positives around them, and a mixing from latents to observations.

    Parameters
    ----------
    space : of the latents. "sphere": unit vectors. "box": every coordinate within `bounds`. "unbounded": any
        numbers.
    dim : number of latents; on a sphere the coordinates of the unit vector.
    marginal : "uniform" (sphere or box), "normal" or "laplace" with width `marginal_scale` (1 if it is None). They
        are centred on 0, on the middle of the box (and truncated to it), or on the pole (1, 0, ..., 0) of the
        sphere (and projected on it).
    conditional : of a positive, around its latent. "von_mises_fisher" with `concentration` (sphere), or "normal",
        "laplace" or "generalized_normal" with `scale`: truncated to the box by coordinate, or projected on
        the sphere.
    scale : the standard deviation of "normal"; the number by which distances are divided in the density of the
        others, exp(-(|z - z̃| / scale)^exponent), where "laplace" has exponent 1.
    exponent : β, of "generalized_normal" alone.
    layers, channels, slope : of the mixing, see `leaky_mixing`: a random invertible network.
    mixing : instead of that network, a function of your own from latents (n, dim) to observations (n, channel).
    bounds : of every coordinate of a box; None: from 0 to 1.
    seed : of the random network.

    Returns
    -------
    Process, with `sample_pairs(count, seed)` and `mix(latents)`.

    Examples
    --------
    >>> made = process("sphere", dim=5, concentration=10)
    >>> latents, positives = made.sample_pairs(1000, 0)
    >>> latents.shape, made.mix(latents).shape, bool((latents * positives).sum(-1).mean() > 0.5)
    (torch.Size([1000, 5]), torch.Size([1000, 5]), True)
    """
    if space not in SPACES:
        raise ValueError(f"space={space!r}: expected one of {list(SPACES)}.")
    dim = check_integer("dim", dim, 2 if space == "sphere" else 1)
    check_integer("layers", layers, 1)
    check_integer("seed", seed, 0)
    limits = _bounds(space, bounds)
    own = _marginal(space, marginal, marginal_scale, limits)
    around = _conditional(space, dim, conditional, concentration, scale, exponent)
    if mixing is None:
        if channels is not None and check_integer("channels", channels, 1) < dim:
            raise ValueError(f"channels={channels!r}: {dim} latents need at least as many observations.")
        mixing = leaky_mixing(dim, layers, channels=channels, slope=slope, seed=seed)
        channels = mixing.channels
    elif channels is not None:
        raise ValueError(f"channels={channels!r}: a mixing of your own says how many there are; leave it out.")
    made = Process(space, dim, channels or dim, own, around, mixing, limits, layers, seed)
    if isinstance(mixing, LeakyMixing):
        return made
    return replace(made, channels=check_injective(mixing, made.sample(CHECKED), space, limits))


def _bounds(space: str, given: tuple[float, float] | None) -> tuple[float, float]:
    if given is None:
        return 0.0, 1.0
    if space != "box":
        raise ValueError(f"bounds={given!r}: only a box has them, and the space is {space!r}; leave them out.")
    try:
        low, high = (check_number("bounds", value) for value in given)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not low < high:
        raise ValueError(f"bounds={given!r}: expected two finite numbers, the lower bound of the box first.")
    return low, high


def _marginal(space: str, name: str, scale: float | None, bounds: tuple[float, float]):
    if name == "uniform":
        if scale is not None:
            raise ValueError(f"marginal_scale={scale!r}: a uniform marginal has no width; leave it out.")
        if space == "unbounded":
            raise ValueError("marginal='uniform': there is none on unbounded latents. Use 'normal' or 'laplace'.")
        return Uniform(*bounds) if space == "box" else None
    if name not in ("normal", "laplace"):
        raise ValueError(f"marginal={name!r}: expected 'uniform', 'normal' or 'laplace'.")
    width = 1.0 if scale is None else check_number("marginal_scale", scale, above=0)
    return _generalized(name, width, None)


def _conditional(
    space: str, dim: int, name: str, concentration: float | None, scale: float | None, exponent: float | None
) -> Noise:
    if name == "von_mises_fisher":
        if space != "sphere":
            raise ValueError(
                f"conditional='von_mises_fisher' is a distribution on a sphere, and the space is {space!r}. Use "
                "'normal', 'laplace' or 'generalized_normal', or space='sphere'."
            )
        if scale is not None or exponent is not None:
            raise ValueError("conditional='von_mises_fisher' has no scale and no exponent: give concentration=.")
        return VonMisesFisher(dim, 1.0 if concentration is None else concentration)
    if name not in EXPONENTS:
        names = ["von_mises_fisher", *EXPONENTS]
        raise ValueError(f"conditional={name!r}: expected one of {names}.")
    if concentration is not None:
        raise ValueError(f"concentration={concentration!r} belongs to 'von_mises_fisher'; {name!r} has a scale=.")
    return _generalized(name, 0.05 if scale is None else scale, exponent)


def _generalized(name: str, scale: float, exponent: float | None) -> GeneralizedNormal:
    own = EXPONENTS[name]
    if own is None and exponent is None:
        raise ValueError("conditional='generalized_normal' needs its exponent=, such as 3.")
    if own is not None and exponent is not None:
        raise ValueError(f"exponent={exponent!r} belongs to 'generalized_normal': {name!r} has exponent {own:g}.")
    check_number("scale", scale, above=0, why="it is the width of a distribution")
    width = scale * np.sqrt(2) if name == "normal" else scale
    return GeneralizedNormal(exponent if own is None else own, float(width))  # type: ignore[arg-type]


def _generator(given: int | torch.Generator) -> torch.Generator:
    return given if isinstance(given, torch.Generator) else torch.Generator().manual_seed(given)
