"""Which channels carry which known variable: calls in seconds, without training an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ..data.containers import as_recording
from ..data.recording import Recording
from ..data.segments import segment_bounds
from ..spaces.base import Space
from ..support.names import suggest
from .diagnostics import FUNCTION, NEARLY, Hidden, Note, hidden_components, moves_with_hidden, table_of_functions
from .features import dummies, earlier, normal_scores, standardise
from .measurement_error import measurement_noise, smooth_jointly
from .questions import (
    History,
    Question,
    Variable,
    channel_history,
    choose_lag,
    path_tells,
    run_starts,
    whiten,
)
from .regression import Penalties, Residuals, Sums, block_sums, choose_penalties, fit_residuals, residual_products
from .sign_flips import p_values, quadratic_form

__all__ = ["Screening", "screen"]

BLOCKS = 20
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
AHEAD, REACH = 0.02, 10
"""Share of an innovation that the channels' past may tell; beyond it channels may lead by `REACH` steps."""
CERTAIN = 4.0
"""Standard errors by which the channels' past must tell it."""
GOES_ON = 0.5
"""Correlation of neighbouring changes from which on a variable has a velocity."""
LOOKED_AT = 5_000
"""Time steps from which it is judged whether a variable has an innovation."""
LOST = 0.01
"""Share of time steps at one value, of a variable whose values seldom come twice, from which on it seems lost."""
LABELS = 40
A_CHANGE = (
    "it is a change of {other!r}, whose path around the present tells it: only the present of {other!r} was "
    "conditioned on. Channels that carry {other!r} some time before or after may be called for it."
)
HIDDEN_COMPANY = (
    "something hidden that channels carry seems to move with it: channels that carry the hidden thing alone may be "
    "called. No test of these data can tell the two apart; record what moves with it, or vary it at random."
)
FLIPS = 20_000


