"""Convolutions of stride 2 as products of matrices, so that a stack of models is one batched product.

Under `torch.func.vmap` the convolutions of many models become one with as many groups, which libraries compute
slowly for few channels. Here a picture is cut into blocks of 2 x 2 pixels, so that a kernel of up to 4 x 4 sees 2 x
2 blocks: four shifted copies of the picture beside each other, times the kernel as a matrix.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

__all__ = ["as_products"]


def as_products(module: nn.Module) -> nn.Module:
    """A copy of a module, its convolutions of stride 2 written as products; parameters keep their names.

    >>> layer, x = nn.Conv2d(3, 5, 3, 2, 1), torch.randn(2, 3, 7, 7)
    >>> torch.allclose(as_products(layer)(x), layer(x), atol=1e-5)
    True
    """
    return _replaced(copy.deepcopy(module))


def _replaced(module: nn.Module) -> nn.Module:
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        fits = module.stride == (2, 2) and max(module.kernel_size) <= 4 and module.groups == 1
        if fits and module.bias is not None:
            return (_Down if isinstance(module, nn.Conv2d) else _Up)(module, module.bias)
    for name, child in list(module.named_children()):
        setattr(module, name, _replaced(child))
    return module


class _Product(nn.Module):
    def __init__(self, layer: nn.Conv2d | nn.ConvTranspose2d, bias: nn.Parameter):
        super().__init__()
        self.weight, self.bias = layer.weight, bias
        self.size, self.frame = int(layer.kernel_size[0]), int(layer.padding[0])  # type: ignore[arg-type]
        self.more = int(layer.output_padding[0])

    def kernel(self) -> Tensor:
        """The weights, filled up with zeros to 4 x 4, each side as two blocks of two: (., ., 2, 2, 2, 2)."""
        zeros = 4 - self.size
        return pad(self.weight, [0, zeros, 0, zeros]).unflatten(3, (2, 2)).unflatten(2, (2, 2))


class _Down(_Product):
    def forward(self, x: Tensor) -> Tensor:
        """(batch, channel, height, width) -> the same, half as high and wide; pictures are square."""
        batch, channels, side = x.shape[:3]
        count = (side + 2 * self.frame - self.size) // 2 + 1
        after = 2 * (count + 1) - side - self.frame
        x = pad(x, [self.frame, after, self.frame, after]).reshape(batch, channels, count + 1, 2, count + 1, 2)
        x = x.permute(0, 2, 4, 1, 3, 5).flatten(3)  # (batch, row, column, channel · 4)
        kernel = self.kernel().permute(2, 4, 1, 3, 5, 0).flatten(0, 4)  # (16 · channel, output)
        out = _neighbours(x, count).flatten(0, 2) @ kernel + self.bias
        return out.unflatten(0, (batch, count, count)).permute(0, 3, 1, 2)


class _Up(_Product):
    def forward(self, x: Tensor) -> Tensor:
        """(batch, channel, height, width) -> the same, twice as high and wide; pictures are square."""
        batch, _, side = x.shape[:3]
        kernel = (
            self.kernel().flip(2, 4).permute(2, 4, 0, 3, 5, 1).flatten(3).flatten(0, 2)
        )  # (4 · channel, 4 · output)
        around = _neighbours(pad(x, [1, 1, 1, 1]).permute(0, 2, 3, 1), side + 1)
        out = (around.flatten(0, 2) @ kernel).unflatten(1, (2, 2, -1)).unflatten(0, (batch, side + 1, side + 1))
        out = out.permute(0, 5, 1, 3, 2, 4).reshape(batch, -1, 2 * side + 2, 2 * side + 2)
        wanted = 2 * (side - 1) - 2 * self.frame + self.size + self.more
        return out.narrow(2, self.frame, wanted).narrow(3, self.frame, wanted) + self.bias.view(-1, 1, 1)


def _neighbours(x: Tensor, count: int) -> Tensor:
    """Each place with the three after it: (batch, count, count, 4 · channel)."""
    return torch.cat([x[:, i : i + count, j : j + count] for i in (0, 1) for j in (0, 1)], 3)
