"""The seam between data and training: a source of batches is all that the training loop knows of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from .objective import Loss
from .random_numbers import Noise

__all__ = ["DeviceSource", "Source"]


@runtime_checkable
class Source(Protocol):
    """Where the batches of a stack of models come from, and what a batch costs them.

    `ascribo.training.recording_batches.RecordingSource` draws time steps of recordings; a generative process that
    makes new samples at every step, a set of images or the inputs of an autoencoder are sources just as well.
    A source decides what a *batch* is: the training loop takes it from `draw` and hands it to `loss`, and never
    looks inside.

    Attributes
    ----------
    device : where the data are and the loss is computed.
    seeds : for each model of the stack the numbers that its random draws start from, usually one number. There are
        as many models as entries.
    objectives : names of the contrastive objectives, the columns of the InfoNCE curves.
    regressions : names of the regressions, the columns of the squared-error curves. Their targets have variance 1.
    separable : whether the loss of some models can be computed without the others. If so, a batch indexed by a
        slice of models must be the batch of those models, and every parameter has one entry per model. A CPU then
        computes a large stack in parts that fit into its cache.
    offsets : names of parameters that only shift the embedding, which a loss of distances does not see (`Adam`
        says why). A source without such parameters need not have this attribute.
    """

    @property
    def device(self) -> torch.device: ...

    @property
    def seeds(self) -> Sequence[tuple[int, ...]]: ...

    @property
    def objectives(self) -> Sequence[str]: ...

    @property
    def regressions(self) -> Sequence[str]: ...

    @property
    def separable(self) -> bool: ...

    def initial(self) -> dict[str, Tensor]:
        """The parameters before training, by name."""
        ...

    def draw(self, start: int, steps: int, batch: int) -> Iterable[Any]:
        """The batches of training steps start, start + 1, ..., drawn on the host: one for each of `steps` steps.

        They must depend on `seeds` and `start` alone, so that a run that was interrupted draws the same again.
        batch : number of references in a batch.
        """
        ...

    def loss(self, parameters: Mapping[str, Tensor], batch: Any, weight: Tensor, noise: Noise | None) -> Loss:
        """The loss of a batch.

        weight : (model,) λ, the weight of the Jacobian penalty. noise : random directions for the penalty; None:
        the penalty is left out, and is 0 in what is returned.
        """
        ...

    def digest(self) -> str:
        """A hash of models and data: a checkpoint is continued only if it has the same."""
        ...


@runtime_checkable
class DeviceSource(Source, Protocol):
    """A source that can also draw a batch on its device, so that a whole training step becomes a CUDA graph.

    A source without `sampler` is trained on a GPU too, one operation after the other.
    """

    def sampler(self, batch: int) -> Callable[[torch.Generator], Any]:
        """Set up the drawing of batches of `batch` references on the device.

        Returns a function that draws the batch of one training step with a generator of the device: the same
        sequence of tensor operations each time, with no copy from the host and no wait for the device, since it is
        captured once and then repeated.
        """
        ...
