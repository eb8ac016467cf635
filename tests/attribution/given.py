"""Recordings made by hand for the tests of local methods."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ascribo.attribution.method_inputs import EncodedRecording


@dataclass(frozen=True, eq=False)
class Given(EncodedRecording):
    """Encoders and the very inputs they are to see, with random numbers and a background that a test chooses."""

    pool: Tensor | None = None
    seed: int = 0

    def inputs(self, index):
        return self.X[index]

    def generator(self, index):
        return torch.Generator().manual_seed(self.seed)

    def background(self):
        return self.X if self.pool is None else self.pool


def at(method, embedder, parameters, alignment, x, *, pool=None, seed=0, decoder=None, **options):
    """The maps of a local method at inputs x (B, channel[, window])."""
    edges = torch.zeros(len(x), dtype=torch.long), torch.full((len(x),), len(x) - 1)
    recording = Given(embedder, parameters, alignment, decoder or {}, x, *edges, pool, seed)
    return method(recording, torch.arange(len(x)), **options)
