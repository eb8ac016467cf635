"""The variables of the spaces: how far back their past lies, whether anything is new in them, blocks of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from ..spaces.base import Space
from ..support.compute import in_threads
from .diagnostics import (
    MEASURED_SELDOM,
    TRIALS_NOT_GIVEN,
    Note,
    cut_off,
    held_steps,
    lost_steps,
    regular_length,
)
from .features import dummies, earlier, epoch_starts, fill_missing, standardise
from .measurement_error import measurement_noise, smooth_jointly
from .questions import FAR, MANY, Question, Variable, choose_lag, run_starts
from .regression import Parts, block_sums, put_together, residual_products

__all__ = ["FEWEST", "SHORTEST", "joint_labels", "make_variable", "make_variables", "split_blocks", "too_slow"]

BLOCKS, MOST_BLOCKS = 20, 60
"""Blocks of time; and the most in short recordings, where few blocks leave too much to chance."""
LAGS_IN_A_BLOCK = 16
"""How many times the lag a block of time should last, where the variable allows it: what is new since the past is
not new from one time step to the next, and goes on over a block's edge."""
FEWEST_LAGS, FEWEST_STEPS = 5, 16
"""How many times the lag, and how many time steps, a block lasts at least if there are more of them."""
SHORTEST, FEWEST = 25, 8
"""Time steps of a block, and blocks, below which nothing can be said."""
NEW = 0.05
"""Share of its variance that must be new in a variable for its innovation to be asked about."""
NEW_OF_CHANGE = 0.5
"""Share of its change over the lag that must be new, for a slow variable: that of a random walk is all new."""
SLOW = 0.5
"""Share of a variable's variance that may lie between blocks, for its level to be asked about."""
SELDOM = 0.1
"""Share of time steps with a change, below which a variable stands still most of the time."""
EVENT, EVENTS = 2, 0.3
"""Time steps that an event lasts at most, and the share of a variable's stretches of one value that are so short,
from which on it is a series of events: every other stretch is."""
LOOKED_AT = 5_000
"""Time steps from which it is judged whether a variable has an innovation."""
SHORT_TRIAL = 5
"""Time steps that a trial lasts at least."""
LABELS = 40
MOST_PAIRS = 24
"""Pairs of two spaces' labels, at most, that are conditioned on."""
FEW_VALUES = 5
"""Values up to which a variable is taken for labels: as numbers, events that are rare lie many standard deviations
off, and all their smooth functions are one and the same."""


def make_variables(
    table: pd.DataFrame, spaces: Mapping[str, Space], known: np.ndarray, first: np.ndarray, notes: list[Note]
) -> dict[str, Variable]:
    """The spaces' variables, smoothed where they were measured with error; those that never change are left out.

    known : (time,), time steps at which all are known; those at which one was lost are taken away from it.
    """
    values: dict[str, np.ndarray] = {}
    categorical: dict[str, bool] = {}
    for name, space in spaces.items():
        there = space.known(table)
        own, labels = as_labels(space.values(table).astype(float), there, space.categorical)
        categorical[name] = labels
        if not labels and (lost := lost_steps(np.where(there[:, None], own, np.nan))).any():
            text = (
                f"one and the same value comes in {lost.mean():.0%} of time steps, most others come once, and it "
                "leaps there: it seems to have been lost then, and these time steps were left out. Set the value "
                "to NaN where it is not known."
            )
            notes.append(Note(name, "lost at times", text))
            there = there & ~lost
            known &= there
        if not labels and (held := held_steps(np.where(there[:, None], own, np.nan))).any():
            text = (
                f"it stays at one value again and again, in {held.mean():.0%} of time steps, and leaps when it "
                "goes on: it seems to have been lost then and its last value repeated, and these time steps were "
                "left out. Set the value to NaN where it is not known."
            )
            notes.append(Note(name, "lost at times", text))
            there = there & ~held
            known &= there
        if not labels and (share := max(cut_off(column) for column in own[there].T)):
            text = (
                f"'{name}' seems to be cut off at its largest or smallest value, in {share:.0%} of time steps: "
                "what it was then is not known, and channels that carry it may be called for this one, if the two "
                f"move together. Leave these time steps out (NaN), or measure '{name}' further."
            )
            notes += [Note(other, "another cut off", text) for other in spaces if other != name]
        own = own if labels else standardise(np.where(there[:, None], own, np.nan))
        own = fill_missing(own, there, first, between=not labels)
        if known.sum() == 0 or not np.ptp(own[known], axis=0).any():
            together = " where those of all spaces are known" if there.any() else ""
            text = (
                f"its variables are missing everywhere or never change{together}: nothing can be asked. Check them."
            )
            notes.append(Note(name, "no variation", text))
            continue
        if labels and own.shape[1] > LABELS:
            text = f"it has {own.shape[1]} labels: all but {LABELS - 1} are taken together. Pool them by meaning."
            notes.append(Note(name, "many labels", text))
        values[name] = dummies(own, LABELS) if labels else own
    starts = {name: run_starts(own, first) for name, own in values.items()}
    seldom = {name: changes_seldom(each) for name, each in starts.items()}
    for name, own in values.items():
        notes += note_regularity(name, own, starts[name], seldom[name] or categorical[name], first)
    smooth = [name for name in values if not categorical[name] and not seldom[name]]
    if smooth:
        together = np.concatenate([values[name] for name in smooth], axis=1)
        noise = measurement_noise(together, first)
        cleaned = standardise(smooth_jointly(together, noise, first)) if noise.any() else together
        at = 0
        for name in smooth:
            part = slice(at, at := at + values[name].shape[1])
            values[name] = cleaned[:, part]
            if noise[part].any():
                share = np.sqrt(noise[part].max())
                text = (
                    f"its variables were measured with error, about {share:.0%} of their standard deviation: all "
                    "variables were smoothed together. Fast changes are lost; a better measurement would keep them."
                )
                notes.append(Note(name, "measured with error", text))

    def make(name: str) -> Variable:
        return make_variable(values[name], categorical[name], seldom[name], first, known)

    return dict(zip(values, in_threads(make, values), strict=True))


