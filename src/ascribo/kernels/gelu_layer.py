"""A GELU layer, after its matrix product, on values and tangents that are rows of one matrix.

    value rows:    out = gelu(a),      a = row + bias
    tangent rows:  out = gelu'(a)·s,   s = row, a that of the value row it belongs to

with gelu(a) = aΦ(a), gelu'(a) = Φ(a) + aφ(a), gelu''(a) = φ(a)(2 - a²). The backward pass, given the gradients gv
and gt of value and tangent rows, is

    value rows:    gv·gelu'(a) + gt·s·gelu''(a)     tangent rows:  gt·gelu'(a)     bias: column sums of the former

Each way is one Triton kernel, or plain torch without Triton, which the kernels must equal. Rows may be float16:
they are computed in float32, as the bias and its gradient are. A CPU has a layer of its own (`gelu_layer_cpu`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .available import on_triton

__all__ = ["gelu_rows"]

DENSITY = 1 / math.sqrt(2 * math.pi)


def gelu_rows(rows: Tensor, bias: Tensor, tangents: int) -> Tensor:
    """GELU layer on rows (model, R + tangents, width) with bias (model, width), differentiable once in both.

    The last `tangents` rows are tangents at the first `tangents` rows.

    >>> rows = torch.tensor([[[0.0], [1.0]]])  # a value of 0 and its tangent: gelu(0) = 0, gelu'(0) = 1/2
    >>> gelu_rows(rows, torch.zeros(1, 1), tangents=1).flatten()
    tensor([0.0000, 0.5000])
    """
    out = _GeluRows.apply(rows, bias, tangents)
    assert isinstance(out, Tensor)
    return out


class _GeluRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, bias, tangents):
        ctx.tangents = tangents
        ctx.save_for_backward(rows, bias)
        if on_triton(rows):
            from . import gelu_layer_triton

            return gelu_layer_triton.forward(rows, bias, tangents)
        values = rows.shape[1] - tangents
        a = rows[:, :values] + bias[:, None]
        out = torch.empty_like(rows)
        out[:, :values] = torch.nn.functional.gelu(a)
        if tangents:
            out[:, values:] = torch.ops.aten.gelu_backward(rows[:, values:].to(a), a[:, :tangents])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):
        (gradient,) = gradients
        rows, bias = ctx.saved_tensors
        tangents = ctx.tangents
        values = rows.shape[1] - tangents
        if on_triton(rows):
            from . import gelu_layer_triton

            out = gelu_layer_triton.backward(rows, bias, gradient.contiguous(), tangents)
        else:
            a = rows[:, :values] + bias[:, None]
            out = torch.empty_like(rows)
            out[:, :values] = torch.ops.aten.gelu_backward(gradient[:, :values].to(a), a)
            if tangents:
                near, s, gt = a[:, :tangents], rows[:, values:].to(a), gradient[:, values:].to(a)
                out[:, values:] = torch.ops.aten.gelu_backward(gt, near)
                square = near.square()
                curvature = torch.exp(-0.5 * square).mul_(DENSITY).mul_(2 - square)
                out[:, :tangents] += curvature.mul_(s).mul_(gt)
        return out, out[:, :values].sum(1, dtype=bias.dtype), None
