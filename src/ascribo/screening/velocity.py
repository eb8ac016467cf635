"""Variables that move on smoothly have a velocity: do channels carry more of them than that?"""

from __future__ import annotations

import numpy as np

from .diagnostics import Note
from .features import standardise
from .questions import Variable
from .variables import make_variable

__all__ = ["make_velocity", "moves_smoothly", "velocity_note"]

GOES_ON = 0.5
"""Correlation of neighbouring changes from which on a variable has a velocity."""
NOTHING_ELSE = 0.1
"""A channel carries next to nothing but a velocity if less than this share of its score is left beyond that."""


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
