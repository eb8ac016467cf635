"""A source of batches from recordings: one recording for all models of a stack, or several of one shape."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..data.mapped_files import is_mapped
from ..data.segments import segment_bounds
from ..networks.model_stack import Embedder
from ..spaces.device_pairs import DeviceSampler
from .objective import Loss, RegularizedLoss
from .random_numbers import Noise
from .read_ahead import Reading, read_ahead
from .training_problem import Problem

__all__ = ["Batch", "RecordingSource"]

Batch = Tensor | Reading[Tensor]
"""Time steps, (model, row, batch); of a recording in a file, with their channels, which are being read."""


class RecordingSource:
    """Batches of time steps, and the regularized contrastive loss on them: a `Source`.

    problems : for each model what it trains on. Models may share one, as seeds do; otherwise their problems have
        the same spaces and shapes. Recordings, pairs and targets of different problems lie end to end, and a batch
        holds indices into that whole, (model, row, batch). A problem, or an X, that occurs several times as the
        same object is on the device once.
    seeds : for each model the seed of its initial values and its batches.
    exact_penalty : see `RegularizedLoss`.
    """

    separable = True

    def __init__(
        self,
        problems: Sequence[Problem],
        seeds: Sequence[int],
        *,
        device: torch.device | str = "cpu",
        exact_penalty: bool = False,
    ):
        if len(problems) != len(seeds):
            raise ValueError(
                f"{len(problems)} problems for {len(seeds)} seeds: expected one problem for each seed."
            )
        self.problems = list({id(problem): problem for problem in problems}.values())
        first = self.problems[0]
        if any(problem.pairs.rows != first.pairs.rows for problem in self.problems):
            raise ValueError("the problems of a stack must have the same spaces with the same missing parts.")
        place = {id(problem): k for k, problem in enumerate(self.problems)}
        self.which = [place[id(problem)] for problem in problems]
        self.device, self.seeds = torch.device(device), [(int(seed),) for seed in seeds]
        self.lengths = [len(problem.X) for problem in self.problems]
        self.starts = np.cumsum(self.lengths) - self.lengths
        # Copies of a recording that differ in their pairs alone share its channels, which are held once.
        same = all(problem.X is first.X and problem.segments is first.segments for problem in self.problems)
        self._folded = same and len(self.problems) > 1
        apart = self.problems[:1] if same else self.problems
        self.X = first.X.to(self.device)
        if len(apart) > 1:  # a single recording is not copied: it may be large
            self.X = torch.cat([problem.X.to(self.device)[:] for problem in apart])
        self.embedder = Embedder(first.module, first.spaces)
        self._edges: list[Tensor | None] = [None, None]
        if self.embedder.window > 1:
            own = zip(apart, self.starts, strict=False)
            bounds = [[e + s for e in segment_bounds(p.segments)] for p, s in own]
            self._edges = [self._tensor(np.concatenate(edge)) for edge in zip(*bounds, strict=True)]
        self._targets = {
            name: self._tensor(np.concatenate([problem.targets[name] for problem in self.problems]))
            for name in first.targets
        }
        self._loss = RegularizedLoss(self.embedder, first.spaces, first.objectives, first.pairs.rows, exact_penalty)

    @property
    def objectives(self) -> list[str]:
        """The spaces that have a contrastive objective."""
        return [objective.space for objective in self.problems[0].objectives]

    @property
    def regressions(self) -> list[str]:
        """The spaces that are regressions."""
        return list(self._targets)

    @property
    def offsets(self) -> list[str]:
        """See `Source`: what the last layer of an MLP adds."""
        return [] if self.embedder.dense is None else [f"{self.embedder.dense.layers[-1]}.bias"]

    def initial(self) -> dict[str, Tensor]:
        """See `Source`."""
        return self.embedder.initial(self.problems[0].module, [seed for (seed,) in self.seeds])

    def draw(self, start: int, steps: int, batch: int) -> Iterable[Batch]:
        """See `Source`. Channels in a file are read ahead of the steps that need them."""
        index = self.draw_index(start, steps, batch)
        if isinstance(self.X, Tensor) or not is_mapped(self.X.raw):
            return index
        size = index[0].numel() * self.X.shape[1] * self.embedder.window * self.X.dtype.itemsize
        return read_ahead(index, lambda one: self.inputs(self._loss.ordered(one)), size)

    def draw_index(self, start: int, steps: int, batch: int) -> Sequence[Tensor]:
        """The time steps of the batches of some training steps: (model, row, batch) each."""
        each = zip(self.which, self.seeds, strict=True)
        draws = [
            self.problems[k].pairs.draw(np.random.default_rng([seed, start]), steps, batch) for k, (seed,) in each
        ]
        index = torch.from_numpy(np.stack(draws, axis=1)).to(self.device)
        if len(self.problems) > 1:
            index += self._tensor(self.starts[self.which])[:, None, None]
        return index.unbind()

    def sampler(self, batch: int) -> Callable[[torch.Generator], Tensor]:
        """See `DeviceSource`."""
        pairs = [problem.pairs for problem in self.problems]
        return partial(DeviceSampler(pairs, self.lengths, self._tensor(self.which)).draw, batch)

    def loss(self, parameters: Mapping[str, Tensor], batch: Batch, weight: Tensor, noise: Noise | None) -> Loss:
        """See `Source`."""
        if isinstance(batch, Reading):
            index, x = batch.index, batch.inputs()
        else:
            index, x = batch, self.inputs(self._loss.ordered(batch))
        goals = {name: goal[index[:, self._loss.rows[name][0]]] for name, goal in self._targets.items()}
        return self._loss(parameters, x, goals, weight, noise)

    def inputs(self, index: Tensor) -> Tensor:
        """What the encoder sees at indices: (..., channel[, window])."""
        return self.embedder.gather(self.X, index % len(self.X) if self._folded else index, *self._edges)

    def digest(self) -> str:
        """See `Source`."""
        parts = (self.seeds, self.which, [problem.digest() for problem in self.problems])
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def _tensor(self, values: np.ndarray | Sequence[int]) -> Tensor:
        return torch.from_numpy(np.asarray(values)).to(self.device)
