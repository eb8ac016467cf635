"""Gradient SHAP (Lundberg and Lee 2017) against the zero input."""

from __future__ import annotations

import torch
from torch import Tensor

from ..local_methods import local_method
from ..mean_gradients import as_factor, check_at_least_one, gradient_sum, in_blocks, uniform
from ..method_inputs import EncodedRecording

__all__ = ["shapley_zeros"]


@local_method("shapley_zeros")
@torch.no_grad()
def shapley_zeros(recording: EncodedRecording, index: Tensor, *, n_samples: int = 5) -> tuple[Tensor, Tensor]:
    """x times the mean gradient at random points between zero and x. Its expectation is `integrated_gradients`.

    n_samples : points drawn for each sample.
    """
    check_at_least_one("n_samples", n_samples)
    generator = recording.generator(index)

    def shares(block: Tensor) -> Tensor:
        way = ((1 / n_samples, uniform(block, generator) * block) for _ in range(n_samples))
        return gradient_sum(recording, way) * as_factor(block)

    return in_blocks(recording.inputs(index), shares)
