"""Training steps as CUDA graphs: draw, loss, gradient and update are captured once and replayed.

Everything a step needs is on the device: the data; the batch, drawn there; λ and the learning rate; the losses. The
host only says "again", and looks at the result when a chunk ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from .batch_source import DeviceSource
from .random_numbers import SharedNoise
from .settings import Settings
from .steps import Steps

__all__ = ["GraphSteps"]

WARM_UP = 2
"""Steps taken before capture, for what is set up at first use; they leave no trace in the models."""


class GraphSteps(Steps):
    """Steps on a source that draws its batches on the device.

    precision : of matrix products, "high" (TF32, on the tensor cores) or "highest" (float32).

    On a CPU the same steps run without a graph, and with the network as it is laid out there, which is how they are
    tested.
    """

    def __init__(self, source: DeviceSource, settings: Settings, precision: str = "high"):
        super().__init__(source, settings)
        self.precision, self._draw = precision, source.sampler(settings.batch_size)
        self.noise: SharedNoise = SharedNoise.on(self.device, source.seeds)
        self.parts = [slice(0, len(source.seeds))]
        self._graphs: dict[bool, torch.cuda.CUDAGraph] = {}

    def ready(self, penalised: bool) -> Callable[[], None]:
        """See `Steps`."""
        if self.device.type != "cuda":
            return lambda: self._drawn_step(penalised)
        if penalised not in self._graphs:
            self._graphs[penalised] = self._capture(penalised)
        return self._graphs[penalised].replay

    def begin(self, start: int, steps: int) -> None:
        """See `Steps`."""
        self.noise.restart(start)

    def _drawn_step(self, penalised: bool) -> None:
        self.step(self._draw(self.noise.generator), penalised)

    def _capture(self, penalised: bool) -> torch.cuda.CUDAGraph:
        with self._unchanged(), _products(self.precision):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UP):
                    self._drawn_step(penalised)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            graph.register_generator_state(self.noise.generator)
            with torch.cuda.graph(graph):
                self._drawn_step(penalised)
        return graph

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Parameters and optimizer state after the block are what they were before it."""
        state = self.optimizer.state
        before = {
            p: (p.detach().clone(), {k: v.clone() for k, v in state[p].items()}) for p in self.parameters.values()
        }
        self.counter.zero_()
        yield
        with torch.no_grad():
            for parameter, (value, moments) in before.items():
                parameter.copy_(value)
                for key, tensor in state[parameter].items():
                    tensor.copy_(moments[key])


@contextmanager
def _products(precision: str) -> Iterator[None]:
    """The precision of matrix products captured within the block; the InfoNCE kernel is always in float32, and so
    are the sums of products of float16."""
    products = torch.backends.cuda.matmul
    before = torch.get_float32_matmul_precision(), products.allow_fp16_reduced_precision_reduction
    torch.set_float32_matmul_precision(precision)
    products.allow_fp16_reduced_precision_reduction = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        products.allow_fp16_reduced_precision_reduction = before[1]
