"""Which channels carry the variables of a space: the test of each space of a recording.

This is the only test of known variables there is: `ascribo.screen` and the default attribution both report it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from threading import RLock

import numpy as np
from scipy import stats

from ..data.mapped_files import release, take_rows
from ..data.recording import Recording
from ..data.segments import segment_bounds
from ..data.standardised_channels import limit_time_steps
from ..spaces.base import Space
from ..support.compute import in_threads, one_blas_thread, side_by_side
from .channel_past import History, channel_history, whiten
from .diagnostics import (
    A_CHANGE,
    FUNCTION,
    HIDDEN_COMPANY,
    ITS_CHANGE,
    SLOW_RESPONSES,
    TIME_IN_TRIAL,
    TOO_QUIET,
    Hidden,
    Note,
    explained_by,
    hidden_components,
    moves_with_hidden,
    note_functions,
)
from .features import as_slice, components, normal_scores
from .first_look import LOOKED_AT, first_look
from .levels import level_scores
from .noise import noise_columns
from .questions import Question, Variable
from .regression import Penalties, Residuals, Sums, block_sums, choose_penalties, fit_residuals
from .slow_responses import slow_question, slower_channels
from .space_result import SpaceTest, empty_test, space_test
from .variables import joint_labels, make_variables, split_blocks, too_slow
from .velocity import make_velocity, moves_smoothly, path_adds_up_to, path_tells, velocity_note

__all__ = ["most_time_steps", "screen_spaces"]

AHEAD, REACH = 0.02, 10
"""Share of an innovation that the channels' past may tell; beyond it channels may lead by `REACH` steps."""
CERTAIN = 4.0
"""Standard errors by which the channels' past must tell it."""
MOST_TIME_STEPS, RUNS = 100_000, 40
"""Time steps that are used, at most: of longer recordings so many runs, evenly spaced."""
FLIPS = 8_000
LEVEL = 0.05
"""False discovery rate at which notes look at the channels that are called."""


@one_blas_thread()
def screen_spaces(
    recording: Recording,
    spaces: Mapping[str, Space],
    *,
    flips: int = FLIPS,
    only: np.ndarray | None = None,
    view: np.ndarray | None = None,
) -> list[SpaceTest]:
    """Test every space that has variables and is no nuisance; see the folder's first page.

    flips : times that signs of blocks are turned, at most. only : (time,) booleans, time steps to which the test is
    limited. view : (time, k), what stands for what is hidden, by its past; by default principal components of the
    channels.
    """
    asked = {name: space for name, space in spaces.items() if space.variables}
    used = _used(len(recording), recording.X.shape[1])
    epochs, table = recording.epochs[used], recording.variables.iloc[used]
    runs = np.cumsum(np.r_[0, (np.diff(epochs) != 0) | (np.diff(used) != 1)])
    first, last = segment_bounds(runs)
    known = np.all([space.known(table) for space in asked.values()], axis=0)
    notes: list[Note] = []

    def rank() -> np.ndarray:
        rows = as_slice(used)
        own = recording.X[rows] if isinstance(rows, slice) else take_rows(recording.X, used)
        ranks = normal_scores(own)
        release(own)
        return ranks

    variables, scores = side_by_side(lambda: make_variables(table, asked, known, first, notes), rank)
    seen = None if view is None else components(view[used], view.shape[1])
    noisy = {note.space for note in notes if note.kind == "measured with error"}
    everything = _Everything(variables, known, first, last, scores, seen, flips, noisy)
    chosen = known if only is None else known & only[used]

    def test(name: str) -> SpaceTest:
        own = [note for note in notes if note.space == name]
        found = everything.test(name, chosen, own) if name in variables else None
        found = empty_test(name, scores.shape[1], own) if found is None else found
        return replace(found, at=_at(found.at, used, len(recording), scores.shape[1]))

    notes += everything.look()
    names = [name for name, space in asked.items() if not space.nuisance]
    everything.remember([name for name in names if name in variables], chosen)
    return in_threads(test, names)


def most_time_steps(channels: int) -> int:
    """Time steps that are used of a recording of so many channels, at most."""
    return limit_time_steps(MOST_TIME_STEPS, channels)


