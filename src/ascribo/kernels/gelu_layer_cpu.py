"""A GELU layer on values and tangents, product and all, for a CPU.

    values:    out = gelu(a),       a = W v + bias
    tangents:  out = gelu'(a)·s,    s = W t, a that of the value it belongs to

Arrays are (model, unit, sample): with the long side last a CPU multiplies a seventh faster than the other way
round, and what is done entry by entry runs over one piece of memory. The gradients are those of `rows`, written
out.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .gelu_layer import DENSITY

__all__ = ["gelu_pair"]

times_slope = torch.ops.aten.gelu_backward
"""times_slope(x, a) = x · gelu'(a)."""
LOG2_OF_NORMAL = -0.5 * math.log2(math.e)
"""exp(-a²/2) is 2 to the power of this times a²: a CPU's exp2 takes a third of the time of its exp."""


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
        near = a[..., : s.shape[-1]]
        slope = times_slope(torch.ones_like(near), near)  # used three times, here and in the backward pass
        ctx.save_for_backward(values, tangents, weight, a, s, slope)
        return torch.nn.functional.gelu(a), s * slope

    @staticmethod
    @once_differentiable
    def backward(ctx, gv, gt):
        values, tangents, weight, a, s, slope = ctx.saved_tensors
        first, others = slice(s.shape[-1]), slice(s.shape[-1], None)  # the values with a tangent, and those without
        square = a[..., first].square()
        curvature = torch.exp2(square * LOG2_OF_NORMAL).mul_(square.neg_().add_(2)).mul_(s).mul_(gt)
        to_a, to_s = torch.empty_like(a), gt * slope
        torch.mul(gv[..., first], slope, out=to_a[..., first]).add_(curvature, alpha=DENSITY)
        times_slope.grad_input(gv[..., others], a[..., others], grad_input=to_a[..., others])
        to_values, to_tangents = (
            weight.mT @ g if needed else None for g, needed in zip((to_a, to_s), ctx.needs_input_grad, strict=False)
        )
        to_weight = torch.baddbmm(to_a @ values.mT, to_s, tangents.mT)
        return to_values, to_tangents, to_weight, to_a.sum(-1)
