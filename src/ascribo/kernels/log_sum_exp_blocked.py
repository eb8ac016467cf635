"""Log-sum-exp over negatives in plain torch, in blocks of references so that memory stays bounded."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..support.array_shapes import Float, shaped
from .similarity_terms import Term

__all__ = ["log_sum_exp"]

PAIRS_AT_ONCE = 2**20
"""Largest number of pairs (reference, negative) that are computed at once: they should stay in a CPU's cache."""
LOWEST = -115.0
"""Least power of two taken: 2^-115 is nothing beside 1, and below 2^-126 a CPU's exp2 takes twice as long."""


class _LogSumExp(torch.autograd.Function):
    """log Σ_j exp ψ(r_i, n_j), forward in blocks of references, backward by recomputation."""

    @staticmethod
    def forward(ctx, reference, negatives, terms):
        models, batch, _ = reference.shape
        block = 4 * PAIRS_AT_ONCE if reference.is_cuda else PAIRS_AT_ONCE  # a GPU would rather be busy
        rows = max(1, min(batch, block // (models * negatives.shape[-2])))
        out = reference.new_empty(models, batch)
        for start in range(0, batch, rows):
            part = slice(start, start + rows)
            logits = _logits(terms, reference[:, part], negatives)
            largest = logits.amax(-1, keepdim=True)
            total = _exp_(logits.sub_(largest)).sum(-1, keepdim=True)
            out[:, part] = (largest + total.log()).squeeze(-1)
        ctx.save_for_backward(reference, negatives, out)
        ctx.terms, ctx.rows = terms, rows
        return out

    @staticmethod
    def backward(ctx, *gradients):
        (gradient,) = gradients
        reference, negatives, out = ctx.saved_tensors
        to_reference, to_negatives = torch.zeros_like(reference), torch.zeros_like(negatives)
        for start in range(0, reference.shape[1], ctx.rows):
            part = slice(start, start + ctx.rows)
            weight = _logits(ctx.terms, reference[:, part], negatives).sub_(out[:, part].unsqueeze(-1))
            weight = _exp_(weight).mul_(gradient[:, part].unsqueeze(-1))
            for similarity, where in ctx.terms:
                a, b = similarity.pull(weight, reference[:, part, where], negatives[..., where])
                to_reference[:, part, where] += a
                to_negatives[..., where] += b
        return to_reference, to_negatives, None


def _exp_(exponents: Tensor) -> Tensor:
    """The exponential, in place. As a power of two it takes a CPU less than half the time of torch's own."""
    return exponents.mul_(math.log2(math.e)).clamp_min_(LOWEST).exp2_()


def _logits(terms: Sequence[Term], reference: Tensor, other: Tensor) -> Tensor:
    first, *rest = (similarity.pairwise(reference[..., w], other[..., w]) for similarity, w in terms)
    for logits in rest:
        first += logits
    return first


@shaped
def log_sum_exp(
    reference: Float[Tensor, "model B d"], negatives: Float[Tensor, "model N d"], terms: Sequence[Term]
) -> Float[Tensor, "model B"]:
    """log Σ_j exp ψ(r_i, n_j): (model, B, d), (model, N, d) -> (model, B)."""
    out = _LogSumExp.apply(reference, negatives, tuple(terms))
    assert isinstance(out, Tensor)
    return out
