"""The two terms of a contrastive loss by themselves, so that they can be weighed against each other.

Zimmermann et al. (2020), equations 70 to 72 (where z is printed twice, one of them is meant to be the other
sample of the pair).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .. import kernels
from ..kernels.similarity_terms import Similarity

__all__ = ["alignment_uniformity", "weighted_loss"]


def alignment_uniformity(
    reference: Tensor,
    positive: Tensor,
    negative: Tensor,
    similarity: Similarity,
    *,
    count_positive: bool = False,
) -> tuple[Tensor, Tensor]:
    """Alignment -E ψ(z, z̃), and uniformity E log mean exp ψ(z, z⁻), of each model of a stack.

    For ψ = -‖a - b‖ᵖ these are the terms of L_AU(α, p). Their sum is InfoNCE less the logarithm of how many are
    compared, 0 at chance.

    reference, positive : (model, B, dim) embeddings of pairs. negative : (model, N, dim) what references are
        compared with. If these are the references themselves, each is compared with itself too, and the uniformity
        is never below -log N. If they are other samples it has no such bound: it falls as long as the embedding
        grows, by the distance to the nearest of them, and the loss falls with it wherever α times that distance
        is above 1 - α times that of a pair.
    count_positive : whether the positive is one of those that are compared, which bounds InfoNCE by -log (N + 1).
    Returns two tensors (model,).

    >>> from ascribo import Lp
    >>> z = torch.tensor([[[0.0], [100.0]]])
    >>> [round(float(term), 4) for term in alignment_uniformity(z, z + 1, z, Lp(1))]
    [1.0, -0.6931]
    """
    aligned = similarity.rowwise(reference, positive)
    uniform = kernels.log_sum_exp(reference, negative, ((similarity, slice(0, reference.shape[-1])),))
    compared = negative.shape[1]
    if count_positive:
        uniform, compared = torch.logaddexp(uniform, aligned), compared + 1
    return -aligned.mean(-1), uniform.mean(-1) - math.log(compared)


def weighted_loss(alignment: Tensor, uniformity: Tensor, alpha: Tensor | float) -> Tensor:
    """L_AU(α, p) = α uniformity + (1 - α) alignment (equation 70).

    >>> float(weighted_loss(torch.tensor(1.0), torch.tensor(-3.0), 0.75))
    -2.0
    """
    return alpha * uniformity + (1 - alpha) * alignment
