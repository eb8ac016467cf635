"""Distributions of latents, sampled for many means at once, on a CPU or a GPU.

Every sampler is one fixed sequence of tensor operations with no rejection loop, so that it can be part of a CUDA
graph. What has no closed form is drawn by its quantile function, tabulated once in float64 (`QuantileTable`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.special import gammainccinv, gammaln, ive
from torch import Tensor

from ..support.numbers import check_number

__all__ = ["GeneralizedNormal", "QuantileTable", "Uniform", "VonMisesFisher", "uniform_on_sphere"]

ENTRIES = 8192
"""Entries of a table. Between two of them the density is constant; the distribution function is off by 1e-6."""
HEAVIEST = 0.1
"""Smallest exponent of a generalized normal distribution: the largest of 10⁹ samples is 10¹⁶ times the scale."""
SHARPEST = 1e8
"""The largest concentration: beyond it float32 cannot tell a point from its mean."""
TAIL = 1e-9
"""Probability beyond the last entry of a table. Uniform random numbers in float32 have steps of 6e-8."""


class QuantileTable:
    """A distribution on an interval by its density on a grid: distribution function and quantiles of tensors.

    grid : (k,) rising numbers. log_density : (k,) up to a constant.

    >>> grid = np.linspace(0, 2, 1001)
    >>> table = QuantileTable(grid, np.log(np.maximum(grid, 1e-300)))  # density x/2 on [0, 2]
    >>> table.quantile(torch.tensor([0.25])).round(decimals=3), table.below(torch.tensor([1.0])).round(decimals=3)
    (tensor([1.]), tensor([0.2500]))
    """

    def __init__(self, grid: np.ndarray, log_density: np.ndarray):
        density = np.exp(log_density - log_density.max())
        pieces = np.diff(grid) * (density[1:] + density[:-1]) / 2
        # from the right: the small probabilities of the right tail keep their digits in float32
        above = np.concatenate([np.cumsum(pieces[::-1])[::-1], [0.0]])
        self._grid = torch.from_numpy(grid[::-1].copy()).float()
        self._above = torch.from_numpy((above / above[0])[::-1].copy()).float()

    def quantile(self, probability: Tensor) -> Tensor:
        """The point that has `probability` to its left."""
        return self.upper_quantile(1 - probability)

    def upper_quantile(self, probability: Tensor) -> Tensor:
        """The point that has `probability` to its right."""
        self._move(probability.device)
        return _interpolate(probability, self._above, self._grid)

    def below(self, x: Tensor) -> Tensor:
        """The distribution function."""
        return 1 - self.above(x)

    def above(self, x: Tensor) -> Tensor:
        """The probability to the right of x."""
        self._move(x.device)
        return _interpolate(-x, -self._grid, self._above)

    def _move(self, device: torch.device) -> None:
        if self._grid.device != device:  # once: a copy within a captured graph is not allowed
            self._grid, self._above = self._grid.to(device), self._above.to(device)


def _interpolate(x: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    """ys at x, linear between the rising xs, constant beyond them."""
    k = torch.searchsorted(xs, x.contiguous()).clamp_(1, len(xs) - 1)
    left, right = xs[k - 1], xs[k]
    share = ((x - left) / (right - left).clamp_min(1e-30)).clamp(0, 1)
    return torch.lerp(ys[k - 1], ys[k], share)


@dataclass(frozen=True)
class Uniform:
    """Uniform in a box, each coordinate from `low` to `high`."""

    low: float
    high: float

    def sample(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        """Points of the given shape."""
        return self.low + (self.high - self.low) * _rand(shape, generator)


def uniform_on_sphere(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Points (..., dim) of the given shape, uniform on the unit sphere.

    >>> uniform_on_sphere((4, 3), torch.Generator().manual_seed(0)).norm(dim=-1).round(decimals=5)
    tensor([1., 1., 1., 1.])
    """
    return torch.nn.functional.normalize(_randn(shape, generator), dim=-1)


