"""The attribution methods the papers compare with (001, section 5), for all seeds and outputs at once.

They explain the encoder: how much of an output is due to an input. What "due" means differs, and so do the units:
gradients (smoothgrad) are output per input, the others shares of the output. The reference that shares are counted
from is the zero input, the mean of the standardised channels, unless a method says otherwise.

All take standardised inputs x (B, channel[, window]) and return maps (seed, B, channel, window, dim) in aligned
coordinates and valid (seed, B), here always True. Defaults are those of captum, as in the papers' code (which has
neither smoothgrad nor deeplift). Random draws are the same for all seeds and outputs, so a seed's map does not
depend on its company; they do depend on the blocks that samples are taken in, so a part of x gets other draws than
the same samples within the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import gelu, pad

from ..networks.alignment import Alignment
from ..networks.dense import Dense
from ..networks.encoders import Limit
from ..networks.stack import Embedder
from .jacobian import encoder_jacobian

__all__ = [
    "deeplift",
    "feature_ablation",
    "integrated_gradients",
    "shapley_shuffled",
    "shapley_zeros",
    "smoothgrad",
]

BLOCK = {False: 256, True: 8192}
"""Samples differentiated together, on a CPU (whose cache should hold a layer) and on a GPU."""
ROWS = {False: 2048, True: 65_536}
"""Ablated inputs embedded together."""

Point = tuple[float, Tensor]
"""A weight and one input for each sample, (B, channel[, window])."""
Pointwise = Callable[[Tensor], Tensor]


@torch.no_grad()
def integrated_gradients(
    embedder: Embedder, parameters: Mapping[str, Tensor], alignment: Alignment, x: Tensor, *, points: int = 50
) -> tuple[Tensor, Tensor]:
    """x times the mean gradient on the way from zero to x: shares that add up to f(x) - f(0).

    points : of the Gauss-Legendre rule for the mean. Where an output reaches its hard limit on the way, the
        gradient jumps, and the sum is right only to about one part in that many.

    Examples
    --------
    >>> from ascribo import MLP, Time
    >>> module = MLP((8, 8)).build(4, 2)
    >>> embedder = Embedder(module, {"a": Time(2)})
    >>> parameters, same = embedder.initial(module, [0, 1, 2]), torch.eye(2).expand(3, 2, 2)
    >>> alignment = Alignment(torch.zeros(3, 2), same, same, reference=0)
    >>> maps, valid = integrated_gradients(embedder, parameters, alignment, torch.ones(5, 4))
    >>> maps.shape, bool(valid.all())
    (torch.Size([3, 5, 4, 1, 2]), True)
    """
    _at_least_one("points", points)
    nodes, weights = np.polynomial.legendre.leggauss(points)
    rule = list(zip((weights / 2).tolist(), ((1 + nodes) / 2).tolist(), strict=True))

    def shares(block: Tensor) -> Tensor:
        way = ((weight, share * block) for weight, share in rule)
        return _gradient_sum(embedder, parameters, alignment, way) * _factor(block)

    return _by_block(x, shares)


@torch.no_grad()
def shapley_zeros(
    embedder: Embedder,
    parameters: Mapping[str, Tensor],
    alignment: Alignment,
    x: Tensor,
    *,
    generator: torch.Generator,
    n_samples: int = 5,
) -> tuple[Tensor, Tensor]:
    """Gradient SHAP against zero: x times the mean gradient at random points between zero and x.

    Its expectation is `integrated_gradients`. n_samples : points drawn for each sample.
    """
    _at_least_one("n_samples", n_samples)

    def shares(block: Tensor) -> Tensor:
        way = ((1 / n_samples, _uniform(block, generator) * block) for _ in range(n_samples))
        return _gradient_sum(embedder, parameters, alignment, way) * _factor(block)

    return _by_block(x, shares)


@torch.no_grad()
def shapley_shuffled(
    embedder: Embedder,
    parameters: Mapping[str, Tensor],
    alignment: Alignment,
    x: Tensor,
    *,
    background: Tensor,
    generator: torch.Generator,
    n_samples: int = 5,
) -> tuple[Tensor, Tensor]:
    """Gradient SHAP against shuffled data: the mean of (x - b) times the gradient at a random point between.

    background : (n, channel[, window]) standardised inputs, the whole recording or a part. As in the papers' code
        they are shuffled over samples, channels and window alike: each entry of a reference b is one of all their
        entries, so a reference has no correlations. Drawn with replacement, anew for each sample and point.
    n_samples : references and points drawn for each sample.
    """
    _at_least_one("n_samples", n_samples)
    if background.shape[1:] != x.shape[1:] or not background.numel():
        raise ValueError(
            f"background has shape {tuple(background.shape)}: expected one or more inputs like those of x, "
            f"(n, {', '.join(map(str, x.shape[1:]))})."
        )
    pool = background.to(x).flatten()

    def share(block: Tensor) -> Tensor:
        chosen = torch.randint(len(pool), block.shape, generator=generator, device=generator.device)
        away = block - pool[chosen.to(pool.device)]
        point = block - _uniform(block, generator) * away
        return _gradient_sum(embedder, parameters, alignment, [(1 / n_samples, point)]) * _factor(away)

    def shares(block: Tensor) -> Tensor:
        total = share(block)
        for _ in range(n_samples - 1):
            total += share(block)
        return total

    return _by_block(x, shares)


@torch.no_grad()
def smoothgrad(
    embedder: Embedder,
    parameters: Mapping[str, Tensor],
    alignment: Alignment,
    x: Tensor,
    *,
    generator: torch.Generator,
    noise: float = 0.2,
    n_samples: int = 20,
) -> tuple[Tensor, Tensor]:
    """The mean gradient at noisy copies of x.

    noise : standard deviation of the normal noise, as a fraction of the channels' (which are standardised).
    n_samples : copies of each sample.
    """
    _at_least_one("n_samples", n_samples)
    if not noise >= 0:
        raise ValueError(f"noise={noise!r}: expected a fraction of the channels' standard deviation, 0 or more.")

    def mean(block: Tensor) -> Tensor:
        draw = {"generator": generator, "device": generator.device, "dtype": block.dtype}
        copies = (
            (1 / n_samples, block + noise * torch.randn(block.shape, **draw).to(block.device))
            for _ in range(n_samples)
        )
        return _gradient_sum(embedder, parameters, alignment, copies)

    return _by_block(x, mean)


@torch.no_grad()
def deeplift(
    embedder: Embedder, parameters: Mapping[str, Tensor], alignment: Alignment, x: Tensor
) -> tuple[Tensor, Tensor]:
    """DeepLIFT with the rescale rule: shares that add up to f(x) - f(0), from one pass.

    Slopes of the gradient become slopes of the line from zero's to x's activation of a unit. For the MLP encoder
    only, limit included. (captum knows neither GELU nor the limit, and takes their gradients instead.)
    """
    dense = embedder.dense
    if dense is None:
        raise ValueError(
            "deeplift needs to know the encoder's layers, and does for the MLP encoder without blocks on a sphere "
            "only: use encoder='mlp' or ascribo.MLP(...), or another method such as integrated_gradients, which "
            "explains the same difference."
        )

    def shares(block: Tensor) -> Tensor:
        slopes = _rescaled(dense, parameters, block)
        rows = _back_to_first(dense, parameters, alignment, slopes) * slopes[0][:, :, None]
        return _through_first(dense, parameters, rows) * _factor(block)

    return _by_block(x, shares)


@torch.no_grad()
def feature_ablation(
    embedder: Embedder, parameters: Mapping[str, Tensor], alignment: Alignment, x: Tensor
) -> tuple[Tensor, Tensor]:
    """What an output loses when one input, a channel at one step of the window, is set to zero."""
    difference = _dense_ablation if embedder.dense is not None else _module_ablation

    def lost(block: Tensor) -> Tensor:
        parts = difference(embedder, parameters, block)  # (seed, B, input, dim)
        turned = parts.flatten(1, 2) @ alignment.inverse.mT
        return turned.unflatten(1, _factor(block).shape[:-1])

    # a block holds a few samples with all their ablated inputs
    return _by_block(x, lost, max(1, ROWS[x.is_cuda] // x.shape[1:].numel()))


def _dense_ablation(embedder: Embedder, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Zeroing an input takes its column of the first weight out of the first layer, nothing more."""
    dense = embedder.dense
    assert dense is not None
    weight, bias = parameters[f"{dense.layers[0]}.weight"], parameters[f"{dense.layers[0]}.bias"]
    # an input more, of nothing: what its removal leaves is the whole, in the same pass as the others
    x, columns = pad(x, (1, 0)), pad(weight.mT, (0, 0, 1, 0))
    whole = torch.baddbmm(bias[:, None], x.expand(len(weight), *x.shape), columns)
    h = torch.addcmul(whole[:, :, None], x[:, :, None], columns[:, None], value=-1)  # (seed, B, input, width)
    shape = h.shape[:3]
    h = h.flatten(1, 2)
    for name in dense.layers[1:]:
        h = torch.baddbmm(parameters[f"{name}.bias"][:, None], gelu(h), parameters[f"{name}.weight"].mT)
    z = dense.limit(h).reshape(*shape, -1)
    return z[:, :, :1] - z[:, :, 1:]


