"""Images of which every factor is known: a grid like that of dSprites (Matthey et al. 2017), drawn here.

Three shapes, six scales, forty orientations and 32 x 32 positions: 737,280 images of 64 x 64 pixels, 0 or 1. They
are drawn when they are asked for, on the CPU or a GPU, and never all at once. The outlines are our own, so images
are not equal to those of dSprites pixel by pixel: they are called dSprites-like.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ..support.compute import check_memory, resolve_device
from ..support.numbers import check_integer

__all__ = ["FACTORS", "Sprites", "sprites"]

FACTORS = {"shape": 3, "scale": 6, "orientation": 40, "x": 32, "y": 32}
"""How many values each factor has, in the order of the last axis of factors."""
FIRST, STEP = (0.0, 0.5, 0.0, 0.0, 0.0), (1.0, 0.1, 2 * math.pi / 40, 1 / 31, 1 / 31)
"""The latents of the first value of each factor, and how far apart two values are."""
SHAPES = ("square", "ellipse", "heart")
SIDE, STAMP = 64, 32
"""Pixels of an image, and of the square around a sprite, which moves by whole pixels."""
RADIUS = 15.0
"""Pixels from a sprite's centre to the farthest point of its outline, at scale 1."""


@dataclass(frozen=True, eq=False)
class Sprites:
    """The grid of images; `ascribo.simulate.sprites` makes one.

    stamps : (shape x scale x orientation, 33, 33), every sprite without its place, a row and a column of zeros
    after.

    Examples
    --------
    >>> import ascribo as asc
    >>> grid = asc.simulate.sprites()
    >>> factors = grid.sample(4)
    >>> images = grid.render(factors)  # `draw` is the same for factors that are known to be right
    >>> images.shape, bool((grid.draw(factors) == images).all())
    (torch.Size([4, 1, 64, 64]), True)
    >>> bool((grid.factors(grid.index(factors)) == factors).all())
    True
    >>> latents = grid.latents(factors)  # `latents_at` is the same for factors that are known to be right
    >>> bool((grid.latents_at(factors) == latents).all())
    True
    >>> float(abs(grid.draw_between(latents) - images).mean()) < 0.01
    True
    >>> factors, images = next(grid.batches(100))
    >>> factors.shape, images.shape
    (torch.Size([100, 5]), torch.Size([100, 1, 64, 64]))
    """

    stamps: Tensor

    def __len__(self) -> int:
        """How many images there are."""
        return math.prod(FACTORS.values())

    def factors(self, index: Tensor | ArrayLike) -> Tensor:
        """The factors of images by their number, (...) -> (..., 5) whole numbers from 0; y changes fastest."""
        number = self._whole(index, "index")
        if number.numel() and not (0 <= int(number.min()) and int(number.max()) < len(self)):
            raise ValueError(f"index has numbers outside 0 to {len(self) - 1}.")
        out = []
        for size in reversed(FACTORS.values()):
            out.append(number % size)
            number = number // size
        return torch.stack(out[::-1], -1)

    def index(self, factors: Tensor | ArrayLike) -> Tensor:
        """The numbers of images by their factors, (..., 5) -> (...)."""
        values = self._checked(factors)
        number = torch.zeros_like(values[..., 0])
        for k, size in enumerate(FACTORS.values()):
            number = number * size + values[..., k]
        return number

    def latents(self, factors: Tensor | ArrayLike) -> Tensor:
        """What factors (..., 5) stand for: shape 0 to 2, scale 0.5 to 1, angle in radians, x and y from 0 to 1."""
        return self.latents_at(self._checked(factors))

    def latents_at(self, factors: Tensor) -> Tensor:
        """As `latents`, for a tensor of factors that is known to be right: nothing waits for a GPU."""
        return on_device(FIRST, factors.device) + on_device(STEP, factors.device) * factors.float()

    def sample(self, count: int, generator: int | torch.Generator = 0) -> Tensor:
        """Factors of images drawn uniformly from the grid: (count, 5).

        generator : a torch generator on the device of the sprites, or a seed.
        """
        where = self.stamps.device
        draws = torch.Generator(where).manual_seed(generator) if isinstance(generator, int) else generator
        size = (check_integer("count", count, 0),)
        return self.factors(torch.randint(len(self), size, generator=draws, device=where))

    def render(self, factors: Tensor | ArrayLike) -> Tensor:
        """Images of factors, (..., 5) -> (..., 1, 64, 64) float32 of 0 and 1, where the sprites are."""
        return self.draw(self._checked(factors))

    def draw(self, factors: Tensor) -> Tensor:
        """As `render`, for a tensor of factors that is known to be right: nothing waits for a GPU."""
        shape, scale, turn, x, y = factors.unbind(-1)
        stamp = (shape * FACTORS["scale"] + scale) * FACTORS["orientation"] + turn
        pixel = torch.arange(SIDE, device=factors.device)
        row, column = ((pixel - at[..., None]) for at in (y, x))
        # outside the stamp: the row, and the column, of zeros
        row, column = (torch.where((at >= 0) & (at < STAMP), at, STAMP) for at in (row, column))
        return self.stamps[stamp[..., None, None], row[..., :, None], column[..., None, :]].unsqueeze(-3).float()

    def draw_between(self, latents: Tensor) -> Tensor:
        """Images of latents (..., 5) as `latents` has them, which need not lie on the grid: (..., 1, 64, 64).

        The shape is rounded. On the grid they equal those of `draw`, but for pixels that an edge goes through.
        """
        shape, scale, angle, x, y = latents.unbind(-1)
        pixel = torch.arange(SIDE, device=latents.device) + 0.5 - STAMP / 2
        v, u = (pixel - 31 * at[..., None] for at in (y, x))
        cos, sin = (part[..., None, None] for part in (angle.cos(), angle.sin()))
        size, v, u = (RADIUS * scale)[..., None, None], v[..., :, None], u[..., None, :]
        a, b = (cos * u + sin * v) / size, (cos * v - sin * u) / size
        which = shape.round()[..., None, None]
        inside = sum((which == k) & outline(a, b) for k, outline in enumerate(OUTLINES))
        return torch.as_tensor(inside).unsqueeze(-3).float()

    def all_images(self) -> Tensor:
        """Every image at once, (737280, 1, 64, 64) of 0 and 1 as uint8: 3 GB. `batches` needs no memory.

        Refuses where that is more than the memory that is free.
        """
        check_memory(len(self) * SIDE * SIDE, self.stamps.device, f"all {len(self):,} images", "`batches`")
        out = torch.empty(len(self), 1, SIDE, SIDE, dtype=torch.uint8, device=self.stamps.device)
        for rows, (_, images) in zip(out.split(8192), self.batches(8192), strict=True):
            rows.copy_(images)
        return out

    def codes(self, encode: Callable[[Tensor], Tensor], batch_size: int = 8192) -> Tensor:
        """What an encoder makes of every image of the grid: (737280, dimension), float32, on the CPU.

        encode : images (batch, 1, 64, 64) -> codes (batch, dimension). Look codes up by `index(factors)`: scores
        that draw millions of images then encode each of the grid once. Codes that take more than the memory that is
        free are refused after the first batch.
        """
        out = torch.empty(0, 0)
        for start, (_, images) in zip(range(0, len(self), batch_size), self.batches(batch_size), strict=True):
            with torch.no_grad():
                part = encode(images).detach()
            if part.ndim != 2 or len(part) != len(images) or (start and part.shape[1] != out.shape[1]):
                raise ValueError(
                    f"encode: for {len(images)} images it returned shape {tuple(part.shape)}; expected "
                    f"({len(images)}, {out.shape[1] if start else 'dimension'})."
                )
            if not start:
                bytes_of_all = 4 * len(self) * part.shape[1]
                check_memory(bytes_of_all, "cpu", f"codes of all {len(self):,} images", "a sample of factors")
                out = torch.empty(len(self), part.shape[1])
            out[start : start + len(part)] = part
        return out

    def batches(self, batch_size: int = 1024) -> Iterator[tuple[Tensor, Tensor]]:
        """All images in order, a batch at a time: factors (batch, 5) and images (batch, 1, 64, 64)."""
        for index in torch.arange(len(self), device=self.stamps.device).split(batch_size):
            factors = self.factors(index)
            yield factors, self.draw(factors)

    def _whole(self, values: Tensor | ArrayLike, what: str) -> Tensor:
        tensor = torch.as_tensor(values, device=self.stamps.device)
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
            raise ValueError(f"{what} holds {tensor.dtype} numbers: expected whole numbers.")
        return tensor.long()

    def _checked(self, factors: Tensor | ArrayLike) -> Tensor:
        values, sizes = self._whole(factors, "factors"), list(FACTORS.values())
        if values.ndim < 1 or values.shape[-1] != len(sizes):
            raise ValueError(f"factors have shape {tuple(values.shape)}: expected (..., 5), {', '.join(FACTORS)}.")
        wrong = (
            ((values < 0) | (values >= torch.tensor(sizes, device=values.device))).reshape(-1, len(sizes)).any(0)
        )
        if bool(wrong.any()):
            name = list(FACTORS)[int(wrong.nonzero()[0])]
            raise ValueError(f"factors have a {name} outside 0 to {FACTORS[name] - 1}.")
        return values


