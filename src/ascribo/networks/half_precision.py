"""Layers in float16 between float32 parameters and a float32 loss.

Products of a GPU in TF32 round their inputs to ten bits after the point. float16 has as many, so what lies between
the layers can be kept in it: half of the memory traffic, and products of twice the speed. Its range is small:
gradients are carried `SCALE` times as large through the layers, and those of parameters are divided by it again.
Sums are taken in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["SCALE", "from_half", "in_half", "unscaled"]

SCALE = 4096.0
"""The loss is a mean over a batch, so gradients of single rows are that much smaller than those of parameters."""


def in_half(weight: Tensor) -> Tensor:
    """A weight in float16; its gradient, in float32, is divided by the scale."""
    return _Cast.apply(weight, torch.float16, 1 / SCALE)  # type: ignore[return-value]


def unscaled(bias: Tensor) -> Tensor:
    """A bias as it is; its gradient is divided by the scale."""
    return _Cast.apply(bias, bias.dtype, 1 / SCALE)  # type: ignore[return-value]


def from_half(rows: Tensor) -> Tensor:
    """Outputs of the last layer in float16 as float32; gradients on the way back are multiplied by the scale.

    >>> rows = torch.ones(3, dtype=torch.float16, requires_grad=True)
    >>> from_half(rows).mul(1e-7).sum().backward()  # 1e-7 has two of its bits left in float16
    >>> float(rows.grad[0]) == float(torch.tensor(4096e-7, dtype=torch.float16))
    True
    """
    return _Cast.apply(rows, torch.float32, SCALE)  # type: ignore[return-value]


class _Cast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dtype, factor):
        ctx.dtype, ctx.factor = x.dtype, factor
        return x.to(dtype, copy=True)

    @staticmethod
    def backward(ctx, *gradients):
        (gradient,) = gradients
        return (gradient.float() * ctx.factor).to(ctx.dtype), None, None
