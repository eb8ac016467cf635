"""What to train on what: an architecture, its spaces, and one standardised recording with its pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from ..data.standardised_channels import StandardisedChannels, time_chunks
from ..spaces.base import Space
from ..spaces.pairs import Pairs
from .objective import Objective

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """What to train on what.

    X : (time, channel) float32, standardised (`StandardisedChannels` if it is large).
    segments : (time,), windows stay inside them.
    targets : name -> (time, dim) for the Regress spaces.
    held_out : pairs and segments of time that training does not see, by which it is watched; None if there is none.
    """

    module: nn.Module
    spaces: Mapping[str, Space]
    objectives: Sequence[Objective]
    X: Tensor | StandardisedChannels
    segments: np.ndarray
    pairs: Pairs
    targets: Mapping[str, np.ndarray]
    held_out: tuple[Pairs, np.ndarray] | None = None

    def digest(self) -> str:
        """A hash of model and data."""
        parts = (dict(self.spaces), list(self.objectives), self.module)
        digest, X = hashlib.sha256(repr(parts).encode()), self.X
        if isinstance(X, Tensor):
            data = [X.cpu().numpy()]
        else:
            for rows in time_chunks(X.raw):
                digest.update(np.ascontiguousarray(X.raw[rows]).data)
            data = [X.mean.numpy(), X.scale.numpy()]
        digested = [*data, self.segments, *self.targets.values(), *self.pairs.uniform]
        for positive in self.pairs.positive.values():
            digested += [value for value in vars(positive).values() if isinstance(value, np.ndarray)]
        for array in digested:
            digest.update(np.ascontiguousarray(array).data)  # not .tobytes(): that is a copy
        return digest.hexdigest()
