"""The generative gradient: learn the way back from the embedding to the channels, and differentiate that.

If f(g(z)) = Bz with B block-diagonal, then E[x | f(x)] = g(B⁻¹ f(x)), and the Jacobian of a decoder that predicts x
from the embedding is J_g B⁻¹: it has the zeros of J_g, and nothing is inverted. The decoder is fitted with the
model. It predicts each time step from the embeddings of its neighbours in time, so that a channel's own noise,
which is part of its embedding, cannot explain the channel.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ...data.segments import same_segment
from ...spaces.base import Space, layout
from ...training.decoders import decoder_jacobian
from ..local_methods import local_method
from ..method_inputs import EncodedRecording

__all__ = ["decoder_embedding", "decoder_rows", "generative_gradient"]

NEIGHBOURS_TELL = 0.1
"""Squared correlation of the embedding at a time step with that at its neighbours from which these are used."""


@local_method("generative_gradient")
def generative_gradient(recording: EncodedRecording, index: Tensor) -> tuple[Tensor, Tensor]:
    """The Jacobian of the decoder in aligned coordinates: (seed, B, channel, 1, dim), all valid."""
    z = recording.embed(index)
    jacobian = decoder_jacobian(recording.decoder, recording.alignment.to_aligned(z))
    return jacobian.unsqueeze(-2), torch.ones(z.shape[:2], dtype=torch.bool, device=z.device)


def decoder_rows(epochs: np.ndarray, most: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Time steps for a decoder to learn from, (n,), and the two neighbours each is predicted from, (n, 2).

    Time steps without a neighbour on both sides in their epoch are not used; where none has (epochs of one or two
    time steps), each stands for itself. most : of more than these, as many are drawn at random.

    >>> decoder_rows(np.array([0, 0, 0, 1]), 10, np.random.default_rng(0))
    (array([1]), array([[0, 2]]))
    """
    inner = np.flatnonzero(same_segment(epochs, 2)) + 1
    if len(inner):
        index = np.sort(rng.choice(inner, most, replace=False)) if len(inner) > most else inner
        return index, np.stack([index - 1, index + 1], axis=1)
    index = np.sort(rng.choice(len(epochs), min(most, len(epochs)), replace=False))
    return index, np.stack([index, index], axis=1)


def decoder_embedding(own: Tensor, around: Tensor, spaces: Mapping[str, Space]) -> Tensor:
    """What each time step is predicted from: for every space the embedding of its neighbours, if that tells of its
    own.

    own, around : (seed, n, dim), embeddings of the time steps, and the means of those of their neighbours. Where
    neighbours are unrelated, as with stimuli drawn anew at every time step, a space's own embedding is used.
    """
    blocks = []
    for where in layout(spaces).values():
        a, b = (z[..., where] - z[..., where].mean(1, keepdim=True) for z in (own, around))
        shared = (a * b).sum((1, 2)).square() / (a.square().sum((1, 2)) * b.square().sum((1, 2))).clamp_min(1e-12)
        blocks.append(around[..., where] if shared.median() > NEIGHBOURS_TELL else own[..., where])
    return torch.cat(blocks, -1)
