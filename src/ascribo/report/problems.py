"""What about a recording or a fit may mislead, each with what to do about it.

A problem is a dict: grade ("bad", "care" or "note"), title, text, and do, what to do.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..attribution.maps import AttributionMaps
from ..data.mapped_files import take_rows
from ..data.recording import Recording
from ..data.segments import evenly
from ..model.estimator import ContrastiveEmbedding
from ..model.number_of_seeds import AGREE
from ..spaces.base import Space
from ..support.names import plural
from .words import listed, percent, short

__all__ = [
    "LOOKED_FOR",
    "find_problems",
    "variables_that_go_together",
    "variables_that_lag",
    "variables_that_stand_still",
]

LOOKED_FOR = (
    "spaces at chance, seeds that disagree, recordings too short to test, missing values, constant and silent "
    "channels, variables that stand still for long, variables that tell each other, variables that lag behind the "
    "channels or run ahead of them, spaces that could not be tested, and spaces that every channel is called for"
)
MUCH_MISSING = 0.1
TOGETHER, NEARLY_ONE = 0.5, 0.9
"""Shares of one space's variance that another tells, from which on it is said, and is serious."""
LAG_STEPS, LAG_GAIN = 100, 1.25
"""Time steps that variables may lag by, and how much more they must tell there."""
LEAST_TOLD = 0.02
"""Share of a variable's variance that the channels must tell at the best lag for a lag to mean anything."""
STILL = 0.2
"""Share of the recording that a variable may have one value for, on end, before it is said."""
ROWS = 20_000
FEW_BLOCKS = 15

Problem = dict[str, str]

NOTE_TITLES = {
    "a change": "{name} is a change of another variable, or another is its change",
    "another ahead": "channels run ahead of a variable beside {name}, or drive it",
    "another cut off": "a variable beside {name} seems to be cut off",
    "changes too seldom": "{name} changes too seldom",
    "channels ahead": "channels run ahead of {name}",
    "has a velocity": "channels that carry the velocity of {name} may be called for it",
    "hidden company": "something hidden may move with {name}",
    "lost at times": "the tracker of {name} seems to be lost at times",
    "many labels": "{name} has many labels",
    "measured coarsely": "{name} was rounded to few values",
    "measured seldom": "{name} was measured only now and then",
    "measured with error": "{name} was measured with error",
    "nearly a function": "another variable tells nearly all of {name}",
    "no innovation": "{name} goes on as its past says",
    "no variation": "{name} does not vary",
    "one thing twice": "{name} and another variable may be one thing, measured twice",
    "redundant": "another variable says the same as {name}",
    "slow responses": "some channels respond slowly to {name}",
    "late responses": "some channels respond late to {name}",
    "time in trial": "{name} goes along with the time in the trial",
    "too quiet": "some channels are too quiet to be asked about {name}",
    "too short": "the recording is short for {name}",
    "too slow": "{name} is slow",
    "trials not given": "{name} changes with trials that were not given",
    "tuning changes": "tuning to {name} changes in the course of the recording",
}
"""What the kinds of notes of `ascribo.screening` are called here, where a reader meets them for the first time."""


def find_problems(
    model: ContrastiveEmbedding,
    recording: Recording,
    maps: AttributionMaps,
    calls: pd.DataFrame | None,
    agreement: Sequence[Mapping[str, Any]],
) -> list[Problem]:
    """All that was found, the gravest first. recording : with the channels that the model uses."""
    spaces = model.model_.spaces
    unknown = {*maps.undecided, *maps.refused}
    decided = any(spaces[name].variables for name in maps.tested if name not in unknown)
    collapsed = {r["space"] for r in model.goodness_of_fit_.to_dict("records") if r["collapsed"]}
    found = [
        *_of_the_fit(model, agreement, decided),
        *_of_the_test(maps, calls, collapsed),
        *_of_the_recording(model, recording),
        *_of_variables(spaces, recording),
    ]
    return sorted(found, key=lambda problem: ("bad", "care", "note").index(problem["grade"]))


def _problem(grade: str, title: str, text: str, do: str) -> Problem:
    return {"grade": grade, "title": title, "text": text, "do": do}


