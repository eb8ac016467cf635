"""How many training steps to take: as many as were asked for, or until held-out time has nothing left to say.

`steps="auto"` watches the loss on held-out time after every chunk. When it has stopped falling, as much again
follows, in which λ finds its value and the learning rate falls. Short recordings are learned sooner than long
ones, and stop sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from ..networks.infonce_loss import chance
from .recording_batches import RecordingSource
from .training_problem import Problem

__all__ = ["Pace", "Watch", "watch_held_out"]

FEWEST_STEPS = 150
"""Steps after which training may be found to have stopped gaining."""
PATIENCE = 100
"""Steps without a gain after which it has."""
LEAST_GAIN = 0.02
"""Share of the bits so far by which held-out bits must rise to count as a gain."""
LEAST_BITS = 0.05
BATCHES = 6

Watch = Callable[[Mapping[str, Tensor]], np.ndarray]
"""Stacked parameters -> (model,), bits above chance on held-out time, summed over objectives."""


class Pace:
    """How many steps a run takes.

    most : steps at most. watched : whether held-out bits decide; otherwise there are `most` steps.

    total : the steps that will be taken, as far as is known. why : why no more, in words.
    """

    def __init__(self, most: int, watched: bool):
        self.total, self.watched = most, watched
        self.why = f"all {most} steps were taken"
        self._best, self._last_gain = 0.0, 0

    def observe(self, done: int, bits: np.ndarray) -> bool:
        """Held-out bits (model,) after `done` steps; True if the total has just become less.

        >>> pace = Pace(3000, True)
        >>> [pace.observe(done, np.array([min(done, 300) / 100])) for done in range(50, 401, 50)][-1], pace.total
        (True, 800)
        """
        mean = float(bits.mean())
        if mean > self._best + LEAST_GAIN * max(self._best, LEAST_BITS):
            self._best, self._last_gain = mean, done
        late = done - self._last_gain >= PATIENCE and done >= FEWEST_STEPS
        if not (self.watched and late and 2 * done < self.total):
            return False
        self.total, self.watched = 2 * done, False
        self.why = (
            f"held-out bits stopped rising at step {self._last_gain}; it ended at {self.total}, after as many "
            "steps with a falling learning rate as it took to find out"
        )
        return True


def watch_held_out(problem: Problem, seeds: list[int], device: torch.device | str, batch: int) -> Watch | None:
    """How to measure held-out bits of models of one problem, one for each seed; None if nothing is held out.

    Nothing is prepared before the first measurement.
    """
    if problem.held_out is None:
        return None
    pairs, segments = problem.held_out
    batch = int(min(batch, (segments >= 0).sum()))

    @cache
    def held_out() -> tuple[RecordingSource, list[Tensor]]:
        own = replace(problem, pairs=pairs, segments=segments)
        source = RecordingSource([own] * len(seeds), seeds, device=device)
        # the same time steps for all seeds: their bits are compared
        draws = pairs.draw(np.random.default_rng(0), BATCHES, batch)
        return source, [torch.from_numpy(rows).to(source.device).expand(len(seeds), *rows.shape) for rows in draws]

    @torch.no_grad()
    def watch(parameters: Mapping[str, Tensor]) -> np.ndarray:
        source, batches = held_out()
        none = torch.zeros(len(seeds), device=source.device)
        found = [source.loss(parameters, rows, none, None) for rows in batches]
        nats = torch.stack([chance(batch) * one.infonce.shape[-1] - one.infonce.sum(-1) for one in found]).mean(0)
        told = torch.stack([(1 - one.mse).sum(-1) for one in found]).mean(0)
        return (nats / np.log(2) + told).double().cpu().numpy()

    return watch
