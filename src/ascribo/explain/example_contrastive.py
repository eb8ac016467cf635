"""Which blocks of time built this embedding? Influence for the contrastive loss on time series.

Crabbé & van der Schaar (2022), section 3.1, leave losses that compare examples open. Here the loss of a time step
is its expected InfoNCE: over its positives, a few drawn once, against negatives drawn once. A block of time takes
part in the training loss in three roles, as references, as positives and as negatives; leaving it out changes the
loss F to F₋, and what this does to the loss L of other time steps is, to first order (Koh & Liang 2017),

    L after - L before ≈ ⟨∇L, (H + δ)⁻¹ (∇F - ∇F₋)⟩,

with H the Gauss-Newton curvature of F, of the logits that each reference is compared by. (Both gradients, because
training ends near a minimum, not in it: what they have in common is not due to the block.) The difference of the
two gradients is what Deng et al. (2024, arXiv:2412.01335) take for losses that are no sum over examples; Hu et al.
(2024, arXiv:2411.11667) take its first order, for a pair of image and text as a positive and as a negative apart.
For augmented views of images see Harilal et al. (2024, arXiv:2412.17170).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap

from ..data.recording import Recording
from ..data.segments import evenly, segment_bounds
from ..networks.model_stack import Embedder
from ..spaces.base import Space
from ..spaces.pairs import Pairs
from ..training.objective import Objective, contrastive_objectives
from .encoders import Fitted
from .example_influence import conjugate_gradients
from .feature_importance import fitted_model, recording_for
from .memory_needs import WRITTEN_OUT, check_contrastive_examples, within_budget

__all__ = ["ContrastiveLoss", "contrastive_examples", "draw_comparisons", "solve"]

REFERENCES_AT_ONCE = 256
PROBES = 16
"""Random vectors that the mean eigenvalue of the curvature is estimated from."""


@dataclass(frozen=True)
class Comparisons:
    """What is compared with what, drawn once, as time steps of the recording.

    references : (reference,). positives : space -> (reference, draw). negatives : (negative,).
    """

    references: np.ndarray
    positives: Mapping[str, np.ndarray]
    negatives: np.ndarray


def draw_comparisons(
    recording: Recording,
    spaces: Mapping[str, Space],
    blocks: np.ndarray,
    *,
    references: int = 2000,
    positives: int = 4,
    negatives: int = 512,
    random_state: int = 0,
) -> Comparisons:
    """References from all blocks alike, with positives and negatives, from the time steps in blocks.

    blocks : (time,) whole numbers, -1 for time steps that are not to be used. Each block gets the same number of
    references, evenly spaced in it, about `references` in all.
    """
    segments = np.where(blocks >= 0, recording.epochs, -1)
    pairs = Pairs(spaces, recording.variables, segments)
    pool = pairs.uniform[0]
    for other in pairs.uniform:  # time steps that all spaces can use
        pool = np.intersect1d(pool, other)
    rng = np.random.default_rng(random_state)
    names = np.unique(blocks[blocks >= 0])
    each = max(1, references // len(names))
    chosen = []
    for name in names:
        own = pool[blocks[pool] == name]
        chosen.append(own[evenly(len(own), each)] if len(own) else own)
    index = np.concatenate(chosen)
    drawn = {
        name: np.stack([positive.draw(rng, index) for _ in range(positives)], 1)
        for name, positive in pairs.positive.items()
    }
    return Comparisons(index, drawn, rng.choice(pool, min(negatives, len(pool)), replace=False))


class ContrastiveLoss:
    """The InfoNCE of single time steps as a function of one encoder's flat parameters θ.

    module, spaces, objectives : the model. inputs : from time steps to standardised inputs (step, channel[,
    window]).
    """

    def __init__(
        self,
        module: nn.Module,
        spaces: Mapping[str, Space],
        objectives: Sequence[Objective],
        parameters: Mapping[str, Tensor],
        inputs: Any,
        comparisons: Comparisons,
    ):
        self.embedder, self.objectives = Embedder(module, spaces), objectives
        self.skeleton, self.comparisons = module, comparisons
        names = {name for name, _ in module.named_parameters()}
        own = {name: value.detach().double() for name, value in parameters.items() if name in names}
        self.other = {
            name: value.detach().double()[None] for name, value in parameters.items() if name not in names
        }
        self.names, self.shapes = list(own), [value.shape for value in own.values()]
        self.theta = torch.cat([value.flatten() for value in own.values()])
        every = [
            comparisons.references,
            comparisons.negatives,
            *(p.ravel() for p in comparisons.positives.values()),
        ]
        self.steps, place = np.unique(np.concatenate(every), return_inverse=True)
        self.x = inputs(self.steps).double()
        ends = np.cumsum([part.size for part in every])
        self.reference, self.negative, *rest = (
            torch.from_numpy(part).to(self.x.device) for part in np.split(place, ends[:-1])
        )
        shape = (len(comparisons.references), -1)
        self.positive = {name: p.view(shape) for name, p in zip(comparisons.positives, rest, strict=True)}

    def embed(self, theta: Tensor, x: Tensor | None = None) -> Tensor:
        """Inputs, by default of all time steps in use, at temperature 1: (step, dim)."""
        parts = theta.split([shape.numel() for shape in self.shapes])
        named = {n: p.view(s) for n, p, s in zip(self.names, parts, self.shapes, strict=True)}
        z = functional_call(self.skeleton, named, (self.x if x is None else x,))
        for where in self.embedder.spheres:
            on_sphere = nn.functional.normalize(z[..., where], dim=-1)
            z = torch.cat([z[..., : where.start], on_sphere, z[..., where.stop :]], -1)
        return self.embedder.tempered(self.other, z[None])[0]

    def logits(self, z: Tensor, objective: Objective, rows: Tensor) -> Tensor:
        """ψ of some references and all negatives: (row, negative)."""
        return _similarities(z[self.reference[rows]], z[self.negative], objective)

    def losses(self, theta: Tensor, kept: Tensor | None = None, kept_negatives: Tensor | None = None) -> Tensor:
        """(reference,) losses, summed over objectives.

        kept : (step,) 0 for time steps that are neither positives nor negatives, or weights from 0 to 1; None keeps
        all. kept_negatives : other weights for them as negatives.
        """
        z = self.embed(theta)
        rows = torch.arange(len(self.reference), device=z.device)
        total = torch.zeros(len(rows), dtype=z.dtype, device=z.device)
        for objective in self.objectives:
            near = self.positive[objective.space]
            a, b = z[self.reference][:, None], z[near]
            attraction = torch.stack([s.rowwise(a[..., w], b[..., w]) for s, w in objective.terms]).sum(0)
            logits = torch.cat([self.logits(z, objective, part) for part in rows.split(REFERENCES_AT_ONCE)])
            if kept is None:
                total = total - attraction.mean(1) + logits.logsumexp(1) - np.log(logits.shape[1])
            else:
                share = kept[near]
                weight = (kept if kept_negatives is None else kept_negatives)[self.negative]
                some = share.sum(1)
                mean = (attraction * share).sum(1) / some.clamp_min(1)
                spread = (logits + weight.log()).logsumexp(1) - weight.sum().log()
                total = total + (spread - mean) * (some > 0)
        return total

    def gradient(self, weight: Tensor, kept: Tensor | None = None, kept_negatives: Tensor | None = None) -> Tensor:
        """∇ of the mean loss of references with weights (reference,): (parameter,)."""
        share = weight / weight.sum()
        return grad(lambda theta: (self.losses(theta, kept, kept_negatives) * share).sum())(self.theta)

    def curvature(self, vectors: Tensor) -> Tensor:
        """Gauss-Newton curvature of the mean loss times vectors (vector, parameter)."""

        def one(v: Tensor) -> Tensor:
            z, dz = jvp(self.embed, (self.theta,), (v,))[:2]
            pulled = torch.zeros_like(z)
            for objective in self.objectives:
                for rows in torch.arange(len(self.reference), device=z.device).split(REFERENCES_AT_ONCE):
                    values, change = jvp(lambda u, o=objective, r=rows: self.logits(u, o, r), (z,), (dz,))[:2]
                    p = values.softmax(1)
                    push = p * (change - (p * change).sum(1, keepdim=True)) / len(self.reference)
                    pulled = pulled + vjp(lambda u, o=objective, r=rows: self.logits(u, o, r), z)[1](push)[0]
            return vjp(self.embed, self.theta)[1](pulled)[0]

        return vmap(one, chunk_size=16)(vectors)

    def curvature_matrix(self) -> Tensor:
        """The same curvature written out, (parameter, parameter).

        The logits of a reference, with probabilities p, have the curvature diag(p) - ppᵀ. They depend on its own
        embedding and on those of the negatives, so the curvature of all embeddings has three kinds of blocks: of a
        reference with itself, of references with negatives, and of negatives with each other.
        """
        z = self.embed(self.theta)
        a, b = z[self.reference], z[self.negative]
        (count, dim), others = a.shape, len(b)
        own, mixed, among = (
            a.new_zeros(s) for s in ((count, dim, dim), (count * dim, others * dim), 2 * (others * dim,))
        )
        for objective in self.objectives:
            p = _similarities(a, b, objective).softmax(1)
            slope, pull = _slopes(a, b, objective)  # (reference, negative, dim): by the reference, by the negative
            mean, pulled = torch.einsum("rn,rnd->rd", p, slope), p[..., None] * pull
            own += torch.einsum("rn,rnd,rne->rde", p, slope, slope) - mean[:, :, None] * mean[:, None]
            mixed += ((slope - mean[:, None])[..., None] * pulled[:, :, None]).transpose(1, 2).reshape(mixed.shape)
            flat = pulled.flatten(1)
            among -= flat.mT @ flat
            each = torch.einsum("rnd,rne->nde", pulled, pull)
            among += torch.block_diag(*each)
        slopes = vmap(
            jacrev(lambda theta, x: self.embed(theta, x[None])[0]), (None, 0), chunk_size=REFERENCES_AT_ONCE
        )
        of_a, of_b = (slopes(self.theta, self.x[rows]) for rows in (self.reference, self.negative))
        weighted = (own @ of_a).flatten(0, 1) / 2 + mixed @ of_b.flatten(0, 1)
        half = of_a.flatten(0, 1).mT @ weighted + of_b.flatten(0, 1).mT @ (among @ of_b.flatten(0, 1)) / 2
        return (half + half.mT) / count

    def kept(self, mask: np.ndarray) -> Tensor:
        """A mask over the time steps of the recording as that of the steps in use, for `losses`."""
        return torch.from_numpy(mask[self.steps].astype(np.float64)).to(self.x.device)


@within_budget
@torch.no_grad()
def contrastive_examples(
    model: Fitted,
    recording: Recording | pd.DataFrame | np.ndarray,
    y: Any = None,
    *,
    blocks: ArrayLike,
    test: ArrayLike | None = None,
    seed: int = 0,
    references: int = 2000,
    positives: int = 4,
    negatives: int = 512,
    damping: float | None = None,
    iterations: int = 500,
    tolerance: float = 1e-4,
    random_state: int = 0,
) -> xr.DataArray:
    """How much the contrastive loss of some blocks of time would rise without each block of the training.

    Parameters
    ----------
    model : fitted `ContrastiveEmbedding` with contrastive spaces; its `Regress` spaces and the penalty do not
    count. Its budget of `memory` is kept to. recording, y : what it was fitted to.
    blocks : (time,) whole numbers, the block each time step belongs to; -1 for time steps that were not trained
        on. Blocks, not single time steps: neighbours are nearly copies of each other, and the loss of one is
        made up for by the next.
    test : (time,) whole numbers, the blocks whose loss is asked about, -1 for others; by default `blocks`.
    seed : which of the model's seeds.
    references, positives, negatives : time steps the losses are computed from, spread over all blocks; draws for
        each reference; and negatives, the same for all.
    damping : δ, by default a tenth of the mean eigenvalue of the curvature.
    iterations, tolerance : of the conjugate gradients, for encoders too large to write the curvature out.

    Returns
    -------
    DataArray (test, train) in nats: positive where the training block lowers the loss of the test block.

    Examples
    --------
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=2, hidden=2, steps=600)
    >>> spaces = {"position": asc.Follow(["x", "y"], dim=2)}
    >>> small = {"encoder": asc.MLP((8,)), "seeds": 1, "steps": 30, "random_state": 0, "progress": False}
    >>> model = asc.ContrastiveEmbedding(spaces, **small, penalty=0.0).fit(data)
    >>> contrastive_examples(model, data, blocks=np.arange(600) // 150, references=100).shape
    (4, 4)
    """
    fitted = fitted_model(model)
    if fitted is None:
        raise ValueError("contrastive_examples explains a fitted ContrastiveEmbedding; for a module use examples.")
    data = recording_for(model, recording, y)
    if not 0 <= seed < fitted.seeds:
        raise ValueError(f"seed={seed!r}: the model has seeds 0 to {fitted.seeds - 1}.")
    labels = _labels(blocks, len(data), "blocks")
    tested = labels if test is None else _labels(test, len(data), "test")
    objectives = contrastive_objectives(fitted.spaces, getattr(model, "hybrid", "whole"))
    if not objectives:
        raise ValueError("the model has no contrastive space: there is no contrastive loss to explain.")
    names, test_names = (np.unique(given[given >= 0]) for given in (labels, tested))
    check_contrastive_examples(
        *(data, fitted),
        references=references * (1 if test is None else 2),
        positives=positives,
        negatives=negatives,
        blocks=len(names) + len(test_names),
    )
    X = fitted.standardise(data.X)
    edges = [torch.from_numpy(edge).to(X.device) for edge in segment_bounds(data.epochs)]

    def inputs(steps: np.ndarray) -> Tensor:
        return fitted.embedder.gather(X, torch.from_numpy(steps).to(X.device), *edges)

    own = {name: value[seed] for name, value in fitted.parameters.items()}
    draws = {"references": references, "positives": positives, "negatives": negatives, "random_state": random_state}

    def objective(given: np.ndarray) -> ContrastiveLoss:
        comparisons = draw_comparisons(data, fitted.spaces, given, **draws)
        return ContrastiveLoss(fitted.module, fitted.spaces, objectives, own, inputs, comparisons)

    training = objective(labels)
    asked = training if test is None else objective(tested)
    whole = training.gradient(torch.ones(len(training.reference), dtype=torch.float64, device=X.device))
    removed = []
    for name in names:
        kept = labels != name
        weight = torch.from_numpy(kept[training.comparisons.references].astype(np.float64)).to(X.device)
        removed.append(whole - training.gradient(weight, training.kept(kept)))
    wanted = []
    for name in test_names:
        weight = torch.from_numpy((tested[asked.comparisons.references] == name).astype(np.float64)).to(X.device)
        if not weight.sum() > 0:
            raise ValueError(f"test block {name} has no time step with a positive: make it longer.")
        wanted.append(asked.gradient(weight))
    damping, solved = solve(training, torch.stack(wanted), damping, iterations, tolerance)
    scores = (solved @ torch.stack(removed).mT).cpu().numpy()
    about = {"method": "influence", "damping": float(damping), "seed": seed}
    return xr.DataArray(scores, {"test": test_names, "train": names}, ("test", "train"), "score", about)


def solve(
    loss: ContrastiveLoss, vectors: Tensor, damping: float | None, iterations: int, tolerance: float
) -> tuple[float, Tensor]:
    """δ and (H + δ)⁻¹ v: with H written out for small encoders, by conjugate gradients for large ones."""
    count = len(loss.theta)
    if count > WRITTEN_OUT:
        delta = 0.1 * _mean_eigenvalue(loss) if damping is None else damping
        damped = lambda v: loss.curvature(v) + delta * v  # noqa: E731
        return delta, conjugate_gradients(damped, vectors, iterations=iterations, tolerance=tolerance)
    matrix = loss.curvature_matrix()
    delta = 0.1 * (float(matrix.trace()) / count or 1.0) if damping is None else damping
    identity = torch.eye(count, dtype=vectors.dtype, device=vectors.device)
    return delta, torch.linalg.solve(matrix + delta * identity, vectors.mT).mT


def _similarities(a: Tensor, b: Tensor, objective: Objective) -> Tensor:
    """ψ of every reference (reference, dim) with every negative (negative, dim): (reference, negative)."""
    return torch.stack([s.pairwise(a[None, :, w], b[None, :, w])[0] for s, w in objective.terms]).sum(0)


def _slopes(a: Tensor, b: Tensor, objective: Objective) -> tuple[Tensor, Tensor]:
    """Derivatives of ψ by the coordinates of the reference and of the negative: each (reference, negative, dim)."""
    axes = torch.eye(a.shape[1], dtype=a.dtype, device=a.device)
    by_a = [jvp(lambda u: _similarities(u, b, objective), (a,), (axis.expand_as(a),))[1] for axis in axes]
    by_b = [jvp(lambda u: _similarities(a, u, objective), (b,), (axis.expand_as(b),))[1] for axis in axes]
    return torch.stack(by_a, -1), torch.stack(by_b, -1)


def _mean_eigenvalue(loss: ContrastiveLoss) -> float:
    """Mean eigenvalue of the curvature, from random vectors (Hutchinson's estimate of the trace)."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (PROBES, len(loss.theta)))
    probes = torch.from_numpy(signs).to(loss.theta.device)
    return float((probes * loss.curvature(probes)).sum(1).mean()) / len(loss.theta) or 1.0


def _labels(values: Any, steps: int, what: str) -> np.ndarray:
    labels = np.asarray(values)
    if (
        labels.shape != (steps,)
        or not np.issubdtype(labels.dtype, np.integer)
        or len(np.unique(labels[labels >= 0])) < 1
    ):
        raise ValueError(
            f"{what} has shape {labels.shape} of {labels.dtype}: expected a whole number for each of {steps} time "
            "steps, -1 for those that are not to be used, and at least one that is."
        )
    return labels