@dataclass(frozen=True)
class Screening:
    """The answer of `screen`.

    calls : a row per channel and space. score is the share of the channel's variance (of its ranks, as normal
        scores) that the asked part of the space explains and nothing else does, with a 95% interval; p, q and
        `called` are those of the test; `question` is "innovation", "level" or "none" (refused, and a note says
        why).
    notes : diagnostics (`Note`), each with what to do.
    q : the false discovery rate within each space.
    """

    calls: pd.DataFrame
    notes: list[Note] = field(default_factory=list)
    q: float = 0.05

    def __str__(self) -> str:
        lines = [
            f"{space}: {np.sum(own['called'])} of {len(own)} channels called ({own['question'].iloc[0]})"
            for space, own in self.calls.groupby("space", sort=False)
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def screen(recording: Any, spaces: Mapping[str, Space], q: float = 0.05) -> Screening:
    """Find the channels that carry each of some known variables, without training an encoder.

    For each space, features of its variables and the channels' normal scores are regressed on all else that is
    known: the other spaces, the past of all channels (which stands for what is hidden), slow drift. What is left of
    both is multiplied, and its sum compared with what turning the signs of blocks of time gives: see
    docs/screening.md for what this can and cannot tell.

    Parameters
    ----------
    recording : Recording, or anything that is accepted as one.
    spaces : name -> `Follow`, `Regress` or `Discrete` space. Spaces of time alone, which have no variable, are left
        out. Nuisance spaces are conditioned on and not asked about.
    q : false discovery rate within each space (Benjamini and Hochberg).

    Examples
    --------
    >>> from ascribo import Follow
    >>> from ascribo.simulate import mixed
    >>> data = mixed(spaces={"a": 1, "b": 1}, hidden=1, channels=12, steps=3000, snr=4)
    >>> found = screen(data, {"a": Follow("a0", 1), "b": Follow("b0", 1)})
    >>> truth = [bool(data.truth.sel(channel=r.channel, space=r.space)) for r in found.calls.itertuples()]
    >>> (found.calls.called == truth).mean() > 0.9
    np.True_
    """
    recording = as_recording(recording)
    if not 0 < q < 1:
        raise ValueError(f"q={q!r}: expected a false discovery rate between 0 and 1.")
    asked = {name: space for name, space in spaces.items() if space.variables}
    _check(recording, asked)
    first, last = segment_bounds(recording.epochs)
    known = np.all([space.known(recording.variables) for space in asked.values()], axis=0)
    notes: list[Note] = []
    variables = _variables(recording, asked, known, first, notes)
    functions = table_of_functions({name: each.values[known] for name, each in variables.items()})
    scores = normal_scores(recording.X)
    narrow = {name: each.narrow(8)[known] for name, each in variables.items()}
    hidden: Hidden | None = None
    pasts: dict[tuple[int, int] | None, tuple[History, np.ndarray]] = {}
    tables = []
    for name, space in asked.items():
        if space.nuisance:
            continue
        blocks = _blocks(variables[name], known, first, name, notes) if name in variables else []
        if blocks and not variables[name].innovation and _too_slow(variables[name].values, blocks):
            text = (
                "it is slower than the blocks of time that are compared: chance cannot be told. Record for longer."
            )
            notes.append(Note(name, "too slow", text))
            blocks = []
        if not blocks:
            tables.append(_refused(recording, name))
            continue
        others = {other: each for other, each in variables.items() if other != name}
        same = [other for other in others if max(functions[name, other], functions[other, name]) > FUNCTION]
        same = {other: others.pop(other) for other in same}
        _note_functions(name, functions, notes)
        few = np.flatnonzero(known)[:: max(1, known.sum() // LOOKED_AT)]
        for other, each in others.items():
            if path_tells(variables[name], each, first, last, few):
                others[other] = replace(each, path=False)
                notes.append(Note(name, "a change", A_CHANGE.format(other=other)))
        left, question = _ask(name, variables[name], others, same, scores, first, last, blocks, notes, pasts)
        tables.append(_calls(recording, name, question, left, len(blocks), sum(map(len, blocks)), q))
        _note_velocity(name, variables[name], notes)
        _note_lost(name, variables[name], known, notes)
        if hidden is None:
            hidden = hidden_components(scores[known], narrow)
        called = tables[-1]["called"].to_numpy()
        moving = called.any() and not variables[name].categorical and variables[name].innovation
        if moving and moves_with_hidden(hidden, scores[known], narrow, name, variables[name].lag, called):
            notes.append(Note(name, "hidden company", HIDDEN_COMPANY))
    return Screening(pd.concat(tables, ignore_index=True), notes, q)


def _check(recording: Recording, spaces: Mapping[str, Space]) -> None:
    if not any(not space.nuisance for space in spaces.values()):
        raise ValueError("no space with variables was given: screen needs at least one Follow or Discrete space.")
    for name, space in spaces.items():
        for variable in space.variables:
            if variable not in recording.variables:
                near = suggest(variable, recording.variables)
                raise ValueError(f"space {name!r}: no variable is called {variable!r}{near}")
            column: Any = recording.variables[variable]
            space.check_variable(variable, column)


def _variables(
    recording: Recording, spaces: Mapping[str, Space], known: np.ndarray, first: np.ndarray, notes: list[Note]
) -> dict[str, Variable]:
    """The spaces' variables, smoothed where they were measured with error; those that never change are left out."""
    values: dict[str, np.ndarray] = {}
    for name, space in spaces.items():
        own = np.where(known[:, None], space.values(recording.variables), np.nan)
        own = np.nan_to_num(own) if space.categorical else standardise(own)
        if known.sum() == 0 or not np.ptp(own[known], axis=0).any():
            text = "its variables are missing everywhere or never change: nothing can be asked. Check them."
            notes.append(Note(name, "no variation", text))
            continue
        if space.categorical and own.shape[1] > LABELS:
            text = f"it has {own.shape[1]} labels: all but {LABELS - 1} are taken together. Pool them by meaning."
            notes.append(Note(name, "many labels", text))
        values[name] = dummies(own, LABELS) if space.categorical else own
    starts = {name: run_starts(own, first) for name, own in values.items()}
    seldom = {name: len(np.unique(each)) < SELDOM * len(each) for name, each in starts.items()}
    smooth = [name for name in values if not spaces[name].categorical and not seldom[name]]
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
    return {
        name: _variable(own, spaces[name].categorical, seldom[name], first, known) for name, own in values.items()
    }


def _variable(
    values: np.ndarray, categorical: bool, seldom: bool, first: np.ndarray, known: np.ndarray
) -> Variable:
    """How far back its past lies, and whether its innovation can be asked about."""
    lag = choose_lag(values, first)
    own = Variable(values, categorical, earlier(first, lag), lag, True, seldom)
    rows = np.flatnonzero(known)
    rows = rows[:: max(1, len(rows) // LOOKED_AT)]
    alone = Question(own, {}, None, np.zeros((len(values), 1), np.float32), first, first)
    sums = block_sums(
        lambda r: (alone.parts(r)[0], np.zeros((len(r), 0)), values[r], values[r][:, :1]),
        np.array_split(rows, BLOCKS),
    )
    left, total = np.trace(residual_products(sums)), np.trace(sums.ff.sum(0))
    change = np.square(values[rows] - values[own.past[rows]]).sum()
    return replace(own, innovation=bool(left > NEW * total or left > NEW_OF_CHANGE * change > 0))


def _blocks(
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
    blocks = min(BLOCKS, len(rows) // SHORTEST, (unit[-1] + 1) // 2 if len(rows) else 0)
    if blocks < BLOCKS and len(rows) < BLOCKS * SHORTEST:
        text = f"only {len(rows)} time steps can be used: too short, {BLOCKS * SHORTEST} or more are needed."
        notes.append(Note(name, "too short", text))
    if blocks < FEWEST:
        return []
    place = np.cumsum(np.r_[True, np.diff(unit) != 0]) - 1  # runs, counted
    middle = (np.searchsorted(place, place, "left") * blocks) // len(rows)
    return [part for k in range(blocks) if len(part := rows[middle == k])]


def _too_slow(values: np.ndarray, blocks: list[np.ndarray]) -> bool:
    """Whether most of the variance lies between blocks."""
    used = np.concatenate([values[rows] for rows in blocks])
    between = sum(len(rows) * np.square(values[rows].mean(0) - used.mean(0)).sum() for rows in blocks)
    return bool(between > SLOW * np.square(used - used.mean(0)).sum())


def _ask(
    name: str,
    variable: Variable,
    others: Mapping[str, Variable],
    same: Mapping[str, Variable],
    scores: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    blocks: list[np.ndarray],
    notes: list[Note],
    pasts: dict[tuple[int, int] | None, tuple[History, np.ndarray]],
) -> tuple[Residuals, str]:
    """The residuals of the question that the variable allows, and its name.

    others : spaces that are conditioned on. same : spaces that say the same, of which only the past is.
    pasts : what is known of the channels' past at some lags, for all spaces.
    """
    if not variable.innovation:
        text = (
            "its own past tells it: there is no innovation to ask about. The question is about its level, and "
            "other slow things that go along with it by chance or by design cannot be told from it. Vary it at "
            "random."
        )
        notes.append(Note(name, "no innovation", text))
        sums = block_sums(Question(variable, others, None, scores, first, last).parts, blocks)
        return fit_residuals(sums, choose_penalties(sums, 1)), "level"

    def ask(reach: int) -> tuple[Sums, Penalties]:
        past = np.maximum(variable.past - 2 * reach, first)
        key = None if variable.seldom else (variable.lag, reach)  # blocks of others lie otherwise
        if key is None or key not in pasts:
            pasts[key] = channel_history(scores, first, past), whiten(scores, first, past, blocks)
        history, whitened = pasts[key]
        question = Question(variable, others, history, whitened, first, last, same, reach)
        sums = block_sums(question.parts, blocks)
        return sums, choose_penalties(sums, variable.values.shape[1])

    sums, chosen = ask(0)
    if not same and chosen.gain > AHEAD and chosen.certain > CERTAIN:
        text = (
            f"the channels' past tells {chosen.gain:.0%} of its innovation: channels run ahead of it, or it "
            "follows something hidden that they carry. Channels were asked with leads and lags of up to "
            f"{REACH} time steps; those that carry the hidden thing alone may be called."
        )
        notes.append(Note(name, "channels ahead", text))
        sums, chosen = ask(REACH)
    return fit_residuals(sums, chosen), "innovation"


def _note_velocity(name: str, own: Variable, notes: list[Note]) -> None:
    change = np.diff(own.narrow(8), axis=0)
    goes_on = (change[1:] * change[:-1]).sum() / max(np.square(change).sum(), 1e-12)
    if not own.seldom and goes_on > GOES_ON:
        text = (
            "it moves on smoothly, so that its velocity is a function of its path: channels that carry its "
            "velocity are called for it. Give velocity as a space of its own to tell the two apart."
        )
        notes.append(Note(name, "has a velocity", text))


def _note_lost(name: str, own: Variable, known: np.ndarray, notes: list[Note]) -> None:
    """A tracker that has lost its object often reports one and the same value."""
    for column in own.values[known].T:
        values, counts = np.unique(column, return_counts=True)
        if len(values) > len(column) / 2 and counts.max() > LOST * len(column):
            text = (
                f"one and the same value comes in {counts.max() / len(column):.0%} of time steps, and most others "
                "once: was it lost then? Channels that carry it may be called for what goes along with it. Set "
                "the value to NaN where it is not known."
            )
            notes.append(Note(name, "lost at times", text))
            return


def _note_functions(name: str, functions: Mapping[tuple[str, str], float], notes: list[Note]) -> None:
    for (source, target), share in functions.items():
        if target != name or share < NEARLY:
            continue
        if share > FUNCTION:
            text = (
                f"it is a function of {source!r} ({share:.1%}): neither was conditioned on the other, and channels "
                "of one are called for both."
            )
            notes.append(Note(name, "redundant", text))
        else:
            text = (
                f"{source!r} tells {share:.0%} of it: it is nearly a function of that, and the call rests on the "
                "little that is its own. Read the two together, or vary them apart."
            )
            notes.append(Note(name, "nearly a function", text))
            noisy = {note.space for note in notes if note.kind == "measured with error"}
            if {source, target} <= noisy and functions[target, source] > NEARLY:
                text = (
                    f"it and {source!r} were both measured with error and tell most of each other: they may be two "
                    "measurements of one thing, and then channels of either are those of both. Take their mean."
                )
                notes.append(Note(name, "one thing twice", text))


def _calls(
    recording: Recording, name: str, question: str, left: Residuals, blocks: int, steps: int, q: float
) -> pd.DataFrame:
    """Scores, intervals and p-values of a space."""
    by_block = left.by_block / steps
    forms = np.stack(
        [quadratic_form(by_block / size, each) for each, size in zip(left.whitening, left.size, strict=True)]
    )
    found = np.stack([np.square(by_block.sum(0).T @ each).sum(1) for each in left.whitening])
    flips = max(FLIPS, int(4 * recording.X.shape[1] / q))
    p = p_values(forms, found, flips)
    score = found[0] - np.trace(forms[0], axis1=1, axis2=2)
    pull = 2 * forms[0].sum(2)
    chance = 2 * (np.square(forms[0]).sum((1, 2)) - np.square(np.einsum("ckk->ck", forms[0])).sum(1))
    wide = stats.t.ppf(0.975, blocks - 1) * np.sqrt(blocks * pull.var(1, ddof=1) + chance)
    adjusted = stats.false_discovery_control(p)
    return pd.DataFrame(
        {
            "channel": recording.channel_names,
            "space": name,
            "score": score,
            "ci_low": score - wide,
            "ci_high": score + wide,
            "p": p,
            "q": adjusted,
            "called": adjusted <= q,
            "question": question,
        }
    )


def _refused(recording: Recording, name: str) -> pd.DataFrame:
    empty = dict.fromkeys(("score", "ci_low", "ci_high", "p", "q"), np.nan)
    return pd.DataFrame(
        {"channel": recording.channel_names, "space": name, **empty, "called": False, "question": "none"}
    )
