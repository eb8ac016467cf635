"""SmoothGrad (Smilkov et al. 2017): the gradient averaged over noisy copies of the input."""

from __future__ import annotations

import torch
from torch import Tensor

from ..local_methods import local_method
from ..mean_gradients import check_at_least_one, gradient_sum, in_blocks
from ..method_inputs import EncodedRecording

__all__ = ["smoothgrad"]


@local_method("smoothgrad")
@torch.no_grad()
def smoothgrad(
    recording: EncodedRecording, index: Tensor, *, noise: float = 0.2, n_samples: int = 20
) -> tuple[Tensor, Tensor]:
    """The mean gradient at noisy copies of x.

    noise : standard deviation of the normal noise, as a fraction of that of the channels (which are standardised).
    n_samples : copies of each sample.
    """
    check_at_least_one("n_samples", n_samples)
    if not noise >= 0:
        raise ValueError(f"noise={noise!r}: expected a fraction of the channels' standard deviation, 0 or more.")
    generator = recording.generator(index)

    def mean(block: Tensor) -> Tensor:
        draw = {"generator": generator, "device": generator.device, "dtype": block.dtype}
        copies = (
            (1 / n_samples, block + noise * torch.randn(block.shape, **draw).to(block.device))
            for _ in range(n_samples)
        )
        return gradient_sum(recording, copies)

    return in_blocks(recording.inputs(index), mean)
