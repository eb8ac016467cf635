"""Log-sum-exp over negatives on a GPU (Triton), without ever writing a pair to memory.

    out[s, i, o] = log Σ_j exp ψ_o(r_si, n_sj),    ψ_o = a sum of terms -Σ_k |r_k - n_k|ᵖ or Σ_k r_k n_k

A program owns a block of rows of one model and walks over the rows of the other side: a running maximum and sum in
the forward pass, weights recomputed from them in the backward pass. Every ψ here is symmetric, so the gradients on
references and on negatives are one kernel; only the side that the maxima and sums belong to differs. Where the
negatives are the references themselves, both gradients are one walk over the pairs.

Differences are taken coordinate by coordinate in float32: ‖r‖² + ‖n‖² - 2 r·n would cancel for far-off embeddings,
and matrix units round to TF32. Objectives that share references and negatives share loads and, where their
coordinates overlap, partial sums. No atomics: two runs agree to the bit. No host synchronisation and no tuning at
run time: launches can be captured in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from .log_sum_exp_tiles import LN_2, LOG2_E, LOWEST, add, compare, load_rows, load_statistics, pull, weigh
from .shared_coordinates import Plan, make_plan
from .similarity_terms import Term

__all__ = ["log_sum_exps", "supports"]

MOST_COORDINATES = 64
SHORTEST = 32  # a walk over fewer rows is not worth a program of its own
WARPS = 132 * 16  # what keeps a Hopper GPU busy; a constant, so that results do not depend on the card

# Kernels are traced: this is Python by syntax only, and the type checker cannot follow.
# pyright: reportOperatorIssue=false, reportIndexIssue=false, reportArgumentType=false, reportCallIssue=false
# pyright: reportAttributeAccessIssue=false, reportOptionalSubscript=false, reportGeneralTypeIssues=false
# Its tuples grow by addition alone.
# ruff: noqa: RUF005


@triton.jit
def _forward(
    reference,
    negatives,
    largest,  # (model, split, B, objective): the largest ψ · log₂e met ...
    total,  # ... and Σ 2^(ψ · log₂e - largest)
    B,
    N,
    share,  # negatives of one split
    r_model,
    r_row,
    r_stride,
    n_model,
    n_row,
    n_stride,
    FIRSTS: tl.constexpr,
    LASTS: tl.constexpr,
    POWERS: tl.constexpr,
    MEMBERS: tl.constexpr,
    OPENS: tl.constexpr,
    SKIP: tl.constexpr,
    LAST: tl.constexpr,
    EVEN: tl.constexpr,
    OWN: tl.constexpr,
    OTHER: tl.constexpr,
):
    block, split, model = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    rows = block * OWN + tl.arange(0, OWN)
    own = load_rows(reference + model * r_model, rows, B, r_row, r_stride, True, SKIP, LAST)
    m, s = (), ()
    for _ in tl.static_range(len(OPENS)):
        m = m + (tl.full([OWN], LOWEST, tl.float32),)
        s = s + (tl.zeros([OWN], tl.float32),)
    for start in range(split * share, tl.minimum((split + 1) * share, N), OTHER):
        columns = start + tl.arange(0, OTHER)
        other = load_rows(negatives + model * n_model, columns, N, n_row, n_stride, not EVEN, SKIP, LAST)
        energies = compare(own, other, columns < N, EVEN, FIRSTS, LASTS, POWERS, MEMBERS, OPENS)
        new_m, new_s = (), ()
        for o in tl.static_range(len(OPENS)):
            top = tl.maximum(m[o], tl.min(energies[o], 0) * -LOG2_E)
            weight = tl.exp2(energies[o] * -LOG2_E - top[None, :])
            new_m = new_m + (top,)
            new_s = new_s + (s[o] * tl.exp2(m[o] - top) + tl.sum(weight, 0),)
        m, s = new_m, new_s
    at = ((model * tl.num_programs(1) + split) * B + rows) * len(OPENS)
    for o in tl.static_range(len(OPENS)):
        tl.store(largest + at + o, m[o], mask=rows < B)
        tl.store(total + at + o, s[o], mask=rows < B)


@triton.jit
def _combine(parts, totals, out, largest, inverse, size, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    """The splits of (model, split, size) into one: out = log Σ exp ψ, with the maxima and 1 / sums for later."""
    model = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = column < size
    at = model * SPLIT * size + tl.arange(0, SPLIT)[:, None] * size + column[None, :]
    m = tl.load(parts + at, mask=valid[None, :], other=0.0)
    s = tl.load(totals + at, mask=valid[None, :], other=1.0)
    top = tl.max(m, 0)
    s = tl.sum(s * tl.exp2(m - top[None, :]), 0)
    at = model * size + column
    tl.store(out + at, (top + tl.log2(s)) * LN_2, mask=valid)
    tl.store(largest + at, top, mask=valid)
    tl.store(inverse + at, 1.0 / s, mask=valid)


@triton.jit
def _backward(
    own_rows,
    other_rows,
    largest,  # (model, B, objective)
    inverse,  # (model, B, objective)
    gradient,  # (model, B, objective), any strides
    out,  # (model, split, M, dim)
    M,  # own rows ...
    N,  # ... and rows of the other side
    dim,
    share,
    x_model,
    x_row,
    x_stride,
    y_model,
    y_row,
    y_stride,
    g_model,
    g_row,
    g_stride,
    FIRSTS: tl.constexpr,
    LASTS: tl.constexpr,
    POWERS: tl.constexpr,
    MEMBERS: tl.constexpr,
    LEADS: tl.constexpr,
    OPENS: tl.constexpr,
    SKIP: tl.constexpr,
    LAST: tl.constexpr,
    OWN_REFERENCES: tl.constexpr,  # whether the own rows are the references ...
    OTHER_REFERENCES: tl.constexpr,  # ... and whether the other rows are
    EVEN: tl.constexpr,
    OWN: tl.constexpr,
    OTHER: tl.constexpr,
):
    block, split, model = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    rows = block * OWN + tl.arange(0, OWN)
    own = load_rows(own_rows + model * x_model, rows, M, x_row, x_stride, True, SKIP, LAST)
    size = model * (M if OWN_REFERENCES else N) * len(OPENS)
    largest, inverse, gradient = largest + size, inverse + size, gradient + model * g_model
    if OWN_REFERENCES:
        m, c = load_statistics(largest, inverse, gradient, rows, M, g_row, g_stride, len(OPENS), True)
    total = ()
    for _ in tl.static_range(SKIP, LAST):
        total = total + (tl.zeros([OWN], tl.float32),)
    for start in range(split * share, tl.minimum((split + 1) * share, N), OTHER):
        columns = start + tl.arange(0, OTHER)
        other = load_rows(other_rows + model * y_model, columns, N, y_row, y_stride, not EVEN, SKIP, LAST)
        energies = compare(own, other, columns < N, EVEN, FIRSTS, LASTS, POWERS, MEMBERS, OPENS)
        if OWN_REFERENCES:
            weights = weigh(energies, m, c, 0)
        if OTHER_REFERENCES:
            mo, co = load_statistics(largest, inverse, gradient, columns, N, g_row, g_stride, len(OPENS), not EVEN)
            weights = add(weights, weigh(energies, mo, co, 1)) if OWN_REFERENCES else weigh(energies, mo, co, 1)
        new = ()
        for k in tl.static_range(LAST - SKIP):
            sum_k = total[k]
            for g in tl.static_range(len(FIRSTS)):
                sum_k = pull(
                    own[k], other[k], weights, sum_k, k, FIRSTS[g], LASTS[g], POWERS[g], MEMBERS[g], LEADS[g]
                )
            new = new + (sum_k,)
        total = new
    at = ((model * tl.num_programs(1) + split) * M + rows) * dim + SKIP
    for k in tl.static_range(LAST - SKIP):
        tl.store(out + at + k, total[k], mask=rows < M)


def _walk(models: int, own: int, other: int, plan: Plan) -> tuple[tuple[int, int, int], int, dict[str, int]]:
    """How programs divide the pairs: the grid (blocks of own rows, splits of the other side, models), the other
    rows of a split, and the shape of a tile.

    Programs have one warp: rows live in registers and nothing is shared. The walk over the other side is split
    where the own rows alone would leave the card idle.
    """
    rows, columns = 64 if plan.last - plan.skip <= 16 else 32, 8  # what registers can hold
    blocks, split = triton.cdiv(own, rows), 1
    while blocks * models * split < WARPS and other >= 2 * split * SHORTEST:
        split *= 2
    share = triton.cdiv(triton.cdiv(other, split), columns) * columns
    return (blocks, split, models), share, {"OWN": rows, "OTHER": columns, "EVEN": other % columns == 0}


class _LogSumExps(torch.autograd.Function):
    """(model, B, d), (model, N, d), plan, whether both are one tensor -> (model, B, objective)."""

    @staticmethod
    def forward(ctx, reference, negatives, plan, same):
        models, B, _ = reference.shape
        N, count = negatives.shape[1], len(plan.opens)
        grid, share, tile = _walk(models, B, N, plan)
        parts, totals = reference.new_empty(2, models, grid[1], B, count)
        out, largest, inverse = reference.new_empty(3, models, B, count)
        with torch.cuda.device_of(reference):
            _forward[grid](
                reference, negatives, parts, totals, B, N, share, *reference.stride(), *negatives.stride(),
                FIRSTS=plan.firsts, LASTS=plan.lasts, POWERS=plan.powers, MEMBERS=plan.members, OPENS=plan.opens,
                SKIP=plan.skip, LAST=plan.last, **tile, num_warps=1,
            )  # fmt: skip
            _combine[(triton.cdiv(B * count, 64), models)](
                parts, totals, out, largest, inverse, B * count, SPLIT=grid[1], BLOCK=64, num_warps=2
            )
        ctx.save_for_backward(reference, negatives, largest, inverse)
        ctx.plan, ctx.same = plan, same
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):
        reference, negatives, *statistics = ctx.saved_tensors
        needed = ctx.needs_input_grad
        statistics.append(gradients[0])
        if ctx.same:  # the whole gradient on one of the two inputs, which autograd adds up
            return _gradient(reference, negatives, statistics, ctx.plan, True, True), None, None, None
        to_reference = _gradient(reference, negatives, statistics, ctx.plan, True, False) if needed[0] else None
        to_negatives = _gradient(negatives, reference, statistics, ctx.plan, False, True) if needed[1] else None
        return to_reference, to_negatives, None, None


def _gradient(
    own: Tensor, other: Tensor, statistics: list[Tensor], plan: Plan, own_references: bool, other_references: bool
) -> Tensor:
    """The gradient on `own` (model, M, d), given maxima, inverse sums and the loss's gradient of the references,
    which are the own rows, the other rows, or both."""
    (models, M, dim), N = own.shape, other.shape[1]
    grid, share, tile = _walk(models, M, N, plan)
    make = own.new_empty if plan.covers(dim) else own.new_zeros
    out = make(models, grid[1], M, dim)
    with torch.cuda.device_of(own):
        _backward[grid](
            own, other, *statistics, out, M, N, dim, share, *own.stride(), *other.stride(),
            *statistics[-1].stride(), FIRSTS=plan.firsts, LASTS=plan.lasts, POWERS=plan.powers,
            MEMBERS=plan.members, LEADS=plan.leads, OPENS=plan.opens, SKIP=plan.skip, LAST=plan.last,
            OWN_REFERENCES=own_references, OTHER_REFERENCES=other_references, **tile, num_warps=1,
        )  # fmt: skip
    return out.sum(1) if grid[1] > 1 else out.squeeze(1)


def supports(reference: Tensor, negatives: Tensor, objectives: Sequence[Sequence[Term]]) -> bool:
    """Whether the kernel computes this: float32, up to 64 coordinates, similarities it knows, nothing empty."""
    # In the class itself: one that inherits from a similarity may have changed what it computes.
    known = all("exponent" in vars(type(similarity)) for terms in objectives for similarity, _ in terms)
    fits = reference.shape[-1] <= MOST_COORDINATES and bool(reference.numel() and negatives.numel())
    return known and fits and reference.dtype == negatives.dtype == torch.float32


def log_sum_exps(reference: Tensor, negatives: Tensor, objectives: Sequence[Sequence[Term]]) -> Tensor:
    """log Σ_j exp ψ_o(r_i, n_j): (model, B, d), (model, N, d) -> (model, B, objective). Any strides."""
    plan, same = make_plan(objectives, reference.shape[-1]), negatives is reference
    out = _LogSumExps.apply(reference, negatives, plan, same)
    assert isinstance(out, Tensor)
    return out