def _of_the_fit(
    model: ContrastiveEmbedding, agreement: Sequence[Mapping[str, Any]], decided: bool
) -> Iterator[Problem]:
    """decided : whether there is a space with variables that was tested."""
    for row in model.goodness_of_fit_.to_dict("records"):
        name, space = short(row["space"]), model.model_.spaces[row["space"]]
        if row["collapsed"]:
            variables = bool(space.variables)
            yield _problem(
                "note" if variables or decided else "bad",
                f"{name} is at chance",
                "On time that was held out, this part of the embedding tells no more than chance. "
                + (
                    "Calls for it rest on its variables, not on the embedding."
                    if variables
                    else "It has no map. Perhaps nothing else moves smoothly in time; calls for variables stand."
                ),
                "To use its embedding, try fewer dimensions, more seeds or a longer recording.",
            )
        elif not model.model_.usable[:, list(model.model_.spaces).index(row["space"])].all():
            yield _problem(
                "note",
                f"{name} is at chance in some seeds",
                "Those seeds do not count for it.",
                "Fit more seeds if few are left.",
            )
    if not np.all(model.goodness_of_fit_["held_out"]):
        yield _problem(
            "care",
            "no time was held out",
            "Bits above chance were measured on the training data, where they are too high.",
            "Record for longer, or set validation_fraction above zero.",
        )
    if model.model_.seeds == 1:
        yield _problem(
            "note",
            "one seed",
            "With one model nothing can be said about how stable the embedding is.",
            'Fit with seeds=2 or more, or seeds="auto".',
        )
    for row in agreement:
        if row["embedding"] is not None and row["embedding"]["lowest"] < AGREE:
            yield _problem(
                "care",
                f"seeds disagree on {short(row['space'])}",
                f"Two models of the same data share only {percent(max(0.0, row['embedding']['lowest']))} of the "
                "variance of this part of the embedding.",
                "Do not read shapes into its picture. Train for longer, or give it fewer dimensions.",
            )


def _of_the_test(
    maps: AttributionMaps, calls: pd.DataFrame | None, collapsed: Collection[str]
) -> Iterator[Problem]:
    """collapsed : spaces at chance, of which this is said already."""
    for what, reasons in (("has no test", maps.untested), ("could not be decided", maps.undecided)):
        for name, why in reasons.items():
            reason, _, do = why.rpartition(". ")  # those that could not be decided end with what to do
            advice = _sentence(do) if reason and name in maps.undecided else "Read its scores as a first look."
            reason = reason if reason and name in maps.undecided else why
            yield _problem("care", f"{short(name)} {what}", _sentence(reason), advice)
    for name, notes in maps.notes.items():
        for kind, text in notes.items():
            if name not in maps.undecided:
                what, _, do = text.rpartition(". ")
                title = NOTE_TITLES.get(kind, f"{{name}}: {kind}").replace("{name}", short(name))
                yield _problem("care", title, _sentence(what or do), _sentence(do))
    for name, why in maps.refused.items():
        if name in collapsed:
            continue
        yield _problem("bad", f"{short(name)} has no map", _sentence(why), "Leave it out, or change its space.")
    if maps.rank_deficient > 0.5:
        yield _problem(
            "care",
            "much of the recording is not in the map",
            f"{percent(maps.rank_deficient)} of the samples have a Jacobian without an inverse.",
            "Use method='unique_variance' or 'generative_gradient'.",
        )
    if maps.blocks is not None and maps.blocks.sizes["block"] < FEW_BLOCKS:
        yield _problem(
            "care",
            "short for its pace",
            f"Variables change so slowly that the recording has only {maps.blocks.sizes['block']} blocks of "
            "time to judge by: few channels can be told from chance.",
            "Record for longer.",
        )
    if calls is None:
        return
    for name, own in calls.groupby("space", sort=False):
        tested, called = np.isfinite(own["q"]).any(), own["called"].to_numpy()
        if tested and called.all() and len(own) > 3:
            yield _problem(
                "note",
                f"every channel is called for {short(name)}",
                "Either all carry it, or something that all share, such as movement or drift, goes with it.",
                "Look at the scores rather than at the calls, and at what else moves at that time.",
            )
        elif tested and not called.any():
            yield _problem(
                "note",
                f"no channel is called for {short(name)}",
                f"The smallest q is {own['q'].min():.2g}. This is no proof that none carries it.",
                "Look at the widths of the intervals: they say what could have been found.",
            )


