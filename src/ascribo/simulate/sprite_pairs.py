"""Pairs of sprites, as contrastive learning takes them: which factors change between two images, and how far.

The pairs of the comparison by Zimmermann et al. (2020), appendix A.6.2. Factors are whole numbers (..., 5) as in
`Sprites`. All are drawn on the device of the generator, without waiting for it, so that a training step can be
recorded as a CUDA graph.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ..support.array_shapes import Float, Int, shaped
from .natural_transitions import check_transitions
from .sprites import FACTORS, FIRST, STEP, Sprites, on_device

__all__ = ["laplace_pairs", "to_grid", "track_pairs", "uniform_pairs"]

SIZES = tuple(FACTORS.values())
CONSTANT = (0,)
"""Factors that stay in Laplace pairs: the shape, whose values have no order."""
TRIES = 4
"""Draws of a Laplace pair, of which the first with a change is taken: all four have none once in 10¹² pairs."""


@shaped
def uniform_pairs(
    grid: Sprites, shape: tuple[int, ...], generator: torch.Generator
) -> tuple[Int[Tensor, "*shape 5"], Int[Tensor, "*shape 5"]]:
    """UNI (Locatello et al. 2020): k of the five factors change, k uniform from 1 to 4, each to any other value.

    shape : of the pairs. generator : on the device of the grid. Returns factors (*shape, 5) of both images.

    >>> from ascribo.simulate import sprites
    >>> first, second = uniform_pairs(sprites(), (1000,), torch.Generator().manual_seed(0))
    >>> (first != second).sum(-1).unique().tolist()
    [1, 2, 3, 4]
    """
    where = grid.stamps.device
    first = _uniform(shape, generator, where)
    count = torch.randint(1, len(SIZES), (*shape, 1), generator=generator, device=where)
    order = torch.rand(first.shape, generator=generator, device=where).argsort(-1).argsort(-1)
    sizes = on_device(SIZES, where)
    part = torch.rand(first.shape, generator=generator, device=where)
    step = 1 + (part * (sizes - 1)).long().minimum(sizes - 2)
    return first, torch.where(order < count, (first + step) % sizes, first)


@shaped
def laplace_pairs(
    grid: Sprites, shape: tuple[int, ...], generator: torch.Generator, rate: float = 1.0
) -> tuple[Int[Tensor, "*shape 5"], Int[Tensor, "*shape 5"]]:
    """LAP (Klindt et al. 2021): every factor but the shape moves to a near value, with Laplace probabilities.

    Value w follows value v with a probability that falls as exp(-|v - w| rate / log n), n being the number of
    values of the factor. Pairs in which nothing changes are drawn again. Arguments as of `uniform_pairs`.

    >>> from ascribo.simulate import sprites
    >>> first, second = laplace_pairs(sprites(), (1000,), torch.Generator().manual_seed(0))
    >>> bool((first[:, 0] == second[:, 0]).all()), bool((first != second).any(-1).all())
    (True, True)
    """
    if not rate > 0:
        raise ValueError(f"rate={rate!r}: expected a rate above 0.")
    where = grid.stamps.device
    first = _uniform(shape, generator, where)
    moved = first.unsqueeze(-2).expand(*shape, TRIES, len(SIZES)).clone()
    for k, size in enumerate(SIZES):
        if k in CONSTANT:
            continue
        value = torch.arange(size, device=where)
        weight = torch.exp(-(value[:, None] - value).abs() * rate / math.log(size))
        up_to = (weight / weight.sum(1, keepdim=True)).cumsum(1)[first[..., k]]  # (*shape, size)
        draw = torch.rand((*shape, TRIES), generator=generator, device=where)
        moved[..., k] = (draw[..., None] > up_to[..., None, :]).sum(-1).clamp(max=size - 1)
    changed = (moved != first.unsqueeze(-2)).any(-1)
    which = changed.int().argmax(-1)  # the first with a change
    return first, moved.gather(-2, which[..., None, None].expand(*shape, 1, len(SIZES))).squeeze(-2)


@shaped
def track_pairs(
    grid: Sprites, transitions: Tensor | np.ndarray, shape: tuple[int, ...], generator: torch.Generator
) -> tuple[Float[Tensor, "*shape 5"], Float[Tensor, "*shape 5"]]:
    """NAT (Klindt et al. 2021): place and scale as measured at two times, shape and orientation the same in both.

    transitions : (pair, 2, 3), scale, x and y from 0 to 1 at both times, as `natural_transitions` makes them; a
        pair is drawn at random, and shape and orientation uniformly. A tensor must be on the device of the grid.
    Returns latents (*shape, 5) of both images as `Sprites.draw_between` takes them; `to_grid` moves them to the
    nearest points of the grid.

    >>> from ascribo.simulate import sprites, track_transitions
    >>> moves = track_transitions([0, 0, 0], [0, 1, 2], [0, 5, 7], [0, 1, 2], [1, 2, 3])
    >>> first, second = track_pairs(sprites(), moves, (1000,), torch.Generator().manual_seed(0))
    >>> bool((first[:, [0, 2]] == second[:, [0, 2]]).all()), bool((first[:, 3] < second[:, 3]).all())
    (True, True)
    """
    where = grid.stamps.device
    measured = check_transitions(transitions).to(where)
    own = measured[torch.randint(len(measured), shape, generator=generator, device=where)]  # (*shape, 2, 3)
    kept = grid.latents_at(_uniform(shape, generator, where))
    both = kept.unsqueeze(-2).repeat(*(1,) * len(shape), 2, 1)
    both[..., 1] = 0.5 + 0.5 * own[..., 0]
    both[..., 3:] = own[..., 1:]
    return both[..., 0, :], both[..., 1, :]


@shaped
def to_grid(latents: Float[Tensor, "*shape 5"]) -> Int[Tensor, "*shape 5"]:
    """The factors (..., 5) of the grid that are nearest to latents (..., 5).

    >>> to_grid(torch.tensor([2.0, 0.68, 0.1, 0.5, 1.0])).tolist()
    [2, 2, 1, 16, 31]
    """
    sizes, first, step = (on_device(values, latents.device) for values in (SIZES, FIRST, STEP))
    nearest = ((latents - first) / step).round().long()
    turn = nearest[..., 2:3] % SIZES[2]
    bounded = nearest.clamp(min=0).minimum(sizes - 1)
    return torch.cat([bounded[..., :2], turn, bounded[..., 3:]], -1)


@shaped
def _uniform(shape: tuple[int, ...], generator: torch.Generator, device: torch.device) -> Int[Tensor, "*shape 5"]:
    parts = [torch.randint(size, shape, generator=generator, device=device) for size in SIZES]
    return torch.stack(parts, -1)
