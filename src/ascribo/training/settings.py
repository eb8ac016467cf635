"""How to train: number of steps, batch size, learning rate, penalty, device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.compute import resolve_device
from .penalty_weight import Schedule, as_schedule

__all__ = ["DECODER_STEPS", "MOST_SEEDS", "MOST_STEPS", "Settings"]

MOST_STEPS, MOST_SEEDS = 3000, 4
"""Training steps and seeds of `steps="auto"` and `seeds="auto"`, at most."""

DECODER_STEPS = 1500
"""Training steps of the decoders that come after the encoders."""


@dataclass(frozen=True)
class Settings:
    """How to train; most fields are parameters of `ContrastiveEmbedding`.

    schedule : of λ, the weight of the Jacobian penalty.
    constant_rate : the learning rate stays as it is instead of falling.
    watched : `steps` are the most; training ends sooner if held-out bits stop rising.
    """

    steps: int
    batch_size: int
    learning_rate: float
    schedule: Schedule
    exact_penalty: bool = False
    early_stop: float | None = None
    device: str = "cpu"
    constant_rate: bool = False
    watched: bool = False

    @classmethod
    def from_parameters(cls, estimator: Any, *, time_steps: int | None = None, **changes: Any) -> Settings:
        """The settings that the parameters of an estimator describe, with `changes` to some of them.

        time_steps : of the shortest recording to train on; no batch has more references.

        >>> from ascribo import ContrastiveEmbedding
        >>> settings = Settings.from_parameters(ContrastiveEmbedding(penalty=0.1, device="cpu"), early_stop=None)
        >>> settings.steps, settings.schedule, settings.device
        (3000, Constant(weight=0.1, warmup=0.0, ramp=0.0), 'cpu')
        """
        given = {
            "steps": MOST_STEPS if estimator.steps == "auto" else int(estimator.steps),
            "watched": estimator.steps == "auto",
            "batch_size": int(
                estimator.batch_size if time_steps is None else min(estimator.batch_size, time_steps)
            ),
            "learning_rate": float(estimator.learning_rate),
            "schedule": as_schedule(estimator.penalty),
            "exact_penalty": bool(estimator.exact_penalty),
            "early_stop": estimator.early_stop,
            "device": str(resolve_device(estimator.device)),
        }
        return cls(**{**given, **changes})

    def rate(self, step: int, total: int | None = None) -> float:
        """The learning rate: whole for half of the steps, then falling to 5% along a cosine, unless it is constant.

        total : number of steps, if that has become less than `steps`.

        >>> from ascribo.training.penalty_weight import Constant
        >>> [round(float(Settings(100, 512, 1.0, Constant(0.0)).rate(k)), 3) for k in (0, 50, 75, 100)]
        [1.0, 1.0, 0.525, 0.05]
        """
        late = 0.0 if self.constant_rate else max(0.0, 2 * step / (total or self.steps) - 1)
        return self.learning_rate * (0.05 + 0.95 * 0.5 * (1 + np.cos(np.pi * late)))

    @property
    def decoder_steps(self) -> int:
        """Training steps of the decoders that come after: no more than the encoders have, but for a few."""
        return min(DECODER_STEPS, max(50, self.steps))
