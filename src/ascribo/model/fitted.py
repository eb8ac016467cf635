"""A fitted model: all that is needed to embed a recording and to attribute its spaces, and nothing of how it
was trained. The estimator makes one, the store keeps one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from ..data.preprocessing import Treatment
from ..data.recording import Recording
from ..data.standardised_channels import StandardisedChannels, standardise
from ..networks.model_stack import Embedder
from ..networks.seed_alignment import Alignment
from ..spaces.base import Space

__all__ = ["FittedModel"]


@dataclass(frozen=True)
class FittedModel:
    """Encoders and decoders of all seeds, with the statistics of the channels they were fitted to.

    mean, scale : (channel,) float64, what the channels are standardised with.
    parameters, decoder : stacked tensors (seed, ...).
    usable : (seed, space) booleans, False where a space collapsed.
    regressions : for each Regress space the mean and spread (2, dim) its targets were standardised with.
    treatment : how the recording was made from what was measured, all its channels; None if that is not known.
    """

    spaces: Mapping[str, Space]
    module: nn.Module
    channels: tuple[str, ...]
    mean: np.ndarray
    scale: np.ndarray
    parameters: dict[str, Tensor]
    decoder: dict[str, Tensor]
    alignment: Alignment
    usable: np.ndarray
    regressions: dict[str, np.ndarray] = field(default_factory=dict)
    treatment: Treatment | None = None

    @property
    def embedder(self) -> Embedder:
        """The encoders as one function."""
        return self._embedder

    @cached_property
    def _embedder(self) -> Embedder:
        return Embedder(self.module, self.spaces)

    @property
    def seeds(self) -> int:
        """Number of models in the stack."""
        return len(self.usable)

    def to(self, device: torch.device | str) -> FittedModel:
        """The same model with its tensors on a device."""
        move = lambda tensors: {name: value.to(device) for name, value in tensors.items()}  # noqa: E731
        return replace(
            self,
            parameters=move(self.parameters),
            decoder=move(self.decoder),
            alignment=self.alignment.to(device),
        )

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.alignment.mean.device

    def standardise(self, X: np.ndarray) -> Tensor | StandardisedChannels:
        """(time, channel) float32 on the model's device, with the fitted mean and scale."""
        return standardise(X, self.mean, self.scale, self.device)

    def embed(self, recording: Recording, seed: int | None = None) -> np.ndarray:
        """Embedding of a recording, of one seed or the consensus of all: (time, dim) float32."""
        out = np.empty((len(recording), self.embedder.dim), dtype=np.float32)
        start = 0
        for z in self.embedder.parts(self.parameters, self.standardise(recording.X), recording.epochs):
            part = self.consensus(z) if seed is None else z[seed]
            out[start : start + len(part)] = part.cpu().numpy()
            start += len(part)
        return out

    def consensus(self, z: Tensor) -> Tensor:
        """Mean of z (seed, time, dim) over usable seeds, in the reference seed's coordinates: (time, dim)."""
        owner = np.repeat(np.arange(len(self.spaces)), [space.dim for space in self.spaces.values()])
        usable = self.usable | ~self.usable.any(0)  # where all seeds collapsed there is nothing to prefer
        return self.alignment.consensus(z, torch.from_numpy(usable[:, owner]).to(z))
