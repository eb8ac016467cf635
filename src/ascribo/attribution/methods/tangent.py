"""The encoder's Jacobian, inverted on the directions that the data take.

J_f J_g = B holds along the data: off them J_f is free, and its pseudo-inverse is J_g B⁻¹ only if the penalty has
made J_f small there. Here J_f is first projected on the local tangent space of the data, whose basis P (channel,
dim) is estimated from the changes of the channels from one time step to the next around t. Then (J_f P Pᵀ)⁺ =
P (J_f P)⁻¹ lies in the span of J_g, and is J_g B⁻¹ without any penalty. White noise has changes in all directions,
larger than those of the signal: with noise this method fails.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...data.standardised_channels import StandardisedChannels
from ..jacobian import encoder_jacobian, pseudo_inverse
from ..local_methods import local_method
from ..method_inputs import EncodedRecording

__all__ = ["inverse_on_tangents", "tangent", "tangent_basis"]

CHANGES_PER_DIMENSION = 2
"""Changes to either side that the basis is estimated from, for each dimension of the embedding."""
ITERATIONS = 12
LARGEST_RATIO = 3.0
"""A sample is left out if the projection makes the inverse this many times larger: its tangents were misjudged."""


@local_method("tangent")
def tangent(recording: EncodedRecording, index: Tensor) -> tuple[Tensor, Tensor]:
    """P (J_f P)⁻¹ in aligned coordinates, for encoders that see one time step; see `inverse_on_tangents`."""
    if recording.embedder.window > 1:
        raise ValueError(
            "method='tangent' is for encoders that see one time step; this one sees a window of them. Use "
            "method='unique_variance' or 'inverted_neuron_gradient'."
        )
    dim = recording.embedder.dim
    basis = tangent_basis(recording.X, index, recording.first, recording.last, dim)
    return inverse_on_tangents(recording, recording.inputs(index), basis)


def inverse_on_tangents(recording: EncodedRecording, x: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """P (J_f P)⁻¹ in aligned coordinates: (seed, B, channel, 1, dim), and (seed, B), False where it has no inverse.

    x : (B, channel), inputs of the encoders. basis : (B, channel, dim), the tangents of the data there.
    """
    jacobian = encoder_jacobian(recording.embedder, recording.parameters, x)[..., 0]
    inverse, ok = pseudo_inverse(jacobian @ basis)
    plain, regular = pseudo_inverse(jacobian)
    # P (J P)⁻¹ and J⁺, (seed, B, channel, dim), compared where the basis of a block does not matter
    found, whole = (
        (matrix.flatten(1, 2) @ recording.alignment.basis).unflatten(1, matrix.shape[1:3])
        for matrix in (basis @ inverse, plain)
    )
    ok = ok & regular & (torch.linalg.matrix_norm(found) < LARGEST_RATIO * torch.linalg.matrix_norm(whole))
    return found.unsqueeze(-2), ok


def tangent_basis(X: Tensor | StandardisedChannels, index: Tensor, first: Tensor, last: Tensor, dim: int) -> Tensor:
    """Orthonormal basis of the main directions of change around time steps: (B, channel, dim).

    X : (time, channel). index : (B,) time steps. first, last : (time,) bounds of each time step's segment; changes
    across an edge are not taken. Orthogonal iteration with Cholesky factors: batched eigenvalue and QR solvers
    stall on a GPU.
    """
    reach = CHANGES_PER_DIMENSION * dim
    around = index[:, None] + torch.arange(-reach, reach, device=index.device)
    low, high = first[index][:, None], last[index][:, None]
    inside = (around >= low) & (around + 1 <= high)
    start = around.clamp(low, (high - 1).clamp_min(low))
    change = (X[(start + 1).clamp_max(len(X) - 1)] - X[start]) * inside[..., None]
    change = change.double()
    # start from mixtures of all changes: near an edge single ones are masked
    basis = change.mT @ torch.randn(change.shape[1], dim, generator=torch.Generator().manual_seed(0)).to(change)
    for _ in range(ITERATIONS):
        basis = change.mT @ (change @ _orthonormal(basis))
    return _orthonormal(_orthonormal(basis)).to(X.dtype)


def _orthonormal(basis: Tensor) -> Tensor:
    """Columns made orthonormal: B L⁻ᵀ with BᵀB = LLᵀ."""
    gram = basis.mT @ basis
    least = 1e-14 * gram.diagonal(dim1=-2, dim2=-1).amax(-1) + torch.finfo(gram.dtype).tiny
    factor, _ = torch.linalg.cholesky_ex(gram + least[:, None, None] * torch.eye(gram.shape[-1]).to(gram))
    return torch.linalg.solve_triangular(factor.mT, basis, upper=True, left=False)
