"""How to train: steps, batch, learning rate, penalty, device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .penalty import Schedule

__all__ = ["Settings"]
DECODER_STEPS = 1500


@dataclass(frozen=True)
class Settings:
    """How to train; every field but `held` is a parameter of `ContrastiveEmbedding`.

    held : the learning rate stays as it is instead of falling.
    """

    steps: int
    batch_size: int
    learning_rate: float
    schedule: Schedule
    exact_penalty: bool = False
    early_stop: float | None = None
    device: str = "cpu"
    held: bool = False

    def rate(self, step: int) -> float:
        """The learning rate: whole for half of the steps, then falling to 5% along a cosine, unless it is held.

        >>> from ascribo.training.penalty import Constant
        >>> [round(float(Settings(100, 512, 1.0, Constant(0.0)).rate(k)), 3) for k in (0, 50, 75, 100)]
        [1.0, 1.0, 0.525, 0.05]
        """
        late = 0.0 if self.held else max(0.0, 2 * step / self.steps - 1)
        return self.learning_rate * (0.05 + 0.95 * 0.5 * (1 + np.cos(np.pi * late)))

    @property
    def decoder_steps(self) -> int:
        """Training steps of the decoders that come after: no more than the encoders have, but for a few."""
        return min(DECODER_STEPS, max(50, self.steps))
