"""Gradient SHAP (Lundberg and Lee 2017) against shuffled data."""

from __future__ import annotations

import torch
from torch import Tensor

from ..local_methods import local_method
from ..mean_gradients import as_factor, check_at_least_one, gradient_sum, in_blocks, uniform
from ..method_inputs import EncodedRecording

__all__ = ["shapley_shuffled"]


@local_method("shapley_shuffled")
@torch.no_grad()
def shapley_shuffled(recording: EncodedRecording, index: Tensor, *, n_samples: int = 5) -> tuple[Tensor, Tensor]:
    """The mean of (x - b) times the gradient at a random point between x and b, for references b.

    As in the papers' code the references are the recording, shuffled over time steps, channels and window alike:
    each entry of a reference is one of all entries of `EncodedRecording.background`, so a reference has no
    correlations. They are drawn with replacement, anew for each sample and point.

    n_samples : references and points drawn for each sample.
    """
    check_at_least_one("n_samples", n_samples)
    x, generator = recording.inputs(index), recording.generator(index)
    pool = recording.background().to(x).flatten()

    def share(block: Tensor) -> Tensor:
        chosen = torch.randint(len(pool), block.shape, generator=generator, device=generator.device)
        away = block - pool[chosen.to(pool.device)]
        point = block - uniform(block, generator) * away
        return gradient_sum(recording, [(1 / n_samples, point)]) * as_factor(away)

    def shares(block: Tensor) -> Tensor:
        total = share(block)
        for _ in range(n_samples - 1):
            total += share(block)
        return total

    return in_blocks(x, shares)
