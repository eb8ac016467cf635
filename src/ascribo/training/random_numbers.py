"""Random numbers for the models of a stack, the same again for the same seeds and the same step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

__all__ = ["Noise", "OwnNoise", "SharedNoise", "chunk_seed"]


def chunk_seed(seeds: Sequence[int], start: int) -> int:
    """The seed of a chunk's random numbers: it depends on the models and on the number of the first step alone.

    >>> chunk_seed([3], 50) == chunk_seed([3], 50), chunk_seed([3], 50) == chunk_seed([3], 100)
    (True, False)
    """
    return int(np.random.SeedSequence([*seeds, start]).generate_state(1)[0])


class Noise(Protocol):
    """Random numbers for some models of a stack. Indexed by a slice of models, it is the noise of those models."""

    def __getitem__(self, models: slice) -> Noise: ...

    def normal(self, shape: Sequence[int]) -> Tensor:
        """Standard normal numbers, (model, *shape)."""
        ...


@dataclass(frozen=True)
class OwnNoise:
    """A generator for each model: what a model draws does not depend on the other models of its stack.

    seeds : for each model the numbers that its generator starts from.

    >>> noise = OwnNoise.on("cpu", [(0,), (1,)])
    >>> noise.restart(0)
    >>> both = noise.normal((4,))
    >>> noise.restart(0)
    >>> bool((noise[1:2].normal((4,)) == both[1:2]).all())
    True
    """

    seeds: Sequence[tuple[int, ...]]
    generators: Sequence[torch.Generator]

    @classmethod
    def on(cls, device: torch.device | str, seeds: Sequence[tuple[int, ...]]) -> OwnNoise:
        """Generators on a device, not yet started."""
        return cls(seeds, [torch.Generator(device) for _ in seeds])

    def restart(self, start: int) -> None:
        """Begin the chunk of steps whose first has the number `start`."""
        for seed, generator in zip(self.seeds, self.generators, strict=True):
            generator.manual_seed(chunk_seed(seed, start))

    def __getitem__(self, models: slice) -> OwnNoise:
        return OwnNoise(self.seeds[models], self.generators[models])

    def normal(self, shape: Sequence[int]) -> Tensor:
        """See `Noise`."""
        return torch.stack([torch.randn(shape, generator=g, device=g.device) for g in self.generators])


@dataclass(frozen=True)
class SharedNoise:
    """One generator for all models, so that one kernel draws for all: the way of a CUDA graph."""

    seeds: Sequence[tuple[int, ...]]
    generator: torch.Generator

    @classmethod
    def on(cls, device: torch.device | str, seeds: Sequence[tuple[int, ...]]) -> SharedNoise:
        """A generator on a device, not yet started."""
        return cls(seeds, torch.Generator(device))

    def restart(self, start: int) -> None:
        """Begin the chunk of steps whose first has the number `start`."""
        self.generator.manual_seed(chunk_seed([number for seed in self.seeds for number in seed], start))

    def __getitem__(self, models: slice) -> SharedNoise:
        return SharedNoise(self.seeds[models], self.generator)

    def normal(self, shape: Sequence[int]) -> Tensor:
        """See `Noise`."""
        whole = (len(self.seeds), *shape)
        return torch.randn(whole, generator=self.generator, device=self.generator.device)
