"""Training steps on a CPU: batches are drawn on the host, a stack is computed in parts that stay in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..data.segments import segment_bounds
from ..networks.stack import Embedder
from .adam import Adam, gradient_of
from .chunks import chunk_seed
from .objective import Loss, RegularizedLoss
from .problem import Problem
from .settings import Settings

__all__ = ["EagerSteps"]
TOGETHER = 2048
"""References whose step is computed at once on a CPU: more gain nothing, and their activations leave the cache."""


class EagerSteps:
    """Steps one operation after the other, pairs drawn on the host: the way of the CPU.

    problem : what all models train on, or one problem per model. These have the same module, spaces, objectives,
        X and segments (the same objects) and the same rows of pairs, but pairs and targets of their own.
    """

    def __init__(self, problem: Problem | Sequence[Problem], seeds: Sequence[int], settings: Settings):
        problems = [problem] if isinstance(problem, Problem) else list(problem)
        first = problems[0]
        if len(problems) > 1:
            _check_shared(problems, len(seeds))
        self.pairs = [p.pairs for p in problems] if len(problems) > 1 else [first.pairs] * len(seeds)
        self.seeds, self.settings = seeds, settings
        device = torch.device(settings.device)
        self.embedder = Embedder(first.module, first.spaces)
        self.X = first.X.to(device)
        self.edges = [torch.from_numpy(edge).to(device) for edge in segment_bounds(first.segments)]
        # Targets of different problems lie end to end, and the indices of each model count from its own.
        self.apart = len(problems) > 1 and bool(first.targets)
        targets = {
            name: torch.from_numpy(np.concatenate([p.targets[name] for p in problems])).to(device)
            for name in first.targets
        }
        self.loss = RegularizedLoss(
            self.embedder, first.spaces, first.objectives, first.pairs.rows, targets, settings.exact_penalty
        )
        initial = self.embedder.initial(first.module, seeds)
        self.parameters = {name: value.to(device).requires_grad_() for name, value in initial.items()}
        self.rate = torch.tensor(settings.learning_rate, device=device)
        self.optimizer = Adam(self.parameters.values(), self.rate)
        self.noises = [torch.Generator(device) for _ in seeds]
        some = max(1, TOGETHER // settings.batch_size)
        self.parts = [slice(start, start + some) for start in range(0, len(seeds), some)]

    def run(self, start: int, weights: np.ndarray) -> dict[str, np.ndarray]:
        """See `Steps`."""
        steps, batch = len(weights), self.settings.batch_size
        each = zip(self.pairs, self.seeds, strict=True)
        draws = [pairs.draw(np.random.default_rng([seed, start]), steps, batch) for pairs, seed in each]
        index = torch.from_numpy(np.stack(draws, axis=1)).to(self.X.device)
        if self.apart:
            index += len(self.X) * torch.arange(len(self.seeds), device=index.device)[:, None, None]
        for noise, seed in zip(self.noises, self.seeds, strict=True):  # a seed does not depend on its company
            noise.manual_seed(chunk_seed([seed], start))
        lambdas = torch.from_numpy(weights).to(self.X.device, torch.float32)
        names, kept = ("infonce", "mse", "penalty"), []
        for k in range(steps):
            self.rate.fill_(self.settings.rate(start + k))
            # While λ = 0 the penalty is only measured, at the end of a chunk, for the record.
            penalised = bool(weights.any()) or k == steps - 1
            done = [self._gradient(own, index[k, own], lambdas[k, own], penalised) for own in self.parts]
            losses, gradients = zip(*done, strict=True)
            self.optimizer.step([torch.cat(parts) for parts in zip(*gradients, strict=True)])
            kept.append([torch.cat([getattr(loss, name) for loss in losses]) for name in names])
        return {name: torch.stack(k).cpu().numpy() for name, k in zip(names, zip(*kept, strict=True), strict=True)}

    def _gradient(
        self, own: slice, index: Tensor, weight: Tensor, penalised: bool
    ) -> tuple[Loss, tuple[Tensor, ...]]:
        """Loss of some of the models, and its gradient for each parameter."""
        directions = partial(self._directions, self.noises[own]) if penalised else None
        parameters = {name: value.detach()[own].requires_grad_() for name, value in self.parameters.items()}
        loss = self.loss(parameters, self._gather, index, weight, directions)
        return loss, gradient_of(loss.total, parameters)

    def _gather(self, index: Tensor) -> Tensor:
        return self.embedder.gather(self.X, index % len(self.X) if self.apart else index, *self.edges)

    def _directions(self, noises: Sequence[torch.Generator], like: Tensor) -> Tensor:
        shape = like.shape[1:]
        return torch.stack([torch.randn(shape, generator=noise, device=like.device) for noise in noises])


def _check_shared(problems: Sequence[Problem], models: int) -> None:
    first = problems[0]
    if len(problems) != models:
        raise ValueError(
            f"{len(problems)} problems for {models} seeds: expected one problem, or one for each seed."
        )
    if any(p.X is not first.X or p.segments is not first.segments for p in problems):
        raise ValueError("the problems of a stack must share X and segments as the same objects; these do not.")
    if any(p.pairs.rows != first.pairs.rows for p in problems):
        raise ValueError("the problems of a stack must have the same spaces with the same missing parts.")
