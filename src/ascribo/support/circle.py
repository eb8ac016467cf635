"""Circular variables, such as a heading: values on the circle, and changes the short way round it.

A period of 0 stands for a variable that is not circular, which stays as it is.
"""

from __future__ import annotations

from typing import overload

import numpy as np
import torch
from torch import Tensor

__all__ = ["short_way", "wrap"]


def wrap(values: np.ndarray, period: np.ndarray | float, low: np.ndarray | float = 0.0) -> np.ndarray:
    """Values (..., k) brought into [low, low + period) by whole turns.

    period : one number, or one for each of the k columns.

    >>> wrap(np.array([370.0, -10.0]), 360.0), wrap(np.array([350.0]), 360.0, low=-180.0)
    (array([ 10., 350.]), array([-10.]))
    """
    circular = np.asarray(period) > 0
    turned = np.mod(values - low, np.where(circular, period, 1.0)) + low
    turned = np.where(turned >= np.add(low, period), low, turned)  # mod may round up to a full turn
    return np.where(circular, turned, values)


@overload
def short_way(change: np.ndarray, period: np.ndarray | float) -> np.ndarray: ...
@overload
def short_way(change: Tensor, period: Tensor) -> Tensor: ...
def short_way(change: np.ndarray | Tensor, period: np.ndarray | float | Tensor) -> np.ndarray | Tensor:
    """Changes (..., k) the short way round: from minus half a turn to half a turn.

    period : one number, or one for each of the k columns; a tensor if `change` is one.

    >>> short_way(np.array([350.0, 10.0, -200.0]), 360.0)
    array([-10.,  10., 160.])
    """
    if isinstance(change, Tensor):
        turn = torch.as_tensor(period, dtype=change.dtype, device=change.device)
        turns = (change / torch.where(turn > 0, turn, torch.inf)).round()
        return change - turn * turns
    return change - period * np.round(change / np.where(np.asarray(period) > 0, period, np.inf))
