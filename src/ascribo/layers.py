"""The papers' MLP for a stack of models, values and tangents in one pass.

A tangent is what a direction in the input becomes at a layer: t = J·u, carried along by t' = gelu'(a)·(W t). With u
standard normal ‖J·u‖² is an unbiased estimate of ‖J‖²_F, so the penalty comes out of the forward pass that the
loss needs anyway, and one backward pass serves both. Values and tangents are rows of one matrix: every layer is
one matrix product and one pointwise kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .encoders import Limit
from .kernels.rows import gelu_rows

__all__ = ["Dense", "dense_of"]


def dense_of(module: nn.Module) -> Dense | None:
    """The short way through a module that is Linear, GELU, ..., Linear, Limit; None if it is another.

    >>> from ascribo import MLP
    >>> dense_of(MLP((8, 8)).build(4, 2)).layers
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

    def __call__(self, parameters: Mapping[str, Tensor], rows: Tensor, tangents: int) -> Tensor:
        """Embeddings and tangents.

        rows : (model, R + tangents, channel), inputs and then directions at the first `tangents` of them.
        Returns (model, R + tangents, dim), embeddings and then J·u.
        """
        for name in self.layers[:-1]:
            product = rows @ parameters[f"{name}.weight"].mT
            rows = gelu_rows(product, parameters[f"{name}.bias"], tangents)
        rows = rows @ parameters[f"{self.layers[-1]}.weight"].mT
        values = rows.shape[1] - tangents
        h, t = rows[:, :values] + parameters[f"{self.layers[-1]}.bias"][:, None], rows[:, values:]
        z, limit = self.limit(h), self.limit
        if tangents and limit.kind == "hard":
            t = t * (h[:, :tangents].abs() <= limit.scale)
        elif tangents and limit.kind == "tanh":
            t = t * (1 - (z[:, :tangents] / limit.scale).square())
        return torch.cat([z, t], 1)
