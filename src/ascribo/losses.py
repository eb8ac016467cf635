"""Similarities and the generalized InfoNCE loss (001, equations 8-10; 002 for the spaces they belong to).

    ℓ(x, x⁺, S) = -ψ(x, x⁺) + log Σ_{x⁻ ∈ S} exp ψ(x, x⁻)

The sum over negatives is the only large object here: `kernels` computes it, with its gradient written out, so that
memory grows with the batch and not with its square.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from . import kernels

__all__ = [
    "Dot",
    "Lp",
    "Similarity",
    "SquaredL2",
    "chance",
    "infonce",
    "infonces",
    "log_sum_exp",
    "similarity_of",
]


class Similarity(Protocol):
    """ψ as a sum over coordinates, with the pieces the streamed loss needs.

    Shapes: reference (model, B, d), other (model, N, d); `rowwise` takes shapes that broadcast. A similarity
    -Σ|a - b|ᵖ may say so by an attribute `exponent` = p of its class (0: the dot product); then the GPU kernel
    computes it.
    """

    on_sphere: bool

    def rowwise(self, reference: Tensor, other: Tensor) -> Tensor:
        """ψ of row i with row i: (model, B)."""
        ...

    def pairwise(self, reference: Tensor, other: Tensor) -> Tensor:
        """ψ of every row with every row: (model, B, N)."""
        ...

    def pull(self, weight: Tensor, reference: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of Σ weight · pairwise with respect to reference and other."""
        ...

    def rescale(self, temperature: float) -> float:
        """The factor on the coordinates that divides ψ by the temperature."""
        ...


@dataclass(frozen=True)
class SquaredL2:
    """ψ(a, b) = -‖a - b‖²: a box with Gaussian steps (001, A.2)."""

    on_sphere = False
    exponent = 2.0

    def rowwise(self, reference, other):
        """See `Similarity`."""
        return -(reference - other).square().sum(-1)

    def pairwise(self, reference, other):
        """See `Similarity`."""
        # Distances do not change when both are shifted; centring keeps float32 exact for far-off embeddings.
        centre = other.mean(-2, keepdim=True)
        reference, other = reference - centre, other - centre
        norms = other.square().sum(-1).unsqueeze(-2)
        logits = torch.baddbmm(norms, reference, other.mT, beta=-1, alpha=2)
        return logits.sub_(reference.square().sum(-1, keepdim=True))

    def pull(self, weight, reference, other):
        """See `Similarity`."""
        near, back = Dot().pull(weight, reference, other)
        to_reference = near - weight.sum(-1, keepdim=True) * reference
        to_other = back - weight.sum(-2).unsqueeze(-1) * other
        return 2 * to_reference, 2 * to_other

    def rescale(self, temperature):
        """See `Similarity`."""
        return temperature**-0.5


@dataclass(frozen=True)
class Dot:
    """ψ(a, b) = a·b on the unit sphere: von Mises-Fisher steps (002). The block is normalised to length 1."""

    on_sphere = True
    exponent = 0.0

    def rowwise(self, reference, other):
        """See `Similarity`."""
        return (reference * other).sum(-1)

    def pairwise(self, reference, other):
        """See `Similarity`."""
        return reference @ other.mT

    def pull(self, weight, reference, other):
        """See `Similarity`."""
        # a product with few rows is four times faster on a CPU than one with few columns
        return (other.mT @ weight.mT).mT, (reference.mT @ weight).mT

    def rescale(self, temperature):
        """See `Similarity`."""
        return temperature**-0.5


@dataclass(frozen=True)
class Lp:
    """ψ(a, b) = -‖a - b‖ₚᵖ, p ≥ 1: generalised normal steps; p ≠ 2 identifies up to permutation (002).

    >>> Lp(3).rowwise(torch.tensor([[[0.0, 0.0]]]), torch.tensor([[[1.0, 2.0]]])).item()
    -9.0
    """

    p: float
    on_sphere = False

    def __post_init__(self):
        if not self.p >= 1:
            raise ValueError(f"Lp(p={self.p!r}): p must be at least 1.")

    @property
    def exponent(self) -> float:
        """See `Similarity`."""
        return float(self.p)

    def rowwise(self, reference, other):
        """See `Similarity`."""
        return -(reference - other).abs().pow(self.p).sum(-1)

    def pairwise(self, reference, other):
        """See `Similarity`."""
        logits = reference.new_zeros(*reference.shape[:-1], other.shape[-2])
        for a, b in zip(reference.unbind(-1), other.unbind(-1), strict=True):  # never (B, N, d) at once
            logits -= (a.unsqueeze(-1) - b.unsqueeze(-2)).abs_().pow_(self.p)
        return logits

    def pull(self, weight, reference, other):
        """See `Similarity`."""
        to_reference, to_other = torch.empty_like(reference), torch.empty_like(other)
        for k in range(reference.shape[-1]):
            difference = reference[..., k].unsqueeze(-1) - other[..., k].unsqueeze(-2)
            slope = difference.abs().pow_(self.p - 1).mul_(difference.sign()).mul_(weight).mul_(-self.p)
            to_reference[..., k] = slope.sum(-1)
            to_other[..., k] = -slope.sum(-2)
        return to_reference, to_other

    def rescale(self, temperature):
        """See `Similarity`."""
        return temperature ** (-1 / self.p)


