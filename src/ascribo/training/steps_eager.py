"""Training steps one operation after the other, on batches drawn on the host: the way of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .batch_source import Source
from .random_numbers import OwnNoise
from .settings import Settings
from .steps import Steps

__all__ = ["EagerSteps"]


class EagerSteps(Steps):
    """Steps on any source and device. A model's batches and random directions do not depend on the other models."""

    def __init__(self, source: Source, settings: Settings):
        super().__init__(source, settings)
        self.noise: OwnNoise = OwnNoise.on(self.device, source.seeds)
        self._batches: Iterator[Any] = iter(())

    def ready(self, penalised: bool) -> Callable[[], None]:
        """See `Steps`."""
        return lambda: self.step(next(self._batches), penalised)

    def begin(self, start: int, steps: int) -> None:
        """See `Steps`."""
        self.noise.restart(start)
        self._batches = iter(self.source.draw(start, steps, self.settings.batch_size))
