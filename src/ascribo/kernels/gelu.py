"""A GELU layer with its tangent: value h = gelu(a), and the directional derivative t = gelu'(a) · s beside it.

    gelu(x) = x Φ(x),    gelu'(x) = Φ(x) + x φ(x),    gelu''(x) = (2 - x²) φ(x),    Φ, φ: the standard normal

The tangent carries the Jacobian penalty forward through an encoder. Autograd would keep and visit a dozen
intermediate arrays for it; here each direction reads its inputs once and writes its outputs once.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .available import on_triton

__all__ = ["gelu_with_tangent"]


class _GeluWithTangent(torch.autograd.Function):
    """(model, R, w), (model, R0, w), (model, w) or None -> (model, R, w), (model, R0, w)."""

    @staticmethod
    def forward(ctx, a, s, bias):
        ctx.save_for_backward(a, s, bias)
        if on_triton(a):
            from . import gelu_triton

            return gelu_triton.forward(a, s, bias)
        x, cdf, pdf = _normal(a, bias)
        first = s.shape[1]
        return x * cdf, torch.addcmul(cdf[:, :first], x[:, :first], pdf[:, :first]) * s

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):
        a, s, bias = ctx.saved_tensors
        to_h, to_t = gradients
        if on_triton(a):
            from . import gelu_triton

            return gelu_triton.backward(a, s, bias, to_h, to_t)
        x, cdf, pdf = _normal(a, bias)
        first = s.shape[1]
        slope = torch.addcmul(cdf, x, pdf)
        to_s = to_t * slope[:, :first]
        to_a = slope.mul_(to_h)
        bend = (2 - x[:, :first].square()).mul_(pdf[:, :first])
        to_a[:, :first] += bend.mul_(to_t).mul_(s)
        return to_a, to_s, None if bias is None else to_a.sum(1)


def _normal(a: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """x = a + bias, Φ(x) and φ(x)."""
    x = a if bias is None else a + bias.unsqueeze(1)
    cdf = (x * math.sqrt(0.5)).erf_().add_(1).mul_(0.5)
    pdf = x.square().mul_(-0.5).exp_().mul_(1 / math.sqrt(2 * math.pi))
    return x, cdf, pdf


def gelu_with_tangent(a: Tensor, s: Tensor | None = None, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """gelu(a + bias), and gelu'(a + bias) · s for the first rows.

    Parameters
    ----------
    a : (model, R, w) pre-activations.
    s : (model, R0, w) their tangents, of the first R0 ≤ R rows; None for no tangents.
    bias : (model, w).

    Returns
    -------
    (model, R, w) values and (model, R0, w) tangents. Differentiable once.

    Examples
    --------
    >>> h, t = gelu_with_tangent(torch.zeros(1, 2, 3), torch.ones(1, 1, 3))
    >>> t  # gelu'(0) = 1/2
    tensor([[[0.5000, 0.5000, 0.5000]]])
    """
    if s is None:
        s = a[:, :0]
    h, t = _GeluWithTangent.apply(a, s, bias)  # type: ignore[misc]
    return h, t
