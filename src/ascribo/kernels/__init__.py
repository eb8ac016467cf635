"""Inner loops that are written by hand for speed: the sum over negatives, a layer of the encoder, nearest points.

    terms.py        the protocol of a similarity, and how an objective is a sum of them
    reference.py    log-sum-exp over negatives by its definition, which the next two must equal
    blocked.py      the same in blocks of references, in plain torch: for a CPU, and for similarities of users
    streaming.py    the same in Triton, for a GPU (tiles.py: its inner part; plan.py: what objectives share)
    rows.py         a GELU layer on values and tangents, for a GPU (rows_triton.py: the Triton kernels)
    pair.py         the same layer together with its matrix product, laid out for a CPU
    nearest_triton.py    the nearest of many points, in Triton; the plain form is in `ascribo.spaces.nearest`

A log-sum-exp is computed where its tensors are; `ascribo.networks.dense` chooses between rows and pair. Triton is
imported at first use, and may be absent.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..support.shapes import Float, shaped
from . import blocked
from .available import on_triton
from .pair import gelu_pair
from .rows import gelu_rows
from .terms import Term

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
        from . import streaming

        if streaming.supports(reference, negatives, objectives):
            return streaming.log_sum_exps(reference, negatives, objectives)
    return blocked.log_sum_exps(reference, negatives, objectives)
