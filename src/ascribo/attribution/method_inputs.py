"""What an attribution method gets to see: a fitted model, and a recording with the encoders of all its seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ..data.recording import Recording
from ..data.segments import segment_bounds
from ..data.standardised_channels import StandardisedChannels
from ..networks.model_stack import Embedder
from ..networks.seed_alignment import Alignment
from ..spaces.base import Space, reported

__all__ = ["EncodedRecording", "Model", "reasons_without_map", "seed_weights"]

BACKGROUND_STEPS = 10_000
"""Most time steps that `EncodedRecording.background` takes."""


class Model(Protocol):
    """What attribution needs of a fitted model; `ascribo.model.fitted.FittedModel` is one.

    parameters, decoder : stacked tensors (seed, ...) of the encoders and of the decoders from the embedding back to
    the channels. usable : (seed, space) booleans, False where a space collapsed.
    """

    @property
    def spaces(self) -> Mapping[str, Space]: ...
    @property
    def channels(self) -> tuple[str, ...]: ...
    @property
    def embedder(self) -> Embedder: ...
    @property
    def parameters(self) -> Mapping[str, Tensor]: ...
    @property
    def decoder(self) -> Mapping[str, Tensor]: ...
    @property
    def alignment(self) -> Alignment: ...
    @property
    def usable(self) -> np.ndarray: ...
    @property
    def seeds(self) -> int: ...
    @property
    def device(self) -> torch.device: ...
    def standardise(self, X: np.ndarray) -> Tensor | StandardisedChannels: ...


@dataclass(frozen=True, eq=False)
class EncodedRecording:
    """A standardised recording and the encoders of all seeds: everything that a local method may use.

    Attributes
    ----------
    embedder, parameters : the encoders as one function, and their stacked parameters (seed, ...).
    alignment : the coordinates, common to all seeds, that maps are given in.
    decoder : stacked parameters (seed, ...) of the decoders from aligned coordinates back to the channels.
    X : (time, channel), the standardised channels.
    first, last : (time,), the first and the last time step of the segment that each time step belongs to.

    Examples
    --------
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=1, hidden=1, channels=(3, 3), steps=400)
    >>> small = dict(seeds=2, steps=20, penalty=0, batch_size=32)
    >>> model = asc.ContrastiveEmbedding({"rest": asc.Time(dim=2)}, **small).fit(data)
    >>> encoded, steps = EncodedRecording.of(model.model_, data), torch.arange(10)
    >>> encoded.seeds, tuple(encoded.inputs(steps).shape), tuple(encoded.embed(steps).shape)
    (2, (10, 6), (2, 10, 2))
    >>> tuple(encoded.background().shape), encoded.generator(steps).initial_seed()
    ((400, 6), 0)
    """

    embedder: Embedder
    parameters: Mapping[str, Tensor]
    alignment: Alignment
    decoder: Mapping[str, Tensor]
    X: Tensor | StandardisedChannels
    first: Tensor
    last: Tensor

    @classmethod
    def of(
        cls, model: Model, recording: Recording, X: Tensor | StandardisedChannels | None = None
    ) -> EncodedRecording:
        """A recording and the encoders of a model. X : its standardised channels, where they are at hand."""
        X = model.standardise(recording.X) if X is None else X
        first, last = (torch.from_numpy(edge).to(X.device) for edge in segment_bounds(recording.epochs))
        return cls(model.embedder, model.parameters, model.alignment, model.decoder, X, first, last)

    @property
    def seeds(self) -> int:
        """Number of encoders."""
        return len(self.alignment.mean)

    def inputs(self, index: Tensor) -> Tensor:
        """What the encoders see at time steps `index` (B,): (B, channel), or (B, channel, window)."""
        return self.embedder.gather(self.X, index, self.first, self.last)

    @torch.no_grad()
    def embed(self, index: Tensor) -> Tensor:
        """Embeddings of all seeds at time steps `index` (B,), in their own coordinates: (seed, B, dim)."""
        x = self.inputs(index)
        return self.embedder(self.parameters, x.expand(self.seeds, *x.shape))

    def generator(self, index: Tensor) -> torch.Generator:
        """Random numbers for the map at `index`, seeded by its first time step: the same part of a map that is
        asked for again is the same."""
        return torch.Generator(self.X.device).manual_seed(int(index[0]))

    def background(self) -> Tensor:
        """Inputs at time steps from the whole recording, about 10,000: (n, channel), or (n, channel, window)."""
        apart = max(1, len(self.X) // BACKGROUND_STEPS)
        return self.inputs(torch.arange(0, len(self.X), apart, device=self.X.device))


def seed_weights(model: Model) -> np.ndarray:
    """(seed, space) numbers for the spaces that maps are about: 1 where the space of a seed is usable, else 0."""
    return model.usable[:, [not space.nuisance for space in model.spaces.values()]].astype(float)


def reasons_without_map(model: Model) -> dict[str, str]:
    """Spaces that have no map, and why: those that collapsed in every seed."""
    return {
        name: "its held-out InfoNCE is at chance in every seed: the space has collapsed, and the map of a "
        "collapsed embedding means nothing (Schneider et al. 2025, theorem 1)."
        for name, usable in zip(reported(model.spaces), seed_weights(model).T.tolist(), strict=True)
        if not any(usable)
    }