def note_regularity(
    name: str, values: np.ndarray, starts: np.ndarray, seldom: bool, first: np.ndarray
) -> list[Note]:
    """A note if a variable changes every so many time steps, as by trials that were not given, or if it was
    measured every so many.

    starts : (time,), the first step of each step's run of equal values. seldom : it stands still most of the time.
    """
    length = regular_length(epoch_starts(starts))
    if seldom:
        trials = length >= SHORT_TRIAL and len(epoch_starts(first)) < MANY
        return [Note(name, "trials not given", TRIALS_NOT_GIVEN.format(length=length))] if trials else []
    how = "kept until the next"
    if not length and len(values) > 1:
        slope = np.diff(values, axis=0)
        turns = np.abs(np.diff(slope, axis=0)).max(1) > 1e-6 * np.abs(slope).max()
        length, how = (
            regular_length(np.flatnonzero(np.r_[True, turns])),
            "put on straight lines between",
        )
    return [Note(name, "measured seldom", MEASURED_SELDOM.format(length=length, how=how))] if length else []


def changes_seldom(starts: np.ndarray) -> bool:
    """Whether a variable stands still most of the time, as labels of trials do. Events that are soon over do not.

    starts : (time,), the first step of each step's run of equal values.

    >>> changes_seldom(np.repeat([0, 50, 100], 50)), changes_seldom(np.r_[np.zeros(99, int), 99, np.full(99, 100)])
    (True, False)
    """
    begin = epoch_starts(starts)
    lasts = np.diff(np.r_[begin, len(starts)])
    return len(begin) < SELDOM * len(starts) and bool(np.mean(lasts <= EVENT) < EVENTS)


def as_labels(values: np.ndarray, known: np.ndarray, categorical: bool) -> tuple[np.ndarray, bool]:
    """A column for each label, if these are labels or a variable of few values, else the values; and which it is.

    values : (time, k). known : (time,), where they are.

    >>> as_labels(np.array([[0.0], [2.0], [np.nan]]), np.array([True, True, False]), False)
    (array([[1., 0.],
           [0., 1.],
           [0., 0.]]), True)
    """
    if categorical or values.shape[1] > 1:
        return values, categorical
    different = np.unique(values[known])
    if len(different) > FEW_VALUES:
        return values, False
    return (values == different).astype(float), True


