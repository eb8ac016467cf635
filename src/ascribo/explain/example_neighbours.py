"""Deep nearest neighbours (Papernot & McDaniel 2018): training examples by their kernel to a representation.

All kernels depend on distances or inner products alone, so a rotation of the representation changes nothing
(Crabbé & van der Schaar 2022, proposition A.5).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..support.names import suggest

__all__ = ["KERNELS", "kernel_scores", "median_distance"]

KERNELS = ("inverse_distance", "rbf", "matern", "polynomial")


def kernel_scores(
    test: Tensor,
    train: Tensor,
    *,
    kernel: str = "inverse_distance",
    neighbours: int | None = None,
    length_scale: float | None = None,
    nu: float = 1.5,
    degree: int = 2,
    offset: float = 1.0,
) -> Tensor:
    """κ(h, hₙ) for each test and training representation, (test, dim) and (train, dim) -> (test, train).

    kernel : "inverse_distance", 1 / ‖h - hₙ‖; "rbf", exp(-‖h - hₙ‖² / 2ℓ²); "matern" of smoothness `nu` 0.5, 1.5 or
        2.5; "polynomial", (⟨h, hₙ⟩ + offset)^degree.
    neighbours : keep the nearest so many, and give the others 0 (the paper's equation 5); None keeps all, as in the
        paper's experiments.
    length_scale : ℓ of the second and third; by default the median distance between training representations.

    >>> h = torch.tensor([[0.0], [2.0]])
    >>> kernel_scores(torch.tensor([[1.5]]), h)
    tensor([[0.6667, 2.0000]])
    >>> kernel_scores(torch.tensor([[1.5]]), h, neighbours=1)
    tensor([[0., 2.]])
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel={kernel!r} is unknown{suggest(kernel, KERNELS)}")
    if neighbours is not None and not 1 <= neighbours <= len(train):
        raise ValueError(f"neighbours={neighbours!r}: expected None or a number from 1 to {len(train)}.")
    distance = torch.cdist(test, train, compute_mode="donot_use_mm_for_euclid_dist")
    if kernel == "inverse_distance":
        # an example that is its own neighbour is the most important, by far but not infinitely
        least = torch.finfo(distance.dtype).eps * train.norm(dim=1).max().clamp_min(1e-30)
        scores = 1 / distance.clamp_min(least)
    elif kernel == "polynomial":
        scores = (test @ train.mT + offset) ** degree
    else:
        length = median_distance(train) if length_scale is None else float(length_scale)
        if not length > 0:
            raise ValueError(f"length_scale={length!r}: expected a positive distance.")
        scores = (distance / length).square().div(-2).exp() if kernel == "rbf" else _matern(distance / length, nu)
    if neighbours is None:
        return scores
    kept = distance.topk(neighbours, largest=False).indices
    return torch.zeros_like(scores).scatter(1, kept, scores.gather(1, kept))


def median_distance(train: Tensor, most: int = 2000) -> float:
    """Median distance between training representations, of at most so many, evenly chosen.

    >>> median_distance(torch.tensor([[0.0], [1.0], [2.0]]))
    1.0
    """
    some = train[:: max(1, math.ceil(len(train) / most))]
    return float(torch.pdist(some).median()) if len(some) > 1 else 1.0


def _matern(r: Tensor, nu: float) -> Tensor:
    """Matérn kernel of the distance over the length scale, for the smoothnesses with a closed form."""
    if nu == 0.5:
        return (-r).exp()
    if nu == 1.5:
        return (1 + math.sqrt(3) * r) * (-math.sqrt(3) * r).exp()
    if nu == 2.5:
        return (1 + math.sqrt(5) * r + 5 / 3 * r.square()) * (-math.sqrt(5) * r).exp()
    raise ValueError(f"nu={nu!r}: the Matérn kernel is given for nu 0.5, 1.5 and 2.5.")
