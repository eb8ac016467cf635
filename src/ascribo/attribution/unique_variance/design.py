"""The design of a comparison of decoders: all of it that the variables decide, whatever the model.

Models of one recording, with other penalties or seeds, share a design.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ...data.segments import evenly, same_segment
from ...data.standardised_channels import StandardisedChannels, limit_time_steps
from ...spaces.base import Space
from .fourier_features import wave_phases
from .input_columns import Column, Role
from .whitening import white

__all__ = ["BLOCKS", "FOLDS", "HELD_OUT_RUNS", "Design", "make_design"]

FOLDS = 2
HELD_OUT_RUNS = 20
"""Runs of neighbouring time steps that are held out, by the folds in turn."""
MOST_LABELS = 100
"""Labels that have a column of their own, at most. The rarer ones share these columns, in turn."""
MOST_TIME_STEPS = 100_000
"""Time steps of a recording that its decoders are fitted to and scored on, at most."""
BLOCKS = (5, 40)
"""Fewest and most blocks of time that the spread of a score is judged by."""
SHORTEST_BLOCK = 100
"""Time steps that a block has at least."""


@dataclass(frozen=True)
class Design:
    """What the variables decide.

    Attributes
    ----------
    index : (n,), the time steps of the comparison. fold, block : (n,), the fold that holds each of them out, and
        the block of time it is in.
    without_variables : the spaces that follow time, or whose variables are not there.
    neighbour_distance : how far off the neighbours are whose embedding does not know a channel's own noise.
    columns : what the k columns of `values` are. values : (1, n, k), the variables, those of each space white.
    phases : (k, w) or None, phases of waves as a linear map of `values`; see `wave_phases`.
    """

    index: np.ndarray
    fold: np.ndarray
    block: np.ndarray
    without_variables: tuple[str, ...]
    neighbour_distance: int
    columns: tuple[Column, ...]
    values: Tensor
    phases: Tensor | None


def make_design(
    spaces: Mapping[str, Space],
    window: int,
    epochs: np.ndarray,
    variables: pd.DataFrame,
    X: Tensor | StandardisedChannels,
) -> Design:
    """The design for a recording and the spaces of some encoders.

    Spaces that follow time, or whose variables are not there, are those without variables.

    Parameters
    ----------
    window : time steps that the encoders see.
    X : (time, channel); only its device and the number of its channels matter.
    """
    values = {name: _values(space, variables) for name, space in spaces.items() if _known(space, variables)}
    without = tuple(name for name in spaces if name not in values)
    # An encoder may have learned its positives by heart: the embedding may know of time steps so far ahead.
    near = 1 + window // 2 + max(space.ahead for space in spaces.values())
    index = np.flatnonzero(same_segment(epochs, 2 * near)) + near
    for name in values:
        index = index[spaces[name].known(variables)[index]]
    index = index[evenly(len(index), limit_time_steps(MOST_TIME_STEPS, X.shape[1]))]
    if len(index) < 4 * HELD_OUT_RUNS:
        raise ValueError(
            f"{len(index)} time steps have all their variables and neighbours within their epoch: unique variance "
            f"needs at least {4 * HELD_OUT_RUNS}. Use a longer recording, longer epochs, or another method."
        )
    rows = np.arange(len(index))
    parts = [torch.from_numpy(value[index])[None].to(X.device) for value in values.values()]
    columns = tuple(Column(Role.VALUE, name) for name, value in values.items() for _ in range(value.shape[1]))
    inputs = torch.zeros(1, len(index), 0, device=X.device)
    if parts:
        inputs = torch.cat([white(part) for part in parts], -1)
    numbers = {name: value for name, value in values.items() if not spaces[name].categorical}
    return Design(
        index=index,
        fold=rows * HELD_OUT_RUNS // len(rows) % FOLDS,
        block=rows * int(np.clip(len(rows) // SHORTEST_BLOCK, *BLOCKS)) // len(rows),
        without_variables=without,
        neighbour_distance=near,
        columns=columns,
        values=inputs,
        phases=wave_phases(numbers, inputs[0], columns),
    )


def _known(space: Space, variables: pd.DataFrame) -> bool:
    """Whether a space has variables, and they are there."""
    return bool(space.variables) and set(space.variables) <= set(variables)


def _values(space: Space, variables: pd.DataFrame) -> np.ndarray:
    """The variables as numbers, (time, k); the rarer of many labels share columns, in turn.

    >>> from ascribo import Discrete
    >>> _values(Discrete("label", 1), pd.DataFrame({"label": np.arange(500)})).shape
    (500, 100)
    """
    value = space.values(variables)
    if not space.categorical:
        return _in_like_units(value)
    if value.shape[1] <= MOST_LABELS:
        return value
    order = np.argsort(-value.sum(0), kind="stable")
    out = np.zeros((len(value), MOST_LABELS), dtype=value.dtype)
    for first in range(0, len(order), MOST_LABELS):
        own = order[first : first + MOST_LABELS]
        out[:, : len(own)] += value[:, own]
    return out


def _in_like_units(values: np.ndarray) -> np.ndarray:
    """Columns (time, k) divided by one power of two, so that the largest is near 1. Those that then are a
    thousandth of it or less, which whitening would take for constants, by one of their own. No digit is lost.

    >>> _in_like_units(np.array([[2.0**-40, 4.0, 8.0], [0.0, 0.0, 0.0]]))
    array([[1. , 0.5, 1. ],
           [0. , 0. , 0. ]])
    """
    spread = np.nanstd(values, axis=0)
    power, shared = np.frexp(spread)[1], np.frexp(spread.max())[1]
    return np.ldexp(values, -np.where((spread > 0) & (power < shared - 10), power, shared))
