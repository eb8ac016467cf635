"""Two views of one image, after Chen et al. (2020): cut out and enlarged, mirrored, in other colours.

All is computed on the device of the images, the same operations each time, so that a training step can be recorded.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["augment"]

SMALLEST = 0.2
"""Share of an image that is kept at least."""
GREY = 0.2
"""How often an image loses its colours."""
JITTER = 0.6
"""How far brightness, contrast and saturation change: factors of 1 ± this; hue by a third of it, in radians × π."""


def augment(images: Tensor, rng: torch.Generator) -> Tensor:
    """A view of each image, (..., 3, side, side) from -1 to 1 -> the same shape."""
    x = images.flatten(0, -4)
    count = len(x)

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=rng, device=x.device)

    side = uniform(SMALLEST, 1.0).sqrt()
    mirror = torch.where(uniform(0, 1) < 0.5, -1.0, 1.0)
    zero = torch.zeros_like(side)
    middle_x, middle_y = uniform(-1, 1) * (1 - side), uniform(-1, 1) * (1 - side)
    place = torch.stack([side * mirror, zero, middle_x, zero, side, middle_y], 1).view(-1, 2, 3)
    grid = torch.nn.functional.affine_grid(place, list(x.shape), align_corners=False)
    x = torch.nn.functional.grid_sample(x, grid, align_corners=False, padding_mode="reflection")
    bright, contrast, colour = (uniform(1 - JITTER, 1 + JITTER).view(-1, 1, 1, 1) for _ in range(3))
    turn = uniform(-JITTER / 3, JITTER / 3) * math.pi
    x = ((x + 1) * bright - 1) * contrast
    grey = x.mean(1, keepdim=True)
    colour = torch.where(uniform(0, 1).view(-1, 1, 1, 1) < GREY, 0.0, colour)
    x = grey + torch.einsum("nij,njhw->nihw", _about_grey(turn), x - grey) * colour
    return x.clamp(-1, 1).view(images.shape)


def _about_grey(angle: Tensor) -> Tensor:
    """Rotations (n, 3, 3) of colours about the line of greys, which change the hue."""
    cos, sin, third, root = angle.cos(), angle.sin(), 1 / 3, math.sqrt(1 / 3)
    same, next_one, last = cos + third * (1 - cos), third * (1 - cos) - root * sin, third * (1 - cos) + root * sin
    rows = [same, next_one, last, last, same, next_one, next_one, last, same]
    return torch.stack(rows, -1).view(-1, 3, 3)
