"""A common basis for the seeds of a model.

A block of the embedding is identified only up to a linear map (Schneider et al. 2025, definition 2): the blocks of
two seeds differ by one. Each block is brought to unit covariance and then rotated onto that of a reference seed. In
these *aligned coordinates* u, with z = mean + basis · u, maps of different seeds can be averaged, and the length of
a channel's row within a block does not depend on the basis that the seed happened to find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Alignment", "align", "align_sessions"]


@dataclass(frozen=True)
class Alignment:
    """The linear maps between the coordinates of each seed and those that all seeds have in common.

    mean : (seed, dim), the mean embedding.
    basis, inverse : (seed, dim, dim), block-diagonal; z = mean + basis · u.
    reference : the seed that the others are rotated onto.
    """

    mean: Tensor
    basis: Tensor
    inverse: Tensor
    reference: int

    def to(self, device: torch.device | str) -> Alignment:
        """The same alignment with its tensors on a device."""
        return Alignment(self.mean.to(device), self.basis.to(device), self.inverse.to(device), self.reference)

    def block(self, where: slice) -> Alignment:
        """The alignment of some of the dimensions, a block or several."""
        parts = self.mean[:, where], self.basis[:, where, where], self.inverse[:, where, where]
        return Alignment(*parts, self.reference)

    def to_aligned(self, z: Tensor) -> Tensor:
        """u = basis⁻¹ (z - mean): (seed, time, dim) -> (seed, time, dim)."""
        return (z - self.mean[:, None]) @ self.inverse.mT

    def consensus(self, z: Tensor, weight: Tensor) -> Tensor:
        """Weighted mean over seeds in the reference seed's coordinates; weight is (seed, dim)."""
        share = weight / weight.sum(0).clamp_min(1e-12)
        u = (self.to_aligned(z) * share[:, None]).sum(0)
        return u @ self.basis[self.reference].mT + self.mean[self.reference]


def align(z: Tensor, blocks: Mapping[str, slice], reference: int = 0) -> Alignment:
    """Align the blocks of all seeds, from embeddings z (seed, time, dim) of the same time steps.

    The result is on the CPU. The reference seed's blocks are turned to their principal axes, largest first, signs
    fixed.

    Examples
    --------
    >>> z = torch.randn(1, 500, 3)
    >>> turned = torch.cat([z, z @ torch.linalg.qr(torch.randn(3, 3))[0] * 5 + 1])
    >>> u = align(turned, {"all": slice(0, 3)}).to_aligned(turned)
    >>> bool(torch.allclose(u[0], u[1], atol=1e-3))
    True
    """
    z = z.double()
    seeds, _, dim = z.shape
    mean = z.mean(1)
    basis = torch.zeros(seeds, dim, dim, dtype=z.dtype)
    inverse = torch.zeros_like(basis)
    for where in blocks.values():
        block = z[..., where] - mean[:, None, where]
        # sums over time where the embedding is; what is left is small, and better done on a CPU
        covariance, shared = (block.mT @ other / block.shape[1] for other in (block, block[reference]))
        covariance, shared = covariance.cpu(), shared.cpu()
        values, axes = torch.linalg.eigh(covariance)
        values, axes = values.flip(-1), axes.flip(-1)
        # a collapsed block has no axes of its own: keep its inverse finite
        spread = values.clamp_min(1e-10).sqrt().clamp_min(1e-6 * values[:, :1].clamp_min(1e-10).sqrt())
        largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
        axes = axes * largest.sign()
        white = axes / spread[:, None]
        u, _, vh = torch.linalg.svd(white.mT @ shared @ white[reference])
        turn = u @ vh
        turn[reference] = torch.eye(turn.shape[-1], dtype=z.dtype)
        basis[:, where, where] = (axes * spread[:, None]) @ turn
        inverse[:, where, where] = turn.mT @ (axes / spread[:, None]).mT
    return Alignment(mean.cpu().float(), basis.float(), inverse.float(), reference)


def align_sessions(
    embeddings: Sequence[Tensor],
    layouts: Sequence[Mapping[str, slice]],
    shared: Sequence[str],
    reference: int,
    given: Mapping[str, Alignment] | None = None,
) -> list[Alignment]:
    """Alignments of several sessions. A block that sessions share has one basis in all of them.

    Other blocks mean something else in each session, and have a basis of their own in each.

    embeddings : for each session (seed, time, dim). layouts : where its blocks are. given : bases of shared blocks
    that are settled already.

    >>> z = [torch.randn(2, 300, 3), torch.randn(2, 200, 3)]
    >>> one, two = align_sessions(z, [{"a": slice(0, 2), "b": slice(2, 3)}] * 2, ["a"], reference=0)
    >>> bool((one.basis[:, :2, :2] == two.basis[:, :2, :2]).all()), bool((one.mean[:, 2] == two.mean[:, 2]).all())
    (True, False)
    """
    common = dict(given or {})
    for name in shared:
        blocks = [z[..., where[name]] for z, where in zip(embeddings, layouts, strict=True) if name in where]
        if name not in common and blocks:
            together = torch.cat(blocks, 1)
            common[name] = align(together, {name: slice(0, together.shape[-1])}, reference)
    out = []
    for z, blocks in zip(embeddings, layouts, strict=True):
        whole = align(z, blocks, reference)
        for name, where in blocks.items():
            if name in shared:
                whole.mean[:, where] = common[name].mean
                whole.basis[:, where, where] = common[name].basis
                whole.inverse[:, where, where] = common[name].inverse
        out.append(whole)
    return out
