"""Exact Jacobians of the encoders, and pseudo-inverses that are never made up."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..networks.model_stack import Embedder
from ..support.array_shapes import Bool, Float, shaped

__all__ = ["encoder_jacobian", "pseudo_inverse"]

SUSPECT_CONDITION = 1e3
"""Estimated condition number of J from which a sample is checked by singular values."""
LEAST_SINGULAR_VALUE = 1e-6
"""Smallest singular value, relative to the largest, below which a Jacobian counts as rank-deficient."""
SAMPLES_AT_ONCE = 512
"""Samples whose Jacobians are computed together on a CPU."""


@shaped
def encoder_jacobian(
    embedder: Embedder, parameters: Mapping[str, Tensor], x: Float[Tensor, "B channel *window"]
) -> Float[Tensor, "seed B dim channel steps"]:
    """∂f/∂x of every seed at inputs x (B, channel[, window]): (seed, B, dim, channel, window).

    MLPs have a short way; any other module takes one backward pass per embedding dimension: samples do not
    interact, so a pass serves the whole batch.
    """
    seeds = next(iter(parameters.values())).shape[0]
    if embedder.dense is not None:
        # blocks small enough that a layer's rows stay in the cache
        size = len(x) if x.is_cuda else SAMPLES_AT_ONCE
        blocks = [embedder.dense.jacobian(parameters, b.expand(seeds, *b.shape)) for b in x.split(size)]
        return torch.cat(blocks, 1)[..., None]
    with torch.enable_grad():
        inputs = x.detach().expand(seeds, *x.shape).requires_grad_()
        z = embedder(parameters, inputs)
        rows = [
            torch.autograd.grad(z[..., k].sum(), inputs, retain_graph=k < z.shape[-1] - 1)[0]
            for k in range(z.shape[-1])
        ]
    jacobian = torch.stack(rows, 2)
    return jacobian if jacobian.ndim == 5 else jacobian[..., None]


@shaped
def pseudo_inverse(
    jacobian: Float[Tensor, "*batch d n"],
) -> tuple[Float[Tensor, "*batch n d"], Bool[Tensor, "*batch"]]:
    """Moore-Penrose inverses of a batch of wide matrices (..., d, n), d ≤ n, and which could be inverted.

    J⁺ = Jᵀ(JJᵀ)⁻¹ by Cholesky of the d x d Gram matrix in float64. Matrices whose factor looks badly
    conditioned are checked by singular values; a rank-deficient one gets NaN and False, never a made-up inverse.

    Examples
    --------
    >>> inverse, ok = pseudo_inverse(torch.tensor([[[2.0, 0.0, 0.0], [0.0, 4.0, 0.0]]]))
    >>> inverse[0].tolist(), ok.tolist()
    ([[0.5, 0.0], [0.0, 0.25], [0.0, 0.0]], [True])
    """
    if jacobian.shape[-2] > jacobian.shape[-1]:
        raise ValueError(
            f"the Jacobian has {jacobian.shape[-2]} embedding dimensions for {jacobian.shape[-1]} inputs: it has "
            "no right inverse. Use fewer dimensions than channels, or method='generative_gradient'."
        )
    flat = jacobian.flatten(0, -3).double()
    gram = flat @ flat.mT
    # rows of very different length are not a lack of rank: factor the matrix of their cosines
    length = gram.diagonal(dim1=-2, dim2=-1).sqrt()
    safe = length.clamp_min(torch.finfo(length.dtype).tiny)
    factor, failed = torch.linalg.cholesky_ex(gram / (safe[:, :, None] * safe[:, None, :]))
    pivots = factor.diagonal(dim1=-2, dim2=-1)
    spread = length.amax(-1) / length.amin(-1)
    ok = length.amin(-1) > LEAST_SINGULAR_VALUE * length.amax(
        -1
    )  # an output at its limit has a row of zeros: the usual case
    suspect = ok & ((failed > 0) | ~(spread * pivots.amax(-1) < SUSPECT_CONDITION * pivots.amin(-1)))
    if suspect.any():
        values = torch.linalg.svdvals(flat[suspect].cpu()).to(flat.device)
        ok[suspect] = values[:, -1] > LEAST_SINGULAR_VALUE * values[:, 0]
    # The Gram matrix is inverted in float64; the product with J needs no more digits than J has.
    identity = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    factor = torch.where((ok & (failed == 0))[:, None, None], factor, identity)  # the others are replaced below
    small = torch.cholesky_inverse(factor) / (safe[:, :, None] * safe[:, None, :])
    inverse = (small.to(jacobian.dtype) @ jacobian.flatten(0, -3)).mT
    again = ok & (failed > 0)
    if again.any():
        inverse[again] = torch.linalg.pinv(flat[again]).to(inverse)
    if not ok.all():
        inverse[~ok] = torch.nan
    shape = jacobian.shape
    return inverse.reshape(*shape[:-2], shape[-1], shape[-2]), ok.reshape(shape[:-2])