@dataclass(frozen=True)
class GeneralizedNormal:
    """Independent coordinates with density ∝ exp(-(|x - mean| / scale)^exponent).

    exponent : β. 1 is the Laplace distribution, 2 the normal one with standard deviation scale / √2.

    >>> noise = GeneralizedNormal(exponent=3, scale=0.05)
    >>> noise.sample(torch.full((5, 2), 0.99), torch.Generator().manual_seed(0), low=0, high=1).max() <= 1
    tensor(True)
    """

    exponent: float
    scale: float
    _half: QuantileTable = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        check_number("exponent", self.exponent, above=0, why="β of a generalized normal distribution (1: Laplace)")
        check_number("scale", self.scale, above=0, why="it is the width of a distribution")
        if self.exponent < HEAVIEST:
            raise ValueError(
                f"exponent={self.exponent!r}: tails of a β below {HEAVIEST} leave the range of single precision. "
                "Use a larger one."
            )
        # |x| / scale has density ∝ exp(-yᵝ); its grid is even in y, or in yᵝ where the tail is heavy
        even = max(1.0, 1 / self.exponent)
        last = gammainccinv(1 / self.exponent, TAIL) ** (1 / self.exponent)
        grid = last * np.linspace(0, 1, ENTRIES) ** even
        object.__setattr__(self, "_half", QuantileTable(grid, -(grid**self.exponent)))

    @property
    def deviation(self) -> float:
        """Standard deviation of a coordinate.

        >>> round(GeneralizedNormal(2, 1.0).deviation ** 2, 6), round(GeneralizedNormal(1, 1.0).deviation ** 2, 6)
        (0.5, 2.0)
        """
        return self.scale * float(np.exp(0.5 * (gammaln(3 / self.exponent) - gammaln(1 / self.exponent))))

    def sample(
        self, mean: Tensor, generator: torch.Generator, low: float = -np.inf, high: float = np.inf
    ) -> Tensor:
        """A point for each mean (..., dim). With `low` and `high` each coordinate is truncated to that interval, in
        which the means must lie."""
        side, size = _rand(mean.shape, generator), _rand(mean.shape, generator)
        right, beyond = side < 0.5, torch.zeros_like(mean)
        if np.isfinite(low) or np.isfinite(high):
            to_left, to_right = (mean - low) / self.scale, (high - mean) / self.scale
            over_left, over_right = self._half.above(to_left), self._half.above(to_right)
            right = side * (2 - over_left - over_right) < 1 - over_right
            beyond = torch.where(right, over_right, over_left)
        step = self.scale * self._half.upper_quantile(beyond + (1 - beyond) * size)
        drawn = mean + torch.where(right, step, -step)
        return drawn.clamp(low, high) if np.isfinite(low) or np.isfinite(high) else drawn


@dataclass(frozen=True)
class VonMisesFisher:
    """Points on the unit sphere with density ∝ exp(concentration · mean·x).

    The angle to the mean has density ∝ sin(θ)^(dim - 2) exp(concentration · cos θ), whatever the mean; the
    direction away from the mean is uniform.

    >>> draw = VonMisesFisher(dim=3, concentration=1000)
    >>> mean = torch.tensor([[1.0, 0.0, 0.0]])
    >>> (draw.sample(mean, torch.Generator().manual_seed(0)) - mean).norm() < 0.2
    tensor(True)
    """

    dim: int
    concentration: float
    _angle: QuantileTable = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        check_number("concentration", self.concentration, least=0, why="it is κ of a von Mises-Fisher distribution")
        if self.concentration > SHARPEST:
            raise ValueError(
                f"concentration={self.concentration!r}: above {SHARPEST:g} positives would equal their latents in "
                "single precision. Use a smaller one."
            )
        if self.dim < 2:
            raise ValueError(f"dim={self.dim!r}: a sphere needs at least 2 dimensions.")
        inside = np.linspace(0, np.pi, 20 * ENTRIES)[1:-1]
        kept = inside[(found := self._log_density(inside)) > found.max() - 40]  # sharp peaks get a fine grid
        grid = np.linspace(max(0, 2 * kept[0] - kept[1]), min(np.pi, 2 * kept[-1] - kept[-2]), ENTRIES)
        object.__setattr__(self, "_angle", QuantileTable(grid, self._log_density(grid)))

    def _log_density(self, angle: np.ndarray) -> np.ndarray:
        sine = np.log(np.maximum(np.sin(angle), 1e-300))
        return (self.dim - 2) * sine + self.concentration * (np.cos(angle) - 1)

    @property
    def mean_cosine(self) -> float:
        """Expected mean·x, a ratio of Bessel functions.

        >>> round(VonMisesFisher(3, 2.0).mean_cosine, 6), float(round(1 / np.tanh(2.0) - 1 / 2.0, 6))
        (0.537315, 0.537315)
        """
        half, kappa = self.dim / 2, self.concentration
        return float(ive(half, kappa) / ive(half - 1, kappa)) if kappa else 0.0

    def sample(self, mean: Tensor, generator: torch.Generator) -> Tensor:
        """A point for each mean (..., dim), which must have length 1."""
        angle = self._angle.quantile(_rand((*mean.shape[:-1], 1), generator))
        away = _randn(mean.shape, generator)
        away = away - (away * mean).sum(-1, keepdim=True) * mean
        drawn = angle.cos() * mean + angle.sin() * torch.nn.functional.normalize(away, dim=-1)
        return torch.nn.functional.normalize(drawn, dim=-1)


def _rand(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    return torch.rand(*shape, generator=generator, device=generator.device)


def _randn(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    return torch.randn(*shape, generator=generator, device=generator.device)
