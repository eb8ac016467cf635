"""What one program of the streaming kernels does with a tile of pairs (Triton): load, compare, weigh, pull.

A tile is (other, own): the own rows lie along the threads, the others in registers, so that sums over `other` need
no exchange between threads. Tuples hold one vector for each coordinate, or one tile for each objective. The
capital names are compile-time constants, see `plan.Plan`.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = [
    "HIGHEST",
    "LN_2",
    "LOG2_E",
    "LOWEST",
    "add",
    "compare",
    "load_rows",
    "load_statistics",
    "pull",
    "weigh",
]

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
LOWEST = tl.constexpr(-3.0e38)  # finite: the difference of two empty maxima is 0, not NaN
HIGHEST = tl.constexpr(3.0e38)

# Kernels are traced: this is Python by syntax only, and the type checker cannot follow.
# pyright: reportOperatorIssue=false, reportIndexIssue=false, reportArgumentType=false, reportCallIssue=false
# pyright: reportAttributeAccessIssue=false, reportOptionalSubscript=false, reportGeneralTypeIssues=false
# Its tuples grow by addition alone.
# ruff: noqa: RUF005


@triton.jit
def power(x, P: tl.constexpr):
    """xᴾ for x ≥ 0: products, a square root for a half, else float64, for log2 in float32 is too coarse."""
    if P == 0:
        out = tl.full(x.shape, 1.0, tl.float32)
    elif P == 0.5:
        out = tl.sqrt(x)
    elif P == 1:
        out = x
    elif P <= 8 and P % 0.5 == 0:
        out = x * power(x, P - 1)
    else:
        out = tl.exp2(P * tl.log2(x.to(tl.float64))).to(tl.float32)
    return out


@triton.jit
def pair_energy(x, y, P: tl.constexpr):
    """-ψ on one coordinate: |x - y|ᴾ, or -x y for P = 0."""
    if P == 0:
        out = -x * y
    elif P == 2:
        out = (x - y) * (x - y)
    else:
        out = power(tl.abs(x - y), P)
    return out


@triton.jit
def pair_slope(x, y, P: tl.constexpr):
    """∂ψ/∂x on one coordinate, without its factor P."""
    d = y - x
    if P == 0:
        out = y
    elif P == 2:
        out = d
    elif P > 2:
        out = power(tl.abs(d), P - 2) * d
    else:
        sign = tl.minimum(tl.maximum(d * HIGHEST, -1.0), 1.0)  # fewer instructions than two comparisons
        out = power(tl.abs(d), P - 1) * sign
    return out


@triton.jit
def load_rows(pointer, rows, end, row_stride, stride, MASKED: tl.constexpr, SKIP: tl.constexpr, LAST: tl.constexpr):
    """Coordinates SKIP:LAST of some rows, a tuple of vectors; zeros for rows from `end` on."""
    out = ()
    for k in tl.static_range(SKIP, LAST):
        at = pointer + rows * row_stride + k * stride
        out = out + (tl.load(at, mask=rows < end, other=0.0) if MASKED else tl.load(at),)
    return out


@triton.jit
def sum_energies(own, other, FIRST: tl.constexpr, LAST: tl.constexpr, P: tl.constexpr):
    """-ψ over coordinates FIRST:LAST of every pair: a tile (other, own)."""
    out = pair_energy(own[FIRST][None, :], other[FIRST][:, None], P)
    for k in tl.static_range(FIRST + 1, LAST):
        out += pair_energy(own[k][None, :], other[k][:, None], P)
    return out


@triton.jit
def compare(
    own,
    other,
    valid,
    ALL: tl.constexpr,
    FIRSTS: tl.constexpr,
    LASTS: tl.constexpr,
    POWERS: tl.constexpr,
    MEMBERS: tl.constexpr,
    OPENS: tl.constexpr,
):
    """-ψ_o of every pair, by objective; rows of `other` that are not valid are as far away as can be."""
    pieces = ()
    for g in tl.static_range(len(FIRSTS)):
        pieces = pieces + (sum_energies(own, other, FIRSTS[g], LASTS[g], POWERS[g]),)
    out = ()
    for o in tl.static_range(len(OPENS)):
        energy = pieces[OPENS[o]]
        for g in tl.static_range(len(FIRSTS)):
            if g > OPENS[o] and (MEMBERS[g] >> o) % 2 == 1:
                energy += pieces[g]
        out = out + (energy if ALL else tl.where(valid[:, None], energy, HIGHEST),)
    return out


@triton.jit
def weigh(energies, m, c, AXIS: tl.constexpr):
    """∂loss/∂ψ of every pair, by objective: c · 2^(ψ · log₂e - m), m and c of the references along an axis."""
    out = ()
    for o in tl.static_range(len(m)):
        top, scale = tl.expand_dims(m[o], AXIS), tl.expand_dims(c[o], AXIS)
        out = out + (tl.exp2(energies[o] * -LOG2_E - top) * scale,)
    return out


@triton.jit
def add(some, others):
    """Sums of two tuples of tiles."""
    out = ()
    for o in tl.static_range(len(some)):
        out = out + (some[o] + others[o],)
    return out


@triton.jit
def load_statistics(
    largest, inverse, gradient, rows, end, g_row, g_stride, COUNT: tl.constexpr, MASKED: tl.constexpr
):
    """Maxima and (loss gradient / sum) of some references, by objective; zero from row `end` on."""
    m = load_rows(largest, rows, end, COUNT, 1, MASKED, 0, COUNT)
    scales = load_rows(inverse, rows, end, COUNT, 1, MASKED, 0, COUNT)
    slopes = load_rows(gradient, rows, end, g_row, g_stride, MASKED, 0, COUNT)
    c = ()
    for o in tl.static_range(COUNT):
        c = c + (scales[o] * slopes[o],)
    return m, c


@triton.jit
def pull(
    x,
    y,
    weights,
    total,
    K: tl.constexpr,
    FIRST: tl.constexpr,
    LAST: tl.constexpr,
    P: tl.constexpr,
    MEMBER: tl.constexpr,
    LEAD: tl.constexpr,
):
    """`total` (own,) plus Σ_other Σ_objectives weight · ∂ψ/∂x, for coordinate K of one group."""
    if K >= FIRST and K < LAST:
        weight = weights[LEAD]
        for o in tl.static_range(LEAD + 1, len(weights)):
            if (MEMBER >> o) % 2 == 1:
                weight += weights[o]
        added = tl.sum(weight * pair_slope(x[None, :], y[:, None], P), 0)
        total += added if P <= 1 else added * P
    return total
