"""A fitted model: all that is needed to embed a recording and to attribute its spaces, and nothing of how it
was trained. The estimator makes one, the store keeps one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from . import attribution
from .alignment import Alignment
from .attribution import AttributionMaps, attribution_maps
from .embedder import Embedder
from .pairs import segment_bounds
from .recording import Recording
from .spaces import Space, layout

__all__ = ["FittedModel"]

MEMORY = 2**27
"""Bytes that the maps of one chunk of time may take."""


@dataclass(frozen=True)
class FittedModel:
    """Encoders and decoders of all seeds, with the statistics of the channels they were fitted to.

    mean, scale : (channel,) float64, what the channels are standardised with.
    parameters, decoder : stacked tensors (seed, ...).
    counted : (seed, space) booleans, False where a space collapsed.
    regressions : for each Regress space the mean and spread (2, dim) its targets were standardised with.
    """

    spaces: Mapping[str, Space]
    module: nn.Module
    channels: tuple[str, ...]
    mean: np.ndarray
    scale: np.ndarray
    parameters: dict[str, Tensor]
    decoder: dict[str, Tensor]
    alignment: Alignment
    counted: np.ndarray
    regressions: dict[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def embedder(self) -> Embedder:
        """The encoders as one function."""
        return Embedder(self.module, self.spaces)

    @property
    def seeds(self) -> int:
        """Number of models in the stack."""
        return len(self.counted)

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

    def standardise(self, X: np.ndarray) -> Tensor:
        """(time, channel) float32 on the model's device, with the fitted mean and scale."""
        out = torch.from_numpy(X).to(self.device, torch.float32)
        mean, scale = (torch.from_numpy(v).to(out) for v in (self.mean, self.scale))
        return (out - mean) / scale

    def consensus(self, z: Tensor) -> Tensor:
        """Mean of the seeds (those that count) in the reference seed's coordinates: (time, dim)."""
        owner = np.repeat(np.arange(len(self.spaces)), [space.dim for space in self.spaces.values()])
        counted = self.counted | ~self.counted.any(0)  # where all seeds collapsed there is nothing to prefer
        return self.alignment.consensus(z, torch.from_numpy(counted[:, owner]).to(z))

    def attribute(self, recording: Recording, method: str, steps: np.ndarray) -> AttributionMaps:
        """Maps by one method, averaged over some time steps; spaces that collapsed in all seeds are refused."""
        X = self.standardise(recording.X)
        first, last = (torch.from_numpy(edge).to(X.device) for edge in segment_bounds(recording.epochs))
        by_jacobian = {
            "inverted_neuron_gradient": attribution.inverted_neuron_gradient,
            "neuron_gradient": attribution.neuron_gradient,
        }.get(method)

        def local(index: Tensor) -> tuple[Tensor, Tensor]:
            x = self.embedder.gather(X, index, first, last)
            if by_jacobian:
                return by_jacobian(self.embedder, self.parameters, self.alignment, x)
            with torch.no_grad():
                z = self.embedder(self.parameters, x.expand(self.seeds, *x.shape))
            return attribution.generative_gradient(self.decoder, self.alignment, z)

        refused = {
            name: "its held-out InfoNCE is at chance in every seed: the space has collapsed, and the inverse of "
            "a collapsed embedding means nothing (001, theorem 1)."
            for name, counts in zip(self.spaces, self.counted.T.tolist(), strict=True)
            if not any(counts)
        }
        averaged = steps
        if method == "inverted_neuron_gradient":  # what has no inverse need not be differentiated
            z = self.embedder.embed(self.parameters, X, recording.epochs, steps)
            averaged = steps[self.embedder.inside(z).any(0).cpu().numpy()]
        wide = self.seeds * X.shape[1] * self.embedder.window * self.embedder.dim
        return attribution_maps(
            local,
            averaged,
            recording.time,
            list(self.channels),
            layout(self.spaces),
            self.counted.astype(float),
            method=method,
            refused=refused,
            # a local map is held about four times, partly in float64; a GPU wants more work at a time
            chunk=int(np.clip(MEMORY // (32 * wide), 16, 4096)) * (8 if X.is_cuda else 1),
            device=X.device,
            asked=len(steps),
        )
