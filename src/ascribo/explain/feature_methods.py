"""Feature importance methods that are linear in the model, of scalar functions g(x̃) = ⟨a, f(x̃)⟩.

Each takes the encoder f, inputs x and baselines x̄ (batch, ...), and anchors a (batch, question, dim): several
questions about one example share its forward passes. Each returns scores (batch, question, ...). An example's
anchors stay with it whatever a method does with the batch, and random draws are the same for all examples, so a
batch gives what one example at a time gives.

References: Crabbé & van der Schaar (2022), table 3, who write the way from x̄ to x as x + τ(x - x̄); it is meant,
and taken here, as x̄ + τ(x - x̄), without which the scores would not be complete.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from .encoders import Encoder, represent

__all__ = ["METHODS", "feature_ablation", "gradient", "gradient_shap", "integrated_gradients", "saliency"]

DOUBLINGS = 6
"""Most times that the points of integrated gradients are doubled."""
ROWS_AT_ONCE = 4096
"""Inputs with a feature replaced that are encoded together."""


def gradient(f: Encoder, at: Tensor, anchors: Tensor) -> Tensor:
    """∂⟨a, f(x̃)⟩/∂x̃ at inputs (batch, ...), for each question: (batch, question, ...)."""
    with torch.enable_grad():
        inputs = at.detach().requires_grad_()
        z = represent(f, inputs)
        rows = []
        for k in range(anchors.shape[1]):
            more = k < anchors.shape[1] - 1
            value = (z * anchors[:, k]).sum()
            row = None
            if value.requires_grad:
                (row,) = torch.autograd.grad(value, inputs, retain_graph=more, allow_unused=True)
            if row is None:
                raise ValueError(
                    "the encoder's output has no gradient with respect to its input (it is detached, converted to "
                    "numpy, or computed without gradients): use method='feature_ablation', which needs none."
                )
            rows.append(row)
    return torch.stack(rows, 1)


def saliency(f: Encoder, x: Tensor, base: Tensor, anchors: Tensor) -> Tensor:
    """The gradient at x, with its sign; the baseline plays no part."""
    return gradient(f, x, anchors)


def integrated_gradients(
    f: Encoder,
    x: Tensor,
    base: Tensor,
    anchors: Tensor,
    *,
    points: int = 50,
    tolerance: float | None = 0.01,
) -> Tensor:
    """(x - x̄) times the mean gradient on the way from x̄ to x: shares that add up to g(x) - g(x̄).

    points : of the Gauss-Legendre rule for the mean. tolerance : examples whose shares miss g(x) - g(x̄) by more
    than this part of ‖a‖‖f(x)‖ (which is ‖f(x)‖² where a = f(x)) get twice the points, up to 64 times as many;
    None: all have the same number. Gradients of networks with ReLUs jump on the way, so that a few examples need
    many.
    """
    _whole("points", points)
    if tolerance is not None and not tolerance > 0:
        raise ValueError(f"tolerance={tolerance!r}: expected a share above 0, such as 0.01, or None.")
    scores = _mean_gradient(f, x, base, anchors, points)
    if tolerance is None:
        return scores
    with torch.no_grad():
        z = represent(f, x)
        wanted = ((z - represent(f, base))[:, None] * anchors).sum(2)
        allowed = tolerance * anchors.norm(dim=2) * z.norm(dim=1)[:, None]
    for doubling in range(1, DOUBLINGS + 1):
        missing = (scores.flatten(2).sum(2) - wanted).abs()
        rows = (missing > allowed).any(1).nonzero()[:, 0]
        if not len(rows):
            break
        scores[rows] = _mean_gradient(f, x[rows], base[rows], anchors[rows], points * 2**doubling)
    return scores


def _mean_gradient(f: Encoder, x: Tensor, base: Tensor, anchors: Tensor, points: int) -> Tensor:
    """(x - x̄) times the mean gradient at so many points."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    total = torch.zeros(())
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        total = total.to(x) + weight / 2 * gradient(f, torch.lerp(base, x, (1 + node) / 2), anchors)
    return total * (x - base)[:, None]


def gradient_shap(
    f: Encoder,
    x: Tensor,
    base: Tensor,
    anchors: Tensor,
    *,
    samples: int = 50,
    noise: float = 0.0,
    random_state: int = 0,
) -> Tensor:
    """(x - x̄) times the mean gradient at random points between x̄ and x, with noise on them.

    samples : points drawn, one from each of as many equal parts of the way. noise : standard deviation of the
    normal noise on a point; the scores are complete, up to the drawing, without it only. random_state : seed of the
    draws, which are the same for all examples.
    """
    _whole("samples", samples)
    if not noise >= 0:
        raise ValueError(f"noise={noise!r}: expected a standard deviation, 0 or more.")
    draws = np.random.default_rng(random_state)
    shares = (np.arange(samples) + draws.uniform(size=samples)) / samples
    total = torch.zeros(())
    for share in shares.tolist():
        at = torch.lerp(base, x, share)
        if noise:
            at = at + noise * torch.from_numpy(draws.standard_normal(x.shape[1:])).to(x)
        total = total.to(x) + gradient(f, at, anchors) / samples
    return total * (x - base)[:, None]


@torch.no_grad()
def feature_ablation(
    f: Encoder, x: Tensor, base: Tensor, anchors: Tensor, *, groups: np.ndarray | Tensor | None = None
) -> Tensor:
    """What g loses when a feature is replaced by its baseline, g(x) - g(x without it).

    groups : (...) whole numbers from 0 in the shape of one example: features with the same number are replaced
    together, and share the score. None: each by itself.
    """
    shape = x.shape[1:]
    number = torch.arange(shape.numel()) if groups is None else torch.as_tensor(groups).flatten()
    if len(number) != shape.numel() or number.is_floating_point() or int(number.min()) < 0:
        raise ValueError(
            f"groups has {len(number)} entries of type {number.dtype}: expected whole numbers from 0 in the shape "
            f"of one example, {tuple(shape)}."
        )
    number = number.to(x.device)
    count = int(number.max()) + 1
    whole = torch.einsum("bd,bkd->bk", represent(f, x), anchors)
    lost = []
    for part in torch.arange(count, device=x.device).split(max(1, ROWS_AT_ONCE // len(x))):
        gone = (number == part[:, None]).reshape(1, len(part), *shape)
        copies = torch.where(gone, base[:, None], x[:, None])
        z = represent(f, copies.flatten(0, 1)).unflatten(0, (len(x), len(part)))
        lost.append(whole[..., None] - torch.einsum("bgd,bkd->bkg", z, anchors))
    return torch.cat(lost, -1)[..., number].unflatten(-1, shape)


def _whole(name: str, value: int) -> None:
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name}={value!r}: expected a whole number of at least 1.")


METHODS: dict[str, Callable[..., Tensor]] = {
    "integrated_gradients": integrated_gradients,
    "gradient_shap": gradient_shap,
    "saliency": saliency,
    "feature_ablation": feature_ablation,
}
"""The methods that need nothing but the encoder as a function."""
