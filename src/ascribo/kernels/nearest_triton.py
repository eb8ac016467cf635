"""The nearest of many points to each of many targets (Triton): all are compared, and no distance is kept.

For more variables than a grid can hold. A program owns a block of targets of one model and walks over a share of
the points; each of its lanes keeps the nearest it has met, and they are compared at the end.
"""

# Kernels are traced: this is Python by syntax only, and the type checker cannot follow.
# pyright: reportIndexIssue=false, reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false
# pyright: reportOperatorIssue=false, reportGeneralTypeIssues=false
# ruff: noqa: RUF005

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["nearest"]

OWN, OTHER = 16, 128
PROGRAMS = 132 * 8
"""What keeps a Hopper GPU busy; a constant, so that results do not depend on the card."""
SHORTEST = 8 * OTHER
"""Fewest points worth a program of their own."""


@triton.jit
def _nearest(
    points, which, target, period, best, found, B, N, share,
    K: tl.constexpr, CIRCULAR: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    block, split, model = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    rows = block * OWN + tl.arange(0, OWN)
    points += tl.load(which + model) * N * K
    own = ()
    for k in tl.static_range(K):
        own = own + (tl.load(target + (model * B + rows) * K + k, mask=rows < B, other=0.0),)
    smallest = tl.full([OWN, OTHER], float("inf"), tl.float32)
    number = tl.zeros([OWN, OTHER], tl.int32)
    for start in range(split * share, tl.minimum((split + 1) * share, N), OTHER):
        columns = start + tl.arange(0, OTHER)
        distance = tl.zeros([OWN, OTHER], tl.float32)
        for k in tl.static_range(K):
            other = tl.load(points + columns * K + k, mask=columns < N, other=float("inf"))
            apart = tl.abs(own[k][:, None] - other[None, :])
            if CIRCULAR:
                turn = tl.load(period + k)
                apart = tl.where(turn > 0, tl.minimum(apart, turn - apart), apart)
            distance += apart * apart
        closer = distance < smallest
        smallest = tl.where(closer, distance, smallest)
        number = tl.where(closer, columns[None, :], number)
    least = tl.min(smallest, 1)
    first = tl.min(tl.where(smallest == least[:, None], number, 2147483647), 1)
    at = (model * tl.num_programs(1) + split) * B + rows
    tl.store(best + at, least, mask=rows < B)
    tl.store(found + at, first, mask=rows < B)


def nearest(points: Tensor, which: Tensor, target: Tensor, period: Tensor | None) -> Tensor:
    """Number of the point nearest to each target (model, B, k) in the set `which` (model,): (model, B).

    points : (set, n, k) float32, padded with infinity. period : (k,), 0 for not circular; None if none is.
    """
    points, target, which = points.contiguous(), target.contiguous(), which.contiguous()
    models, B, K = target.shape
    N, blocks = points.shape[1], triton.cdiv(B, OWN)
    splits = max(1, min(triton.cdiv(PROGRAMS, blocks * models), triton.cdiv(N, SHORTEST)))
    share = triton.cdiv(triton.cdiv(N, splits), OTHER) * OTHER
    splits = triton.cdiv(N, share)
    best = torch.empty(models, splits, B, device=target.device)
    found = torch.empty(models, splits, B, device=target.device, dtype=torch.int32)
    _nearest[(blocks, splits, models)](
        points, which, target, points if period is None else period, best, found, B, N, share,
        K=K, CIRCULAR=period is not None, OWN=OWN, OTHER=OTHER,
    )  # fmt: skip
    return found.gather(1, best.argmin(1, keepdim=True)).squeeze(1).long()
