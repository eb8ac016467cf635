"""A GELU layer on values and tangents, product and all, for a CPU.

    values:    out = gelu(a),       a = W v + bias
    tangents:  out = gelu'(a)·s,    s = W t, a that of the value it belongs to

Arrays are (model, unit, sample): with the long side last a CPU multiplies a seventh faster than the other way
round, and what is done entry by entry runs over one piece of memory. The gradients are those of `rows`, written
out.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .gelu_layer import DENSITY

__all__ = ["gelu_pair"]

times_slope = torch.ops.aten.gelu_backward
"""times_slope(x, a) = x · gelu'(a)."""


def gelu_pair(values: Tensor, tangents: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The layer on values (model, inputs, R) and tangents (model, inputs, T), which are at the first T values.

    weight : (model, outputs, inputs). bias : (model, outputs). Differentiable once in all four.

    >>> one = torch.ones(1, 1, 1)  # a value of 0 and its tangent: gelu(0) = 0, gelu'(0) = 1/2
    >>> [out.item() for out in gelu_pair(0 * one, one, one, torch.zeros(1, 1))]
    [0.0, 0.5]
    """
    return _GeluPair.apply(values, tangents, weight, bias)  # type: ignore[return-value]


class _GeluPair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, tangents, weight, bias):
        a, s = torch.baddbmm(bias[..., None], weight, values), weight @ tangents
        ctx.save_for_backward(values, tangents, weight, a, s)
        return torch.nn.functional.gelu(a), times_slope(s, a[..., : s.shape[-1]])

    @staticmethod
    @once_differentiable
    def backward(ctx, gv, gt):
        values, tangents, weight, a, s = ctx.saved_tensors
        near = a[..., : s.shape[-1]]
        to_a, to_s = times_slope(gv, a), times_slope(gt, near)
        square = near.square()
        curvature = torch.exp(-0.5 * square).mul_(square.neg_().add_(2)).mul_(s).mul_(gt)
        to_a[..., : s.shape[-1]].add_(curvature, alpha=DENSITY)
        to_values, to_tangents = (
            weight.mT @ g if needed else None for g, needed in zip((to_a, to_s), ctx.needs_input_grad, strict=False)
        )
        to_weight = torch.baddbmm(to_a @ values.mT, to_s, tangents.mT)
        return to_values, to_tangents, to_weight, to_a.sum(-1)
