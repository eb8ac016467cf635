"""A fitted model: all that is needed to embed a recording and to attribute its spaces, and nothing of how it
was trained. The estimator makes one, the store keeps one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from .. import attribution
from ..attribution.maps import AttributionMaps, LocalMap, attribution_maps
from ..attribution.unique_variance.unique import STEPS as UNIQUE_STEPS
from ..data.recording import Recording
from ..data.segments import evenly, segment_bounds
from ..data.standardised import StandardisedChannels, are_counts, standardise
from ..data.treatment import Treatment
from ..networks.alignment import Alignment
from ..networks.stack import Embedder
from ..spaces.base import Space, layout, reported

__all__ = ["FittedModel", "questions_of", "unique_variances"]

MEMORY = 2**27
"""Bytes that the maps of one chunk of time may take."""
BACKGROUND = 10_000
"""Most time steps that `shapley_shuffled` draws its references from."""


@dataclass(frozen=True)
class FittedModel:
    """Encoders and decoders of all seeds, with the statistics of the channels they were fitted to.

    mean, scale : (channel,) float64, what the channels are standardised with.
    parameters, decoder : stacked tensors (seed, ...).
    counted : (seed, space) booleans, False where a space collapsed.
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
    counted: np.ndarray
    regressions: dict[str, np.ndarray] = field(default_factory=dict)
    treatment: Treatment | None = None

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
        """Mean of the seeds (those that count) in the reference seed's coordinates: (time, dim)."""
        owner = np.repeat(np.arange(len(self.spaces)), [space.dim for space in self.spaces.values()])
        counted = self.counted | ~self.counted.any(0)  # where all seeds collapsed there is nothing to prefer
        return self.alignment.consensus(z, torch.from_numpy(counted[:, owner]).to(z))

    def attribute(
        self,
        recording: Recording,
        method: str,
        steps: np.ndarray | None = None,
        *,
        aggregate: str = "mean",
        loss: str = "squared",
        progress: bool = False,
        standard: Tensor | StandardisedChannels | None = None,
    ) -> AttributionMaps:
        """Maps by one method; spaces that collapsed in all seeds are refused.

        steps : time steps to aggregate over, None for all; the unique variance always takes as many as it can use.
        standard : the recording's channels as `standardise` makes them, where they are at hand (not used for the
        unique variance, which makes its own of many recordings).
        """
        if method == "unique_variance":
            return unique_variances([self], [recording], loss=loss, progress=progress)[0]
        steps = np.arange(len(recording)) if steps is None else steps
        X = self.standardise(recording.X) if standard is None else standard
        averaged = steps
        if method == "inverted_neuron_gradient":  # what has no inverse need not be differentiated
            z = self.embedder.embed(self.parameters, X, recording.epochs, steps)
            averaged = steps[self.embedder.inside(z).any(0).cpu().numpy()]
        wide = self.seeds * X.shape[1] * self.embedder.window * self.embedder.dim

        def at(chosen: np.ndarray) -> AttributionMaps:
            some = chosen[evenly(len(chosen), len(steps))]
            return self.attribute(recording, method, some, aggregate=aggregate)

        return attribution_maps(
            self._local(method, X, recording.epochs),
            averaged,
            recording.time,
            list(self.channels),
            {name: where for name, where in layout(self.spaces).items() if not self.spaces[name].nuisance},
            self.weight,
            method=method,
            refused=self.refused,
            # a local map is held about four times, partly in float64; a GPU wants more work at a time
            chunk=int(np.clip(MEMORY // (32 * wide), 16, 4096)) * (8 if X.is_cuda else 1),
            aggregate=aggregate,
            device=X.device,
            asked=len(steps),
            epochs=recording.epochs,
            at=at,
        )

    @property
    def weight(self) -> np.ndarray:
        """(seed, space) numbers, 1 where a space counts, of the spaces that are reported: those of the maps."""
        return self.counted[:, [not space.nuisance for space in self.spaces.values()]].astype(float)

    @property
    def refused(self) -> dict[str, str]:
        """Spaces without a map, and why."""
        return {
            name: "its held-out InfoNCE is at chance in every seed: the space has collapsed, and the map of a "
            "collapsed embedding means nothing (001, theorem 1)."
            for name, counts in zip(reported(self.spaces), self.weight.T.tolist(), strict=True)
            if not any(counts)
        }

    def _local(self, method: str, X: Tensor | StandardisedChannels, epochs: np.ndarray) -> LocalMap:
        """The local maps of one method, as a function of time steps."""
        first, last = (torch.from_numpy(edge).to(X.device) for edge in segment_bounds(epochs))
        function = getattr(attribution, method)
        given = (self.embedder, self.parameters, self.alignment)

        def local(index: Tensor) -> tuple[Tensor, Tensor]:
            x = self.embedder.gather(X, index, first, last)
            # keyed by the first time step: the same part of the map asked for again is the same
            draws = torch.Generator(X.device).manual_seed(int(index[0]))
            if method == "generative_gradient":
                with torch.no_grad():
                    z = self.embedder(self.parameters, x.expand(self.seeds, *x.shape))
                return function(self.decoder, self.alignment, z)
            if method == "tangent":
                return function(*given, x, attribution.tangent_basis(X, index, first, last, self.embedder.dim))
            if method == "shapley_shuffled":
                some = torch.arange(0, len(X), max(1, len(X) // BACKGROUND), device=X.device)
                background = self.embedder.gather(X, some, first, last)
                return function(*given, x, background=background, generator=draws)
            if method in ("shapley_zeros", "smoothgrad"):
                return function(*given, x, generator=draws)
            return function(*given, x)

        return local


def questions_of(
    models: Sequence[FittedModel], recordings: Sequence[Recording], *, loss: str = "squared"
) -> list[attribution.Question]:
    """What is asked of each model and its recording for its unique variance; see `unique_variances`."""
    questions, frames = [], {}
    for model, recording in zip(models, recordings, strict=True):
        counts = None
        if loss == "poisson":
            if not are_counts(recording.X):
                raise ValueError("loss='poisson' is for counts: X has entries that are not whole numbers >= 0.")
            nothing, one = np.zeros(recording.X.shape[1]), np.ones(recording.X.shape[1])
            counts = standardise(recording.X, nothing, one, model.device)
        X, about = model.standardise(recording.X), (recording.epochs, recording.variables)
        key = (id(recording), repr(model.spaces), model.embedder.window)
        if key not in frames:
            frames[key] = attribution.frame_of(model.spaces, model.embedder.window, *about, X)
        given = (model.embedder, model.parameters, model.spaces, X, *about)
        questions.append(attribution.ask(*given, counts=counts, frame=frames[key]))
    return questions


def unique_variances(
    models: Sequence[FittedModel],
    recordings: Sequence[Recording],
    *,
    loss: str = "squared",
    steps: int = UNIQUE_STEPS,
    progress: bool = False,
) -> list[AttributionMaps]:
    """Unique variance maps of many models, each of its recording; those of one shape share a stack of decoders.

    loss : "squared", or "poisson" for channels that are counts. steps : of training of the decoders, at most.
    """
    questions = questions_of(models, recordings, loss=loss)
    groups: dict[tuple, list[int]] = {}
    for k, question in enumerate(questions):
        waves = None if question.waves is None else question.waves.shape
        groups.setdefault((question.x.shape[1], question.masks.shape, waves), []).append(k)
    maps: dict[int, AttributionMaps] = {}
    for members in groups.values():
        seeds = [list(range(models[k].seeds)) for k in members]
        answers = attribution.unique_variance(
            [questions[k] for k in members], seeds, steps=steps, progress=progress
        )
        for k, answer in zip(members, answers, strict=True):
            maps[k] = attribution.unique_maps(
                answer,
                weight=models[k].weight,
                refused=models[k].refused,
                channels=models[k].channels,
                time=recordings[k].time,
                epochs=recordings[k].epochs,
            )
    return [maps[k] for k in range(len(models))]
