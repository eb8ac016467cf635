"""The Jacobian penalty ‖J_f‖²_F of Schneider et al. (2025), section 3, computed exactly."""

from __future__ import annotations

import torch
from torch import Tensor

from ..support.array_shapes import Float, shaped

__all__ = ["jacobian_penalty"]


@shaped
def jacobian_penalty(
    embedding: Float[Tensor, "model B d"], inputs: Float[Tensor, "model B *input"]
) -> Float[Tensor, " model"]:
    """Mean over samples of ‖J_f‖²_F for each model, exact and differentiable, by d backward passes.

    Training estimates it along one random direction instead (`Embedder.with_tangents`): for u standard normal
    ‖J_f u‖² is unbiased.

    Parameters
    ----------
    embedding : (model, B, d), computed from `inputs`.
    inputs : (model, B, ...) with requires_grad.

    Examples
    --------
    >>> x = torch.randn(1, 10, 4, requires_grad=True)
    >>> round(jacobian_penalty(2 * x[..., :3], x).item(), 4)  # J is 2·I on three channels
    12.0
    """
    total = embedding.new_zeros(embedding.shape[0])
    for row in torch.eye(embedding.shape[-1], dtype=embedding.dtype, device=embedding.device):
        (pulled,) = torch.autograd.grad(embedding, inputs, row.expand_as(embedding), create_graph=True)
        total = total + pulled.flatten(2).square().sum(-1).mean(-1)
    return total