def _module_ablation(embedder: Embedder, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """The same for any encoder, each input of a window by itself."""
    seeds = len(next(iter(parameters.values())))
    inputs = x.shape[1:].numel()
    kept = 1 - torch.eye(inputs + 1, inputs, dtype=x.dtype, device=x.device)  # the last row keeps all
    copies = (x[:, None] * kept.view(inputs + 1, *x.shape[1:])).flatten(0, 1)
    z = embedder(parameters, copies.expand(seeds, *copies.shape)).unflatten(1, (len(x), inputs + 1))
    return z[:, :, -1:] - z[:, :, :-1]


def _gradient_sum(
    embedder: Embedder, parameters: Mapping[str, Tensor], alignment: Alignment, points: Iterable[Point]
) -> Tensor:
    """Σ weight · J_fᵀ over points, aligned, one point in memory at a time: (seed, B, channel, window, dim)."""
    total: Tensor | None = None
    dense = embedder.dense
    if dense is None:
        for weight, x in points:
            jacobian = encoder_jacobian(embedder, parameters, x)
            total = weight * jacobian if total is None else total.add_(jacobian, alpha=weight)
        assert total is not None
        return torch.einsum("skd,sbdcw->sbcwk", alignment.inverse, total)
    for weight, x in points:  # the first layer's weights are the same at all points: they can wait for the sum
        slopes = _slopes(dense, parameters, x)
        rows = _back_to_first(dense, parameters, alignment, slopes)
        total = torch.zeros_like(rows) if total is None else total
        total.addcmul_(rows, slopes[0][:, :, None], value=weight)
    assert total is not None
    return _through_first(dense, parameters, total)


def _slopes(dense: Dense, parameters: Mapping[str, Tensor], x: Tensor) -> list[Tensor]:
    """Slopes of the units of each layer at inputs x (B, channel), the limit's last: each (seed, B, width)."""
    *hidden, last = _unit_inputs(dense, parameters, x)
    return [*(_gelu_slope(a) for a in hidden), _limit_slope(dense.limit, last)]


def _rescaled(dense: Dense, parameters: Mapping[str, Tensor], x: Tensor) -> list[Tensor]:
    """The same for DeepLIFT: slopes of the lines from each unit's input at zero to that at x."""
    *hidden, last = _unit_inputs(dense, parameters, x)
    *hidden_zero, last_zero = _unit_inputs(dense, parameters, torch.zeros_like(x[:1]))
    slopes = [_secant(gelu, _gelu_slope, a, zero) for a, zero in zip(hidden, hidden_zero, strict=True)]
    if dense.limit.kind == "hard":  # a line with a kink: its difference is exact, however small
        delta = last - last_zero
        line = (dense.limit(last) - dense.limit(last_zero)) / delta
        return [*slopes, torch.where(delta == 0, _limit_slope(dense.limit, last), line)]
    if dense.limit.kind == "tanh":
        unit = dense.limit.scale
        return [*slopes, _secant(torch.tanh, _tanh_slope, last / unit, last_zero / unit)]
    return [*slopes, _limit_slope(dense.limit, last)]


def _secant(function: Pointwise, slope: Pointwise, a: Tensor, b: Tensor) -> Tensor:
    """Slope of the line from b to a; from the gradient between them where their difference has few digits."""
    delta = a - b
    # rounding / δ is the error of the quotient, δ² / 24 that of the gradient: about equal here
    near = delta.abs() < torch.finfo(a.dtype).eps ** (1 / 3)
    return torch.where(near, slope((a + b) / 2), (function(a) - function(b)) / delta)


def _unit_inputs(dense: Dense, parameters: Mapping[str, Tensor], x: Tensor) -> list[Tensor]:
    """What the units of each layer receive, the limit's last: each (seed, B, width)."""
    received: list[Tensor] = []
    for name in dense.layers:
        weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
        given = gelu(received[-1]) if received else x.expand(len(weight), *x.shape)
        received.append(torch.baddbmm(bias[:, None], given, weight.mT))
    return received


def _gelu_slope(a: Tensor) -> Tensor:
    return torch.ops.aten.gelu_backward(torch.ones_like(a), a)


def _tanh_slope(a: Tensor) -> Tensor:
    return 1 - torch.tanh(a).square()


def _limit_slope(limit: Limit, h: Tensor) -> Tensor:
    if limit.kind == "tanh":
        return _tanh_slope(h / limit.scale)
    return (h.abs() <= limit.scale).to(h) if limit.kind == "hard" else torch.ones_like(h)


def _back_to_first(
    dense: Dense, parameters: Mapping[str, Tensor], alignment: Alignment, slopes: list[Tensor]
) -> Tensor:
    """From the aligned outputs back to the outputs of the first layer's units: (seed, B, dim, width)."""
    rows = alignment.inverse[:, None]
    for name, slope in zip(dense.layers[:0:-1], slopes[:0:-1], strict=True):
        rows = rows * slope[:, :, None]
        rows = (rows.flatten(1, 2) @ parameters[f"{name}.weight"]).unflatten(1, rows.shape[1:3])
    return rows.expand(-1, slopes[0].shape[1], -1, -1)


def _through_first(dense: Dense, parameters: Mapping[str, Tensor], rows: Tensor) -> Tensor:
    """The last step back: rows (seed, B, dim, width) to (seed, B, channel, 1, dim)."""
    inputs = rows.flatten(1, 2) @ parameters[f"{dense.layers[0]}.weight"]
    return inputs.unflatten(1, rows.shape[1:3]).mT[:, :, :, None]


def _factor(x: Tensor) -> Tensor:
    """Inputs (B, channel[, window]) as a factor of maps: (B, channel, window, 1)."""
    return x[..., None] if x.ndim == 3 else x[..., None, None]


def _uniform(x: Tensor, generator: torch.Generator) -> Tensor:
    """A number from 0 to 1 for each sample, shaped to multiply inputs."""
    shape = (len(x), *(1 for _ in x.shape[1:]))
    return torch.rand(shape, generator=generator, device=generator.device, dtype=x.dtype).to(x.device)


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name}={value!r}: expected an integer of at least 1.")


def _by_block(x: Tensor, local: Callable[[Tensor], Tensor], size: int | None = None) -> tuple[Tensor, Tensor]:
    """A map of a few samples at a time, put together; and that all are valid."""
    maps = torch.cat([local(block) for block in x.split(size or BLOCK[x.is_cuda])], 1)
    return maps, torch.ones(maps.shape[:2], dtype=torch.bool, device=maps.device)
