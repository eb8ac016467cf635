"""Convolutions with stride 2 as matrix products, so that a stack of models computes them fast.

`torch.func.vmap` makes one grouped convolution of the convolutions of a stack, for which GPU libraries have slow
kernels only. As matrix products a stack is a batch of them, which is what GPUs are best at.

With stride 2 and a kernel of up to 4 x 4, cut the image into blocks of 2 x 2 pixels: an output looks at 2 x 2
blocks. Of the two ways to compute it, blocks side by side and then the product, or the product for every block and
then a sum, the one that writes fewer numbers is taken.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

__all__ = ["as_products"]

FEW = 32
"""Channels: wider convolutions are fast as they are."""
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))
Map = Callable[[Tensor], Tensor]


def as_products(module: nn.Module) -> nn.Module:
    """A copy of a module with its convolutions as matrix products; parameters keep their names and values.

    Only convolutions, plain and transposed, of few channels, with stride 2 and kernels of 3 x 3 or 4 x 4, and those
    whose kernels lie side by side (a stride as large as the kernel); others stay as they are.

    >>> layer, x = nn.Conv2d(3, 5, 4, 2, 1), torch.rand(2, 3, 8, 8)
    >>> torch.allclose(as_products(layer)(x), layer(x), atol=1e-6)
    True
    """
    return _replace(copy.deepcopy(module))


def _replace(module: nn.Module) -> nn.Module:
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d) and _side_by_side(module):
        return _Tiles(module) if isinstance(module, nn.Conv2d) else _TransposedTiles(module)
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d) and _fits(module):
        return _Convolution(module) if isinstance(module, nn.Conv2d) else _Transposed(module)
    if isinstance(module, nn.BatchNorm2d):  # which takes no other order of its axes under vmap
        module.register_forward_pre_hook(lambda _, given: (given[0].contiguous(),))
    for name, child in list(module.named_children()):
        setattr(module, name, _replace(child))
    return module


def _fits(layer: nn.Conv2d | nn.ConvTranspose2d) -> bool:
    return (
        layer.stride == (2, 2)
        and layer.dilation == (1, 1)
        and layer.groups == 1
        and max(layer.in_channels, layer.out_channels) <= FEW
        and layer.kernel_size in ((3, 3), (4, 4))
        and layer.padding in ((0, 0), (1, 1))
        and layer.padding_mode == "zeros"
    )


def _side_by_side(layer: nn.Conv2d | nn.ConvTranspose2d) -> bool:
    more = layer.output_padding if isinstance(layer, nn.ConvTranspose2d) else (0, 0)
    plain = layer.dilation == (1, 1) and layer.groups == 1 and layer.padding == (0, 0) and more == (0, 0)
    return plain and layer.kernel_size == layer.stride


class _Tiles(nn.Module):
    """What nn.Conv2d computes where its stride is its kernel: one product for each tile of the image."""

    def __init__(self, layer: nn.Conv2d):
        super().__init__()
        self.weight, self.bias, self.size = layer.weight, layer.bias, layer.kernel_size

    def forward(self, x: Tensor) -> Tensor:
        """(batch, input, height, width) -> (batch, output, height / side, width / side)."""
        high, wide = self.size
        tiles = x.unflatten(3, (-1, wide)).unflatten(2, (-1, high)).permute(0, 2, 4, 1, 3, 5).flatten(3)
        y = _product(tiles, self.weight.flatten(1).mT)
        return (y if self.bias is None else y + self.bias.to(y.dtype)).permute(0, 3, 1, 2)


class _TransposedTiles(nn.Module):
    """What nn.ConvTranspose2d computes where its stride is its kernel: one product for each tile."""

    def __init__(self, layer: nn.ConvTranspose2d):
        super().__init__()
        self.weight, self.bias, self.size = layer.weight, layer.bias, layer.kernel_size

    def forward(self, x: Tensor) -> Tensor:
        """(batch, input, height, width) -> (batch, output, height side, width side)."""
        tiles = _product(x.permute(0, 2, 3, 1), self.weight.flatten(1))
        y = tiles.unflatten(3, (-1, *self.size)).permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
        return y if self.bias is None else y + self.bias.to(y.dtype)[:, None, None]


class _Convolution(nn.Module):
    """What nn.Conv2d computes."""

    def __init__(self, layer: nn.Conv2d):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.kernel, self.padding = layer.kernel_size[0], int(layer.padding[0])

    def forward(self, x: Tensor) -> Tensor:
        """(batch, input, height, width) -> (batch, output, height / 2, width / 2)."""
        size = tuple((side + 2 * self.padding - self.kernel) // 2 + 1 for side in x.shape[2:])
        cut, join = _rearrangements(tuple(x.shape[2:]), size, self.padding)
        blocks = _Map.apply(x.permute(0, 2, 3, 1), cut, join)  # (batch, row, column, 4 inputs)
        weight, (out, inputs) = _corners(self.weight), self.weight.shape[:2]
        if 4 * inputs < out:
            y = _product(_Map.apply(blocks, _beside, _overlap), weight.permute(2, 4, 3, 5, 1, 0).reshape(-1, out))
        else:
            matrix = weight.permute(3, 5, 1, 2, 4, 0).reshape(4 * inputs, -1)
            y = _Map.apply(_product(blocks, matrix).unflatten(-1, (4, out)), _sum, _spread)
        return (y if self.bias is None else y + self.bias.to(y.dtype)).permute(0, 3, 1, 2)


class _Transposed(nn.Module):
    """What nn.ConvTranspose2d computes."""

    def __init__(self, layer: nn.ConvTranspose2d):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.kernel, self.padding, self.more = layer.kernel_size[0], int(layer.padding[0]), layer.output_padding[0]

    def forward(self, x: Tensor) -> Tensor:
        """(batch, input, height, width) -> (batch, output, 2 height, 2 width)."""
        size = tuple(2 * (side - 1) + self.kernel + self.more - 2 * self.padding for side in x.shape[2:])
        cut, join = _rearrangements(size, tuple(x.shape[2:]), self.padding)
        x, weight, (inputs, out) = x.permute(0, 2, 3, 1), _corners(self.weight), self.weight.shape[:2]
        if 4 * out < inputs:
            columns = _product(x, weight.permute(0, 2, 4, 3, 5, 1).reshape(inputs, -1))
            blocks = _Map.apply(columns, _overlap, _beside)
        else:
            matrix = weight.permute(2, 4, 0, 3, 5, 1).reshape(4 * inputs, -1)
            blocks = _product(_Map.apply(x, _spread, _sum).flatten(3), matrix)
        y = _Map.apply(blocks, join, cut)
        return (y if self.bias is None else y + self.bias.to(y.dtype)).permute(0, 3, 1, 2)


def _corners(weight: Tensor) -> Tensor:
    """A kernel, with zeros to 4 x 4, by blocks: (first, second, block row, row, block column, column)."""
    more = 4 - weight.shape[-1]
    whole = pad(weight, (0, more, 0, more)) if more else weight
    return whole.unflatten(3, (2, 2)).unflatten(2, (2, 2))


def _product(x: Tensor, matrix: Tensor) -> Tensor:
    """(..., k) times (k, n), as one product of two matrices."""
    return (x.reshape(-1, x.shape[-1]) @ matrix).reshape(*x.shape[:-1], matrix.shape[1])


def _rearrangements(size: tuple[int, ...], blocks: tuple[int, ...], padding: int) -> tuple[Map, Map]:
    """Images (batch, *size, channel) cut into blocks of 2 x 2 pixels (batch, row, column, 4 channel), and back.

    There is one row, and one column, of blocks more than `blocks` says, what the convolution has on its other side.
    """
    rows, columns = (number + 1 for number in blocks)

    def where(first: int, length: int, most: int) -> tuple[slice, slice]:
        """Blocks and pixels, every other one from the first of a row (or column) of a block on."""
        start = max(0, (padding - first + 1) // 2)
        count = min(most, (length + padding - first + 1) // 2) - start
        pixel = 2 * start + first - padding
        return slice(start, start + count), slice(pixel, pixel + 2 * count - 1, 2)

    places = [(k, where(k // 2, size[0], rows), where(k % 2, size[1], columns)) for k in range(4)]

    def cut(x: Tensor) -> Tensor:
        wide = _as_wide(x.contiguous())
        out = wide.new_zeros(len(x), rows, columns, 4, wide.shape[3])
        for k, (row, down), (column, across) in places:
            out[:, row, column, k] = wide[:, down, across]
        return out.view(x.dtype).flatten(3)

    def join(blocks: Tensor) -> Tensor:
        wide = _as_wide(blocks.contiguous().unflatten(3, (4, -1)))
        out = wide.new_zeros(len(blocks), *size, wide.shape[4])
        for k, (row, down), (column, across) in places:
            out[:, down, across] = wide[:, row, column, k]
        return out.view(blocks.dtype)

    return cut, join


def _as_wide(x: Tensor) -> Tensor:
    """The same numbers 16 bytes at a time where that is possible: moving them is then bound by memory alone."""
    return x.view(torch.complex128) if x.shape[-1] * x.element_size() % 16 == 0 else x


def _beside(blocks: Tensor) -> Tensor:
    """The four blocks of an output side by side: (batch, row + 1, column + 1, k) -> (batch, row, column, 4 k)."""
    rows, columns = blocks.shape[1] - 1, blocks.shape[2] - 1
    return torch.cat([blocks[:, r : r + rows, c : c + columns] for r, c in CORNERS], -1)


def _overlap(columns: Tensor) -> Tensor:
    """Its transpose: what four outputs give to a block, summed."""
    b, rows, cols, k = columns.shape
    out = columns.new_zeros(b, rows + 1, cols + 1, k // 4)
    for (r, c), part in zip(CORNERS, columns.chunk(4, -1), strict=True):
        out[:, r : r + rows, c : c + cols] += part
    return out


def _sum(parts: Tensor) -> Tensor:
    """An output from what four blocks give to it: (batch, row + 1, column + 1, 4, k) -> (batch, row, column, k)."""
    rows, columns = parts.shape[1] - 1, parts.shape[2] - 1
    one, two, three, four = (parts[:, r : r + rows, c : c + columns, 2 * r + c] for r, c in CORNERS)
    return (one + two) + (three + four)


def _spread(x: Tensor) -> Tensor:
    """Its transpose: each output at the four blocks that it looks at."""
    wide = _as_wide(x.contiguous())
    b, rows, columns, k = wide.shape
    out = wide.new_zeros(b, rows + 1, columns + 1, 4, k)
    for r, c in CORNERS:
        out[:, r : r + rows, c : c + columns, 2 * r + c] = wide
    return out.view(x.dtype)


class _Map(torch.autograd.Function):
    """A linear map of each example that is given with its transpose, which autograd would find, but a slower one.

    Models of a stack are so many more examples to it.
    """

    @staticmethod
    def forward(x: Tensor, there: Map, back: Map) -> Tensor:
        return there(x)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.maps = inputs[1:]

    @staticmethod
    def backward(ctx, gradient: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        there, back = ctx.maps
        return _Map.apply(gradient, back, there), None, None

    @staticmethod
    def vmap(info, in_dims, x: Tensor, there: Map, back: Map):
        stacked = x.movedim(in_dims[0], 0)
        return _Map.apply(stacked.flatten(0, 1), there, back).unflatten(0, stacked.shape[:2]), 0
