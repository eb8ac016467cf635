"""Inner loops that are written by hand for speed: the sum over negatives, a layer of the encoder, nearest points.

    similarity_terms.py         the protocol of a similarity, and how an objective is a sum of them
    log_sum_exp_reference.py    log-sum-exp over negatives by its definition, which the next two must equal
    log_sum_exp_blocked.py      the same in blocks of references, in plain torch: for a CPU
    log_sum_exp_triton.py       the same in Triton, for a GPU (log_sum_exp_tiles.py: one tile of pairs)
    shared_coordinates.py       which coordinates enter which objective, so that what they share is summed once
    gelu_layer.py               a GELU layer on values and tangents, for a GPU (gelu_layer_triton.py: its kernels)
    gelu_layer_cpu.py           the same layer together with its matrix product, laid out for a CPU
    nearest_triton.py           the nearest of many points, in Triton; the plain form is in `ascribo.spaces.nearest`

A log-sum-exp is computed where its tensors are; `ascribo.networks.dense` chooses between the two
forms of the layer. Triton is imported at first use, and may be absent.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..support.array_shapes import Float, shaped
from . import log_sum_exp_blocked
from .available import on_triton
from .gelu_layer import gelu_rows
from .gelu_layer_cpu import gelu_pair
from .similarity_terms import Term

__all__ = ["gelu_pair", "gelu_rows", "log_sum_exp", "log_sum_exps"]


@shaped
def log_sum_exp(
    reference: Float[Tensor, "model B d"], negatives: Float[Tensor, "model N d"], terms: Sequence[Term]
) -> Float[Tensor, "model B"]:
    """log Σ_j exp ψ(r_i, n_j): (model, B, d), (model, N, d) -> (model, B)."""
    return log_sum_exps(reference, negatives, [terms]).squeeze(-1)


@shaped
def log_sum_exps(
    reference: Float[Tensor, "model B d"],
    negatives: Float[Tensor, "model N d"],
    objectives: Sequence[Sequence[Term]],
) -> Float[Tensor, "model B objective"]:
    """`log_sum_exp` of several objectives (lists of terms) on the same references and negatives.

    Memory grows with the batch, never with its square.

    Returns
    -------
    (model, B, objective) tensor.
    """
    if on_triton(reference):
        from . import log_sum_exp_triton

        if log_sum_exp_triton.supports(reference, negatives, objectives):
            return log_sum_exp_triton.log_sum_exps(reference, negatives, objectives)
    return torch.stack([log_sum_exp_blocked.log_sum_exp(reference, negatives, terms) for terms in objectives], -1)
