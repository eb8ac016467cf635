"""Networks for images that several experiments use: convolution VAEs and a ResNet-18."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

__all__ = ["ConvolutionVAE", "TileVAE", "four_convolutions", "resnet18"]


class _Block(nn.Module):
    """Two convolutions and what goes around them (He et al. 2015)."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()),
            *(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)),
        )
        same = stride == 1 and inputs == outputs
        self.around = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )
        self.last = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, h, w) -> (batch, outputs, h / stride, w / stride)."""
        return self.last(self.body(x) + self.around(x))


def resnet18(width: int = 64, quarter: bool = False) -> nn.Sequential:
    """ResNet-18 for small images (Chen et al. 2020, appendix B.9): a 3 x 3 first layer, no pooling after it.

    width : channels of the first layer. quarter : begin as for large images (He et al. 2015), with a stride of 2
    and pooling, so that the first blocks see images of a quarter of the side; and end without the mean over places,
    which tells what is seen but not where: 2,048 outputs for 64 x 64 images.
    """
    stride = 2 if quarter else 1
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    layers += [nn.MaxPool2d(2)] if quarter else []
    inputs = width
    for k in range(4):
        outputs = width * 2**k
        layers += [_Block(inputs, outputs, 1 if k == 0 else 2), _Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, *([] if quarter else [nn.AdaptiveAvgPool2d(1)]), nn.Flatten())


def four_convolutions(width: int = 16, side: int = 64, hidden: int = 256) -> nn.Sequential:
    """Four convolutions, each of which halves the side of images and is normalised, and a hidden layer.

    width : channels of the first; the others have twice, four and eight times as many. side : of images of three
    channels, a multiple of 16. Weights start orthogonal. With 16 channels a training step takes a CPU core about
    0.3 ms an image of 64 x 64.

    >>> import torch
    >>> four_convolutions(4, 32, 20)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 20])
    """
    layers: list[nn.Module] = []
    inputs = 3
    for k, size in enumerate((4, 4, 3, 3)):
        outputs = width * 2**k
        layers += [nn.Conv2d(inputs, outputs, size, 2, 1), nn.BatchNorm2d(outputs), nn.ReLU()]
        inputs = outputs
    layers += [nn.Flatten(), nn.Linear(inputs * (side // 16) ** 2, hidden), nn.BatchNorm1d(hidden), nn.ReLU()]
    for layer in layers:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.orthogonal_(layer.weight, 1.4)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return nn.Sequential(*layers)


class VAENetwork(nn.Module):
    """Encoder and decoder of a VAE, without a loss.

    body : images -> (batch, width), from which mean and log-variance of the representation are linear. decoder :
    makes what maps the representation (batch, units) to images. Layers draw their weights in this order.
    """

    def __init__(self, body: nn.Module, decoder: Callable[[], nn.Module], width: int, units: int):
        super().__init__()
        self.units, self.body = units, body
        self.mean, self.spread = nn.Linear(width, units), nn.Linear(width, units)
        self.decoder = decoder()

    @property
    def encoder(self) -> nn.Module:
        """The expected representation μ(x), as a module of its own."""
        return nn.Sequential(self.body, self.mean)

    def code(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of the representation, each (batch, units).

        They are float32, so that losses are, whatever the layers were computed in.
        """
        h = self.body(x)
        return self.mean(h).float(), self.spread(h).float().clamp(-10, 10)


class TileVAE(VAENetwork):
    """A VAE of 64 x 64 images of one channel whose convolutions, of 8 x 8 and 2 x 2 pixels, lie side by side.

    Without overlaps a training step takes a tenth of the time of `ConvolutionVAE`.
    """

    def __init__(self, units: int):
        body = nn.Sequential(
            *(nn.Conv2d(1, 64, 8, 8), nn.ReLU(), nn.Conv2d(64, 128, 2, 2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()),
        )
        super().__init__(body, self._back, 256, units)

    def _back(self) -> nn.Sequential:
        return nn.Sequential(
            *(nn.Linear(self.units, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()),
            *(nn.Linear(256, 2048), nn.ReLU(), nn.Unflatten(1, (128, 4, 4))),
            *(nn.ConvTranspose2d(128, 64, 2, 2), nn.ReLU(), nn.ConvTranspose2d(64, 1, 8, 8)),
        )


class ConvolutionVAE(VAENetwork):
    """The VAEs of Crabbé & van der Schaar (2022), tables 8 and 9.

    units : of the representation. side : 32 (28 x 28 images in a frame of zeros: three halvings of 28 do not come
    back) or 64. The tables give the encoder's last layer a ReLU, with which means would be positive and no
    log-variance negative; it has none here.
    """

    def __init__(self, units: int, side: int):
        depth = {32: 3, 64: 4}[side]
        body: list[nn.Module] = []
        for k in range(depth):
            body += [nn.Conv2d(32 if k else 1, 32, 4, 2, 1), nn.ReLU()]
        body += [nn.Flatten(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
        super().__init__(nn.Sequential(*body), lambda: self._back(depth), 256, units)
        self.side = side

    def _back(self, depth: int) -> nn.Sequential:
        back: list[nn.Module] = [nn.Linear(self.units, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
        back += [nn.Linear(256, 512), nn.ReLU(), nn.Unflatten(1, (32, 4, 4))]
        for k in range(depth):
            back += [nn.ConvTranspose2d(32, 32 if k < depth - 1 else 1, 4, 2, 1)]
            back += [nn.ReLU()] if k < depth - 1 else []
        return nn.Sequential(*back)