def _of_the_recording(model: ContrastiveEmbedding, recording: Recording) -> Iterator[Problem]:
    dropped = model.n_features_in_ - len(model.kept_channels_)
    if dropped:
        yield _problem(
            "note",
            f"{dropped} constant channel{plural(dropped)} left out",
            "Channels that never change carry nothing.",
            "Check that they were connected.",
        )
    index = evenly(len(recording), ROWS)
    X = take_rows(recording.X, index)
    commonest = np.median(X, axis=0)
    silent = [
        recording.channel_names[k] for k in np.flatnonzero((X == commonest).mean(0) > 0.99) if len(index) > 200
    ]
    if silent:
        yield _problem(
            "note",
            f"{len(silent)} nearly silent channel{plural(len(silent))}",
            f"{listed([short(name, 24) for name in silent])} hold the same value over 99% of the time: little "
            "can be found in them.",
            "Leave them out, or use wider bins.",
        )
    for row in model.goodness_of_fit_.to_dict("records"):
        share = row["left_out"] / max(1, len(recording))
        if share > 0:
            yield _problem(
                "care" if share > MUCH_MISSING else "note",
                f"{percent(share)} of the time steps left out for {short(row['space'])}",
                f"Its variables are missing at {int(row['left_out']):,} time steps.",
                "Check why. If they are missing when something special happens, the answer is not about that.",
            )


def _of_variables(spaces: Mapping[str, Space], recording: Recording) -> Iterator[Problem]:
    still: dict[str, list[str]] = {}
    for name, share in variables_that_stand_still(spaces, recording):
        still.setdefault(percent(share), []).append(short(name, 24))
    for share, names in still.items():
        yield _problem(
            "care",
            f"{listed(names)} stand{'' if len(names) > 1 else 's'} still for {share} of the time",
            f"For {share} of the recording, without a break, there is one value only: perhaps the tracker was "
            "lost, or the animal was elsewhere. Channels that differ between then and the rest may be called.",
            "If so, set it to NaN there, or leave this time out.",
        )
    for one, other, share in variables_that_go_together(spaces, recording):
        yield _problem(
            "bad" if share > NEARLY_ONE else "care",
            f"{short(one, 24)} and {short(other, 24)} go together",
            f"{short(one)} tells {percent(share)} of the variance of {short(other)}. What they share cannot "
            "be given to one of them.",
            "Call only what their innovations tell apart; an experiment that varies them on their own would help.",
        )
    step = _time_step(recording)
    for name, lag in variables_that_lag(spaces, recording):
        how = f"{abs(lag)} time step{plural(abs(lag))}" + (
            f" ({abs(lag) * step:.3g} in units of time)" if step else ""
        )
        yield _problem(
            "care",
            f"{short(name)} {'lags behind' if lag > 0 else 'runs ahead of'} the channels",
            f"The channels tell most about {short(name)} {how} {'later' if lag > 0 else 'earlier'}.",
            "Shift it by that much, if a delay of this size makes sense, and fit again.",
        )


def variables_that_stand_still(spaces: Mapping[str, Space], recording: Recording) -> list[tuple[str, float]]:
    """Variables that vary, but have one and the same value over a large share of the recording on end."""
    found = []
    for name in dict.fromkeys(v for s in spaces.values() if not s.categorical for v in s.variables):
        if name in recording.variables:
            values = recording.variables[name].to_numpy(dtype=float, na_value=np.nan)
            moves = np.flatnonzero(np.r_[True, np.diff(values) != 0, True])  # NaN is no value that stands still
            longest = int(np.diff(moves).max()) / max(1, len(values))
            if STILL < longest < 1.0:
                found.append((str(name), longest))
    return found


