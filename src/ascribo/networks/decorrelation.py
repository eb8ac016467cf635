"""Outputs without correlations, so that an encoder cannot leave a direction of its embedding empty."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["decorrelate"]

FLOOR = 1e-4
"""Variance that is added in every direction, as a share of the mean one: an empty direction is not blown up without
end."""


def decorrelate(z: Tensor) -> Tensor:
    """Outputs of a batch after a linear map that gives them mean 0 and covariance 1.

    z : (model, n, dim) with n above dim -> (model, n, dim). The map is the inverse of the Cholesky factor of the
    covariance, worked out in float64; gradients go through it.

    A contrastive loss alone lets an encoder squash a direction in which it does not yet know the latents, and once
    it is squashed nothing pulls it back: the loss has a saddle there. Decorrelated, the direction has to be filled
    with what pairs share, and of that the latents are the most.

    >>> z = torch.randn(1, 500, 2) @ torch.tensor([[1.0, 0.9], [0.0, 0.1]])
    >>> torch.cov(decorrelate(z)[0].T, correction=0).round(decimals=1).abs()
    tensor([[1., 0.],
            [0., 1.]])
    """
    apart = z.double() - z.double().mean(1, keepdim=True)
    covariance = apart.mT @ apart / z.shape[1]
    added = FLOOR * covariance.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True).expand(z.shape[::2])
    factor, _ = torch.linalg.cholesky_ex(covariance + torch.diag_embed(added))
    return torch.linalg.solve_triangular(factor, apart.mT, upper=False).mT.to(z.dtype)
