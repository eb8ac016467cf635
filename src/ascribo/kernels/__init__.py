"""The inner loops worth writing by hand: log-sum-exp over negatives, a GELU layer with tangents, nearest points.

    reference.py    log-sum-exp by its definition, what the next two must equal
    blocked.py      in blocks of references, plain torch: the CPU, and whatever the kernel does not know
    streaming.py    one Triton kernel for each direction (tiles.py: its inner part; plan.py: what objectives share)
    rows.py         values and tangents of a GELU layer, plain torch (rows_triton.py: one kernel for each direction)
    pair.py         the same with the product before it, laid out for a CPU
    nearest_triton.py    the nearest of all points; its plain form is in `ascribo.spaces.nearest`

The log-sum-exps choose by device, `ascribo.networks.dense` between rows and pair. Triton is imported on first
use, and may be absent.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from . import blocked
from .available import on_triton
from .pair import gelu_pair
from .rows import gelu_rows
from .terms import Term

__all__ = ["gelu_pair", "gelu_rows", "log_sum_exp", "log_sum_exps"]


def log_sum_exp(reference: Tensor, negatives: Tensor, terms: Sequence[Term]) -> Tensor:
    """log Σ_j exp ψ(r_i, n_j): (model, B, d), (model, N, d) -> (model, B)."""
    return log_sum_exps(reference, negatives, [terms]).squeeze(-1)


def log_sum_exps(reference: Tensor, negatives: Tensor, objectives: Sequence[Sequence[Term]]) -> Tensor:
    """The same for several objectives, lists of terms, on shared references and negatives.

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
