"""Gradients of the encoders, averaged over many points: what the methods that the papers compare with are made of.

These methods explain the encoder: how much of an output is due to an input (Schneider et al. 2025, section 5). What
"due" means differs, and so do the units: gradients (smoothgrad) are output per input, the others shares of the
output. Shares are counted from the zero input, the mean of the standardised channels, unless a method says
otherwise. Defaults are those of captum, as in the papers' code (which has neither smoothgrad nor deeplift).

Random draws are the same for all seeds and outputs, so a seed's map does not depend on the other seeds. They do
depend on the blocks that samples are taken in: a part of the samples gets other draws than the same samples within
the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import gelu

from ..networks.dense import Dense
from ..networks.encoders import Limit
from .jacobian import encoder_jacobian
from .method_inputs import EncodedRecording

__all__ = [
    "as_factor",
    "back_to_first",
    "check_at_least_one",
    "gelu_slope",
    "gradient_sum",
    "in_blocks",
    "limit_slope",
    "tanh_slope",
    "through_first",
    "uniform",
    "unit_inputs",
]

SAMPLES_AT_ONCE = {False: 256, True: 8192}
"""Samples differentiated together, on a CPU (whose cache should hold a layer) and on a GPU."""

Point = tuple[float, Tensor]
"""A weight, and one input for each sample, (B, channel[, window])."""


def in_blocks(x: Tensor, local: Callable[[Tensor], Tensor], size: int | None = None) -> tuple[Tensor, Tensor]:
    """Maps of a few samples at a time, put together, and that all of them are valid.

    x : (B, channel[, window]). local : makes the maps (seed, b, channel, window, dim) of a block of them.
    """
    maps = torch.cat([local(block) for block in x.split(size or SAMPLES_AT_ONCE[x.is_cuda])], 1)
    return maps, torch.ones(maps.shape[:2], dtype=torch.bool, device=maps.device)


def gradient_sum(recording: EncodedRecording, points: Iterable[Point]) -> Tensor:
    """Σ weight · J_fᵀ over points, aligned, one point in memory at a time: (seed, B, channel, window, dim)."""
    total: Tensor | None = None
    parameters, dense = recording.parameters, recording.embedder.dense
    if dense is None:
        for weight, x in points:
            jacobian = encoder_jacobian(recording.embedder, parameters, x)
            total = weight * jacobian if total is None else total.add_(jacobian, alpha=weight)
        assert total is not None
        return torch.einsum("skd,sbdcw->sbcwk", recording.alignment.inverse, total)
    for weight, x in points:  # the first layer's weights are the same at all points: they can wait for the sum
        *hidden, last = unit_inputs(dense, parameters, x)
        slopes = [*(gelu_slope(a) for a in hidden), limit_slope(dense.limit, last)]
        rows = back_to_first(recording, dense, slopes)
        total = torch.zeros_like(rows) if total is None else total
        total.addcmul_(rows, slopes[0][:, :, None], value=weight)
    assert total is not None
    return through_first(dense, parameters, total)


def unit_inputs(dense: Dense, parameters: Mapping[str, Tensor], x: Tensor) -> list[Tensor]:
    """What the units of each layer receive, what the limit receives last: each (seed, B, width)."""
    received: list[Tensor] = []
    for name in dense.layers:
        weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
        given = gelu(received[-1]) if received else x.expand(len(weight), *x.shape)
        received.append(torch.baddbmm(bias[:, None], given, weight.mT))
    return received


def back_to_first(recording: EncodedRecording, dense: Dense, slopes: list[Tensor]) -> Tensor:
    """From the aligned outputs back to the outputs of the first layer's units: (seed, B, dim, width).

    slopes : of the units of each layer, the limit's last, each (seed, B, width).
    """
    rows = recording.alignment.inverse[:, None]
    for name, slope in zip(dense.layers[:0:-1], slopes[:0:-1], strict=True):
        rows = rows * slope[:, :, None]
        rows = (rows.flatten(1, 2) @ recording.parameters[f"{name}.weight"]).unflatten(1, rows.shape[1:3])
    return rows.expand(-1, slopes[0].shape[1], -1, -1)


def through_first(dense: Dense, parameters: Mapping[str, Tensor], rows: Tensor) -> Tensor:
    """The last step back: rows (seed, B, dim, width) to (seed, B, channel, 1, dim)."""
    inputs = rows.flatten(1, 2) @ parameters[f"{dense.layers[0]}.weight"]
    return inputs.unflatten(1, rows.shape[1:3]).mT[:, :, :, None]


def gelu_slope(a: Tensor) -> Tensor:
    """Derivative of GELU at a."""
    return torch.ops.aten.gelu_backward(torch.ones_like(a), a)


def tanh_slope(a: Tensor) -> Tensor:
    """Derivative of tanh at a."""
    return 1 - torch.tanh(a).square()


def limit_slope(limit: Limit, h: Tensor) -> Tensor:
    """Derivative of the limit of an encoder's outputs at h."""
    if limit.kind == "tanh":
        return tanh_slope(h / limit.scale)
    return (h.abs() <= limit.scale).to(h) if limit.kind == "hard" else torch.ones_like(h)


def as_factor(x: Tensor) -> Tensor:
    """Inputs (B, channel[, window]) as a factor of maps: (B, channel, window, 1)."""
    return x[..., None] if x.ndim == 3 else x[..., None, None]


def uniform(x: Tensor, generator: torch.Generator) -> Tensor:
    """A number from 0 to 1 for each sample, shaped to multiply inputs."""
    shape = (len(x), *(1 for _ in x.shape[1:]))
    return torch.rand(shape, generator=generator, device=generator.device, dtype=x.dtype).to(x.device)


def check_at_least_one(name: str, value: int) -> None:
    """Refuse a number of points or draws below 1."""
    if value < 1:
        raise ValueError(f"{name}={value!r}: expected an integer of at least 1.")
