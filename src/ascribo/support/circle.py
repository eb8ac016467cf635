"""Circular variables, such as a heading: their period, values on the circle, changes the short way round it.

A period of 0 stands for a variable that is not circular, which stays as it is.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

__all__ = ["check_period", "short_way", "wrap"]

Change = TypeVar("Change", np.ndarray, Tensor)
JUMPS = 0.05
"""Share of the steps of an unwrapped variable that may exceed half a turn: edges of epochs, missing samples."""


def check_period(name: object, values: np.ndarray, period: float) -> None:
    """Refuse a period that does not fit the values (time,) of a circular variable, missing ones left out.

    Values within two turns are fine. So are unwrapped ones, which run over many turns in steps of less than half a
    turn. What is refused:

    - a period of 2π and values over more than 270, all from 0 to 360 or from -180 to 180: these are degrees.
      (Degrees that never leave a smaller range, and change slowly, cannot be told from unwrapped radians.)
    - a period of 360 and values over more than π, all from -2π to 2π: these are radians;
    - any period and values over more than two turns that jump by more than half a turn again and again.

    >>> check_period("heading", np.array([0.0, 90.0, 180.0, 350.0]), 2 * np.pi)
    Traceback (most recent call last):
    ValueError: variable 'heading' runs from 0 to 350, which looks like degrees, and its period is 6.28319. Pass ...
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    if len(known) < 2:
        return
    low, high = float(known.min()), float(known.max())
    said = f"variable {name!r} runs from {low:g} to {high:g}"
    slack = 3.6  # degrees
    in_degrees = (low >= -slack and high <= 360 + slack) or (low >= -180 - slack and high <= 180 + slack)
    if np.isclose(period, 2 * np.pi, rtol=1e-3) and in_degrees and high - low > 270:
        raise ValueError(
            f"{said}, which looks like degrees, and its period is {period:g}. Pass period=360, or the variable in "
            "radians: np.deg2rad(values). (If it is radians, unwrapped: np.mod(values, 2 * np.pi).)"
        )
    if np.isclose(period, 360, rtol=1e-3) and max(-low, high) <= 2.02 * np.pi and high - low > np.pi:
        raise ValueError(
            f"{said}, which looks like radians, and its period is {period:g}. Leave period out, or pass the "
            "variable in degrees: np.rad2deg(values). (If it is degrees, so small a part needs no circle.)"
        )
    if high - low > 2 * period and np.mean(np.abs(np.diff(known)) > period / 2) > JUMPS:
        raise ValueError(
            f"{said}, {(high - low) / period:.0f} times the period of {period:g}, in jumps. Pass the period in the "
            "unit of the variable (360 for degrees), or the variable within one turn: np.mod(values, period)."
        )


def wrap(values: np.ndarray, period: np.ndarray | float, low: float = 0.0) -> np.ndarray:
    """Values (..., k) brought into [low, low + period) by whole turns.

    period : one number, or one for each of the k columns. Where none is circular the values themselves come back.

    >>> wrap(np.array([370.0, -10.0]), 360.0), wrap(np.array([350.0]), 360.0, low=-180.0)
    (array([ 10., 350.]), array([-10.]))
    """
    period = np.asarray(period)
    circular = period > 0
    if not circular.any():
        return values
    if not circular.all():
        values = values.copy()
        values[..., circular] = wrap(values[..., circular], period[circular], low)
        return values
    turned = np.mod(values - low, period) + low
    return np.where(turned >= low + period, low, turned)  # mod may round up to a full turn


def short_way(change: Change, period: np.ndarray | float | Tensor) -> Change:
    """Changes (..., k) the short way round: from minus half a turn to half a turn.

    period : one number, or one for each of the k columns; a tensor if `change` is one.

    >>> short_way(np.array([350.0, 10.0, -200.0]), 360.0)
    array([-10.,  10., 160.])
    """
    if isinstance(change, Tensor):
        turn = torch.as_tensor(period, dtype=change.dtype, device=change.device)
        turns = (change / torch.where(turn > 0, turn, torch.inf)).round()
        return change - turn * turns
    turn = np.asarray(period)
    return change - turn * np.round(change / np.where(turn > 0, turn, np.inf))
