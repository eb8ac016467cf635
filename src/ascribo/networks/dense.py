"""The encoder of Schneider et al. (2025) for a stack of models: values and tangents in one pass.

A tangent is what a direction in the input becomes at a layer: t = J·u, carried along by t' = gelu'(a)·(W t). With u
standard normal ‖J·u‖² is an unbiased estimate of ‖J‖²_F, so the penalty comes out of the forward pass that the
loss needs anyway, and one backward pass serves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..kernels.gelu_layer import gelu_rows
from ..kernels.gelu_layer_cpu import gelu_pair
from .encoders import Limit
from .half_precision import from_half, in_half, to_eights

__all__ = ["Dense", "as_dense"]


def as_dense(module: nn.Module) -> Dense | None:
    """A module made of Linear, GELU, ..., Linear, Limit as a `Dense`; None for any other module.

    >>> from ascribo import MLP
    >>> as_dense(MLP((8, 8)).build(4, 2)).layers
    ('0', '2', '4')
    """
    if not isinstance(module, nn.Sequential) or not isinstance(limit := module[-1], Limit):
        return None
    body = list(module.named_children())[:-1]
    wanted = [nn.Linear, nn.GELU] * (len(body) // 2) + [nn.Linear]
    fits = len(body) == len(wanted) and all(type(m) is w for (_, m), w in zip(body, wanted, strict=True))
    exact = all(m.approximate == "none" for _, m in body if isinstance(m, nn.GELU))
    whole = all(m.bias is not None for _, m in body if isinstance(m, nn.Linear))
    if not (fits and exact and whole):
        return None
    return Dense(tuple(name for name, m in body if isinstance(m, nn.Linear)), limit)


@dataclass(frozen=True)
class Dense:
    """A stack of MLPs of one architecture: names of the linear layers, and the limit at the end."""

    layers: tuple[str, ...]
    limit: Limit

    def __call__(
        self, parameters: Mapping[str, Tensor], x: Tensor, directions: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Embeddings and tangents.

        x : (model, R, channel); in float16 the layers compute in it (`half_precision`). directions :
        (model, T, channel), at the first T of them.
        Returns (model, R, dim) and J·u, (model, T, dim) (None without directions).
        """
        # kernels differentiate once: inputs that want a gradient of their own may want a second one
        rows = (x.is_cuda and not x.requires_grad) or x.dtype == torch.float16
        h, t = (self._by_rows if rows else self._by_units)(parameters, x, directions)
        z, limit = self.limit(h), self.limit
        if t is not None and limit.kind == "hard":
            t = t * (h[:, : t.shape[1]].abs() <= limit.scale)
        elif t is not None and limit.kind == "tanh":
            t = t * (1 - (z[:, : t.shape[1]] / limit.scale).square())
        return z, t

    def _by_rows(
        self, parameters: Mapping[str, Tensor], x: Tensor, directions: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """On a GPU: values and tangents are rows of one matrix, every layer one product and one kernel."""
        values, half = x.shape[1], x.dtype == torch.float16
        rows = x if directions is None else torch.cat([x, directions], 1)
        for name in self.layers[:-1]:
            weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
            if half:
                rows, (weight, bias) = to_eights(rows), in_half(weight, bias)
            rows = gelu_rows(rows @ weight.mT, bias, rows.shape[1] - values)
        last = parameters[f"{self.layers[-1]}.weight"]
        if half:
            rows = from_half(rows, last.shape[-1])
        rows = rows @ last.mT
        h = rows[:, :values] + parameters[f"{self.layers[-1]}.bias"][:, None]
        return h, None if directions is None else rows[:, values:]

    def _by_units(
        self, parameters: Mapping[str, Tensor], x: Tensor, directions: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """On a CPU: values and tangents apart, unit by unit in memory. Without directions plain torch."""
        v, t = x.mT, None if directions is None else directions.mT
        for name in self.layers[:-1]:
            weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
            if t is None:
                v = nn.functional.gelu(torch.baddbmm(bias[..., None], weight, v))
            else:
                v, t = gelu_pair(v, t, weight, bias)
        weight, bias = (parameters[f"{self.layers[-1]}.{kind}"] for kind in ("weight", "bias"))
        return torch.baddbmm(bias[..., None], weight, v).mT, None if t is None else (weight @ t).mT

    @torch.no_grad()
    def jacobian(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """∂z/∂x at x (model, B, channel): (model, B, dim, channel).

        Backwards from the outputs, all rows in one product per layer; the slope of a unit is computed once, where
        automatic differentiation would compute it for every output.
        """
        weights = [parameters[f"{name}.weight"] for name in self.layers]
        biases = [parameters[f"{name}.bias"][:, None] for name in self.layers]
        slopes = []
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            a = torch.baddbmm(bias, x, weight.mT)
            slopes.append(torch.ops.aten.gelu_backward(torch.ones_like(a), a))
            x = nn.functional.gelu(a)
        rows = weights[-1][:, None]
        if self.limit.kind != "none":
            h = torch.baddbmm(biases[-1], x, weights[-1].mT)
            tanh = 1 - torch.tanh(h / self.limit.scale).square()
            slope = (h.abs() <= self.limit.scale).to(h) if self.limit.kind == "hard" else tanh
            rows = rows * slope[..., None]
        for weight, slope in zip(weights[-2::-1], slopes[::-1], strict=True):
            rows = rows * slope[:, :, None]
            rows = (rows.flatten(1, 2) @ weight).unflatten(1, rows.shape[1:3])
        return rows.expand(-1, x.shape[1], -1, -1)  # one linear layer has one Jacobian for all samples
