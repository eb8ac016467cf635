"""What is looked at before anything is asked: which variables tell which others, which of them channels respond to
late or run ahead of, to which their tuning changes through the session, and which were measured coarsely."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ..support.compute import in_threads, side_by_side
from .diagnostics import (
    MEASURED_COARSELY,
    TUNING_CHANGES,
    Note,
    is_coarse,
    table_of_functions,
    tuning_changes,
)
from .features import averages, earlier
from .late_responses import ANOTHER_AHEAD, LATE_RESPONSES, early_leads, late_lags
from .questions import Variable
from .variables import FEWEST, SHORTEST

__all__ = ["LOOKED_AT", "FirstLook", "first_look"]

LOOKED_AT = 5_000
"""Time steps that are looked at."""
OUTLASTING = (5.0, 20.0)
"""Time steps over which functions of variables that channels respond to late are averaged."""
RELATED = 0.1
"""Share of a space that another must tell for it to matter how coarsely that was measured."""
Found = TypeVar("Found")


@dataclass(frozen=True)
class FirstLook:
    """What a first look finds.

    variables : with what is to be known of them. functions : (a, b) -> share of space b that a tells. notes : about
    them.
    """

    variables: dict[str, Variable]
    functions: dict[tuple[str, str], float]
    notes: list[Note]


def first_look(
    variables: Mapping[str, Variable], known: np.ndarray, first: np.ndarray, last: np.ndarray, scores: np.ndarray
) -> FirstLook:
    """Look at the variables and at how channels are tuned to them.

    known : (time,), time steps at which all are known. first, last : of each step's epoch. scores : normal scores,
    (time, channel).
    """
    values = {name: each.values[known] for name, each in variables.items()}
    few = np.flatnonzero(known)
    few = few[:: max(1, len(few) // LOOKED_AT)]
    some = np.ascontiguousarray(scores[few])
    enough, alone = known.sum() >= FEWEST * SHORTEST, len(variables) < 2
    timed = [name for name, each in variables.items() if each.innovation and not each.seldom and enough]
    tuned = [name for name, each in variables.items() if not each.categorical and enough and not alone]

    def changes(name: str) -> bool:
        own = variables[name]
        return tuning_changes(own.fine_functions(few, 4), own.changing_functions(few, len(first), 4), some, few)

    def ahead(name: str) -> tuple[tuple[int, ...], int]:
        return early_leads(variables[name], some[::2], last, few[::2])

    functions, late, early, changed = side_by_side(
        lambda: table_of_functions(values),
        lambda: _of_each(lambda name: late_lags(variables[name], some, first, few), timed),
        lambda: _of_each(ahead, () if alone else timed),
        lambda: _of_each(changes, tuned),
    )
    out, notes = dict(variables), []
    for name, (lags, channels) in late.items():
        if lags:  # what is new in it is new since before then
            lag = out[name].lag + lags[-1]
            functions_of_it = out[name].functions(np.arange(len(first)), 4, 3.0)
            told = averages(functions_of_it, OUTLASTING, first)  # by what outlasts it
            out[name] = replace(out[name], past=earlier(first, lag), lag=lag, late=lags, averages=tuple(told))
            notes.append(Note(name, "late responses", LATE_RESPONSES.format(found=channels, longest=lags[-1])))
    for name, (leads, _) in early.items():
        if leads:
            out[name] = replace(out[name], early=leads)
            text = ANOTHER_AHEAD.format(other=name, longest=leads[-1])
            notes += [Note(other, "another ahead", text) for other in variables if other != name]
    for name in variables:
        told = [pair for pair, share in functions.items() if share > RELATED and name in pair]
        if told and not variables[name].categorical and is_coarse(variables[name].values):
            (other,) = {*told[0]} - {name}
            notes.append(Note(name, "measured coarsely", MEASURED_COARSELY.format(other=other)))
        if changed.get(name):
            out[name] = replace(out[name], wanders=True)
            notes.append(Note(name, "tuning changes", TUNING_CHANGES))
    return FirstLook(out, functions, notes)


def _of_each(look: Callable[[str], Found], names: Iterable[str]) -> dict[str, Found]:
    names = list(names)
    return dict(zip(names, in_threads(look, names), strict=True))
