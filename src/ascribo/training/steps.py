"""Training steps of a stack of models, a chunk at a time: the part that is the same on a CPU and on a GPU.

A step draws a batch, computes loss and gradient, and updates the parameters. A chunk is the unit in which batches
are drawn on the host, losses are fetched from the device and the state is written down.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .adam import Adam, differentiate
from .batch_source import Source
from .random_numbers import Noise
from .settings import Settings

__all__ = ["STEPS_PER_CHUNK", "Steps"]

STEPS_PER_CHUNK = 50
REFERENCES_AT_ONCE = 2048
"""References whose step is computed at once on a CPU: more gain nothing, and their activations leave the cache."""


class Steps(ABC):
    """The models of a source with their optimizer. Subclasses say how one step after the other is taken.

    λ, the learning rate and the losses of a chunk are tensors with a row for each step, found by a counter that a
    step itself moves on: so a step is the same sequence of operations every time, as a CUDA graph must be.

    parameters, optimizer : the state that a checkpoint keeps. total : number of steps that will be taken, by which
    the learning rate falls.
    """

    noise: Noise

    def __init__(self, source: Source, settings: Settings):
        self.source, self.settings = source, settings
        self.total = settings.steps
        self.device = device = source.device
        self.parameters = {name: value.to(device).requires_grad_() for name, value in source.initial().items()}
        self.rate = torch.tensor(settings.learning_rate, device=device)
        offsets = [k for k, name in enumerate(self.parameters) if name in getattr(source, "offsets", ())]
        self.optimizer = Adam(self.parameters.values(), self.rate, offsets)
        models = len(source.seeds)
        some = max(1, REFERENCES_AT_ONCE // settings.batch_size)
        if device.type != "cpu" or not source.separable:
            some = models
        self.parts = [slice(first, first + some) for first in range(0, models, some)]
        zeros = lambda *shape: torch.zeros(STEPS_PER_CHUNK, *shape, device=device)  # noqa: E731
        self.counter = torch.zeros(1, dtype=torch.long, device=device)
        self.rates, self.weights = zeros(), zeros(models)
        self.curves = {
            "infonce": zeros(models, len(source.objectives)),
            "mse": zeros(models, len(source.regressions)),
            "penalty": zeros(models),
        }

    def run(self, start: int, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Take the steps start, start + 1, ... with λ weights (steps, model).

        Returns the curves of the chunk: infonce (steps, model, objective), mse (steps, model, regression) and
        penalty (steps, model). While λ = 0 the penalty is only measured at the chunk's last step, for the record.
        """
        steps = len(weights)
        plain, last = self.ready(bool(weights.any())), self.ready(True)
        rates = [self.settings.rate(start + k, self.total) for k in range(steps)]
        self.rates[:steps] = torch.tensor(rates, dtype=torch.float32, device=self.device)
        self.weights[:steps] = torch.from_numpy(weights).to(self.device, torch.float32)
        self.counter.zero_()
        self.begin(start, steps)
        for _ in range(steps - 1):
            plain()
        last()
        return {name: value[:steps].cpu().numpy().copy() for name, value in self.curves.items()}

    @abstractmethod
    def ready(self, penalised: bool) -> Callable[[], None]:
        """A function that takes one step, with or without the penalty."""

    @abstractmethod
    def begin(self, start: int, steps: int) -> None:
        """Get ready for a chunk of steps whose first has the number `start`: its random numbers and batches."""

    def step(self, batch: Any, penalised: bool) -> None:
        """One step on a batch: loss, gradient, update, curves."""
        weight = self.weights.index_select(0, self.counter)[0]
        self.rate.copy_(self.rates.index_select(0, self.counter)[0])
        losses, gradients = self._gradient(batch, weight, self.noise if penalised else None)
        self.optimizer.step(gradients)
        for name, curve in self.curves.items():
            curve.index_copy_(0, self.counter, losses[name][None])
        self.counter += 1

    def _gradient(self, batch: Any, weight: Tensor, noise: Noise | None) -> tuple[dict[str, Tensor], list[Tensor]]:
        """The losses by the name of their curve, and the gradient of each parameter."""
        if len(self.parts) == 1:
            loss = self.source.loss(self.parameters, batch, weight, noise)
            losses, gradients = [loss], [differentiate(loss.total, self.parameters)]
        else:
            losses, gradients = [], []
            for some in self.parts:
                own = {name: value.detach()[some].requires_grad_() for name, value in self.parameters.items()}
                loss = self.source.loss(own, batch[some], weight[some], None if noise is None else noise[some])
                losses.append(loss)
                gradients.append(differentiate(loss.total, own))
        join = lambda parts: parts[0] if len(parts) == 1 else torch.cat(parts)  # noqa: E731
        named = {name: join([getattr(loss, name) for loss in losses]) for name in self.curves}
        return named, [join(parts) for parts in zip(*gradients, strict=True)]
