"""The kernels behind `gelu.py`: one pass over the layer for each direction."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["backward", "forward"]

ROWS, COLUMNS = 32, 64

# Kernels are traced: this is Python by syntax only, and the type checker cannot follow.
# pyright: reportArgumentType=false, reportIndexIssue=false, reportOptionalOperand=false, reportCallIssue=false


@triton.jit
def _tile(a, bias, R, R0, width, BIASED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """x = a + bias on a tile, Φ(x), φ(x), and where it lies in arrays of R and of R0 rows."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    model = tl.program_id(2).to(tl.int64)
    inside = (row < R) & (column < width)
    tangent = inside & (row < R0)
    at, at_tangent = (model * R + row) * width + column, (model * R0 + row) * width + column
    x = tl.load(a + at, mask=inside, other=0.0).to(tl.float32)
    if BIASED:
        x += tl.load(bias + model * width + column, mask=column < width, other=0.0).to(tl.float32)
    cdf = 0.5 + 0.5 * tl.erf(x * 0.7071067811865476)
    pdf = tl.exp(-0.5 * x * x) * 0.3989422804014327
    return x, cdf, pdf, at, inside, at_tangent, tangent


@triton.jit
def _forward(
    a, s, bias, h, t, R, R0, width, BIASED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    x, cdf, pdf, at, inside, at_tangent, tangent = _tile(a, bias, R, R0, width, BIASED, ROWS, COLUMNS)
    tl.store(h + at, x * cdf, mask=inside)
    speed = tl.load(s + at_tangent, mask=tangent, other=0.0).to(tl.float32)
    tl.store(t + at_tangent, (cdf + x * pdf) * speed, mask=tangent)


@triton.jit
def _backward(
    a,
    s,
    bias,
    to_h,
    to_t,
    to_a,
    to_s,
    to_bias,  # (model, blocks of rows, width): summed over blocks afterwards, always in one order
    R,
    R0,
    width,
    BIASED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    x, cdf, pdf, at, inside, at_tangent, tangent = _tile(a, bias, R, R0, width, BIASED, ROWS, COLUMNS)
    slope = cdf + x * pdf
    speed = tl.load(s + at_tangent, mask=tangent, other=0.0).to(tl.float32)
    pull = tl.load(to_t + at_tangent, mask=tangent, other=0.0).to(tl.float32)
    tl.store(to_s + at_tangent, pull * slope, mask=tangent)
    out = tl.load(to_h + at, mask=inside, other=0.0).to(tl.float32) * slope
    out += pull * speed * (2 - x * x) * pdf
    tl.store(to_a + at, out, mask=inside)
    if BIASED:
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        block = tl.program_id(2).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
        tl.store(to_bias + block * width + column, tl.sum(out, 0), mask=column < width)


def _grid(a: Tensor) -> tuple[int, int, int]:
    models, rows, width = a.shape
    return triton.cdiv(rows, ROWS), triton.cdiv(width, COLUMNS), models


def forward(a: Tensor, s: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """h (model, R, w) and t (model, R0, w)."""
    a, s, bias = a.contiguous(), s.contiguous(), None if bias is None else bias.contiguous()
    h, t = torch.empty_like(a), torch.empty_like(s)
    with torch.cuda.device_of(a):
        _forward[_grid(a)](
            a, s, bias, h, t, a.shape[1], s.shape[1], a.shape[2], bias is not None, ROWS, COLUMNS, num_warps=4
        )
    return h, t


def backward(
    a: Tensor, s: Tensor, bias: Tensor | None, to_h: Tensor, to_t: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients on a (model, R, w), s (model, R0, w) and bias (model, w)."""
    a, s, to_h, to_t = (x.contiguous() for x in (a, s, to_h, to_t))
    to_a, to_s = torch.empty_like(a), torch.empty_like(s)
    grid, parts = _grid(a), None
    if bias is not None:
        bias = bias.contiguous()
        parts = torch.empty(a.shape[0], grid[0], a.shape[2], device=a.device, dtype=torch.float32)
    with torch.cuda.device_of(a):
        _backward[grid](
            a, s, bias, to_h, to_t, to_a, to_s, parts, a.shape[1], s.shape[1], a.shape[2], bias is not None,
            ROWS, COLUMNS, num_warps=4,
        )  # fmt: skip
    return to_a, to_s, None if bias is None or parts is None else parts.sum(1).to(bias.dtype)
