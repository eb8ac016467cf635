"""Integrated gradients (Sundararajan et al. 2017): the gradient averaged on the way from zero to the input."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..local_methods import local_method
from ..mean_gradients import as_factor, check_at_least_one, gradient_sum, in_blocks
from ..method_inputs import EncodedRecording

__all__ = ["integrated_gradients"]


@local_method("integrated_gradients")
@torch.no_grad()
def integrated_gradients(recording: EncodedRecording, index: Tensor, *, points: int = 50) -> tuple[Tensor, Tensor]:
    """x times the mean gradient on the way from zero to x: shares that add up to f(x) - f(0).

    points : of the Gauss-Legendre rule for the mean. Where an output reaches its hard limit on the way, the
        gradient jumps, and the sum is right only to about one part in that many.

    Returns maps (seed, B, channel, window, dim) in aligned coordinates and valid (seed, B), here always True.

    Examples
    --------
    >>> from ascribo import MLP, Time
    >>> from ascribo.networks.seed_alignment import Alignment
    >>> from ascribo.networks.model_stack import Embedder
    >>> module = MLP((8, 8)).build(4, 2)
    >>> embedder = Embedder(module, {"a": Time(2)})
    >>> parameters, same = embedder.initial(module, [0, 1, 2]), torch.eye(2).expand(3, 2, 2)
    >>> alignment = Alignment(torch.zeros(3, 2), same, same, reference=0)
    >>> first, last = torch.zeros(5, dtype=torch.long), torch.full((5,), 4)
    >>> recording = EncodedRecording(embedder, parameters, alignment, {}, torch.ones(5, 4), first, last)
    >>> maps, valid = integrated_gradients(recording, torch.arange(5))
    >>> maps.shape, bool(valid.all())
    (torch.Size([3, 5, 4, 1, 2]), True)
    """
    check_at_least_one("points", points)
    nodes, weights = np.polynomial.legendre.leggauss(points)
    rule = list(zip((weights / 2).tolist(), ((1 + nodes) / 2).tolist(), strict=True))

    def shares(block: Tensor) -> Tensor:
        way = ((weight, share * block) for weight, share in rule)
        return gradient_sum(recording, way) * as_factor(block)

    return in_blocks(recording.inputs(index), shares)
