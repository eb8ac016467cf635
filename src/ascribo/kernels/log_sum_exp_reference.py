"""Log-sum-exp over negatives by its definition, with every pair in memory: what the fast forms must equal."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..support.array_shapes import Float, shaped
from .similarity_terms import Term

__all__ = ["log_sum_exp", "log_sum_exps"]


@shaped
def log_sum_exp(
    reference: Float[Tensor, "model B d"], negatives: Float[Tensor, "model N d"], terms: Sequence[Term]
) -> Float[Tensor, "model B"]:
    """log Σ_j exp Σ_terms ψ(r_i, n_j): (model, B, d), (model, N, d) -> (model, B), any dtype, any device.

    >>> from ascribo.spaces.similarities import SquaredL2
    >>> log_sum_exp(torch.zeros(1, 2, 3), torch.zeros(1, 8, 3), [(SquaredL2(), slice(0, 3))]).exp()
    tensor([[8., 8.]])
    """
    rows, columns = reference.unsqueeze(2), negatives.unsqueeze(1)  # rowwise broadcasts to (model, B, N)
    return sum(s.rowwise(rows[..., where], columns[..., where]) for s, where in terms).logsumexp(-1)  # type: ignore


@shaped
def log_sum_exps(
    reference: Float[Tensor, "model B d"],
    negatives: Float[Tensor, "model N d"],
    objectives: Sequence[Sequence[Term]],
) -> Float[Tensor, "model B objective"]:
    """`log_sum_exp` of several objectives: (model, B, objective)."""
    return torch.stack([log_sum_exp(reference, negatives, terms) for terms in objectives], -1)
