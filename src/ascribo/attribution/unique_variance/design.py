"""The design of a test: all of it that the variables decide, whatever the model.

Models of one recording, with other penalties or seeds, share a design: the time steps, the innovations and what
they might as well have been are worked out once.
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
from ...spaces.base import Space, reported
from .conditional_draws import exchange_innovations, redraw_white_innovations
from .fourier_features import wave_phases
from .innovation import innovation_lag
from .input_columns import Column, Role, which
from .whitening import white

__all__ = ["HELD_OUT_RUNS", "Design", "make_design"]

HELD_OUT_RUNS = 20
"""Runs of neighbouring time steps that are held out, by the folds in turn."""
MOST_TIME_STEPS = 100_000
"""Time steps of a recording that its decoders are fitted to and scored on, at most."""
REDRAWS = 4
"""Times that the innovations of a space are redrawn."""


@dataclass(frozen=True)
class Design:
    """What the variables decide.

    Attributes
    ----------
    index : (n,), the time steps of the test.
    lags : space -> the time steps over which its innovation is taken, for the spaces with variables.
    without_variables : the other spaces.
    embedding_lag : how far back the past embedding is taken, which knows nothing of an innovation.
    neighbour_distance : how far off the neighbours are whose embedding does not know a channel's own noise.
    reach : time steps back and ahead that a row has to do with, together.
    columns : what the k columns of `values` are. values : (1, n, k), white.
    redraws : space -> its innovations redrawn, white as they are in `values`, (draw, n, own columns).
    phases : (k, w) or None, phases of waves as a linear map of `values`; see `wave_phases`.
    """

    index: np.ndarray
    lags: dict[str, int]
    without_variables: tuple[str, ...]
    embedding_lag: int
    neighbour_distance: int
    reach: int
    columns: tuple[Column, ...]
    values: Tensor
    redraws: dict[str, Tensor]
    phases: Tensor | None


def make_design(
    spaces: Mapping[str, Space],
    window: int,
    epochs: np.ndarray,
    variables: pd.DataFrame,
    X: Tensor | StandardisedChannels,
    lag: int | None = None,
) -> Design:
    """The design for a recording and the spaces of some encoders.

    Spaces that follow time, or whose variables are not there or never change within an epoch, are those without
    variables.

    Parameters
    ----------
    window : time steps that the encoders see.
    X : (time, channel); only its device and the number of its channels matter.
    lag : over which innovations are taken; by default each space has its own, by the pace of its variables.
    """
    values = _values_that_change(spaces, epochs, variables)
    without = tuple(name for name in spaces if name not in values)
    # An encoder may have learned its positives by heart: the embedding may know of time steps so far ahead.
    half, ahead = window // 2, max(space.ahead for space in spaces.values())
    near = 1 + half + ahead
    # Most epochs should have time steps with a past and a future.
    room = int(np.median(np.unique(epochs, return_counts=True)[1])) - (2 * near + half + 2)
    # Each space has a lag of its own. What is new of a slow one after a few time steps is little, and faster ones
    # may tell it: where an animal is heading, and how fast, is where it will be.
    lags = {n: lag or max(1, min(innovation_lag(v, epochs), room // 2)) for n, v in values.items()}
    longest = max(lags.values(), default=1)
    embedding_lag = longest + half + ahead
    back, on = max(embedding_lag + 1 if values else 0, near if without else 0), near if without else 0
    index = np.flatnonzero(same_segment(epochs, back + on)) + back
    for name in values:
        known = spaces[name].known(variables)
        for ago in (0, lags[name], longest, embedding_lag):
            index = index[known[index - ago]]
    index = index[evenly(len(index), limit_time_steps(MOST_TIME_STEPS, X.shape[1]))]
    if len(index) < 4 * HELD_OUT_RUNS:
        raise ValueError(
            f"{len(index)} time steps have all their variables and neighbours within their epoch: unique variance "
            f"needs at least {4 * HELD_OUT_RUNS}. Use a longer recording, longer epochs, or another method."
        )
    columns, inputs = _columns(values, index, lags, embedding_lag, X.device)
    tested = [name for name in values if name in reported(spaces)]
    numbers = {name: value[index] for name, value in values.items() if not spaces[name].categorical}
    return Design(
        index=index,
        lags=lags,
        without_variables=without,
        embedding_lag=embedding_lag,
        neighbour_distance=near,
        reach=back + on,
        columns=columns,
        values=inputs,
        redraws={n: _redraws(n, spaces[n], variables, index, lags[n], inputs[0], columns) for n in tested},
        phases=wave_phases(numbers, inputs[0], columns),
    )


def _values_that_change(
    spaces: Mapping[str, Space], epochs: np.ndarray, variables: pd.DataFrame
) -> dict[str, np.ndarray]:
    """Space -> its values (time, k), for the spaces whose variables are known and change within an epoch."""
    known = {n: s for n, s in spaces.items() if s.variables and set(s.variables) <= set(variables)}
    inside = np.flatnonzero(same_segment(epochs, 1))
    found = {name: space.values(variables) for name, space in known.items()}
    return {n: v for n, v in found.items() if np.nan_to_num(v[inside + 1] - v[inside]).any()}


def _columns(
    values: Mapping[str, np.ndarray],
    index: np.ndarray,
    lags: Mapping[str, int],
    embedding_lag: int,
    device: torch.device,
) -> tuple[tuple[Column, ...], Tensor]:
    """What the columns are, and the columns themselves, those of each role and space white: (1, n, k)."""
    parts: list[tuple[Column, Tensor]] = []
    longest = max(lags.values(), default=1)
    for name, value in values.items():
        present, past, earlier, before = (
            torch.from_numpy(value[index - ago])[None].to(device) for ago in (0, lags[name], longest, embedding_lag)
        )
        parts += [
            (Column(Role.PAST, name), past),
            (Column(Role.INNOVATION, name), present - past),
            (Column(Role.PRESENT, name), present),
        ]
        # The past embedding may have mixed up where the variables were with others.
        parts += [(Column(Role.EARLIER_PAST, name), earlier)] if lags[name] < longest else []
        parts += [(Column(Role.PAST_CHANGE, name), earlier - before)]
    parts = [(column, white(part)) for column, part in parts]
    columns = tuple(column for column, part in parts for _ in range(part.shape[-1]))
    if not parts:
        return columns, torch.zeros(1, len(index), 0, device=device)
    return columns, torch.cat([part for _, part in parts], -1)


def _redraws(
    name: str,
    space: Space,
    variables: pd.DataFrame,
    index: np.ndarray,
    lag: int,
    inputs: Tensor,
    columns: tuple[Column, ...],
) -> Tensor:
    """The innovations of a space redrawn, given its past, that of all others, and the others' innovations."""
    own = which(columns, {Role.INNOVATION}, name)
    masks = (own, which(columns, {Role.PAST}, name), ~which(columns, {Role.PRESENT}) & ~own)
    innovations, past, given = (inputs[:, torch.from_numpy(mask).to(inputs.device)] for mask in masks)
    if space.categorical:
        return exchange_innovations(innovations, past, given, REDRAWS, labels=True)
    return redraw_white_innovations(space, variables, index, lag, past, given, REDRAWS)