def similarity_of(name: str | Similarity) -> Similarity:
    """The similarity a user named: "squared_l2", "dot", or one given as an object such as `Lp(3)`.

    >>> similarity_of("dot")
    Dot()
    """
    known = {"squared_l2": SquaredL2(), "dot": Dot()}
    if isinstance(name, str):
        if name not in known:
            raise ValueError(
                f"similarity={name!r} is unknown: use one of {sorted(known)}, or ascribo.Lp(p) for ‖·‖ₚᵖ."
            )
        return known[name]
    if not hasattr(name, "pairwise"):
        raise ValueError(f"similarity={name!r}: expected a name or a similarity such as ascribo.Lp(3).")
    return name


Term = tuple[Similarity, slice]
"""One summand of ψ: which similarity, on which coordinates."""


def log_sum_exp(reference: Tensor, negatives: Tensor, terms: Sequence[Term]) -> Tensor:
    """log Σ_j exp ψ(r_i, n_j) without a B x N array in memory: (model, B, d), (model, N, d) -> (model, B).

    >>> r, n = torch.zeros(1, 4, 2), torch.zeros(1, 8, 2)
    >>> log_sum_exp(r, n, [(SquaredL2(), slice(0, 2))]).exp()
    tensor([[8., 8., 8., 8.]])
    """
    return kernels.log_sum_exp(reference, negatives, terms)


def infonce(
    reference: Tensor,
    positive: Tensor,
    negatives: Tensor,
    terms: Sequence[Term] | None = None,
    *,
    count_positive: bool = False,
) -> Tensor:
    """Generalized InfoNCE of each model, averaged over references, in nats.

    Parameters
    ----------
    reference, positive : (model, B, d).
    negatives : (model, N, d), shared by all references of a model.
    terms : ψ as a sum of similarities on coordinates (001, equation 25); squared L2 on all by default.
    count_positive : False: S holds the N negatives (the papers' loss; chance is log N, and with few negatives
        in many dimensions the value may fall below log N - KL). True: S holds the positive and the first
        N - 1 negatives; log N minus it then is a lower bound of the information at any N, at most log N.

    Returns
    -------
    (model,) tensor. An embedding that carries nothing gives log N, in either form.

    Examples
    --------
    >>> z = torch.zeros(1, 16, 3)
    >>> round(infonce(z, z, z).exp().item())
    16
    """
    terms = [(SquaredL2(), slice(0, reference.shape[-1]))] if terms is None else terms
    if not count_positive:
        return infonces(reference, [positive], negatives, [terms])[:, 0]
    aligned = _rowwise(terms, reference, positive)
    # For judging, now and then: not worth compiling a kernel for.
    uniform = torch.logaddexp(aligned, kernels.blocked.log_sum_exp(reference, negatives[:, 1:], terms))
    return (uniform - aligned).mean(-1)


def infonces(
    reference: Tensor,
    positives: Sequence[Tensor],
    negatives: Tensor,
    objectives: Sequence[Sequence[Term]],
    weight: Tensor | None = None,
) -> Tensor:
    """`infonce` of several objectives that share references and negatives: (model, objective).

    One pass over the pairs serves all of them. positives : (model, B, d) for each objective. weight : (model, B), 0
    for references that do not count; None if all do.

    >>> z = torch.zeros(2, 16, 3)
    >>> terms = [(SquaredL2(), slice(0, 3))]
    >>> infonces(z, [z, z], z, [terms, terms]).shape
    torch.Size([2, 2])
    """
    uniform = kernels.log_sum_exps(reference, negatives, objectives)
    pairs = zip(objectives, positives, strict=True)
    aligned = torch.stack([_rowwise(terms, reference, positive) for terms, positive in pairs], -1)
    if weight is None:
        return (uniform - aligned).mean(1)
    share = weight / weight.sum(1, keepdim=True).clamp_min(1e-12)
    return ((uniform - aligned) * share[..., None]).sum(1)


def _rowwise(terms: Sequence[Term], reference: Tensor, other: Tensor) -> Tensor:
    first, *rest = (similarity.rowwise(reference[..., w], other[..., w]) for similarity, w in terms)
    return sum(rest, start=first)


def chance(negatives: int) -> float:
    """The InfoNCE of an embedding that carries nothing: log N nats.

    >>> round(chance(512), 3)
    6.238
    """
    return math.log(negatives)
