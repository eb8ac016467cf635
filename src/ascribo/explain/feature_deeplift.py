"""DeepLIFT with the rescale rule (Shrikumar et al. 2017), for encoders whose nonlinearities are modules.

The gradient of each elementwise nonlinearity is replaced by the slope of the line from its baseline's activation
to the input's, so that what a unit passes on adds up to its difference from the baseline. The sum of the scores is
then g(x) - g(x̄) exactly; an encoder that hides a nonlinearity from us (a function instead of a module, a product
of two activations as in an LSTM, a maximum over units) is found out by that sum and refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..networks.encoders import Limit
from .encoders import Encoder, represent

__all__ = ["deeplift"]

ELEMENTWISE = (
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus),
    *(
        nn.Tanh,
        nn.Sigmoid,
        nn.Softsign,
        nn.Hardtanh,
        nn.Hardsigmoid,
        nn.Hardswish,
        nn.LogSigmoid,
        nn.Tanhshrink,
        Limit,
    ),
)
"""Layers that treat each unit by itself."""
NEAR = 1e-4
"""Relative difference of two activations below which their slope is the gradient between them."""
MISSED = 1e-3
"""Largest part of g that the scores may fail to add up to; rounding leaves 1e-5."""


class _Rescale(torch.autograd.Function):
    """Passes a value on, and gives its gradient back with a slope of our own."""

    @staticmethod
    def forward(ctx: Any, received: Tensor, output: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(slope)
        return output.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return grads[0] * ctx.saved_tensors[0], None, None


def deeplift(f: Encoder, x: Tensor, base: Tensor, anchors: Tensor) -> Tensor:
    """Scores (batch, question, ...) that add up to g(x) - g(x̄), from one pass forward and one back a question."""
    if not isinstance(f, nn.Module):
        raise ValueError(
            "deeplift needs the layers of the encoder, and was given a function: pass an nn.Module, or use "
            "method='integrated_gradients', which explains the same difference."
        )
    with _rescaled(f), torch.enable_grad():
        inputs = x.detach().requires_grad_()
        z = represent(f, torch.cat([inputs, base]))
        z, z_base = z.chunk(2)
        rows = []
        for k in range(anchors.shape[1]):
            value = (z * anchors[:, k]).sum()
            rows.append(torch.autograd.grad(value, inputs, retain_graph=True)[0])
    scores = torch.stack(rows, 1) * (x - base)[:, None]
    explained = scores.flatten(2).sum(-1)
    wanted = torch.einsum("bd,bkd->bk", (z - z_base).detach(), anchors)
    size = anchors.norm(dim=-1) * (z.detach().norm(dim=-1) + z_base.detach().norm(dim=-1))[:, None]
    missed = ((explained - wanted).abs() / size.clamp_min(torch.finfo(size.dtype).tiny)).max()
    if not missed <= MISSED:
        kinds = sorted({type(m).__name__ for m in f.modules() if not list(m.children())})
        raise ValueError(
            f"deeplift's scores miss the difference they explain by {float(missed):.1%}: the encoder has a "
            "nonlinearity that is not an elementwise layer of its own (a function such as torch.relu, a pooling "
            f"maximum, a product as in an LSTM). Its layers are {', '.join(kinds)}. Use modules such as nn.ReLU, "
            "or method='integrated_gradients', which explains the same difference."
        )
    return scores


@contextmanager
def _rescaled(module: nn.Module) -> Iterator[None]:
    """Inside the block, batches are inputs followed by their baselines, and nonlinearities have rescaled slopes."""
    layers = [m for m in module.modules() if isinstance(m, ELEMENTWISE)]
    in_place = [m for m in layers if getattr(m, "inplace", False)]
    handles = []
    try:
        for layer in in_place:  # what a layer overwrites cannot be looked at
            layer.__dict__["inplace"] = False
        handles = [layer.register_forward_hook(_rescale) for layer in layers]
        yield
    finally:
        for handle in handles:
            handle.remove()
        for layer in in_place:
            layer.__dict__["inplace"] = True


def _rescale(layer: nn.Module, received: tuple[Tensor, ...], output: Tensor) -> Tensor:
    a, b = received[0].detach().chunk(2)
    value, value_base = output.detach().chunk(2)
    delta = a - b
    # the quotient is exact in what it adds up to; only where rounding would decide on it, the gradient is better
    near = delta.abs() <= NEAR * (a.abs() + b.abs())
    with torch.enable_grad():
        middle = ((a + b) / 2).requires_grad_()
        (between,) = torch.autograd.grad(layer.forward(middle).sum(), middle)
    slope = torch.where(near, between, (value - value_base) / torch.where(near, 1, delta))
    return _Rescale.apply(received[0], output.detach(), torch.cat([slope, slope]))  # type: ignore[return-value]
