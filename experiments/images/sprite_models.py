"""Models of sprites: encoders with L_AU(α, p), and as baselines β-VAE, SlowVAE and a supervised encoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from ascribo.simulate import Sprites, laplace_pairs, to_grid, track_pairs, track_transitions, uniform_pairs
from ascribo.spaces.similarities import Lp
from experiments.images.pair_source import ImageSource, train_within, with_statistics
from experiments.shared.image_networks import TileVAE, four_convolutions
from experiments.shared.stack_training import train

__all__ = ["DATA", "Encoders", "SlowVAE", "made_tracks", "sample_pairs", "train_models"]

DIM = 10
"""Dimensions of a representation, as in the papers."""
DATA = ("LAP", "UNI", "discrete tracks", "continuous tracks")
BETA, SLOW = 8.0, (1.0, 10.0, 6.0)
"""β of the β-VAE; and of SlowVAE β, γ and the rate of the Laplace prior (Klindt et al. 2021)."""
RATE, VAE_RATE = 2e-3, 1e-3
KNOWN = 20, 1000
"""Batches of training images, and images in each, that means and variances of layers are measured on."""
EPOCH = 100
"""Training steps of a VAE between two looks at the clock."""


class Encoders(NamedTuple):
    """A stack of trained encoders.

    encode : images (batch, 1, 64, 64) -> codes (batch, model, dimension). models : what each is. steps : taken.
    """

    encode: Callable[[Tensor], Tensor]
    models: list[dict[str, Any]]
    steps: int


class SlowVAE(TileVAE):
    """SlowVAE (Klindt et al. 2021) of pairs of images; with gamma = 0 a β-VAE (Higgins et al. 2017).

    The prior of the first image is normal. That of the second is a factorised Laplace distribution around the code
    of the first: the difference of the codes of a pair is sparse. Both images take either place, and losses are
    averaged.
    """

    def forward(
        self, first: Tensor, second: Tensor, noise: Tensor, beta: Tensor, gamma: Tensor, rate: Tensor
    ) -> Tensor:
        """Mean loss of a batch of pairs. noise : (2 batch, units)."""
        x = torch.cat([first, second])
        mean, log_variance = self.code(x)
        shown = self.decoder(mean + (log_variance / 2).exp() * noise).float()
        error = binary_cross_entropy_with_logits(shown, x, reduction="none").flatten(1).sum(1).mean()
        normal = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        apart = mean - mean.roll(len(first), 0)
        return 2 * error + beta * normal + gamma * laplace_divergence(apart, log_variance, rate).sum(1).mean()


def laplace_divergence(mean: Tensor, log_variance: Tensor, rate: Tensor | float) -> Tensor:
    """KL divergence of normal distributions from the Laplace distribution of mean 0 with this rate, in nats.

    >>> torch.set_printoptions(precision=4)
    >>> laplace_divergence(torch.zeros(1), torch.zeros(1), 1.0)  # log 2 + √(2/π) - log(2πe)/2
    tensor([0.0721])
    """
    deviation = (log_variance / 2).exp()
    ratio = mean / deviation
    # E|z| of a normal variable
    size = deviation * math.sqrt(2 / math.pi) * torch.exp(-ratio.square() / 2) + mean * torch.erf(
        ratio / math.sqrt(2)
    )
    entropy = 0.5 * (log_variance + math.log(2 * math.pi * math.e))
    return rate * size - torch.log(torch.as_tensor(rate / 2, device=mean.device)) - entropy


def made_tracks(objects: int = 300, steps: int = 60, seed: int = 0) -> Tensor:
    """Transitions (pair, 2, 3) of simulated objects: what stands in for those measured in videos.

    Objects move in a square with a speed that changes now and then and is often zero, and turn back at its sides;
    their size changes with Laplace steps. As in videos, most changes are small, and a few are large.
    """
    rng = np.random.default_rng(seed)
    place, size = rng.uniform(0, 1, (objects, 2)), rng.uniform(0, 1, objects)
    speed, rows = np.zeros((objects, 2)), []
    for time in range(steps):
        rows.append(np.column_stack([np.arange(objects), np.full(objects, time), place, size]))
        new = rng.random(objects) < 0.2
        drawn = rng.laplace(0, 0.04, (objects, 2)) * (rng.random((objects, 2)) < 0.7)
        speed = np.where(new[:, None], drawn, speed)
        place = place + speed + rng.laplace(0, 0.004, (objects, 2))
        out = (place < 0) | (place > 1)
        speed = np.where(out, -speed, speed)
        place = np.where(place < 0, -place, np.where(place > 1, 2 - place, place)).clip(0, 1)
        size = size + rng.laplace(0, 0.03, objects)
        size = np.where(size < 0, -size, np.where(size > 1, 2 - size, size)).clip(0, 1)
    table = np.concatenate(rows)
    return track_transitions(table[:, 0], table[:, 1], table[:, 2], table[:, 3], table[:, 4])


def sample_pairs(
    grid: Sprites, data: str, seed: int = 0
) -> Callable[[tuple[int, ...], torch.Generator], tuple[Tensor, Tensor]]:
    """A function that draws pairs of latents (*shape, 5) of one kind of data, see `DATA`; on the grid but for
    continuous tracks. seed : of the tracks."""
    if data in ("LAP", "UNI"):
        draw = laplace_pairs if data == "LAP" else uniform_pairs
        return lambda shape, rng: tuple(grid.latents_at(own) for own in draw(grid, shape, rng))  # type: ignore[return-value]
    transitions = made_tracks(seed=seed).to(grid.stamps.device)
    if data == "continuous tracks":
        return lambda shape, rng: track_pairs(grid, transitions, shape, rng)
    if data == "discrete tracks":
        return lambda shape, rng: tuple(  # type: ignore[return-value]
            grid.latents_at(to_grid(own)) for own in track_pairs(grid, transitions, shape, rng)
        )
    raise ValueError(f"data={data!r}: expected one of {list(DATA)}.")


def _images(grid: Sprites, data: str, latents: Tensor) -> Tensor:
    return grid.draw_between(latents) if data == "continuous tracks" else grid.draw(to_grid(latents))


def train_models(
    grid: Sprites,
    kind: str,
    data: str,
    *,
    seeds: Sequence[int],
    steps: Sequence[int],
    batch_size: int,
    wide: int,
    width: int,
    seconds: float | None = None,
    alphas: Sequence[float] = (0.5,),
    exponent: float = 1.0,
    independent: bool = False,
) -> Encoders:
    """Train a stack on one data set: "AU" (every α and seed), "VAE" (β-VAE and SlowVAE) or "supervised".

    steps : of training with `wide` outputs, from where all α of a seed start, and with ten. Untrained encoders have
    next to nothing of shape and orientation, and the loss pulls on a factor in proportion to what the outputs
    already have of it: many outputs find all five factors where ten find three.
    width : channels of the first convolution. exponent : p of L_AU(α, p). independent : see `ImageSource`.
    """
    draw, where = sample_pairs(grid, data), grid.stamps.device
    if kind == "VAE":
        return _train_vaes(grid, data, seeds, steps[-1], batch_size, seconds)
    supervised = kind == "supervised"
    models = [{"alpha": alpha, "seed": seed} for alpha in alphas for seed in seeds]
    some = grid.latents_at(grid.sample(10_000, 0))
    middle, spread = some.mean(0), some.std(0)

    def batch(shape: tuple[int, ...], rng: torch.Generator) -> tuple[Tensor, ...]:
        first, second = draw(shape, rng)
        if supervised:
            return _images(grid, data, first), (first - middle) / spread
        return _images(grid, data, first), _images(grid, data, second)

    common: dict[str, Any] = {"similarity": Lp(exponent), "supervised": supervised, "device": where, "half": True}
    training: dict[str, Any] = {"batch_size": batch_size, "learning_rate": RATE}
    start: dict[str, Tensor] = {}
    if not supervised:
        share = steps[0] / (steps[0] + steps[1] * len(alphas))
        first = _Stage(partial(_encoder, width, wide), seeds, batch, independent=True, **common)
        before, _ = train_within(
            first,
            steps=steps[0],
            constant_rate=True,
            seconds=None if seconds is None else share * seconds,
            **training,
        )
        order = [list(seeds).index(model["seed"]) for model in models]
        start = {name: value[order] for name, value in before.parameters.items()}
        seconds = None if seconds is None else (1 - share) * seconds
    source = _Stage(
        partial(_encoder, width, 5 if supervised else DIM),
        [model["seed"] for model in models],
        batch,
        alpha=[model["alpha"] for model in models],
        independent=independent,
        start=start,
        **common,
    )
    trained, taken = train_within(source, steps=steps[1], seconds=seconds, **training)
    curve = trained.history["mse" if supervised else "infonce"][-100:].mean(0)
    for model, last in zip(models, curve.tolist(), strict=True):
        model |= {"error": last[0]} if supervised else {"alignment": last[0], "uniformity": last[1]}
    rng, (count, size) = torch.Generator(where).manual_seed(2), KNOWN
    known = [batch((min(size, 4 * batch_size),), rng)[0] for _ in range(count)]
    embed = with_statistics(source, trained.parameters, known)
    return Encoders(lambda images: torch.stack([embed(images, k) for k in range(len(models))], 1), models, taken)


_Stage = partial(ImageSource, together=False)


class _Colours(nn.Module):
    """Three equal channels of one: PyTorch computes normalised convolutions several times as fast from images that
    can be laid out by channels."""

    def forward(self, x: Tensor) -> Tensor:
        return x.expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last)


def _encoder(width: int, dim: int) -> nn.Module:
    """Four normalised convolutions, a hidden layer and `dim` outputs: images (batch, 1, 64, 64) -> (batch, dim)."""
    last = nn.Linear(256, dim)
    nn.init.orthogonal_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(_Colours(), four_convolutions(width, 64, 256), last)


def _train_vaes(
    grid: Sprites, data: str, seeds: Sequence[int], steps: int, batch_size: int, seconds: float | None
) -> Encoders:
    where, draw = grid.stamps.device, sample_pairs(grid, data)
    models = [{"kind": kind, "seed": seed} for kind in ("β-VAE", "SlowVAE") for seed in seeds]
    built: list[nn.Module] = []
    for model in models:
        torch.manual_seed(model["seed"])
        built.append(SlowVAE(DIM))
    settings = [(BETA, 0.0, 1.0) if model["kind"] == "β-VAE" else SLOW for model in models]
    beta, gamma, rate = torch.tensor(settings, device=where).unbind(1)

    def inputs(index: Tensor, draws: torch.Generator) -> tuple[Tensor, ...]:
        first, second = (_images(grid, data, own) for own in draw(tuple(index.shape), draws))
        noise = torch.randn(len(models), 2 * index.shape[1], DIM, generator=draws, device=where)
        return first, second, noise, beta, gamma, rate

    same = torch.zeros(len(models), batch_size, dtype=torch.long, device=where)
    each = min(EPOCH, steps)
    done = train(
        built,
        each * batch_size,
        inputs,
        lambda draws: [inputs(same, draws)],
        epochs=max(1, steps // each),
        patience=steps,
        batch_size=batch_size,
        rate=VAE_RATE,
        device=where,
        budget=seconds,
        short=True,
    )
    for model, loss in zip(models, done.test_losses[-1], strict=True):
        model |= {"loss": loss}
    encoders: list[Any] = [model.encoder for model in done.models]

    def encode(images: Tensor) -> Tensor:
        with torch.autocast(where.type, torch.bfloat16, enabled=where.type == "cuda"):
            return torch.stack([encoder(images).float() for encoder in encoders], 1)

    return Encoders(encode, models, len(done.test_losses) * each)
