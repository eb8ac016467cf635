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
from .trials import exchange_trials, why_not_exchangeable
from .whitening import white

__all__ = ["BLOCKS", "FOLDS", "HELD_OUT_RUNS", "Design", "make_design"]

FOLDS = 2
HELD_OUT_RUNS = 20
"""Runs of neighbouring time steps that are held out, by the folds in turn."""
MOST_LABELS = 100
"""Labels that have a column of their own, at most. The rarer ones share these columns, in turn."""
MOST_TIME_STEPS = 100_000
"""Time steps of a recording that its decoders are fitted to and scored on, at most."""
REDRAWS = 4
"""Times that the innovations of a space are redrawn."""
BLOCKS = (5, 40)
"""Fewest and most blocks of time that the spread of a score is judged by."""
LAGS_PER_BLOCK = 10
"""A block has at least this many lags. Where there is nothing to find, blocks of as few as five are uncorrelated:
redrawn innovations have no memory."""
MOST_MISMATCH, MOST_RATIO = 0.025, 1.75
"""Redrawn variables that go with others otherwise than the variables did are no basis for a test: a total variation
so much larger than chance makes it, and so many times as large. (Walks that have nothing to do with each other: up
to 0.03 and 1.6; b = sin 2πa and a little: 0.06 and 3.)"""


@dataclass(frozen=True)
class Design:
    """What the variables decide.

    Attributes
    ----------
    index : (n,), the time steps of the test. fold, block : (n,), the fold that holds each of them out, and the
        block of time it is in.
    lags : space -> the time steps over which its innovation is taken, for the spaces whose variables change within
        an epoch.
    without_variables : the spaces that follow time, or whose variables are not there.
    embedding_lag : how far back the past embedding is taken, which knows nothing of an innovation.
    neighbour_distance : how far off the neighbours are whose embedding does not know a channel's own noise.
    reach : time steps back and ahead that a row has to do with, together.
    columns : what the k columns of `values` are. values : (1, n, k), white.
    redraws : space -> its innovations redrawn, white as they are in `values`, (draw, n, own columns).
    trial_redraws : space whose variables never change within an epoch -> its values with epochs exchanged,
    likewise.
    elsewhere : (n,), for each row another one of its fold, at random: what is known there is known of nothing here.
    undecided : space -> why its test would mean nothing.
    phases : (k, w) or None, phases of waves as a linear map of `values`; see `wave_phases`.
    """

    index: np.ndarray
    fold: np.ndarray
    block: np.ndarray
    lags: dict[str, int]
    without_variables: tuple[str, ...]
    embedding_lag: int
    neighbour_distance: int
    reach: int
    columns: tuple[Column, ...]
    values: Tensor
    redraws: dict[str, Tensor]
    trial_redraws: dict[str, Tensor]
    elsewhere: np.ndarray
    undecided: dict[str, str]
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

    Spaces that follow time, or whose variables are not there, are those without variables.

    Parameters
    ----------
    window : time steps that the encoders see.
    X : (time, channel); only its device and the number of its channels matter.
    lag : over which innovations are taken; by default each space has its own, by the pace of its variables.
    """
    changing, constant = _values(spaces, epochs, variables)
    values = {**changing, **constant}
    without = tuple(name for name in spaces if name not in values)
    # An encoder may have learned its positives by heart: the embedding may know of time steps so far ahead.
    half, ahead = window // 2, max(space.ahead for space in spaces.values())
    near = 1 + half + ahead
    # Most epochs should have time steps with a past and a future.
    room = int(np.median(np.unique(epochs, return_counts=True)[1])) - (2 * near + half + 2)
    # Each space has a lag of its own. What is new of a slow one after a few time steps is little, and faster ones
    # may tell it: where an animal is heading, and how fast, is where it will be.
    lags = {n: lag or max(1, min(innovation_lag(v, epochs), room // 2)) for n, v in changing.items()}
    longest = max(lags.values(), default=1)
    embedding_lag = longest + half + ahead
    back, on = max(embedding_lag + 1 if changing else 0, near if without else 0), near if without else 0
    index = np.flatnonzero(same_segment(epochs, back + on)) + back
    for name in values:
        known = spaces[name].known(variables)
        for ago in (0, lags[name], longest, embedding_lag) if name in lags else (0,):
            index = index[known[index - ago]]
    index = index[evenly(len(index), limit_time_steps(MOST_TIME_STEPS, X.shape[1]))]
    if len(index) < 4 * HELD_OUT_RUNS:
        raise ValueError(
            f"{len(index)} time steps have all their variables and neighbours within their epoch: unique variance "
            f"needs at least {4 * HELD_OUT_RUNS}. Use a longer recording, longer epochs, or another method."
        )
    # A label of a whole trial is known from any part of it: then a trial is in one fold and one block.
    unit = np.arange(len(index))
    if constant:
        unit = np.cumsum(np.r_[False, epochs[index][1:] != epochs[index][:-1]])
    units = int(unit[-1]) + 1
    fold = unit * HELD_OUT_RUNS // units % FOLDS
    blocks = np.clip(len(index) // (LAGS_PER_BLOCK * longest), *BLOCKS)
    blocks = int(np.clip(units // 2, 1, blocks)) if constant else int(blocks)
    columns, inputs = _columns(values, index, lags, embedding_lag, X.device)
    numbers = {name: value[index] for name, value in changing.items() if not spaces[name].categorical}
    on_device = torch.from_numpy(fold).to(X.device)
    redraws, trial_redraws, undecided = {}, {}, {}
    for name in (name for name in values if name in reported(spaces)):
        if name in constant:
            own = inputs[0][:, torch.from_numpy(which(columns, {Role.PRESENT}, name)).to(X.device)]
            others = {other: value[index] for other, value in values.items() if other != name}
            trial_redraws[name] = exchange_trials(own, unit, fold, REDRAWS)
            if why := why_not_exchangeable(values[name][index], others, unit):
                undecided[name] = why
            continue
        others = [torch.from_numpy(v).to(X.device, torch.float64) for n, v in numbers.items() if n != name]
        beside = torch.cat(others, 1) if others else None
        given = (name, spaces[name], variables, index, lags[name], inputs[0], columns)
        redraws[name], (found, chance) = _redraws(*given, on_device, beside)
        if found - chance > MOST_MISMATCH and found > MOST_RATIO * chance:
            undecided[name] = (
                "what it could have been at each moment cannot be told from the other variables: it is nearly a "
                "function of them, or something that was not recorded moves them together. Give such variables one "
                "space, or leave one of them out"
            )
    shuffled = np.random.default_rng(0).permutation(len(index))
    elsewhere = np.empty(len(index), dtype=np.int64)
    for k in range(FOLDS):
        elsewhere[fold == k] = shuffled[fold[shuffled] == k]
    return Design(
        index=index,
        fold=fold,
        block=unit * blocks // units,
        lags=lags,
        without_variables=without,
        embedding_lag=embedding_lag,
        neighbour_distance=near,
        reach=back + on,
        columns=columns,
        values=inputs,
        redraws=redraws,
        trial_redraws=trial_redraws,
        elsewhere=elsewhere,
        undecided=undecided,
        phases=wave_phases(numbers, inputs[0], columns),
    )


def _values(
    spaces: Mapping[str, Space], epochs: np.ndarray, variables: pd.DataFrame
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Space -> its values (time, k), for the spaces whose variables are known and change: within an epoch, or from
    one epoch to another only."""
    changing, constant = {}, {}
    inside = np.flatnonzero(same_segment(epochs, 1))
    for name, space in spaces.items():
        if not space.variables or not set(space.variables) <= set(variables):
            continue
        value = space.values(variables)
        value = _share_columns(value) if space.categorical else value
        if np.nan_to_num(value[inside + 1] - value[inside]).any():
            changing[name] = value
        elif len(np.unique(value[space.known(variables)], axis=0)) > 1:
            constant[name] = value
    return changing, constant


