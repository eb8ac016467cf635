"""Log-sum-exp over negatives in blocks of references, in plain torch: memory bounded, gradient written out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from ..losses import Term

__all__ = ["log_sum_exp", "log_sum_exps"]

BLOCK = 2**20
"""Largest number of reference-negative pairs worked on at once: they should stay in a CPU's cache."""
KEPT = 2**22
"""Largest number of pairs whose softmax is kept for the backward pass; that of more is computed again there."""
LOWEST = -80.0
"""Least exponent taken: exp(-80) is nothing beside 1, and below -87 a CPU's exp is ten times slower."""


class _LogSumExp(torch.autograd.Function):
    """log Σ_j exp ψ(r_i, n_j), forward in blocks of references, backward by recomputation."""

    @staticmethod
    def forward(ctx, reference, negatives, terms):
        models, batch, _ = reference.shape
        block = 4 * BLOCK if reference.is_cuda else BLOCK  # a GPU would rather be busy
        rows = max(1, min(batch, block // (models * negatives.shape[-2])))
        out = reference.new_empty(models, batch)
        weights: list[Tensor] = []
        for start in range(0, batch, rows):
            part = slice(start, start + rows)
            logits = _logits(terms, reference[:, part], negatives)
            largest = logits.amax(-1, keepdim=True)
            logits = logits.sub_(largest).clamp_min_(LOWEST).exp_()
            total = logits.sum(-1, keepdim=True)
            out[:, part] = (largest + total.log()).squeeze(-1)
            if out.numel() * negatives.shape[-2] <= KEPT and any(ctx.needs_input_grad):
                weights.append(logits.div_(total))
        ctx.save_for_backward(reference, negatives, out, *weights)
        ctx.terms, ctx.rows = terms, rows
        return out

    @staticmethod
    def backward(ctx, *gradients):
        (gradient,) = gradients
        reference, negatives, out, *weights = ctx.saved_tensors
        to_reference, to_negatives = torch.zeros_like(reference), torch.zeros_like(negatives)
        for start in range(0, reference.shape[1], ctx.rows):
            part = slice(start, start + ctx.rows)
            if weights:
                weight = weights[start // ctx.rows]
            else:
                weight = _logits(ctx.terms, reference[:, part], negatives)
                weight = weight.sub_(out[:, part].unsqueeze(-1)).clamp_min_(LOWEST).exp_()
            weight = weight * gradient[:, part].unsqueeze(-1)
            for similarity, where in ctx.terms:
                a, b = similarity.pull(weight, reference[:, part, where], negatives[..., where])
                to_reference[:, part, where] += a
                to_negatives[..., where] += b
        return to_reference, to_negatives, None


def _logits(terms: Sequence[Term], reference: Tensor, other: Tensor) -> Tensor:
    first, *rest = (similarity.pairwise(reference[..., w], other[..., w]) for similarity, w in terms)
    for logits in rest:
        first += logits
    return first


def log_sum_exp(reference: Tensor, negatives: Tensor, terms: Sequence[Term]) -> Tensor:
    """log Σ_j exp ψ(r_i, n_j): (model, B, d), (model, N, d) -> (model, B)."""
    out = _LogSumExp.apply(reference, negatives, tuple(terms))
    assert isinstance(out, Tensor)
    return out


def log_sum_exps(reference: Tensor, negatives: Tensor, objectives: Sequence[Sequence[Term]]) -> Tensor:
    """`log_sum_exp` of several objectives: (model, B, objective)."""
    return torch.stack([log_sum_exp(reference, negatives, terms) for terms in objectives], -1)
