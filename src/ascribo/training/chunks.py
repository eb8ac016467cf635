"""A chunk of training steps, the unit in which batches are drawn, losses fetched and state written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from .adam import Adam

__all__ = ["Steps"]

CHUNK = 50

Curves = dict[str, list[np.ndarray]]
"""By name, one array (steps, seed[, objective]) for each chunk."""


class HasTargets(Protocol):
    """A loss, of which the loop only needs to know how many regressions are in it."""

    targets: Any


class Steps(Protocol):
    """Something that trains a stack of models a chunk of steps at a time."""

    parameters: dict[str, Tensor]
    optimizer: Adam

    @property
    def loss(self) -> HasTargets:
        """The loss."""
        ...

    def run(self, start: int, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Do the steps start, start + 1, ... with λ weights (steps, model); returns the curves of the chunk:
        infonce (steps, model, objective), mse (steps, model, regression), penalty (steps, model)."""
        ...


def chunk_seed(seeds: Sequence[int], start: int) -> int:
    """The seed of a chunk's random directions: a matter of the models and the step alone."""
    return int(np.random.SeedSequence([*seeds, start]).generate_state(1)[0])
