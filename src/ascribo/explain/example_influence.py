"""Influence functions and TracIn: training examples by what they did to the loss of a test example.

Influence (Koh & Liang 2017) is ⟨∇ℓ(x), (H + δ)⁻¹ ∇ℓ(xⁿ)⟩ / N, with H the mean second derivative of the N training
losses. The Hessian of a network at the end of training is as a rule not positive, which neither conjugate gradients
nor the meaning of the formula survive; its Gauss-Newton part is, and is the default here (Martens 2020; Bae et al.
2022). It needs no iteration: with J the Jacobian of all training representations and B the curvature of their
losses,

    (JᵀBJ / N + δ)⁻¹ Jᵀ = Jᵀ (BJJᵀ / N + δ)⁻¹,

a system of the size of the representations, not of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from .example_gradients import ExampleLoss

__all__ = ["conjugate_gradients", "gauss_newton_influence", "hessian_influence", "lissa", "tracin"]

Product = Callable[[Tensor], Tensor]
"""(vector, parameter) -> the same, multiplied by H + δ."""
MEMORY = 2**31
"""Bytes that the gradients of training examples may take at a time."""
LARGEST_SYSTEM = {False: 20_000, True: 50_000}
"""Rows of the largest system that is solved at once, on a CPU and on a GPU."""
DENSE = 8192
"""Most parameters for which a Hessian is written out."""


def tracin(
    checkpoints: Sequence[tuple[float, ExampleLoss]], train: Tensor, test: Tensor, scores: np.ndarray, batch: int
) -> None:
    """Σ η ⟨∇ℓ(x), ∇ℓ(xⁿ)⟩ over checkpoints, into scores (test, train), which is zero before.

    Gradients of single examples, then one product of matrices for each chunk.
    """
    for rate, objective in checkpoints:
        rows = max(batch, MEMORY // (4 * objective.parameters))
        for start in range(0, len(train), rows):
            own = _gradients(objective, train[start : start + rows], batch)
            for begin, part in _chunks(test, batch):
                product = rate * objective.gradients(part) @ own.mT
                scores[begin : begin + len(part), start : start + len(own)] += product.cpu().numpy()


def gauss_newton_influence(
    objective: ExampleLoss, train: Tensor, test: Tensor, scores: np.ndarray, batch: int, damping: float | None
) -> float:
    """Influence with the Gauss-Newton curvature, into scores (test, train); returns the damping that was used.

    damping : δ, by default a tenth of the mean eigenvalue of the curvature (Grosse et al. 2023).
    """
    first, second = (
        torch.cat(p) for p in zip(*(objective.curvatures(x) for _, x in _chunks(train, batch)), strict=True)
    )
    examples, outputs = first.shape
    size = examples * outputs
    if size > LARGEST_SYSTEM[train.is_cuda] or 4 * size * objective.parameters > 8 * MEMORY:
        raise ValueError(
            f"{examples} training examples with {outputs} outputs each and {objective.parameters} parameters are "
            "too many for the Gauss-Newton influence at once: pass fewer training examples, or use method='tracin'."
        )
    jacobian = torch.cat([objective.jacobians(x).flatten(0, 1) for _, x in _chunks(train, batch)])
    kernel = _gram(jacobian).unflatten(0, (examples, outputs))
    weighted = torch.einsum("nab,nbm->nam", second, kernel).flatten(0, 1)  # BJJᵀ
    if damping is None:
        damping = 0.1 * float(weighted.diagonal().sum()) / examples / objective.parameters
        damping = damping or 1.0
    system = weighted / examples + damping * torch.eye(size, dtype=weighted.dtype, device=weighted.device)
    factors = torch.linalg.lu_factor(system.mT)
    for begin, part in _chunks(test, batch):
        seen = objective.gradients(part).double() @ jacobian.double().mT  # (test, train output)
        solved = torch.linalg.lu_solve(*factors, seen.mT).mT.unflatten(1, (examples, outputs))
        value = torch.einsum("tna,na->tn", solved, first.double()) / examples
        scores[begin : begin + len(part)] = value.cpu().numpy()
    return damping


def hessian_influence(
    objective: ExampleLoss,
    train: Tensor,
    test: Tensor,
    scores: np.ndarray,
    batch: int,
    solve: Callable[[Product, Tensor], Tensor],
    damping: float,
) -> None:
    """Influence with the whole Hessian, (H + δ)⁻¹ by `solve`, into scores (test, train)."""
    own = _gradients(objective, train, batch)

    def product(vectors: Tensor) -> Tensor:
        total = sum(objective.hessian_product(x, vectors) for _, x in _chunks(train, batch))
        return total / len(train) + damping * vectors

    for begin, part in _chunks(test, batch):
        solved = solve(product, objective.gradients(part))
        scores[begin : begin + len(part)] = (solved @ own.mT / len(train)).cpu().numpy()


def conjugate_gradients(
    product: Product, vectors: Tensor, *, iterations: int = 200, tolerance: float = 1e-6
) -> Tensor:
    """A⁻¹ v for several vectors (vector, parameter) and a positive A, each by its own conjugate gradients.

    >>> A = torch.diag(torch.tensor([1.0, 4.0]))
    >>> conjugate_gradients(lambda v: v @ A, torch.tensor([[2.0, 8.0]])).round(decimals=4)
    tensor([[2., 2.]])
    """
    x, residual = torch.zeros_like(vectors), vectors.clone()
    direction, size = residual.clone(), residual.square().sum(1)
    goal = tolerance**2 * size
    for _ in range(iterations):
        moving = size > goal
        if not bool(moving.any()):
            return x
        turned = product(direction)
        curvature = (direction * turned).sum(1)
        if bool((curvature[moving] <= 0).any()):
            raise ValueError(
                "the Hessian is not positive: conjugate gradients do not apply. Raise damping above the size of "
                "its most negative eigenvalue, or use curvature='gauss_newton'."
            )
        step = torch.where(moving, size / curvature.clamp_min(1e-300), 0.0)[:, None]
        x, residual = x + step * direction, residual - step * turned
        size, before = residual.square().sum(1), size
        direction = residual + torch.where(moving, size / before.clamp_min(1e-300), 0.0)[:, None] * direction
    worst = float((size / vectors.square().sum(1).clamp_min(1e-300)).max().sqrt())
    raise ValueError(
        f"conjugate gradients are not done after {iterations} iterations (residual {worst:.1e}): raise iterations, "
        "damping or tolerance."
    )


def lissa(
    products: Callable[[int], Product],
    vectors: Tensor,
    *,
    recursions: int = 1000,
    scale: float,
) -> Tensor:
    """A⁻¹ v by the recursion of Agarwal et al. (2016), v ← v₀ + (1 - A/scale) v, then v / scale.

    products : for each recursion the product with an estimate of A, such as one from a few training examples. scale
    : above the largest eigenvalue of A; below half of it the recursion diverges, as the paper's (scale 1) does for
    a large Hessian.
    """
    value = vectors
    limit = 1e6 * vectors.norm(dim=1).max()
    for k in range(recursions):
        value = vectors + value - products(k)(value) / scale
        if not bool(value.norm(dim=1).max() <= limit):
            raise ValueError(
                f"LiSSA diverged at recursion {k} with scale={scale:g}: the Hessian's largest eigenvalue is above "
                "it. Raise scale, or leave it to be estimated."
            )
    return value / scale


def largest_eigenvalue(product: Product, like: Tensor, rounds: int = 20) -> float:
    """Size of the largest eigenvalue, by the power method."""
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(like.shape, generator=generator).to(like)
    size = torch.zeros(())
    for _ in range(rounds):
        v = product(v / v.norm())
        size = v.norm()
    return float(size)


def dense_solver(product: Product, vectors: Tensor) -> Tensor:
    """A⁻¹ v with A written out, for small encoders."""
    count = vectors.shape[1]
    if count > DENSE:
        raise ValueError(f"solver='dense' is for at most {DENSE} parameters; the encoder has {count}.")
    identity = torch.eye(count, dtype=vectors.dtype, device=vectors.device)
    matrix = torch.cat([product(rows) for rows in identity.split(256)])
    return torch.linalg.solve((matrix + matrix.mT) / 2, vectors.mT).mT


def _gram(rows: Tensor, block: int = 512) -> Tensor:
    """Inner products of all pairs of rows, (row, row), in float64; those below the diagonal are mirrored."""
    total = torch.zeros(len(rows), len(rows), dtype=torch.float64, device=rows.device)
    for start in range(0, len(rows), block):
        one = rows[start : start + block].double()
        for other in range(start, len(rows), block):
            product = one @ rows[other : other + block].double().mT
            total[start : start + block, other : other + block] = product
            total[other : other + block, start : start + block] = product.mT
    return total


def _gradients(objective: ExampleLoss, x: Tensor, batch: int) -> Tensor:
    return torch.cat([objective.gradients(part) for _, part in _chunks(x, batch)])


def _chunks(x: Tensor, batch: int) -> Iterator[tuple[int, Tensor]]:
    for start in range(0, len(x), batch):
        yield start, x[start : start + batch]
