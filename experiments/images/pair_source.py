"""Pairs of images as a source of batches for the library's one training loop, with L_AU(α, p) or InfoNCE.

A stack has a model for each seed, all of one architecture; each may weigh uniformity by an α of its own.
"""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from ascribo.kernels.similarity_terms import Similarity
from ascribo.networks.alignment_uniformity import alignment_uniformity, weighted_loss
from ascribo.networks.outputs import Output, Unbounded
from ascribo.training.dispatch import take_steps
from ascribo.training.loop import Trained, run_steps
from ascribo.training.objective import Loss
from ascribo.training.penalty_weight import Constant
from ascribo.training.random_numbers import Noise, chunk_seed
from ascribo.training.settings import Settings
from experiments.shared.convolution import as_products

__all__ = ["Draw", "ImageSource", "train_within", "with_statistics"]

Draw = Callable[[tuple[int, ...], torch.Generator], tuple[Tensor, ...]]
"""(model, batch) and a generator -> images (model, batch, channel, height, width) of references and positives; if a
model is supervised, of references, and their targets (model, batch, dim)."""
FIRST_STEPS = 50
"""Training steps that are timed to find how many fit into a budget."""


class ImageSource:
    """A source of batches (`training.batch_source.DeviceSource`) for encoders of images.

    Parameters
    ----------
    build : makes an encoder, images (batch, channel, height, width) -> (batch, dim).
    seeds : of the models. alpha : weight of the uniformity in each; 0.5 is InfoNCE.
    draw : pairs of images, see `Draw`.
    output : where embeddings lie. similarity, temperature : ψ, which is divided by the temperature.
    independent : references are compared with the positives of all pairs, which are independent of them but for
        their own; otherwise with all references, themselves included. Neither is below -log of the batch.
    supervised : regress the targets instead.
    start : parameters of a trained stack to start from. Those that have another shape here, as a last layer of
        another width, and those that are not in it start as they would without.
    half : layers compute in bfloat16; None: on a GPU only.
    together : all models in one call, with convolutions as matrix products; right for small networks, while large
        ones fill a GPU one after the other.
    """

    separable = False
    regressions: Sequence[str]

    def __init__(
        self,
        build: Callable[[], nn.Module],
        seeds: Sequence[int],
        draw: Draw,
        *,
        similarity: Similarity,
        output: Output | None = None,
        temperature: float = 1.0,
        alpha: Sequence[float] | float = 0.5,
        independent: bool = False,
        supervised: bool = False,
        start: Mapping[str, Tensor] | None = None,
        half: bool | None = None,
        together: bool = True,
        device: torch.device | str = "cpu",
    ):
        self.device, self.seeds = torch.device(device), [(int(seed),) for seed in seeds]
        self.output, self.similarity, self.supervised, self.together = output, similarity, supervised, together
        self.independent, self.half = independent, self.device.type == "cuda" if half is None else half
        self._factor, self._draw, self._start = similarity.rescale(temperature), draw, start or {}
        weights = [alpha] * len(seeds) if isinstance(alpha, float | int) else list(alpha)
        self.alpha = torch.tensor(weights, dtype=torch.float32, device=self.device)
        self.objectives = () if supervised else ("alignment", "uniformity")
        self.regressions = ("latents",) if supervised else ()
        self._modules = []
        for seed in seeds:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(seed))
                self._modules.append(build())
        first = self._modules[0]
        self.names = [name for name, _ in first.named_parameters()]
        self.module = (as_products(first) if together else copy.deepcopy(first)).to(self.device).train()
        self._all = vmap(lambda own, x: functional_call(self.module, own, (x,)), randomness="error")

    @property
    def where(self) -> Output:
        """The output, anywhere if none was given."""
        return Unbounded() if self.output is None else self.output

    def initial(self) -> dict[str, Tensor]:
        """See `Source`: what the layers start with by themselves or are given, and what the output learns."""
        parameters, _ = stack_module_state(self._modules)
        own = {name: value.detach().float().cpu().contiguous() for name, value in parameters.items()}
        dim = own[self.names[-1]].shape[-1]
        given = {
            name: value.detach().float().cpu().clone()
            for name, value in self._start.items()
            if name in own and value.shape == own[name].shape
        }
        return {**own, **given, **self.where.initial(len(self.seeds), dim)}

    def draw(self, start: int, steps: int, batch: int) -> Sequence[tuple[Tensor, ...]]:
        """See `Source`."""
        rng = torch.Generator(self.device).manual_seed(chunk_seed([seed for (seed,) in self.seeds], start))
        # drawn when they are asked for, one after the other: images of all steps of a chunk would fill the memory
        return (self._draw((len(self.seeds), batch), rng) for _ in range(steps))  # type: ignore[return-value]

    def sampler(self, batch: int) -> Callable[[torch.Generator], tuple[Tensor, ...]]:
        """See `DeviceSource`."""
        return lambda rng: self._draw((len(self.seeds), batch), rng)

    def loss(
        self, parameters: Mapping[str, Tensor], batch: tuple[Tensor, ...], weight: Tensor, noise: Noise | None
    ) -> Loss:
        """See `Source`. The curve has both terms of the loss; there is no penalty."""
        models = len(self.seeds)
        if self.supervised:
            images, target = batch
            error = (self.embed(parameters, images) - target).square().mean((1, 2))
            return Loss(error.sum(), error.new_zeros(models, 0), error.detach()[:, None], error.new_zeros(models))
        both = self.embed(parameters, torch.cat(batch, 1)) * self._factor
        reference, positive = both.chunk(2, 1)
        negative = positive if self.independent else reference
        alignment, uniformity = alignment_uniformity(reference, positive, negative, self.similarity)
        total = 2 * weighted_loss(alignment, uniformity, self.alpha).sum()
        terms = torch.stack([alignment, uniformity], 1).detach()
        return Loss(total, terms, total.new_zeros(models, 0), total.new_zeros(models))

    def embed(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Embedding (model, batch, dim) of images (model, batch, ...), in float32."""
        own = {name: parameters[name] for name in self.names}
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half, cache_enabled=False):
            if self.together:
                z = self._all(own, x)
            else:
                layout = torch.channels_last if self.half else torch.contiguous_format
                z = torch.stack(
                    [
                        functional_call(
                            self.module,
                            {name: value[k] for name, value in own.items()},
                            (images.contiguous(memory_format=layout),),
                        )
                        for k, images in enumerate(x)
                    ]
                )
        return self.where(parameters, z.float())

    def digest(self) -> str:
        """See `Source`."""
        said = (
            self.seeds,
            self.output,
            self.similarity,
            self._factor,
            self.supervised,
            self.independent,
            self.half,
        )
        return hashlib.sha256(repr((*said, self.alpha.tolist(), str(self.module))).encode()).hexdigest()


@torch.no_grad()
def with_statistics(
    source: ImageSource, parameters: Mapping[str, Tensor], batches: Sequence[Tensor]
) -> Callable[[Tensor, int], Tensor]:
    """A function (images, model) -> embedding (n, dim) of trained models, one of a stack at a time.

    Batch normalisation then has the means and variances of `batches` of training images (n, channel, height, side),
    which are measured here: while training it had those of the batch.
    """
    layers = [layer for layer in source.module.modules() if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)]
    measured = []
    for k in range(len(source.seeds)):
        own = {name: value[k : k + 1] for name, value in parameters.items()}
        source.module.train()
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # the mean over all batches
        for images in batches if layers else ():
            source.embed(own, images[None])
        measured.append((own, {name: value.clone() for name, value in source.module.named_buffers()}))

    @torch.no_grad()
    def embed(images: Tensor, model: int) -> Tensor:
        own, statistics = measured[model]
        source.module.eval()
        for name, value in source.module.named_buffers():
            value.copy_(statistics[name])
        return source.embed(own, images[None])[0]

    return embed


def train_within(
    source: ImageSource,
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seconds: float | None = None,
    constant_rate: bool = False,
    progress: bool = False,
) -> tuple[Trained, int]:
    """Train a source, in as many steps as fit into `seconds`, at most `steps`; and how many these were.

    The first steps are timed, so that the learning rate falls over those that will be taken. constant_rate : it
    does not fall. Parameters are on the device of the source.
    """
    device = str(source.device)
    settings = Settings(steps, batch_size, learning_rate, Constant(0.0), device=device, constant_rate=constant_rate)
    taken = take_steps(source, settings)
    if seconds is not None and steps > FIRST_STEPS:
        began = time.monotonic()
        for _ in range(2):  # the first sets up, and records a step on a GPU
            before = time.monotonic()
            taken.run(0, np.zeros((FIRST_STEPS, len(source.seeds))))
        now = time.monotonic()
        each, left = (now - before) / FIRST_STEPS, seconds - (now - began)
        steps = int(np.clip(left / each, FIRST_STEPS, steps))
        taken.settings = replace(settings, steps=steps)
        taken.total = steps
    trained = run_steps(taken, progress=progress)
    moved = {name: value.to(source.device) for name, value in trained.parameters.items()}
    return replace(trained, parameters=moved), steps
