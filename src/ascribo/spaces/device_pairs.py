"""Pairs drawn on the device, for a stack of models over one or several recordings.

The same distributions as `ascribo.spaces.pairs.Pairs.draw`, as a fixed sequence of tensor operations: nothing goes
through the host, so the draw is part of the CUDA graph of a training step. Recordings are laid end to end; all
indices count in that joint recording.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .group_draws import Ragged
from .pairs import Pairs

__all__ = ["DeviceSampler"]

WIDE = 2**62
"""Random integers are drawn below this and reduced: the bias of a remainder is then below 1e-12."""


class DeviceSampler:
    """Draws index batches for a stack of models, all on the device.

    Parameters
    ----------
    pairs : one `Pairs` per recording, all of the same spaces.
    lengths : time steps of each recording.
    which : (model,) the recording of each model.
    """

    def __init__(self, pairs: Sequence[Pairs], lengths: Sequence[int], which: Tensor):
        if any(p.rows != pairs[0].rows for p in pairs):
            raise ValueError("the recordings of a stack must have the same spaces with the same missing parts.")
        device = which.device
        self.which = which
        shift = np.cumsum(lengths) - np.asarray(lengths)
        self.rows = pairs[0].rows
        self._uniform = [
            Ragged.of([p.uniform[k] + s for p, s in zip(pairs, shift, strict=True)], device)
            for k in range(len(pairs[0].uniform))
        ]
        self._positive = {
            name: first.on_device([p.positive[name] for p in pairs], shift, device)
            for name, first in pairs[0].positive.items()
        }
        self._draws = len(self._uniform) + sum(p.draws for p in self._positive.values())

    def draw(self, batch: int, generator: torch.Generator | None = None) -> Tensor:
        """Indices (model, rows, batch) for one training step."""
        shape = (self._draws, len(self.which), batch)
        random = iter(torch.randint(WIDE, shape, generator=generator, device=self.which.device))
        rows = [pool.pick(self.which, next(random)) for pool in self._uniform]
        for name, positive in self._positive.items():
            some = [next(random) for _ in range(positive.draws)]
            rows.append(positive.draw(self.which, rows[self.rows[name][0]], some))
        return torch.stack(rows, 1)
