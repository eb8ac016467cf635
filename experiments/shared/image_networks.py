"""Networks for images that several experiments use: a convolution VAE and a ResNet-18."""

from __future__ import annotations

from torch import Tensor, nn

__all__ = ["ConvolutionVAE", "resnet18", "tile_encoder"]


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


def tile_encoder(dim: int) -> nn.Sequential:
    """An encoder of 64 x 64 images of one channel: convolutions of 8 x 8 and 2 x 2 side by side, then three layers.

    Without overlaps it takes a tenth of the time of the encoder of `ConvolutionVAE`.
    """
    return nn.Sequential(
        *(nn.Conv2d(1, 64, 8, 8), nn.ReLU(), nn.Conv2d(64, 128, 2, 2), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, dim)),
    )


class ConvolutionVAE(nn.Module):
    """Encoder and decoder of the VAEs of Crabbé & van der Schaar (2022), tables 8 and 9, without a loss.

    units : of the representation. side : 32 (28 x 28 images in a frame of zeros: three halvings of 28 do not come
    back) or 64. The tables give the encoder's last layer a ReLU, with which means would be positive and no
    log-variance negative; it has none here.
    """

    def __init__(self, units: int, side: int):
        super().__init__()
        self.units, self.side = units, side
        depth = {32: 3, 64: 4}[side]
        body: list[nn.Module] = []
        for k in range(depth):
            body += [nn.Conv2d(32 if k else 1, 32, 4, 2, 1), nn.ReLU()]
        self.body = nn.Sequential(
            *body, nn.Flatten(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()
        )
        self.mean, self.spread = nn.Linear(256, units), nn.Linear(256, units)
        back: list[nn.Module] = [nn.Linear(units, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
        back += [nn.Linear(256, 512), nn.ReLU(), nn.Unflatten(1, (32, 4, 4))]
        for k in range(depth):
            back += [nn.ConvTranspose2d(32, 32 if k < depth - 1 else 1, 4, 2, 1)]
            back += [nn.ReLU()] if k < depth - 1 else []
        self.decoder = nn.Sequential(*back)

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
