"""Pretext tasks: what each shows of an image, and models trained for it; and intervals over examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ascribo.metrics.bootstrap import bootstrap_interval
from experiments.shared.stack_training import Run, train

from .data import Images
from .networks import Autoencoder, Classifier

__all__ = ["NOISE", "TASKS", "corrupted", "interval", "pretext_models"]

NOISE = math.sqrt(1 / 3)
"""Standard deviation of the noise of the denoising task: the paper says variance 1/3, its code 0.3."""
SHOWN = 0.8
"""Share of the pixels that the inpainting task shows."""
TASKS = ("reconstruction", "denoising", "inpainting", "classification")
TEST_AT_ONCE = 1000


def corrupted(task: str, x: Tensor, draws: torch.Generator) -> Tensor:
    """What a task shows of images."""
    if task == "denoising":
        return x + NOISE * torch.randn(x.shape, generator=draws, device=x.device)
    if task == "inpainting":
        return x * (torch.rand(x.shape, generator=draws, device=x.device) < SHOWN)
    return x


def pretext_models(
    tasks: Sequence[str],
    images: Images,
    seeds: Sequence[int],
    *,
    epochs: int,
    batch_size: int = 128,
    device: torch.device,
    budget: float | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Run:
    """A model for each task and seed, as one stack: Adam, rate 1e-3, weight decay 1e-5, patience 10.

    tasks, seeds : one for each model. Classifiers are of another shape than autoencoders, and trained by
    themselves.
    """
    x, labels = torch.from_numpy(images.train).to(device), torch.from_numpy(images.train_labels).to(device)
    held, held_labels = torch.from_numpy(images.test).to(device), torch.from_numpy(images.test_labels).to(device)
    classify = "classification" in tasks
    models: list[nn.Module] = []
    for seed in seeds:
        torch.manual_seed(seed)
        models.append(Classifier() if classify else Autoencoder())

    def inputs(own: Tensor, own_labels: Tensor, draws: torch.Generator) -> tuple[Tensor, ...]:
        if classify:
            return own, own_labels
        parts = own.split([len(list(same)) for _, same in groupby(tasks)])
        names = [name for name, _ in groupby(tasks)]
        return own, torch.cat([corrupted(name, part, draws) for name, part in zip(names, parts, strict=True)])

    def batch(index: Tensor, draws: torch.Generator) -> tuple[Tensor, ...]:
        return inputs(x[index], labels[index], draws)

    def test(draws: torch.Generator) -> list[tuple[Tensor, ...]]:
        parts = [rows.expand(len(seeds), -1) for rows in torch.arange(len(held), device=device).split(TEST_AT_ONCE)]
        whole = parts[:-1] if parts[-1].shape[1] < TEST_AT_ONCE and len(parts) > 1 else parts
        return [inputs(held[index], held_labels[index], draws) for index in whole]

    return train(
        models,
        len(x),
        batch,
        test,
        epochs=epochs,
        batch_size=batch_size,
        weight_decay=1e-5,
        seed=seeds[0],
        device=device,
        budget=budget,
        progress=progress,
    )


def interval(values: Any, draws: int = 2000) -> dict[str, float]:
    """Mean and 95% bootstrap interval over examples (or runs), fit for JSON.

    >>> interval([2.0, 2.0])
    {'mean': 2.0, 'low': 2.0, 'high': 2.0}
    """
    numbers = np.asarray(values, dtype=float)
    low, high = bootstrap_interval(numbers, draws)
    return {"mean": float(numbers.mean()), "low": low, "high": high}