def on_device(values: Sequence[float], device: torch.device) -> Tensor:
    """Numbers as a tensor, filled in on the device: a copy from the host could not be recorded as a CUDA graph."""
    return torch.stack([torch.full((), value, device=device) for value in values])


def sprites(device: str | torch.device = "cpu") -> Sprites:
    """A square, an ellipse or a heart, of some size, turned, at some place: images with five known factors.

    The grid is that of dSprites: 3 shapes, 6 scales (0.5 to 1), 40 orientations, 32 x 32 positions a pixel apart.
    Two things to know. Orientations here are 40 equal turns, the last one short of a whole turn (dSprites counts 0
    and 2π both). And a square looks the same after a quarter of a turn, an ellipse after a half: for them the
    orientation cannot be told from the image.

    device : where images are drawn, "cpu" or a GPU.

    Examples
    --------
    >>> grid = sprites()
    >>> len(grid), grid.factors([0, 737_279]).tolist()
    (737280, [[0, 0, 0, 0, 0], [2, 5, 39, 31, 31]])
    >>> grid.render(grid.sample(3)).shape
    torch.Size([3, 1, 64, 64])
    """
    at = np.arange(STAMP) + 0.5 - STAMP / 2
    v, u = np.meshgrid(at, at, indexing="ij")
    scale = np.linspace(0.5, 1, FACTORS["scale"])[:, None, None, None]
    turn = (2 * np.pi / FACTORS["orientation"] * np.arange(FACTORS["orientation"]))[:, None, None]
    # coordinates of each pixel in units of the sprite: (scale, orientation, row, column)
    a = (np.cos(turn) * u + np.sin(turn) * v) / (RADIUS * scale)
    b = (np.cos(turn) * v - np.sin(turn) * u) / (RADIUS * scale)
    inside = np.stack([outline(a, b) for outline in OUTLINES])
    stamps = np.pad(inside.reshape(-1, STAMP, STAMP), ((0, 0), (0, 1), (0, 1)))
    return Sprites(torch.from_numpy(stamps.astype(np.uint8)).to(resolve_device(device)))


Coordinates = TypeVar("Coordinates", np.ndarray, Tensor)


def _square(a: Coordinates, b: Coordinates) -> Coordinates:
    return (abs(a) < math.sqrt(0.5)) & (abs(b) < math.sqrt(0.5))  # type: ignore[return-value]


def _ellipse(a: Coordinates, b: Coordinates) -> Coordinates:
    return a**2 + (2 * b) ** 2 < 1


def _heart(a: Coordinates, b: Coordinates) -> Coordinates:
    """(s² + t² - 1)³ < s² t³, made smaller and moved so that the farthest points have distance 1."""
    s, t = 1.29 * a, -1.29 * b + 0.2
    return (s**2 + t**2 - 1) ** 3 < s**2 * t**3


OUTLINES = (_square, _ellipse, _heart)
"""From coordinates in units of the sprite, arrays or tensors, to whether a point is inside."""
