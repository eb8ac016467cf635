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
    reference: Tensor, positive: Tensor, similarity: Similarity, negatives: str = "references"
) -> tuple[Tensor, Tensor]:
    """Alignment -E ψ(z, z̃), and uniformity E log E exp ψ(z, z⁻), of each model of a stack.

    reference, positive : (model, B, dim) embeddings of pairs. For ψ = -‖a - b‖ᵖ these are the terms of L_AU(α, p).
    negatives : "references": those of the batch, each compared with itself too, which bounds the uniformity from
        below by -log B. "independent": each half of the batch has the other half as its negatives, as in equation
        72; the uniformity then has no bound, and falls as long as the embedding grows.
    Returns two tensors (model,).

    >>> from ascribo import Lp
    >>> z = torch.tensor([[[0.0], [100.0]]])
    >>> [round(float(term), 4) for term in alignment_uniformity(z, z + 1, Lp(1))]
    [1.0, -0.6931]
    """
    aligned = similarity.rowwise(reference, positive)
    whole = ((similarity, slice(0, reference.shape[-1])),)
    if negatives == "references":
        uniform = kernels.log_sum_exp(reference, reference, whole) - math.log(reference.shape[1])
    else:
        one, other = (part.contiguous() for part in reference.tensor_split(2, 1))
        parts = [(one, other), (other, one)]
        uniform = torch.cat([kernels.log_sum_exp(a, b, whole) - math.log(b.shape[1]) for a, b in parts], 1)
    return -aligned.mean(-1), uniform.mean(-1)


def weighted_loss(alignment: Tensor, uniformity: Tensor, alpha: Tensor | float) -> Tensor:
    """L_AU(α, p) = α uniformity + (1 - α) alignment (equation 70).

    >>> float(weighted_loss(torch.tensor(1.0), torch.tensor(-3.0), 0.75))
    -2.0
    """
    return alpha * uniformity + (1 - alpha) * alignment
