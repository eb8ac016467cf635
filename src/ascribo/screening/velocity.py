"""Changes of variables: which variable is the velocity of another, and do channels carry more of it than that?"""

from __future__ import annotations

import numpy as np

from .diagnostics import Note
from .features import products, standardise
from .questions import AROUND, Variable
from .variables import make_variable

__all__ = ["make_velocity", "moves_smoothly", "path_adds_up_to", "path_tells", "velocity_note"]

PATH_LEAVES, PRESENT_LEAVES = 0.2, 0.5
"""A variable is the change of another if the other's path leaves less of it, and its present more."""
SUM_LEAVES = 0.5
"""Another variable's path adds up to what is new in one if it leaves less of it."""
GOES_ON = 0.5
"""Correlation of neighbouring changes from which on a variable has a velocity."""
NOTHING_ELSE = 0.1
"""A channel carries next to nothing but a velocity if less than this share of its score is left beyond that."""


def path_tells(own: Variable, other: Variable, first: np.ndarray, last: np.ndarray, rows: np.ndarray) -> bool:
    """Whether one variable is a change of another, as velocity is of position, or turning of heading.

    So it is if the other's path around the present tells it, by a regression at some time steps, and the other's
    present does not. Products of present values with changes are in it too: of an angle's cosine and sine they are
    its angular velocity.
    """
    if other.categorical:
        return False
    target, values = own.narrow(8)[rows], other.narrow(8)
    before = [values[np.maximum(rows - lag, first[rows])] for lag in AROUND]
    after = [values[np.minimum(rows + lag, last[rows])] for lag in AROUND]
    changes = [products(values[rows], late - early) for early, late in zip(before, after, strict=True)]
    path, present = _left(target, [values[rows], *before, *after, *changes]), _left(target, [values[rows]])
    return path < PATH_LEAVES and present > PRESENT_LEAVES


def path_adds_up_to(own: Variable, other: Variable, rows: np.ndarray) -> bool:
    """Whether another variable's path tells what is new in one by its sum since the past, as that of its velocity
    does: with the path nothing would be left to ask about.

    rows : some time steps.
    """
    if other.categorical:
        return False
    total, past = np.cumsum(other.narrow(8), axis=0), own.past[rows]
    target = own.narrow(8)[rows] - own.narrow(8)[past]
    return _left(target, [total[rows] - total[past]]) < SUM_LEAVES


def _left(target: np.ndarray, parts: list[np.ndarray]) -> float:
    """Share of the variance of a target (rows, k) that a regression on some columns leaves."""
    design = np.concatenate([np.ones((len(target), 1)), *parts], axis=1)
    error = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
    return float(np.square(error).sum() / max(np.square(target - target.mean(0)).sum(), 1e-12))


def moves_smoothly(values: np.ndarray) -> bool:
    """Whether neighbouring changes of a variable, values (time, k), are alike.

    >>> turn = np.linspace(0, 20, 1000)
    >>> noise = np.random.default_rng(0).standard_normal((1000, 1))
    >>> moves_smoothly(np.cos(turn)[:, None]), moves_smoothly(np.cumsum(noise, axis=0))
    (True, False)
    """
    change = np.diff(values, axis=0)
    return bool((change[1:] * change[:-1]).sum() > GOES_ON * max(np.square(change).sum(), 1e-12))


def make_velocity(variable: Variable, first: np.ndarray, last: np.ndarray, known: np.ndarray) -> Variable | None:
    """The velocity of a variable, half of its change from the step before to the step after; None if it has none.

    first, last : (time,), the first and last step of each step's epoch. known : (time,), where variables are known.
    """
    values, step = variable.values, np.arange(len(first))
    change = (values[np.minimum(step + 1, last)] - values[np.maximum(step - 1, first)]) / 2
    if not np.ptp(change[known], axis=0).all():
        return None
    return make_variable(standardise(np.where(known[:, None], change, np.nan)), False, False, first, known)


def velocity_note(name: str, called: np.ndarray, score: np.ndarray, beyond: np.ndarray | None) -> Note:
    """What to say of a space that has a velocity.

    called : (channel,) booleans. score : (channel,). beyond : (channel,), scores beyond the velocity; None where
    another space is that velocity, or it was not looked at.
    """
    text = (
        "it moves on smoothly, so that its velocity is a function of its path: channels that carry its velocity "
        "are called for it."
    )
    if beyond is not None:
        through = np.count_nonzero(beyond[called] < NOTHING_ELSE * score[called])
        text += (
            f" Of the {np.count_nonzero(called)} called, {through} carry next to nothing else; the column "
            "`beyond_velocity` of `screen` has what is left of each score."
        )
    return Note(name, "has a velocity", f"{text} Give velocity as a space of its own to have calls for both.")