def _share_columns(labels: np.ndarray) -> np.ndarray:
    """A column for each label, (time, k), as at most `MOST_LABELS` columns: the rarer labels share them, in turn.

    What a column stands for is known from the label alone, so a test with fewer columns is as right as one with
    all.

    >>> _share_columns(np.eye(500, dtype=np.float32)).shape
    (500, 100)
    """
    if labels.shape[1] <= MOST_LABELS:
        return labels
    order = np.argsort(-labels.sum(0), kind="stable")
    out = np.zeros((len(labels), MOST_LABELS), dtype=labels.dtype)
    for first in range(0, len(order), MOST_LABELS):
        own = order[first : first + MOST_LABELS]
        out[:, : len(own)] += labels[:, own]
    return out


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
        if name not in lags:
            own = torch.from_numpy(value[index])[None].to(device)
            parts += [(Column(Role.PAST, name), own), (Column(Role.PRESENT, name), own)]
            continue
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
    fold: Tensor,
    beside: Tensor | None,
) -> tuple[Tensor, tuple[float, float]]:
    """The innovations of a space redrawn, given its past, that of all others, and the others' innovations; and the
    mismatch of what is drawn."""
    own = which(columns, {Role.INNOVATION}, name)
    masks = (own, which(columns, {Role.PAST}, name), ~which(columns, {Role.PRESENT}) & ~own)
    innovations, past, given = (inputs[:, torch.from_numpy(mask).to(inputs.device)] for mask in masks)
    if space.categorical:
        return exchange_innovations(innovations, past, given, REDRAWS, labels=True, fold=fold), (0.0, 0.0)
    return redraw_white_innovations(space, variables, index, lag, past, given, REDRAWS, fold=fold, beside=beside)
