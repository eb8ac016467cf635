"""Layers in float16 between float32 parameters and a float32 loss.

Products of a GPU in TF32 round their inputs to ten bits after the point. float16 has as many, so what lies between
the layers can be kept in it: half of the memory traffic, and products of twice the speed. Its range is small:
gradients are carried `SCALE` times as large through the layers, and those of parameters are divided by it again.
Sums are taken in float32. Units are filled up with zeros to a multiple of eight: products of other sizes are three
times as slow.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["SCALE", "from_half", "in_half", "to_eights"]

SCALE = 4096.0
"""The loss is a mean over a batch, so gradients of single rows are that much smaller than those of parameters."""


EIGHT = 8
"""Numbers of float16 that are read at once."""


def to_eights(x: Tensor, axes: int = 1) -> Tensor:
    """Zeros at the end of the last axes, up to a multiple of eight.

    >>> to_eights(torch.ones(3, 10), 2).shape
    torch.Size([8, 16])
    """
    missing = [part for k in range(1, axes + 1) for part in (0, -x.shape[-k] % EIGHT)]
    return pad(x, missing) if any(missing) else x


def in_half(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Weight (model, out, in) of a layer in float16, and bias (model, out), both filled up to multiples of eight;
    their gradients, in float32, are divided by the scale."""
    return _cast(to_eights(weight, 2), torch.float16, 1 / SCALE), _cast(to_eights(bias), bias.dtype, 1 / SCALE)


def from_half(rows: Tensor, width: int) -> Tensor:
    """The first `width` units of the last layer in float16 as float32; gradients on the way back are multiplied by
    the scale.

    >>> rows = torch.ones(3, dtype=torch.float16, requires_grad=True)
    >>> from_half(rows, 3).mul(1e-7).sum().backward()  # 1e-7 has two of its bits left in float16
    >>> float(rows.grad[0]) == float(torch.tensor(4096e-7, dtype=torch.float16))
    True
    """
    return _cast(rows[..., :width], torch.float32, SCALE)


def _cast(x: Tensor, dtype: torch.dtype, factor: float) -> Tensor:
    """A copy of another kind; the gradient that comes back is multiplied by the factor."""
    out = _Cast.apply(x, dtype, factor)
    assert isinstance(out, Tensor)
    return out


class _Cast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dtype, factor):
        ctx.dtype, ctx.factor = x.dtype, factor
        return x.to(dtype, copy=True)

    @staticmethod
    def backward(ctx, *gradients):
        (gradient,) = gradients
        return (gradient.float() * ctx.factor).to(ctx.dtype), None, None
