"""What a similarity ψ must offer, and how an objective is a sum of similarities, each on some coordinates."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

__all__ = ["Similarity"]


@runtime_checkable
class Similarity(Protocol):
    """A similarity ψ of embeddings, with the gradients that the loss needs.

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


Term = tuple[Similarity, slice]
"""One summand of ψ: which similarity, on which coordinates."""