def variables_that_go_together(spaces: Mapping[str, Space], recording: Recording) -> list[tuple[str, str, float]]:
    """Pairs of spaces of which one tells much of the other's variance, by a linear map: (one, other, share)."""
    values = _values(spaces, recording)
    found = []
    for one, x in values.items():
        for other, y in values.items():
            share = _told(x, y) if one != other else 0.0
            if share > TOGETHER:
                found.append((one, other, share))
    best: dict[frozenset[str], tuple[str, str, float]] = {}
    for pair in found:  # of both directions the stronger
        key = frozenset(pair[:2])
        if key not in best or pair[2] > best[key][2]:
            best[key] = pair
    return list(best.values())


def variables_that_lag(spaces: Mapping[str, Space], recording: Recording) -> list[tuple[str, int]]:
    """Spaces whose variables the channels tell best some time steps later (positive) or earlier, and how many.

    The channels' leading principal components predict the variables by a linear map at every lag; halves of time
    must agree on the side.
    """
    length = len(recording)
    most = min(LAG_STEPS, length // 20)
    if most < 2:
        return []
    start, stop = most, length - most
    index = start + evenly(stop - start, ROWS)
    index = index[recording.epochs[index - most] == recording.epochs[index + most]]
    if len(index) < 500:
        return []
    X = _leading(recording.X, index)
    lags = np.unique(np.r_[0, np.geomspace(1, most, 16).astype(int)])
    lags = np.r_[-lags[:0:-1], lags]
    found = []
    for name, space in spaces.items():
        if not space.variables or space.categorical or not set(space.variables) <= set(recording.variables):
            continue
        values = space.values(recording.variables)
        halves = [index[: len(index) // 2], index[len(index) // 2 :]]
        parts = [X[: len(index) // 2], X[len(index) // 2 :]]
        told = np.array(
            [[_told(x, values[rows + lag]) for lag in lags] for x, rows in zip(parts, halves, strict=True)]
        )
        best = told.argmax(1)
        now = told[:, lags == 0][:, 0]
        top = told.max(1)
        same_side = np.sign(lags[best[0]]) == np.sign(lags[best[1]]) != 0
        if same_side and (top > LEAST_TOLD).all() and (top > LAG_GAIN * np.maximum(now, 0) + 0.005).all():
            found.append((name, int(np.rint(np.median(lags[best])))))
    return found


def _leading(X: np.ndarray, index: np.ndarray, most: int = 10) -> np.ndarray:
    """Leading principal components of the standardised channels, of at most 500, at some time steps: (n, k)."""
    part = np.asarray(take_rows(X, index)[:, evenly(X.shape[1], 500)], dtype=np.float64)
    spread = part.std(0)
    part -= part.mean(0)
    part /= np.where(spread > 0, spread, 1)
    _, vectors = np.linalg.eigh(part.T @ part)
    return part @ vectors[:, -most:]


def _values(spaces: Mapping[str, Space], recording: Recording) -> dict[str, np.ndarray]:
    """Values of the variables of each space at some time steps."""
    index = evenly(len(recording), ROWS)
    return {
        name: space.values(recording.variables)[index]
        for name, space in spaces.items()
        if space.variables and set(space.variables) <= set(recording.variables)
    }


def _told(x: np.ndarray, y: np.ndarray) -> float:
    """Share of the variance of y (time, k) that a linear map of x (time, m) tells; missing rows are left out."""
    known = np.isfinite(x).all(1) & np.isfinite(y).all(1)
    if known.sum() < 10 * (x.shape[1] + 1):
        return 0.0
    x, y = x[known] - x[known].mean(0), y[known] - y[known].mean(0)
    left = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    whole = np.square(y).sum()
    return float(1 - np.square(left).sum() / whole) if whole > 0 else 0.0


def _time_step(recording: Recording) -> float | None:
    """The median time step; None where time is only counted."""
    inside = np.diff(recording.epochs) == 0
    step = float(np.median(np.diff(recording.time)[inside])) if inside.any() else 1.0
    return None if step == 1.0 or not math.isfinite(step) else step


def _sentence(text: str) -> str:
    """A reason as a sentence of its own."""
    text = text.strip()
    return (text[:1].upper() + text[1:]).rstrip(".") + "."
