"""A stack of encoders as one function: parameters have an axis of seeds, and one call computes all of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp, stack_module_state, vmap

from ..data.segments import segment_bounds
from ..data.standardised_channels import StandardisedChannels
from ..spaces.base import Space, layout
from ..spaces.similarities import as_similarity
from .dense import as_dense
from .encoders import Limit, input_window

__all__ = ["LOG_TEMPERATURE", "Embedder"]

LOG_TEMPERATURE = "log_temperature"
"""The parameter that holds the temperatures that are learned."""
TIME_STEPS_AT_ONCE = {"cpu": 2048, "cuda": 65_536}
"""Time steps embedded together, on a CPU (whose cache should hold a layer) and on a GPU (which should be busy)."""


class Embedder:
    """A stack of encoders of one architecture as one function, with the geometry of their spaces.

    Parameters
    ----------
    module : the architecture; its own parameters are not used.
    spaces : name -> Space, for the blocks on spheres and the temperatures.
    """

    def __init__(self, module: nn.Module, spaces: Mapping[str, Space]):
        self.window = input_window(module)
        skeleton = copy.deepcopy(module).to("meta")
        self.dense = as_dense(module)
        self._call = vmap(lambda parameters, x: functional_call(skeleton, parameters, (x,)), randomness="error")
        contrastive = {n: s for n, s in spaces.items() if s.contrastive}
        slices = layout(spaces)
        self.spheres = [slices[n] for n, s in contrastive.items() if as_similarity(s.similarity).on_sphere]
        if self.spheres:
            self.dense = None  # its tangents end at the box, not on a sphere
        last = module[-1] if isinstance(module, nn.Sequential) else None
        self._box = last.scale if isinstance(last, Limit) and last.kind == "hard" and not self.spheres else np.inf
        self.dim = sum(space.dim for space in spaces.values())
        self._learned = [
            (slices[n], as_similarity(s.similarity)) for n, s in contrastive.items() if s.temperature == "learn"
        ]
        self._scale = torch.ones(self.dim)
        for n, s in contrastive.items():
            if s.temperature != "learn":
                self._scale[slices[n]] = as_similarity(s.similarity).rescale(float(s.temperature))

        self._plain = not self._learned and bool((self._scale == 1).all())

    def initial(self, module: nn.Module, seeds: Sequence[int]) -> dict[str, Tensor]:
        """Stacked parameters (seed, ...), each seed's drawn anew as its layers prescribe."""
        modules = []
        for seed in seeds:
            fresh = copy.deepcopy(module)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                for part in fresh.modules():
                    reset = getattr(part, "reset_parameters", None)
                    if callable(reset):
                        reset()
            modules.append(fresh)
        parameters, _ = stack_module_state(modules)
        parameters = {name: value.detach().float() for name, value in parameters.items()}
        if self._learned:
            parameters[LOG_TEMPERATURE] = torch.zeros(len(seeds), len(self._learned))
        return parameters

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Embedding (seed, B, dim) of inputs (seed, B, channel[, window])."""
        if self.dense is not None:
            return self.dense(parameters, x)[0]
        z = self._call({k: v for k, v in parameters.items() if k != LOG_TEMPERATURE}, x)
        for where in self.spheres:
            z = torch.cat(
                [
                    z[..., : where.start],
                    nn.functional.normalize(z[..., where], dim=-1),
                    z[..., where.stop :],
                ],
                -1,
            )
        return z

    def with_tangents(
        self, parameters: Mapping[str, Tensor], x: Tensor, direction: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Embedding of x and, for the first inputs, what it becomes along a direction: J_f·u.

        x : (seed, R, channel[, window]). direction : (seed, T, channel[, window]), at the first T of them.
        Returns (seed, R, dim) and (seed, T, dim), both differentiable in the parameters.
        """
        tangents = direction.shape[1]
        if self.dense is not None:
            z, tangent = self.dense(parameters, x, direction)
            assert tangent is not None
            return z, tangent
        z, t = jvp(lambda v: self(parameters, v), (x[:, :tangents],), (direction,))[:2]
        return torch.cat([z, self(parameters, x[:, tangents:])], 1), t

    def inside(self, z: Tensor) -> Tensor:
        """(seed, B), False where an output is at its hard limit and its row of the Jacobian therefore zero."""
        return (z.abs() < self._box).all(-1)

    def tempered(self, parameters: Mapping[str, Tensor], z: Tensor) -> Tensor:
        """Coordinates in which ψ has temperature 1."""
        if self._plain:
            return z
        if z.device != self._scale.device:  # once: a copy within a captured graph is not allowed
            self._scale = self._scale.to(z.device)
        scale = self._scale.to(z.dtype)
        if not self._learned:
            return z * scale
        scale = scale.expand(z.shape[0], 1, -1).clone()
        for k, (where, similarity) in enumerate(self._learned):
            temperature = parameters[LOG_TEMPERATURE][:, k].exp()[:, None, None]
            scale[..., where] = similarity.rescale(temperature)  # type: ignore[arg-type]
        return z * scale

    @torch.no_grad()
    def embed(
        self,
        parameters: Mapping[str, Tensor],
        X: Tensor | StandardisedChannels,
        epochs: np.ndarray,
        index: np.ndarray | None = None,
    ) -> Tensor:
        """Embedding of the time steps `index` (all by default) of a standardised recording: (seed, time, dim)."""
        return torch.cat(list(self.parts(parameters, X, epochs, index)), 1)

    @torch.no_grad()
    def parts(
        self,
        parameters: Mapping[str, Tensor],
        X: Tensor | StandardisedChannels,
        epochs: np.ndarray,
        index: np.ndarray | None = None,
    ) -> Iterator[Tensor]:
        """`embed`, some time steps after the other: (seed, some, dim) each."""
        first, last = None, None
        if self.window > 1:
            first, last = (torch.from_numpy(edge).to(X.device) for edge in segment_bounds(epochs))
        every = torch.arange(len(X)) if index is None else torch.from_numpy(index)
        seeds = len(next(iter(parameters.values())))
        for part in every.to(X.device).split(TIME_STEPS_AT_ONCE["cuda" if X.is_cuda else "cpu"]):
            x = self.gather(X, part, first, last)
            yield self(parameters, x.expand(seeds, *x.shape))

    def gather(
        self, X: Tensor | StandardisedChannels, index: Tensor, first: Tensor | None, last: Tensor | None
    ) -> Tensor:
        """Inputs at time steps `index`: (..., channel), or (..., channel, window) clamped to the segment.

        first, last : (time,), the bounds of each time step's segment, for a window.
        """
        if self.window == 1 and isinstance(X, Tensor):
            return nn.functional.embedding(index, X)  # whole rows: four times as fast as X[index] on a CPU
        if self.window == 1:
            return X[index]
        assert first is not None and last is not None
        offsets = torch.arange(self.window, device=index.device) - self.window // 2
        around = (index[..., None] + offsets).clamp(first[index][..., None], last[index][..., None])
        return X[around].transpose(-1, -2)
