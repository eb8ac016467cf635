"""Fourier features of the variables, with which a decoder soon learns channels that rise and fall many times.

A network is slow to learn that a channel rises and falls many times as a variable goes on (place fields, grids),
and what it has not learned of one variable it looks for in others that tell of it. With waves over the values of
the variables among its inputs it is quick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from .input_columns import Column, Role, which

__all__ = ["wave_heights", "wave_numbers", "wave_phases"]

WAVES = 32
"""Waves over the variables of a space."""
WAVE_NUMBERS = (0.5, 8.0)
"""Their wave numbers lie between these, in radians for a standard deviation of the variables."""


def wave_numbers(variables: int) -> Tensor:
    """Waves over some variables, in all directions, from long to short: (variables, 32), always the same.

    >>> wave_numbers(2).shape
    torch.Size([2, 32])
    """
    towards = np.random.default_rng(0).standard_normal((variables, WAVES))
    return torch.from_numpy(towards / np.linalg.norm(towards, axis=0) * np.geomspace(*WAVE_NUMBERS, WAVES))


def wave_heights() -> Tensor:
    """How high those waves are, (32,): the shorter the lower, so that what is smooth is learned first.

    All of one height, they would double the noise of the scores of channels that are smooth and noisy.
    """
    return torch.from_numpy(2**0.5 / np.maximum(1.0, np.geomspace(*WAVE_NUMBERS, WAVES)))


def wave_phases(values: Mapping[str, np.ndarray], inputs: Tensor, columns: Sequence[Column]) -> Tensor | None:
    """Phases of waves over the values of each space, (n, k), as a linear map of the inputs (n, dim): (dim, w).

    None without spaces.
    """
    found = []
    for name, value in values.items():
        where = torch.from_numpy(np.flatnonzero(which(columns, {Role.VALUE}, name))).to(inputs.device)
        weights = torch.zeros(len(columns), value.shape[1], dtype=torch.float64, device=inputs.device)
        weights[where, torch.arange(value.shape[1], device=inputs.device)] = 1.0
        found.append(weights @ wave_numbers(value.shape[1]).to(weights))
    return torch.cat(found, 1).to(inputs) if found else None
