"""DeepLIFT (Shrikumar et al. 2017) with the rescale rule, for the MLP encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import gelu

from ...networks.dense import Dense
from ..local_methods import local_method
from ..mean_gradients import (
    as_factor,
    back_to_first,
    gelu_slope,
    in_blocks,
    limit_slope,
    tanh_slope,
    through_first,
    unit_inputs,
)
from ..method_inputs import EncodedRecording

__all__ = ["deeplift"]

Pointwise = Callable[[Tensor], Tensor]


@local_method("deeplift")
@torch.no_grad()
def deeplift(recording: EncodedRecording, index: Tensor) -> tuple[Tensor, Tensor]:
    """Shares that add up to f(x) - f(0), from one pass.

    Where a gradient has the slope of a unit at x, this has the slope of the line from the unit's activation at zero
    to that at x. For the MLP encoder only, its limit included. (captum knows neither GELU nor the limit, and takes
    their gradients instead.)
    """
    dense = recording.embedder.dense
    if dense is None:
        raise ValueError(
            "deeplift needs to know the encoder's layers, and does for the MLP encoder without blocks on a sphere "
            "only: use encoder='mlp' or ascribo.MLP(...), or another method such as integrated_gradients, which "
            "explains the same difference."
        )

    def shares(block: Tensor) -> Tensor:
        slopes = _rescaled(dense, recording.parameters, block)
        rows = back_to_first(recording, dense, slopes) * slopes[0][:, :, None]
        return through_first(dense, recording.parameters, rows) * as_factor(block)

    return in_blocks(recording.inputs(index), shares)


def _rescaled(dense: Dense, parameters: Mapping[str, Tensor], x: Tensor) -> list[Tensor]:
    """Slopes of the lines from each unit's input at zero to that at x, the limit's last: each (seed, B, width)."""
    *hidden, last = unit_inputs(dense, parameters, x)
    *hidden_zero, last_zero = unit_inputs(dense, parameters, torch.zeros_like(x[:1]))
    slopes = [_secant(gelu, gelu_slope, a, zero) for a, zero in zip(hidden, hidden_zero, strict=True)]
    if dense.limit.kind == "hard":  # a line with a kink: its difference is exact, however small
        delta = last - last_zero
        line = (dense.limit(last) - dense.limit(last_zero)) / delta
        return [*slopes, torch.where(delta == 0, limit_slope(dense.limit, last), line)]
    if dense.limit.kind == "tanh":
        unit = dense.limit.scale
        return [*slopes, _secant(torch.tanh, tanh_slope, last / unit, last_zero / unit)]
    return [*slopes, limit_slope(dense.limit, last)]


def _secant(function: Pointwise, slope: Pointwise, a: Tensor, b: Tensor) -> Tensor:
    """Slope of the line from b to a; from the gradient between them where their difference has few digits."""
    delta = a - b
    # rounding / δ is the error of the quotient, δ² / 24 that of the gradient: about equal here
    near = delta.abs() < torch.finfo(a.dtype).eps ** (1 / 3)
    return torch.where(near, slope((a + b) / 2), (function(a) - function(b)) / delta)
