"""Encoders of any kind as one function of a batch of inputs: in evaluation mode, with their outputs checked.

A PyTorch module, any function of a tensor, or a model that this library has fitted. An explanation of a trained
encoder must not depend on dropout, on the statistics of a batch, or on the other examples in it; here is where this
is made sure of.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.func import functional_call

from ..data.recording import Recording
from ..data.segments import segment_bounds
from ..model.estimator import ContrastiveEmbedding
from ..model.fitted import FittedModel
from ..spaces.base import layout
from ..support.names import suggest

__all__ = [
    "Encoder",
    "Fitted",
    "FittedEncoder",
    "Values",
    "as_inputs",
    "checked",
    "evaluation_mode",
    "find_device",
    "represent",
]

Encoder = Callable[[Tensor], Tensor]
"""From a batch of inputs (batch, ...) to their representations (batch, dim)."""
Fitted = ContrastiveEmbedding | FittedModel
"""A model fitted to a recording."""
Values = Tensor | ArrayLike
"""Numbers, labels or scores, in whatever holds them."""
COUPLED = 1e-2
"""Largest difference between a representation within a batch and alone, relative to the largest entry. Rounding is
far below it (1e-3 with the short numbers of a GPU), dropout and batch statistics far above."""


@contextmanager
def evaluation_mode(*parts: object) -> Iterator[None]:
    """Put modules into evaluation mode inside the block, and back to what they were after it.

    Anything that is not a module is left alone. On a GPU, convolutions are computed with all digits of float32, and
    recurrent layers take the plain way: cuDNN's cannot be differentiated in evaluation mode.

    >>> layer = nn.Dropout(0.5)
    >>> with evaluation_mode(layer):
    ...     print(layer.training)
    False
    >>> layer.training
    True
    """
    modules = [m for part in parts if isinstance(part, nn.Module) for m in part.modules()]
    before = [m.training for m in modules]
    with ExitStack() as stack:
        if torch.cuda.is_available():
            recurrent = any(isinstance(m, nn.RNNBase) for m in modules)
            stack.enter_context(torch.backends.cudnn.flags(enabled=not recurrent, allow_tf32=False))
        try:
            for module in modules:
                module.training = False
            yield
        finally:
            for module, training in zip(modules, before, strict=True):
                module.training = training


def find_device(encoder: object) -> tuple[torch.device | None, torch.dtype | None]:
    """Device and number format of an encoder's parameters; None for a function that has none."""
    if isinstance(encoder, FittedEncoder):
        return encoder.model.device, torch.float32
    tensors = list(encoder.parameters()) + list(encoder.buffers()) if isinstance(encoder, nn.Module) else []
    floating = [t for t in tensors if t.is_floating_point()]
    return (floating[0].device, floating[0].dtype) if floating else (None, None)


def as_inputs(X: object, what: str = "X") -> Tensor:
    """A batch of inputs as a tensor of floating-point numbers, (batch, ...)."""
    if isinstance(X, tuple | list) and any(isinstance(part, Tensor | np.ndarray) for part in X):
        raise ValueError(
            f"{what} is a {type(X).__name__} of {len(X)} arrays: an encoder is explained for one input. "
            "Wrap it in a function of that input which fixes the others, such as lambda x: encoder(x, other)."
        )
    if not isinstance(X, Tensor | np.ndarray):
        raise ValueError(f"{what} is a {type(X).__name__}: expected a tensor or an array, (example, ...).")
    inputs = torch.as_tensor(X)
    if not inputs.is_floating_point():
        raise ValueError(
            f"{what} holds {inputs.dtype} numbers: pass floating-point numbers in the units the encoder was "
            "trained on (pixels from 0 to 255 divided by 255, for instance)."
        )
    if inputs.ndim < 2 or not len(inputs):
        raise ValueError(f"{what} has shape {tuple(inputs.shape)}: expected one or more examples, (example, ...).")
    if not bool(inputs.isfinite().all()):
        bad = int((~inputs.flatten(1).isfinite().all(1)).nonzero()[0])
        raise ValueError(f"{what} has entries that are not finite, first in example {bad}.")
    return inputs.detach()


def represent(encoder: Encoder, x: Tensor) -> Tensor:
    """Representations of a batch, (batch, dim), whatever the shape the encoder gives them; checked for shape."""
    z = encoder(x)
    if not isinstance(z, Tensor):
        raise ValueError(
            f"the encoder returned a {type(z).__name__}: expected one tensor, (example, dim). Wrap it in a "
            "function that picks the representation, such as lambda x: encoder(x)[0]."
        )
    if z.ndim < 1 or len(z) != len(x):
        raise ValueError(
            f"for {len(x)} examples the encoder returned shape {tuple(z.shape)}: expected one representation for "
            f"each, ({len(x)}, dim)."
        )
    return z.flatten(1) if z.ndim > 1 else z[:, None]


