"""Inputs of the decoders are white: no decoder learns one direction sooner than another because it is larger."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["white", "whitening"]

LEAST_VARIANCE = 1e-8
"""Variance of a direction, relative to the largest, below which it counts as having none."""


def white(part: Tensor) -> Tensor:
    """Columns with zero mean and the identity as covariance: (seed, n, k); directions without variance become 0."""
    mean, axes = whitening(part)
    return ((part.double() - mean) @ axes).float()


def whitening(part: Tensor) -> tuple[Tensor, Tensor]:
    """What makes columns (seed, n, k) white: their mean (seed, 1, k) and a matrix (seed, k, k), both float64."""
    mean = part.double().mean(1, keepdim=True)
    centred = part.double() - mean
    values, axes = torch.linalg.eigh(centred.mT @ centred / part.shape[1])
    keep = values > LEAST_VARIANCE * values.amax(-1, keepdim=True).clamp_min(1e-30)
    return mean, axes * torch.where(keep, values.clamp_min(1e-30).rsqrt(), 0.0)[:, None]
