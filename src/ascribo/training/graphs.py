"""Training steps as CUDA graphs: pairs, loss, gradient and update are captured once and replayed.

Everything a step needs is on the device: the recordings, laid end to end; the pairs, drawn there; λ and the
learning rate of a chunk's steps, looked up by a counter that the graph itself moves on; the losses, written to the
counter's row. The host only says "again", and looks at the result when a chunk ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from ..data.segments import segment_bounds
from ..networks.stack import Embedder
from ..spaces.on_device import DeviceSampler
from .adam import Adam, gradient_of
from .chunks import CHUNK, chunk_seed
from .objective import RegularizedLoss
from .problem import Problem
from .settings import Settings

__all__ = ["GraphSteps"]

WARM_UP = 2
"""Steps done before capture, for lazy initialisation; they leave no trace in the models."""


class GraphSteps:
    """`ascribo.training.chunks.Steps` for a stack of models over one or several recordings of one shape.

    Parameters
    ----------
    problems : one per recording; the same module, spaces and objectives in all.
    which : for each model the number of its problem.
    seeds : for each model the seed of its initial values.

    precision : of matrix products, "high" (TF32, on the tensor cores) or "highest" (float32).

    On a CPU the same steps run without a graph, and with the network as it is laid out there, which is how they are
    tested.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        which: Sequence[int],
        seeds: Sequence[int],
        settings: Settings,
        precision: str = "high",
    ):
        self.precision = precision
        first = problems[0]
        self.settings, self.seeds = settings, [int(seed) for seed in seeds]
        self.device = device = torch.device(settings.device)
        self.embedder = Embedder(first.module, first.spaces)
        lengths = [len(p.X) for p in problems]
        shift = np.cumsum(lengths) - lengths
        self.X = problems[0].X.to(device)
        if len(problems) > 1:  # one recording is not copied: it may be large
            self.X = torch.cat([p.X.to(device)[:] for p in problems])
        bounds = [[edge + s for edge in segment_bounds(p.segments)] for p, s in zip(problems, shift, strict=True)]
        self.edges = [torch.from_numpy(np.concatenate(edge)).to(device) for edge in zip(*bounds, strict=True)]
        targets = {
            name: torch.from_numpy(np.concatenate([p.targets[name] for p in problems])).to(device)
            for name in first.targets
        }
        self.sampler = DeviceSampler(
            [p.pairs for p in problems], lengths, torch.tensor(which, dtype=torch.long, device=device)
        )
        self.loss = RegularizedLoss(
            *(self.embedder, first.spaces, first.objectives, first.pairs.rows, targets),
            exact_penalty=settings.exact_penalty,
        )
        initial = self.embedder.initial(first.module, self.seeds)
        self.parameters = {name: value.to(device).requires_grad_() for name, value in initial.items()}
        self.rate = torch.tensor(settings.learning_rate, device=device)
        self.optimizer = Adam(self.parameters.values(), self.rate)
        self.generator = torch.Generator(device)
        models = len(self.seeds)
        zeros = lambda *shape: torch.zeros(CHUNK, *shape, device=device)  # noqa: E731
        self.counter = torch.zeros(1, dtype=torch.long, device=device)
        self.rates, self.weights = zeros(), zeros(models)
        self.curves = {
            "infonce": zeros(models, len(first.objectives)),
            "mse": zeros(models, len(targets)),
            "penalty": zeros(models),
        }
        self._graphs: dict[bool, torch.cuda.CUDAGraph] = {}

    def run(self, start: int, weights: np.ndarray) -> dict[str, np.ndarray]:
        """See `ascribo.training.chunks.Steps`."""
        steps = len(weights)
        plain, last = self._replay(bool(weights.any())), self._replay(True)
        rates = [self.settings.rate(start + k) for k in range(steps)]
        self.rates[:steps] = torch.tensor(rates, device=self.device)
        self.weights[:steps] = torch.from_numpy(weights).to(self.weights)
        self.counter.zero_()
        self.generator.manual_seed(chunk_seed(self.seeds, start))
        for _ in range(steps - 1):
            plain()
        last()  # measures the penalty even where λ = 0, for the record
        return {name: value[:steps].cpu().numpy().copy() for name, value in self.curves.items()}

    def _step(self, penalised: bool) -> None:
        index = self.sampler.draw(self.settings.batch_size, self.generator)
        weight = self.weights.index_select(0, self.counter)[0]
        self.rate.copy_(self.rates.index_select(0, self.counter)[0])
        directions = self._directions if penalised else None
        loss = self.loss(self.parameters, self._gather, index, weight, directions)
        self.optimizer.step(gradient_of(loss.total, self.parameters))
        for name, curve in self.curves.items():
            curve.index_copy_(0, self.counter, getattr(loss, name)[None])
        self.counter += 1

    def _gather(self, index: Tensor) -> Tensor:
        return self.embedder.gather(self.X, index, *self.edges)

    def _directions(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=self.generator, device=like.device)

    def _replay(self, penalised: bool):
        if self.device.type != "cuda":
            return lambda: self._step(penalised)
        if penalised not in self._graphs:
            self._graphs[penalised] = self._capture(penalised)
        return self._graphs[penalised].replay

    def _capture(self, penalised: bool) -> torch.cuda.CUDAGraph:
        with self._unchanged(), _products(self.precision):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UP):
                    self._step(penalised)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            graph.register_generator_state(self.generator)
            with torch.cuda.graph(graph):
                self._step(penalised)
        return graph

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Parameters and optimizer state after the block are what they were before it."""
        state = self.optimizer.state
        held = {
            p: (p.detach().clone(), {k: v.clone() for k, v in state[p].items()}) for p in self.parameters.values()
        }
        self.counter.zero_()
        yield
        with torch.no_grad():
            for parameter, (value, moments) in held.items():
                parameter.copy_(value)
                for key, tensor in state[parameter].items():
                    tensor.copy_(moments[key])


@contextmanager
def _products(precision: str) -> Iterator[None]:
    """The precision of matrix products captured within the block; the InfoNCE kernel is always in float32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
