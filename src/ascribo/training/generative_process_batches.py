"""Batches of generative processes: new latents at every step, mixed on the device where they are drawn.

A stack has one model for each process. The processes have one distribution of latents, and each its own mixing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn

from ..kernels.similarity_terms import Similarity
from ..networks.alignment_uniformity import alignment_uniformity, weighted_loss
from ..networks.decorrelation import decorrelate
from ..networks.encoders import MLP, Homogeneous
from ..networks.model_stack import Embedder
from ..networks.outputs import Output, Sphere, Unbounded
from ..simulate.generative_mixing import LeakyMixing
from ..simulate.generative_process import Process
from ..spaces.kinds.time import Time
from .objective import Loss
from .random_numbers import Noise, chunk_seed

__all__ = ["ProcessSource", "best_temperature"]

SAMPLES = 20_000
"""Samples that means and scales of observations are estimated from."""
PAIRS = 1024
"""Pairs that the best temperature is computed from, at most."""
TEMPERATURES = float(np.log(1e-5)), float(np.log(1e3))
"""Logarithms of the temperatures among which the best one is looked for."""
GAIN = 1.4
"""Of the orthogonal initial weights: signals keep their size through GELU layers, and through leaky rectifiers."""


def best_temperature(
    process: Process, similarity: Similarity, batch_size: int = PAIRS, negatives: str = "references"
) -> float:
    """The temperature at which InfoNCE is least for the latents themselves, from where training starts.

    The latents are divided by their standard deviation, unless they are on a sphere. A model whose outputs have
    variance 1 then has the scale that it will end with: another temperature would only change the scale that the
    encoder has to learn. In ten dimensions it is far above that of the pairs' own distribution, since a batch has
    no negatives as near as the positives.

    batch_size : references, each of which is also a negative; more than 1,024 are not needed to know it.
    negatives : "independent": as many other latents instead. Then it is that of the pairs' own distribution, if the
        similarity matches it.

    >>> import ascribo as asc
    >>> pairs = asc.simulate.process("sphere", dim=3, concentration=8.0)
    >>> round(best_temperature(pairs, asc.spaces.similarities.Dot()), 1)  # 1 / 8
    0.1
    """
    latents, positives = process.sample_pairs((1, min(batch_size, PAIRS)), 0)
    others = latents if negatives == "references" else process.sample((1, min(batch_size, PAIRS)), 1)
    if not similarity.on_sphere:
        spread = latents.std(1, keepdim=True)
        latents, positives, others = latents / spread, positives / spread, others / spread

    def loss(log_temperature: float) -> float:
        factor = similarity.rescale(float(np.exp(log_temperature)))
        drawn = (latents * factor, positives * factor, others * factor)
        return float(sum(alignment_uniformity(*drawn, similarity, count_positive=True)))

    found = minimize_scalar(loss, bounds=TEMPERATURES, method="bounded", options={"xatol": 0.02})
    return float(np.exp(found.x))  # type: ignore[attr-defined]


class ProcessSource:
    """A source of batches (`training.batch_source.DeviceSource`) for encoders of generative processes.

    Parameters
    ----------
    processes : one for each model, of one distribution and one shape. seeds : of the models.
    widths : of the hidden layers.
    output : where the embedding lies.
    similarity, temperature : ψ, which is divided by the temperature.
    negatives : "references": those of the batch, each compared with itself too; the pair
        with itself keeps the loss bounded and the pull on positives strong where no negative is near.
        "independent": as many new latents, as in theory. A number: only so many of the references.
    count_positive : whether the positive is in the denominator.
    alpha : weight of the uniformity, beside 1 - alpha of the alignment (Zimmermann et al. 2020, equation 70). 0.5
        is InfoNCE.
    decorrelated : while training, outputs of a batch are decorrelated (`networks.decorrelation`) before they are
        put on the sphere; `absorb` puts that into the last layer when training is over.
    homogeneous : encoders without biases (`networks.encoders.Homogeneous`) of observations that are scaled around
        0, not around their mean. Only for outputs without bounds, and not decorrelated.
    supervised : regress the latents instead; what is said of pairs is not used.
    start : parameters to start from; None: orthogonal weights.
    half : layers compute in float16 while training (`networks.half_precision`). None: on a GPU, from orthogonal
        weights. Decorrelated outputs may have any scale, and so may the layers of trained ones: those can leave the
        range of float16. Homogeneous encoders never do.
    """

    separable = True

    def __init__(
        self,
        processes: Sequence[Process],
        seeds: Sequence[int],
        *,
        widths: Sequence[int],
        output: Output | None = None,
        similarity: Similarity,
        temperature: float = 1.0,
        negatives: str | int = "references",
        count_positive: bool = True,
        alpha: float = 0.5,
        decorrelated: bool = False,
        homogeneous: bool = False,
        supervised: bool = False,
        start: Mapping[str, Tensor] | None = None,
        half: bool | None = None,
        device: torch.device | str = "cpu",
    ):
        first = processes[0]
        same = lambda p: (p.space, p.dim, p.channels, p.marginal, p.conditional, p.bounds)  # noqa: E731
        if any(same(other) != same(first) for other in processes):
            raise ValueError(
                "processes of one stack must have one space, distribution and size; only mixings differ."
            )
        self.processes, self.process, self.device = list(processes), first, torch.device(device)
        self.seeds = [(int(seed),) for seed in seeds]
        self.output, self.similarity, self.supervised = output or Unbounded(), similarity, supervised
        self.temperature, self.negatives = float(temperature), negatives
        self.count_positive, self.alpha, self._start = count_positive, alpha, start
        self.decorrelated, self.homogeneous = decorrelated, homogeneous
        if homogeneous and (decorrelated or not isinstance(self.output, Unbounded) or half):
            raise ValueError(
                "homogeneous=True needs output='unbounded', outputs that are not decorrelated (that subtracts a "
                f"mean) and layers in float32; it was given output={self.output}, decorrelate={decorrelated} and "
                f"half={half}."
            )
        small = start is None and not decorrelated and not homogeneous
        self.half = self.device.type == "cuda" and small if half is None else half
        self.objectives = [] if supervised else ["infonce"]
        self.regressions = ["latents"] if supervised else []
        self.rows = 1 if supervised else 3 if negatives == "independent" else 2
        layers = Homogeneous(tuple(widths)) if homogeneous else MLP(tuple(widths), limit="none")
        self._module = layers.build(first.channels, first.dim)
        self._embedder = Embedder(self._module, {"latents": Time(dim=first.dim)})
        self._names = [name for name, _ in self._module.named_parameters()]
        self._factor = similarity.rescale(self.temperature)
        self._mixing = None
        if all(isinstance(process.mixing, LeakyMixing) for process in processes):
            stacked = LeakyMixing.stacked([process.mixing for process in processes])  # type: ignore[misc]
            self._mixing = LeakyMixing([weight.float() for weight in stacked.weights], stacked.slope).to(device)
        latents = torch.stack([process.sample(SAMPLES, 1) for process in processes]).to(device)
        self._centre, self._scale = _whitening(self._mix(latents), around_zero=homogeneous)
        # a supervised model without bounds learns latents of variance 1, and of mean 0 if it can add a constant
        free = isinstance(self.output, Unbounded)
        centred = free and not homogeneous
        self._middle = latents.mean((0, 1)) if centred else torch.zeros(first.dim, device=device)
        self._spread = latents.std((0, 1)) if free else torch.ones(first.dim, device=device)

    def initial(self, fresh: bool = False) -> dict[str, Tensor]:
        """The parameters before training: orthogonal weights, and what the output learns; or those of `start`,
        unless `fresh` ones are asked for.

        On a sphere the last layer is set so that outputs begin with mean 0 and the same spread in all directions: a
        mean costs next to nothing under a wide kernel, and would stay.
        """
        if self._start is not None and not fresh:
            return {name: value.detach().clone() for name, value in self._start.items()}
        seeds = [seed for (seed,) in self.seeds]
        final = [name for name in self._names if name.endswith("weight")][-1]
        parameters = self._embedder.initial(self._module, seeds)
        for k, seed in enumerate(seeds):
            rng = torch.Generator().manual_seed(seed)
            for name, value in parameters.items():
                if name.endswith("bias"):
                    value[k].zero_()
                else:
                    nn.init.orthogonal_(value[k], 1.0 if name == final else GAIN, generator=rng)
        if isinstance(self.output, Sphere):
            parameters = self.absorb(parameters)
        return {**parameters, **self.output.initial(len(seeds), self.process.dim)}

    def absorb(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The parameters, the last layer such that outputs have mean 0 and covariance 1 (before the sphere)."""
        if self.homogeneous:
            raise ValueError(
                "homogeneous=True: such encoders have no bias that could take up the mean of the outputs."
            )
        weight, bias = self._names[-2:]
        out = {name: value.detach().clone() for name, value in parameters.items()}
        with torch.no_grad():
            count = max(2000, 100 * self.process.dim)
            z = torch.stack([own.sample(count, 2) for own in self.processes]).to(self.device)
            x = self.observe(z).to(out[weight].device)
            centre, scale = _whitening(self._embedder({name: out[name] for name in self._names}, x))
            out[weight] = (scale.mT @ out[weight]).contiguous()
            out[bias] = (scale.mT @ (out[bias] - centre)[..., None])[..., 0].contiguous()
        return out

    def draw(self, start: int, steps: int, batch: int) -> Sequence[Tensor]:
        """See `Source`: a batch is observations (model, row, batch, channel), rows being references, positives and,
        where they are drawn anew, negatives. If supervised, the latents follow the channels."""
        drawn = []
        for seed in self.seeds:
            rng = torch.Generator(self.device).manual_seed(chunk_seed(seed, start))
            drawn.append(self._latents((steps,), batch, rng))
        return self._observed(torch.stack(drawn)).transpose(0, 1).unbind()

    def sampler(self, batch: int) -> Callable[[torch.Generator], Tensor]:
        """See `DeviceSource`."""
        return lambda rng: self._observed(self._latents((len(self.seeds),), batch, rng))

    def loss(self, parameters: Mapping[str, Tensor], batch: Tensor, weight: Tensor, noise: Noise | None) -> Loss:
        """See `Source`. There is no penalty."""
        models, rows, size, _ = batch.shape
        x, target = batch.split([self.process.channels, batch.shape[-1] - self.process.channels], -1)
        x = x.reshape(models, rows * size, -1)
        z = self._network(parameters, x.half() if self.half else x)
        z = self.output(parameters, decorrelate(z) if self.decorrelated else z)
        nothing = z.new_zeros(models, 0)
        if self.supervised:
            error = (z - target.flatten(1, 2)).square().mean((1, 2))
            return Loss(error.sum(), nothing, error.detach()[:, None], z.new_zeros(models))
        alignment, uniformity = self.terms(z.split(size, 1))
        total = 2 * weighted_loss(alignment, uniformity, self.alpha)
        compared = self.negatives if isinstance(self.negatives, int) else size
        contrast = (alignment + uniformity + np.log(compared)).detach()[:, None]  # InfoNCE: chance is log N
        return Loss(total.sum(), contrast, nothing, z.new_zeros(models))

    def terms(self, rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Alignment and uniformity (`alignment_uniformity`) of each model, ψ being divided by the temperature.

        rows : embeddings (model, B, dim) of references, positives and, if they are their own, negatives.
        """
        reference, positive, *own = (row * self._factor for row in rows)
        negatives = own[0] if own else reference
        if isinstance(self.negatives, int):
            negatives = negatives[:, : self.negatives]
        return alignment_uniformity(
            reference, positive, negatives, self.similarity, count_positive=self.count_positive
        )

    def embed(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Embedding (model, B, dim) of observations (model, B, channel) as batches have them, whitened."""
        return self.output(parameters, self._network(parameters, x))

    def observe(self, latents: Tensor) -> Tensor:
        """Observations (model, ..., channel) of latents (model, ..., dim), whitened as in batches."""
        x = self._mix(latents)
        shape = (len(x), *(1,) * (x.ndim - 2), -1)
        return (x - self._centre.view(shape)) @ self._scale.view(
            len(x), *(1,) * (x.ndim - 3), *self._scale.shape[1:]
        )

    def digest(self) -> str:
        """See `Source`."""
        said = (self.seeds, self.output, self.similarity, self.temperature, self.negatives, self.rows)
        more = (self.count_positive, self.alpha, self.supervised, self.half, self.process.marginal)
        more = (*more, self.process.conditional, *(["decorrelated"] if self.decorrelated else []))
        more = (*more, *(["homogeneous"] if self.homogeneous else []))
        digest = hashlib.sha256(repr((*said, *more, str(self._module))).encode())
        for tensor in (self._scale, *(self._start or {}).values()):
            digest.update(tensor.detach().cpu().numpy().tobytes())
        return digest.hexdigest()

    def _network(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """What the layers say, before it is put where the embedding lies."""
        return self._embedder({name: parameters[name] for name in self._names}, x)

    def _latents(self, shape: tuple[int, ...], batch: int, rng: torch.Generator) -> Tensor:
        """Latents (*shape, row, batch, dim)."""
        if self.supervised:
            return self.process.sample((*shape, 1, batch), rng)
        rows = list(self.process.sample_pairs((*shape, batch), rng))
        if self.negatives == "independent":
            rows.append(self.process.sample((*shape, batch), rng))
        return torch.stack(rows, len(shape))

    def _observed(self, latents: Tensor) -> Tensor:
        x = self.observe(latents)
        return torch.cat([x, (latents - self._middle) / self._spread], -1) if self.supervised else x

    def _mix(self, latents: Tensor) -> Tensor:
        """Observations (model, ..., channel) of latents (model, ..., dim)."""
        if self._mixing is None:
            return torch.stack([own.mix(z) for own, z in zip(self.processes, latents, strict=True)])
        flat = latents.reshape(len(latents), -1, latents.shape[-1])
        return self._mixing(flat).view(*latents.shape[:-1], -1)


def _whitening(x: Tensor, around_zero: bool = False) -> tuple[Tensor, Tensor]:
    """Mean (model, channel) and a matrix (model, channel, channel) after which observations have unit covariance.

    Directions with less than a thousandth of the largest variance are not blown up to the whole of it. around_zero:
    the mean is taken to be 0.
    """
    centre = torch.zeros_like(x[:, 0]) if around_zero else x.mean(1)
    apart = x - centre[:, None]
    values, vectors = torch.linalg.eigh(apart.mT @ apart / x.shape[1])
    return centre, vectors / values.clamp_min(0).add(1e-3 * values[:, -1:]).sqrt()[:, None]