def make_variable(
    values: np.ndarray, categorical: bool, seldom: bool, first: np.ndarray, known: np.ndarray
) -> Variable:
    """A variable: how far back its past lies, and whether its innovation can be asked about.

    values : (time, k). seldom : see `Variable`. known : (time,), time steps that are looked at.
    """
    lag = choose_lag(values, first)
    rows = np.flatnonzero(known)
    near = max(1, len(rows) // (BLOCKS * LAGS_IN_A_BLOCK))
    rows = rows[:: max(1, len(rows) // LOOKED_AT)]
    for each in sorted({min(lag, near, FAR), min(lag, FAR), lag}):
        own = Variable(values, categorical, earlier(first, each), each, True, seldom)
        if _has_innovation(own, rows, first):
            return own
    return replace(own, innovation=False)


def joint_labels(one: Variable, two: Variable, first: np.ndarray, known: np.ndarray) -> Variable | None:
    """The pairs of two labels as labels of their own: channels may tell which two go together. None where they are
    no labels, or too many."""
    if not (one.categorical and two.categorical):
        return None
    different, which = np.unique(np.concatenate([one.values, two.values], axis=1), axis=0, return_inverse=True)
    if len(different) > MOST_PAIRS:
        return None
    pairs = dummies((which.reshape(-1, 1) == np.arange(len(different))).astype(float), LABELS)
    return make_variable(pairs, True, one.seldom and two.seldom, first, known)


def _has_innovation(own: Variable, rows: np.ndarray, first: np.ndarray) -> bool:
    """Whether enough is new in a variable since its past, by a regression at some time steps."""
    values = own.values
    alone = Question(own, {}, None, np.zeros((len(values), 1), np.float32), first, first)

    def parts(some: np.ndarray) -> Parts:
        return put_together(alone.given(some), [], [values[some]], values[some][:, :1])

    sums = block_sums(parts, np.array_split(rows, 2))
    left, total = np.trace(residual_products(sums)), sum(np.trace(each) for each in sums.ff)
    left /= max(1 - len(sums.zz[0]) / sums.steps, 0.2)  # what so many features tell by chance
    change = np.square(values[rows] - values[own.past[rows]]).sum()
    return bool(left > NEW * total or left > NEW_OF_CHANGE * change > 0)


def split_blocks(
    variable: Variable, known: np.ndarray, first: np.ndarray, name: str, notes: list[Note]
) -> list[np.ndarray]:
    """Blocks of time steps whose variables are known; runs of equal values of a variable that seldom changes are
    not cut. None where there is too little of either."""
    rows = np.flatnonzero(known & known[variable.past])
    unit = np.arange(len(rows))
    if variable.seldom and len(rows):
        run = run_starts(variable.values, first)[rows]
        unit = np.cumsum(np.r_[0, np.diff(run) != 0])
        if unit[-1] + 1 < 2 * BLOCKS:
            text = (
                f"it changes too seldom: {unit[-1] + 1} stretches of one value. Fewer than {2 * FEWEST} cannot be "
                f"tested, and with fewer than {2 * BLOCKS} little is found. Record more trials."
            )
            notes.append(Note(name, "changes too seldom", text))
    blocks = min(_many(variable, len(rows)), (unit[-1] + 1) // 2 if len(rows) else 0)
    if blocks < BLOCKS and len(rows) < BLOCKS * SHORTEST:
        text = f"only {len(rows)} time steps can be used: too short, {BLOCKS * SHORTEST} or more are needed."
        if (there := np.count_nonzero(known)) > 2 * len(rows):
            text += (
                f" Values are known at {there}, but seldom also a moment before, as they have to be: fill short "
                "gaps in between."
            )
        notes.append(Note(name, "too short", text))
    if blocks < FEWEST:
        return []
    place = np.cumsum(np.r_[True, np.diff(unit) != 0]) - 1  # runs, counted
    middle = (np.searchsorted(place, place, "left") * blocks) // len(rows)
    return [part for k in range(blocks) if len(part := rows[middle == k])]


def _many(variable: Variable, steps: int) -> int:
    """Blocks that a recording of some time steps allows: more of them where it is short, and what is new in the
    variable is soon over."""
    short = BLOCKS * SHORTEST <= steps < BLOCKS * LAGS_IN_A_BLOCK * FAR
    if not short or not variable.innovation or variable.seldom:
        return min(BLOCKS, steps // SHORTEST)
    return int(np.clip(steps // max(FEWEST_LAGS * variable.lag, FEWEST_STEPS), BLOCKS, MOST_BLOCKS))


def too_slow(values: np.ndarray, blocks: list[np.ndarray]) -> bool:
    """Whether most of the variance lies between blocks."""
    used = np.concatenate([values[rows] for rows in blocks])
    between = sum(len(rows) * np.square(values[rows].mean(0) - used.mean(0)).sum() for rows in blocks)
    return bool(between > SLOW * np.square(used - used.mean(0)).sum())
