"""Similarities ψ of two points of a space (Zimmermann et al. 2021 for the distributions they belong to)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..kernels.similarity_terms import Similarity
from ..support.names import by_name
from ..support.stored_parameters import storable

__all__ = ["Dot", "Lp", "SquaredL2", "as_similarity"]


@storable
@dataclass(frozen=True)
class SquaredL2:
    """ψ(a, b) = -‖a - b‖²: a box with Gaussian steps (Schneider et al. 2025, appendix A.2)."""

    on_sphere = False
    exponent = 2.0

    def rowwise(self, reference: Tensor, other: Tensor) -> Tensor:
        """See `Similarity`."""
        return -(reference - other).square().sum(-1)

    def pairwise(self, reference: Tensor, other: Tensor) -> Tensor:
        """See `Similarity`."""
        # Distances do not change when both are shifted; centring keeps float32 exact for far-off embeddings.
        centre = other.mean(-2, keepdim=True)
        reference, other = reference - centre, other - centre
        norms = other.square().sum(-1).unsqueeze(-2)
        logits = torch.baddbmm(norms, reference, other.mT, beta=-1, alpha=2)
        return logits.sub_(reference.square().sum(-1, keepdim=True))

    def pull(self, weight: Tensor, reference: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """See `Similarity`."""
        near, back = Dot().pull(weight, reference, other)
        to_reference = near - weight.sum(-1, keepdim=True) * reference
        to_other = back - weight.sum(-2).unsqueeze(-1) * other
        return 2 * to_reference, 2 * to_other

    def rescale(self, temperature: float) -> float:
        """See `Similarity`."""
        return temperature**-0.5


@storable
@dataclass(frozen=True)
class Dot:
    """ψ(a, b) = a·b on the unit sphere: von Mises-Fisher steps. The block is normalised to length 1."""

    on_sphere = True
    exponent = 0.0

    def rowwise(self, reference: Tensor, other: Tensor) -> Tensor:
        """See `Similarity`."""
        return (reference * other).sum(-1)

    def pairwise(self, reference: Tensor, other: Tensor) -> Tensor:
        """See `Similarity`."""
        return reference @ other.mT

    def pull(self, weight: Tensor, reference: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """See `Similarity`."""
        # a product with few rows is four times faster on a CPU than one with few columns
        return (other.mT @ weight.mT).mT, (reference.mT @ weight).mT

    def rescale(self, temperature: float) -> float:
        """See `Similarity`."""
        return temperature**-0.5


@storable
@dataclass(frozen=True)
class Lp:
    """ψ(a, b) = -‖a - b‖ₚᵖ, p ≥ 1: generalised normal steps; p ≠ 2 identifies up to permutation.

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

    def rowwise(self, reference: Tensor, other: Tensor) -> Tensor:
        """See `Similarity`."""
        return -(reference - other).abs().pow(self.p).sum(-1)

    def pairwise(self, reference: Tensor, other: Tensor) -> Tensor:
        """See `Similarity`."""
        logits = reference.new_zeros(*reference.shape[:-1], other.shape[-2])
        for a, b in zip(reference.unbind(-1), other.unbind(-1), strict=True):  # never (B, N, d) at once
            logits -= (a.unsqueeze(-1) - b.unsqueeze(-2)).abs_().pow_(self.p)
        return logits

    def pull(self, weight: Tensor, reference: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """See `Similarity`."""
        to_reference, to_other = torch.empty_like(reference), torch.empty_like(other)
        for k in range(reference.shape[-1]):
            difference = reference[..., k].unsqueeze(-1) - other[..., k].unsqueeze(-2)
            slope = difference.abs().pow_(self.p - 1).mul_(difference.sign()).mul_(weight).mul_(-self.p)
            to_reference[..., k] = slope.sum(-1)
            to_other[..., k] = -slope.sum(-2)
        return to_reference, to_other

    def rescale(self, temperature: float) -> float:
        """See `Similarity`."""
        return temperature ** (-1 / self.p)


def as_similarity(name: str | Similarity) -> Similarity:
    """The similarity a user named: "squared_l2", "dot", or one given as an object such as `Lp(3)`.

    >>> as_similarity("dot")
    Dot()
    """
    known = {"squared_l2": SquaredL2(), "dot": Dot()}
    return by_name("similarity", name, known, "pairwise", "ascribo.Lp(3) for ‖·‖₃³")