def _used(steps: int, channels: int) -> np.ndarray:
    """Time steps that are used: all, or runs of a long recording."""
    most = most_time_steps(channels)
    if steps <= most:
        return np.arange(steps)
    starts = np.linspace(0, steps - most // RUNS, RUNS).astype(int)
    return (starts[:, None] + np.arange(most // RUNS)).ravel()


def _at(at: Callable[[np.ndarray], np.ndarray], used: np.ndarray, steps: int, channels: int):
    """The same by time steps of the whole recording."""

    def of_whole(rows: np.ndarray) -> np.ndarray:
        place = np.full(steps, -1)
        place[used] = np.arange(len(used))
        out, there = np.full((len(rows), channels), np.nan), place[rows] >= 0
        if there.any():
            out[there] = at(place[rows[there]])
        return out

    return of_whole


@dataclass
class _Everything:
    """All that is known of a recording. scores : (time, channel), normal scores. view : see `screen_spaces`.
    noisy : spaces that were measured with error."""

    variables: dict[str, Variable]
    known: np.ndarray
    first: np.ndarray
    last: np.ndarray
    scores: np.ndarray
    view: np.ndarray | None
    flips: int
    noisy: set[str]
    hidden: Hidden | None = None
    pasts: dict[tuple[int, int], tuple[History, np.ndarray]] = field(default_factory=dict)
    lock: RLock = field(default_factory=RLock)

    def look(self) -> list[Note]:
        """Look at the variables before anything is asked."""
        seen, self.noise = side_by_side(
            lambda: first_look(self.variables, self.known, self.first, self.last, self.scores),
            lambda: noise_columns(len(self.first)),
        )
        self.variables, self.functions = seen.variables, seen.functions
        self.scores_known = self.scores if self.known.all() else self.scores[self.known]
        return seen.notes

    def remember(self, names: list[str], chosen: np.ndarray) -> None:
        """Work out what spaces share, while all cores are free for it."""
        asked = [self.variables[name] for name in names if self.variables[name].innovation]

        def pasts() -> None:
            for variable in (each for each in asked if not each.seldom):
                if blocks := split_blocks(variable, chosen, self.first, "", []):
                    self._past(variable, 0, blocks)

        if any(not each.categorical for each in asked):  # what notes about hidden company look at
            self.hidden, _ = side_by_side(lambda: hidden_components(self.scores_known, self.told), pasts)
        else:
            pasts()

    @cached_property
    def told(self) -> dict[str, np.ndarray]:
        """What is known of each space: (time, k), at the time steps at which all are known."""
        return {name: each.with_late_values(self.first, 8)[self.known] for name, each in self.variables.items()}

    def test(self, name: str, chosen: np.ndarray, notes: list[Note]) -> SpaceTest | None:
        """The test of a space at the chosen time steps; None, with a note, where nothing can be asked."""
        variable = self.variables[name]
        blocks = split_blocks(variable, chosen, self.first, name, notes)
        if blocks and not variable.innovation and too_slow(variable.values, blocks):
            text = (
                "it is slower than the blocks of time that are compared: chance cannot be told. Record for longer; "
                "if it hardly moves from one time step to the next, average the recording in longer ones."
            )
            notes.append(Note(name, "too slow", text))
            return None
        if not blocks:
            return None
        others = {other: each for other, each in self.variables.items() if other != name}
        both = {other: max(self.functions[name, other], self.functions[other, name]) for other in others}
        same = {other: others.pop(other) for other, share in both.items() if share > FUNCTION}
        note_functions(name, self.functions, self.noisy, notes)
        few = np.flatnonzero(self.known)[:: max(1, self.known.sum() // LOOKED_AT)]
        for other, each in others.items():
            if path_tells(variable, each, self.first, self.last, few):
                others[other] = replace(each, path=False)
                notes.append(Note(name, "a change", A_CHANGE.format(other=other)))
            elif variable.innovation and path_adds_up_to(variable, each, few):
                others[other] = replace(each, path=False, late=(), early=())
                notes.append(Note(name, "a change", ITS_CHANGE.format(other=other)))
        others |= self._pairs(variable, others)
        question, left = self._residuals(name, others, same, blocks, notes)
        if question.is_time_in_epoch:
            notes.append(Note(name, "time in trial", TIME_IN_TRIAL))
        if found := np.count_nonzero(left.least_p > LEVEL):
            text = TOO_QUIET.format(found=found, channels=len(left.least_p))
            notes.append(Note(name, "too quiet", text))
        test = space_test(name, question, left, blocks, self.flips, self.noise)
        if variable.innovation:
            test = self._slowly(test, variable, others, blocks, notes)
        if not variable.seldom and moves_smoothly(variable.narrow(8)):
            test = self._beyond_velocity(test, variable, others, same, blocks, notes)
        self._note(test, variable, notes)
        level = level_scores(variable, self.scores, blocks)
        return replace(test, notes=notes, level=level)

    def _pairs(self, variable: Variable, others: Mapping[str, Variable]) -> dict[str, Variable]:
        """Pairs of labels of two other spaces as spaces of their own, unless they tell the one asked about."""
        found = {}
        for a, b in combinations(others, 2):
            pair = joint_labels(others[a], others[b], self.first, self.known)
            if pair and explained_by(pair.values[self.known], variable.values[self.known]) < FUNCTION:
                found[f"{a} and {b}"] = pair
        return found

    def _beyond_velocity(
        self,
        test: SpaceTest,
        variable: Variable,
        others: Mapping[str, Variable],
        same: Mapping[str, Variable],
        blocks: list[np.ndarray],
        notes: list[Note],
    ) -> SpaceTest:
        """The same with what is left of the scores if the variable's velocity is conditioned on, too."""
        called = stats.false_discovery_control(test.p) <= LEVEL
        few = np.flatnonzero(self.known)[:: max(1, self.known.sum() // LOOKED_AT)]
        given = any(path_tells(each, variable, self.first, self.last, few) for each in others.values())
        asked = called.any() and variable.innovation and not variable.categorical and not given
        velocity = make_velocity(variable, self.first, self.last, self.known) if asked else None
        beyond = None
        if velocity is not None:
            question, left = self._residuals(test.space, {**others, "": velocity}, same, blocks, [])
            beyond = space_test(test.space, question, left, blocks, 0, self.noise).score
        notes.append(velocity_note(test.space, called, test.score, beyond))
        return replace(test, beyond_velocity=beyond)

    def _residuals(
        self,
        name: str,
        others: Mapping[str, Variable],
        same: Mapping[str, Variable],
        blocks: list[np.ndarray],
        notes: list[Note],
    ) -> tuple[Question, Residuals]:
        """The question that the variable allows, and what the fits leave.

        others : spaces that are conditioned on. same : spaces that say the same, of which only the past is.
        """
        variable = self.variables[name]
        if not variable.innovation:
            alone = bool((variable.past == np.arange(len(variable.past))).all())
            why = "no time step has another before it in its epoch" if alone else "its own past tells it"
            text = (
                f"{why}: there is no innovation to ask about. The question is about its level, and other slow "
                "things that go along with it by chance or by design cannot be told from it. Vary it at random."
            )
            notes.append(Note(name, "no innovation", text))
            question = Question(variable, others, None, self.scores, self.first, self.last)
            sums = block_sums(question.parts, blocks, self.noise)
            return question, fit_residuals(sums, choose_penalties(sums, 1))

        def prepare(reach: int) -> tuple[Question, Sums, Penalties]:
            question = Question(
                *(variable, others, *self._past(variable, reach, blocks), self.first, self.last, same, reach)
            )
            sums = block_sums(question.parts, blocks, self.noise)
            return question, sums, choose_penalties(sums, variable.values.shape[1])

        question, sums, chosen = prepare(0)
        if not same and chosen.gain > AHEAD and chosen.certain > CERTAIN:
            text = (
                f"the channels' past tells {chosen.gain:.0%} of its innovation: channels run ahead of it, or it "
                "follows something hidden that they carry. Channels were asked with leads and lags of up to "
                f"{REACH} time steps; those that carry the hidden thing alone may be called."
            )
            notes.append(Note(name, "channels ahead", text))
            question, sums, chosen = prepare(REACH)
        return question, fit_residuals(sums, chosen)

    def _slowly(
        self,
        test: SpaceTest,
        variable: Variable,
        others: Mapping[str, Variable],
        blocks: list[np.ndarray],
        notes: list[Note],
    ) -> SpaceTest:
        """The same with the second question, for channels that it is asked of; see `slow_responses`."""
        asked = slower_channels(variable, self.scores)
        if not len(asked):
            return test
        question = slow_question(variable, others, self.scores[:, asked], self.first, self.last)
        sums = block_sums(question.parts, blocks, self.noise)
        left = fit_residuals(sums, choose_penalties(sums, 1))
        slow = space_test(test.space, question, left, blocks, self.flips, self.noise)
        better = slow.p < test.p[asked]
        p = test.p.copy()
        p[asked] = np.minimum(1, 2 * np.minimum(slow.p, test.p[asked]))
        which = asked[better]

        def at(rows: np.ndarray) -> np.ndarray:
            out = test.at(rows)
            out[:, which] = slow.at(rows)[:, better]
            return out

        changed = {key: getattr(test, key).copy() for key in ("score", "ci_low", "ci_high")}
        for key, values in changed.items():
            values[which] = getattr(slow, key)[better]
        if (found := np.count_nonzero(stats.false_discovery_control(p)[which] <= LEVEL)) > 0:
            notes.append(Note(test.space, "slow responses", SLOW_RESPONSES.format(found=found)))
        return replace(test, p=p, at=at, **changed)

    def _past(self, variable: Variable, reach: int, blocks: list[np.ndarray]) -> tuple[History, np.ndarray]:
        """The channels' past, and the channels less what it says of each."""

        def make() -> tuple[History, np.ndarray]:
            past = np.maximum(variable.past - 2 * reach, self.first)
            history, whitened = side_by_side(
                lambda: channel_history(self.scores, self.first, past, self.view),
                lambda: whiten(self.scores, self.first, past, blocks),
            )
            return history, whitened

        if variable.seldom:  # whose blocks lie otherwise
            return make()
        key = (variable.lag, reach)
        with self.lock:  # spaces are asked in threads, and share it
            if key not in self.pasts:
                self.pasts[key] = make()
            return self.pasts[key]

    def _note(self, test: SpaceTest, variable: Variable, notes: list[Note]) -> None:
        """What the variable, and the channels that are called, may mislead about."""
        name = test.space
        called = stats.false_discovery_control(test.p) <= LEVEL
        if not called.any() or variable.categorical or not variable.innovation:
            return
        if self.hidden and moves_with_hidden(
            *(self.hidden, self.scores_known, self.told, name, variable.lag, called)
        ):
            notes.append(Note(name, "hidden company", HIDDEN_COMPANY))