@torch.no_grad()
def checked(encoder: Encoder, x: Tensor) -> Tensor:
    """Representations of a batch, (batch, dim), refused if they are not finite, random, or depend on each other."""
    _check_signature(encoder)
    _check_statistics(encoder)
    z = represent(encoder, x)
    if not bool(z.isfinite().all()):
        bad = int((~z.isfinite().all(1)).nonzero()[0])
        raise ValueError(
            f"the encoder's representation of example {bad} is not finite: there is nothing to explain. Check the "
            "encoder's parameters, and that inputs have the units it was trained on."
        )
    alone = represent(encoder, x[:1])
    if bool(((alone[0] - z[0]).abs() > COUPLED * z[0].abs().max()).any()):
        raise ValueError(
            "the encoder represents the same example differently "
            + ("alone and within a batch" if len(x) > 1 else "at each call")
            + ": it draws random numbers or uses the statistics of the batch, even in evaluation mode. Use "
            "dropout as a module (nn.Dropout), and batch normalisation with running statistics."
        )
    return z


def _check_statistics(encoder: Encoder) -> None:
    """Refuse batch normalisation that has no statistics but those of the batch."""
    layers = encoder.modules() if isinstance(encoder, nn.Module) else ()
    if any(isinstance(m, nn.modules.batchnorm._BatchNorm) and m.running_mean is None for m in layers):
        raise ValueError(
            "the encoder has batch normalisation without running statistics, so a representation depends on "
            "the other examples of its batch: use track_running_stats=True."
        )


def _check_signature(encoder: Encoder) -> None:
    """Refuse an encoder that needs several inputs."""
    function = encoder.forward if isinstance(encoder, nn.Module) else encoder
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function that does not tell
        return
    needed = [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if len(needed) > 1:
        raise ValueError(
            f"the encoder needs {len(needed)} inputs ({', '.join(needed)}): it is explained with respect to one. "
            "Wrap it in a function of that input which fixes the others, such as lambda x: encoder(x, other)."
        )


class FittedEncoder(nn.Module):
    """A fitted model as one encoder of standardised inputs (batch, channel[, window]).

    The representation is what `transform` returns, the mean of the seeds in common coordinates, but counted from
    its mean over the recording the model was fitted to: similarities that depend on differences, such as the
    squared distance, leave the origin open. Blocks on a sphere keep theirs.

    space : only the dimensions of this space. seed : one seed's own embedding instead of the mean of all.
    """

    def __init__(self, model: FittedModel, space: str | None = None, seed: int | None = None):
        super().__init__()
        slices = layout(model.spaces)
        if space is not None and space not in slices:
            raise ValueError(f"no space is called {space!r}{suggest(space, slices)}")
        if seed is not None and not 0 <= seed < model.seeds:
            raise ValueError(f"seed={seed!r}: the model has seeds 0 to {model.seeds - 1}.")
        self.model, self.seed = model, seed
        self.where = slice(None) if space is None else slices[space]
        self.module = model.module  # a child, so that its layers are found; its own parameters are not used
        reference = model.alignment.reference if seed is None else seed
        origin = model.alignment.mean[reference].clone()
        for sphere in model.embedder.spheres:
            origin[sphere] = 0
        self.origin = origin

    def own(self, seed: int) -> dict[str, Tensor]:
        """One seed's parameters of the module."""
        names = {name for name, _ in self.module.named_parameters()}
        return {name: value[seed] for name, value in self.model.parameters.items() if name in names}

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channel[, window]) -> (batch, dim)."""
        seeds = range(self.model.seeds) if self.seed is None else [self.seed]
        z = torch.stack([functional_call(self.module, self.own(seed), (x,)) for seed in seeds])
        for where in self.model.embedder.spheres:
            on_sphere = nn.functional.normalize(z[..., where], dim=-1)
            z = torch.cat([z[..., : where.start], on_sphere, z[..., where.stop :]], -1)
        z = z[0] if self.seed is not None else self.model.consensus(z)
        return (z - self.origin)[:, self.where]

    def inputs(self, recording: Recording, index: np.ndarray) -> Tensor:
        """Standardised inputs at some time steps: (index, channel[, window])."""
        X = self.model.standardise(recording.X)
        first, last = (torch.from_numpy(edge).to(X.device) for edge in segment_bounds(recording.epochs))
        return self.model.embedder.gather(X, torch.from_numpy(np.asarray(index)).to(X.device), first, last)

    @property
    def lags(self) -> np.ndarray:
        """Time of each step of the window, in steps after the one that is embedded."""
        window = self.model.embedder.window
        return np.arange(window) - window // 2
