"""`gelu_rows` as Triton kernels: each direction reads and writes every number once."""

# pyright: reportIndexIssue=false, reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["backward", "forward"]

ROWS, COLUMNS = 32, 64


@triton.jit
def _load_values(rows, bias, values, width, stride, BM: tl.constexpr, BN: tl.constexpr):
    """The tile of this program: its rows, what of it is there, where it lies in memory, values with the bias."""
    model = tl.program_id(2)
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (row[:, None] < values) & (column[None, :] < width)
    place = model.to(tl.int64) * stride + row[:, None] * width + column[None, :]
    b = tl.load(bias + model * width + column, mask=column < width, other=0.0)
    a = tl.load(rows + place, mask=inside, other=0.0).to(tl.float32) + b[None, :]
    return row, inside, place, a


@triton.jit
def _forward(
    rows, bias, out, values, tangents, width, stride, BM: tl.constexpr, BN: tl.constexpr
):  # fmt: skip
    row, inside, place, a = _load_values(rows, bias, values, width, stride, BM, BN)
    normal = 0.5 * (1.0 + tl.erf(a * 0.7071067811865476))
    tl.store(out + place, a * normal, mask=inside)
    if tl.program_id(0) * BM < tangents:
        near = inside & (row[:, None] < tangents)
        there = place + values * width
        s = tl.load(rows + there, mask=near, other=0.0).to(tl.float32)
        slope = normal + a * tl.exp(-0.5 * a * a) * 0.3989422804014327
        tl.store(out + there, slope * s, mask=near)


@triton.jit
def _backward(
    rows, bias, gradient, out, values, tangents, width, stride, BM: tl.constexpr, BN: tl.constexpr
):  # fmt: skip
    row, inside, place, a = _load_values(rows, bias, values, width, stride, BM, BN)
    density = tl.exp(-0.5 * a * a) * 0.3989422804014327
    slope = 0.5 * (1.0 + tl.erf(a * 0.7071067811865476)) + a * density
    pulled = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32) * slope
    if tl.program_id(0) * BM < tangents:
        near = inside & (row[:, None] < tangents)
        there = place + values * width
        s = tl.load(rows + there, mask=near, other=0.0).to(tl.float32)
        gt = tl.load(gradient + there, mask=near, other=0.0).to(tl.float32)
        pulled += gt * s * density * (2.0 - a * a)
        tl.store(out + there, gt * slope, mask=near)
    tl.store(out + place, pulled, mask=inside)


def _launch(kernel, rows: Tensor, bias: Tensor, others: list[Tensor], tangents: int) -> Tensor:
    rows, bias = rows.contiguous(), bias.contiguous()
    models, total, width = rows.shape
    out = torch.empty_like(rows)
    grid = (triton.cdiv(total - tangents, ROWS), triton.cdiv(width, COLUMNS), models)
    kernel[grid](
        rows, bias, *others, out, total - tangents, tangents, width, total * width, BM=ROWS, BN=COLUMNS
    )  # fmt: skip
    return out


def forward(rows: Tensor, bias: Tensor, tangents: int) -> Tensor:
    """See `ascribo.kernels.gelu_rows`; needs as many value rows as tangents at least."""
    return _launch(_forward, rows, bias, [], tangents)


def backward(rows: Tensor, bias: Tensor, gradient: Tensor, tangents: int) -> Tensor:
    """The gradient on rows; the bias's is the sum of its value rows."""
    return _launch(_backward, rows, bias, [gradient], tangents)
