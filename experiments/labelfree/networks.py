"""The encoders of Crabbé & van der Schaar (2022), appendix C, each with the loss that it was trained with.

A training model's `forward` returns the mean loss of a batch; its `encoder` is what is explained.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, normalize

from experiments.shared.image_networks import ConvolutionVAE, resnet18

__all__ = ["VAE", "Autoencoder", "Classifier", "Reconstruction", "SequenceAutoencoder", "SimCLR", "image_encoder"]


def image_encoder(dim: int = 4) -> nn.Sequential:
    """Table 5: convolutions of 8, 16 and 32 channels, then 288-128-dim."""
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(288, 128), nn.ReLU(), nn.Linear(128, dim)),
    )


def image_decoder(dim: int = 4) -> nn.Sequential:
    """Table 5, the way back to 28 x 28."""
    return nn.Sequential(
        *(nn.Linear(dim, 128), nn.ReLU(), nn.Linear(128, 288), nn.ReLU(), nn.Unflatten(1, (32, 3, 3))),
        *(nn.ConvTranspose2d(32, 16, 3, 2), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.ConvTranspose2d(16, 8, 3, 2, 1, 1), nn.BatchNorm2d(8), nn.ReLU()),
        *(nn.ConvTranspose2d(8, 1, 3, 2, 1, 1), nn.Sigmoid()),
    )


class Autoencoder(nn.Module):
    """Reconstructs x from what it is shown of it."""

    def __init__(self, dim: int = 4):
        super().__init__()
        self.encoder, self.decoder = image_encoder(dim), image_decoder(dim)

    def forward(self, x: Tensor, shown: Tensor) -> Tensor:
        """Mean squared error, over pixels and images."""
        return (self.decoder(self.encoder(shown)) - x).square().mean()


class Classifier(nn.Module):
    """The same encoder with one linear layer behind it, trained with labels."""

    def __init__(self, dim: int = 4, classes: int = 10):
        super().__init__()
        self.encoder, self.head = image_encoder(dim), nn.Linear(dim, classes)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy."""
        return cross_entropy(self.head(self.encoder(x)), labels)


class Reconstruction(nn.Module):
    """What a decoder makes of a representation, as a loss for each example; for `explain.examples`.

    power : 2 for squared errors averaged over features, 1 for absolute errors summed over time.
    """

    def __init__(self, decoder: nn.Module, power: int = 2):
        super().__init__()
        self.decoder, self.power = decoder, power

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        """z (batch, dim), or (batch, view, dim) -> (batch,)."""
        if z.ndim == 3:
            error = self.decoder(z.flatten(0, 1)).unflatten(0, z.shape[:2]) - x[:, None]
        else:
            error = self.decoder(z) - x
        if self.power == 1:
            return error.abs().flatten(1).sum(1)
        return error.square().flatten(1).mean(1)


class _LastStep(nn.Module):
    """Table 6: two LSTMs, the representation is the last output of the second."""

    def __init__(self, dim: int):
        super().__init__()
        self.first, self.second = nn.LSTM(1, 2 * dim, batch_first=True), nn.LSTM(2 * dim, dim, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time) -> (batch, dim)."""
        return self.second(self.first(x[..., None])[0])[0][:, -1]


class _Sequence(nn.Module):
    """Table 6, the way back: the representation at each time step, two LSTMs, a linear layer."""

    def __init__(self, dim: int, steps: int):
        super().__init__()
        self.steps = steps
        self.first, self.second = nn.LSTM(dim, dim, batch_first=True), nn.LSTM(dim, 2 * dim, batch_first=True)
        self.out = nn.Linear(2 * dim, 1)

    def forward(self, z: Tensor) -> Tensor:
        """(batch, dim) -> (batch, time)."""
        copies = z[:, None].expand(-1, self.steps, -1)
        return self.out(self.second(self.first(copies)[0])[0])[..., 0]


class SequenceAutoencoder(nn.Module):
    """The LSTM autoencoder of heartbeats."""

    def __init__(self, dim: int, steps: int = 140):
        super().__init__()
        self.encoder, self.decoder = _LastStep(dim), _Sequence(dim, steps)

    def forward(self, x: Tensor) -> Tensor:
        """Absolute error, summed over time, averaged over beats."""
        return (self.decoder(self.encoder(x)) - x).abs().sum(1).mean()


class SimCLR(nn.Module):
    """Table 7: ResNet-18, then 512-2048-128, with the contrastive loss at temperature 0.5."""

    def __init__(self, width: int = 64, temperature: float = 0.5):
        super().__init__()
        self.encoder, self.temperature = resnet18(width), temperature
        self.head = nn.Sequential(nn.Linear(8 * width, 2048), nn.ReLU(), nn.Linear(2048, 128))

    def forward(self, one: Tensor, two: Tensor) -> Tensor:
        """Loss of two views of a batch of images."""
        p = normalize(self.head(self.encoder(torch.cat([one, two]))), dim=1)
        logits = p @ p.mT / self.temperature
        logits = logits.masked_fill(torch.eye(len(p), dtype=torch.bool, device=p.device), -math.inf)
        partner = torch.arange(len(p), device=p.device).roll(len(one))
        return cross_entropy(logits, partner)


class VAE(ConvolutionVAE):
    """Tables 8 and 9: β-VAE (Higgins et al. 2017) and TC-VAE (Chen et al. 2018)."""

    def __init__(self, units: int, side: int, images: int):
        super().__init__(units, side)
        self.images = images

    def forward(self, x: Tensor, noise: Tensor, beta: Tensor, total_correlation: Tensor) -> Tensor:
        """Mean loss of a batch; total_correlation is 1 for TC-VAE, 0 for β-VAE."""
        mean, log_variance = self.code(x)
        z = mean + (log_variance / 2).exp() * noise
        shown = self.decoder(z).float()
        error = binary_cross_entropy_with_logits(shown, x, reduction="none").flatten(1).sum(1).mean()
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        # log q(z) and log Π q(z_j) by minibatch-weighted sampling (Chen et al. 2018, equation 2 of their appendix)
        log_q = -0.5 * ((z[:, None] - mean[None]).square() / log_variance.exp()[None] + log_variance[None])
        log_q = log_q - 0.5 * math.log(2 * math.pi)
        weight = math.log(len(z)) + math.log(self.images)
        joint = log_q.sum(2).logsumexp(1) - weight
        apart = (log_q.logsumexp(1) - weight).sum(1)
        correlation = (joint - apart).mean()
        plain = beta * divergence
        return error + torch.where(total_correlation > 0, divergence + (beta - 1) * correlation, plain)
