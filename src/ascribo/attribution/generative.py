"""The generative gradient: learn the way back from the embedding to the channels, and differentiate that.

If f(g(z)) = Bz with B block-diagonal, then E[x | f(x)] = g(B⁻¹ f(x)), and the Jacobian of a decoder that
predicts x from the embedding is J_g B⁻¹: it has the zeros of J_g, and nothing is inverted. Each step is
predicted from the embeddings of its neighbours in time, so that a channel's own noise, which is part of its
embedding, cannot explain the channel.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ..data.segments import same_segment
from ..networks.alignment import Alignment
from ..spaces.base import Space, layout
from ..training.decoders import decoder_jacobian

__all__ = ["decoder_embedding", "decoder_inputs", "generative_gradient"]

RELATED = 0.1
"""Squared correlation of a step's embedding with its neighbours' from which the neighbours are used."""


def decoder_inputs(epochs: np.ndarray, most: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Steps to predict, (steps,), and the neighbours each is predicted from, (steps, 2).

    Steps without a neighbour on both sides in their epoch are not used; where no step has (epochs of one or
    two steps), each stands for itself.

    >>> decoder_inputs(np.array([0, 0, 0, 1]), 10, np.random.default_rng(0))
    (array([1]), array([[0, 2]]))
    """
    inner = np.flatnonzero(same_segment(epochs, 2)) + 1
    if len(inner):
        steps = np.sort(rng.choice(inner, most, replace=False)) if len(inner) > most else inner
        return steps, np.stack([steps - 1, steps + 1], axis=1)
    steps = np.sort(rng.choice(len(epochs), min(most, len(epochs)), replace=False))
    return steps, np.stack([steps, steps], axis=1)


def decoder_embedding(own: Tensor, around: Tensor, spaces: Mapping[str, Space]) -> Tensor:
    """What each step is predicted from: for every space its neighbours' embedding, if that tells of its own.

    own, around : (seed, steps, dim) embeddings of the steps themselves and the mean of their neighbours'. Where
    neighbouring steps are unrelated, as with stimuli drawn anew at every step, a space's own embedding is used.
    """
    blocks = []
    for where in layout(spaces).values():
        a, b = (z[..., where] - z[..., where].mean(1, keepdim=True) for z in (own, around))
        shared = (a * b).sum((1, 2)).square() / (a.square().sum((1, 2)) * b.square().sum((1, 2))).clamp_min(1e-12)
        blocks.append(around[..., where] if shared.median() > RELATED else own[..., where])
    return torch.cat(blocks, -1)


def generative_gradient(decoder: Mapping[str, Tensor], alignment: Alignment, z: Tensor) -> tuple[Tensor, Tensor]:
    """The decoder's Jacobian at embeddings z (seed, B, dim): (seed, B, channel, 1, dim), all valid."""
    jacobian = decoder_jacobian(decoder, alignment.to_aligned(z))
    return jacobian.unsqueeze(-2), torch.ones(z.shape[:2], dtype=torch.bool, device=z.device)
