"""Which channels carry the variables of a space: the test of each space of a recording.

This is the only test of known variables there is: `ascribo.screen` and the default attribution both report it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from threading import RLock

import numpy as np
from scipy import stats

from ..data.mapped_files import release, take_rows
from ..data.recording import Recording
from ..data.segments import segment_bounds
from ..data.standardised_channels import limit_time_steps
from ..spaces.base import Space
from ..support.compute import in_threads, one_blas_thread
from .diagnostics import (
    A_CHANGE,
    FUNCTION,
    HIDDEN_COMPANY,
    SLOW_RESPONSES,
    TIME_IN_TRIAL,
    TUNING_CHANGES,
    Hidden,
    Note,
    hidden_components,
    moves_with_hidden,
    note_functions,
    note_velocity,
    table_of_functions,
    tuning_changes,
)
from .features import as_slice, components, earlier, normal_scores
from .late_responses import LATE_RESPONSES, late_lags
from .levels import level_scores
from .noise import by_chance, noise_columns, sizes_of_blocks
from .questions import History, Question, Variable, channel_history, path_tells, whiten
from .regression import Penalties, Residuals, Sums, block_sums, choose_penalties, fit_residuals
from .sign_flips import p_values, quadratic_form
from .slow_responses import ask_slowly, slower_channels
from .variables import FEWEST, SHORTEST, make_variables, split_blocks, too_slow

__all__ = ["SpaceTest", "ask_spaces", "most_time_steps"]

AHEAD, REACH = 0.02, 10
"""Share of an innovation that the channels' past may tell; beyond it channels may lead by `REACH` steps."""
CERTAIN = 4.0
"""Standard errors by which the channels' past must tell it."""
LOOKED_AT = 5_000
"""Time steps from which it is judged whether a variable is the change of another."""
MOST_TIME_STEPS, RUNS = 100_000, 40
"""Time steps that are used, at most: of longer recordings so many runs, evenly spaced."""
FLIPS = 8_000
MISFIT = 0.002
"""Share of what is explained of a channel, below which a score may be what the regressions get wrong: no call."""
LEVEL = 0.05
"""False discovery rate at which notes look at the channels that are called."""


@dataclass(frozen=True)
class SpaceTest:
    """What was found about a space.

    question : "innovation", "level", or "none" where nothing could be asked (a note says why).
    score : (channel,), the share of the channel's variance (of its ranks, as normal scores) that the asked part of
        the space explains and nothing else does; ci_low and ci_high, 95%; p, that there is nothing, which is 1 for
        a score so small (`MISFIT`) that the regressions may be wrong by as much. NaN where nothing could be asked.
    level : (channel,), the share that the values of the space tell, whatever else goes with them; not tested.
    notes : what may mislead, each with what to do.
    at : time steps (n,) -> what each adds to the score, (n, channel); their mean over time is the score. NaN at
        time steps that were not used.
    """

    space: str
    question: str
    score: np.ndarray
    ci_low: np.ndarray
    ci_high: np.ndarray
    p: np.ndarray
    level: np.ndarray
    notes: list[Note] = field(default_factory=list)
    at: Callable[[np.ndarray], np.ndarray] = field(default=lambda rows: np.empty((0, 0)), repr=False)

    @property
    def why_refused(self) -> str:
        """Why nothing could be asked; nothing if something could."""
        return "" if self.question != "none" else " ".join(note.text for note in self.notes)


@one_blas_thread()
def ask_spaces(
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
    variables = make_variables(table, asked, known, first, notes)
    rows = as_slice(used)
    own = recording.X[rows] if isinstance(rows, slice) else take_rows(recording.X, used)
    scores = normal_scores(own)
    release(own)
    seen = None if view is None else components(view[used], view.shape[1])
    noisy = {note.space for note in notes if note.kind == "measured with error"}
    everything = _Everything(variables, known, first, last, scores, seen, flips, noisy)
    chosen = known if only is None else known & only[used]

    def ask(name: str) -> SpaceTest:
        own = [note for note in notes if note.space == name]
        found = everything.ask(name, chosen, own) if name in variables else None
        found = _nothing(name, scores.shape[1], own) if found is None else found
        return replace(found, at=_at(found.at, used, len(recording), scores.shape[1]))

    notes += everything.find_late_responses()
    notes += everything.find_changes()
    names = [name for name, space in asked.items() if not space.nuisance]
    everything.remember_pasts([name for name in names if name in variables], chosen)
    return in_threads(ask, names)


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


def _nothing(name: str, channels: int, notes: list[Note]) -> SpaceTest:
    empty = np.full(channels, np.nan)
    at = lambda rows: np.full((len(rows), channels), np.nan)  # noqa: E731
    return SpaceTest(name, "none", empty, empty, empty, empty, empty, notes, at)


@dataclass
class _Everything:
    """All that is known of a recording. scores : (time, channel), normal scores. view : see `ask_spaces`. noisy :
    spaces that were measured with error."""

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

    def __post_init__(self) -> None:
        known = {name: each.values[self.known] for name, each in self.variables.items()}
        self.functions = table_of_functions(known)
        self.noise = noise_columns(len(self.first))
        self.scores_known = self.scores if self.known.all() else self.scores[self.known]

    def find_late_responses(self) -> list[Note]:
        """Mark the variables that channels respond to late, and put what is new in them since before then."""
        few = np.flatnonzero(self.known)
        if len(few) < FEWEST * SHORTEST:
            return []
        few = few[:: max(1, len(few) // LOOKED_AT)]
        asked = [name for name, each in self.variables.items() if each.innovation and not each.seldom]
        found = in_threads(lambda name: late_lags(self.variables[name], self.scores, self.first, few), asked)
        notes = []
        for name, (lags, channels) in zip(asked, found, strict=True):
            if lags:
                own = self.variables[name]
                lag = own.lag + lags[-1]
                self.variables[name] = replace(own, past=earlier(self.first, lag), lag=lag, late=lags)
                text = LATE_RESPONSES.format(found=channels, longest=lags[-1])
                notes.append(Note(name, "late responses", text))
        return notes

    def find_changes(self) -> list[Note]:
        """Mark the variables that channels' tuning to changes through the session."""
        few = np.flatnonzero(self.known)
        few = few[:: max(1, len(few) // LOOKED_AT)]
        asked = [name for name, each in self.variables.items() if not each.categorical]
        if len(self.variables) < 2 or len(few) < FEWEST * SHORTEST:  # there is nothing to condition on
            return []

        def changes(name: str) -> bool:
            variable, steps = self.variables[name], len(self.first)
            functions = variable.fine_functions(few, 4), variable.changing_functions(few, steps, 4)
            return tuning_changes(*functions, self.scores[few], few)

        found = [name for name, changed in zip(asked, in_threads(changes, asked), strict=True) if changed]
        self.variables |= {name: replace(self.variables[name], wanders=True) for name in found}
        return [Note(name, "tuning changes", TUNING_CHANGES) for name in found]

    def remember_pasts(self, names: list[str], chosen: np.ndarray) -> None:
        """Work out what spaces share, while all cores are free for it."""
        for name in names:
            variable = self.variables[name]
            if variable.innovation and not variable.seldom:
                if blocks := split_blocks(variable, chosen, self.first, name, []):
                    self._past(variable, 0, blocks)

    def ask(self, name: str, chosen: np.ndarray, notes: list[Note]) -> SpaceTest | None:
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
        question, left = self._residuals(name, others, same, blocks, notes)
        if question.is_time_in_epoch:
            notes.append(Note(name, "time in trial", TIME_IN_TRIAL))
        test = _test(name, question, left, blocks, self.flips, self.noise)
        if variable.innovation:
            test = self._slowly(test, variable, others, blocks, notes)
        self._note(test, variable, notes)
        level = level_scores(variable, self.scores, blocks)
        return replace(test, notes=notes, level=level)

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
            text = (
                "its own past tells it: there is no innovation to ask about. The question is about its level, and "
                "other slow things that go along with it by chance or by design cannot be told from it. Vary it at "
                "random."
            )
            notes.append(Note(name, "no innovation", text))
            question = Question(variable, others, None, self.scores, self.first, self.last)
            sums = block_sums(question.parts, blocks, self.noise)
            return question, fit_residuals(sums, choose_penalties(sums, 1))

        def ask(reach: int) -> tuple[Question, Sums, Penalties]:
            question = Question(
                *(variable, others, *self._past(variable, reach, blocks), self.first, self.last, same, reach)
            )
            sums = block_sums(question.parts, blocks, self.noise)
            return question, sums, choose_penalties(sums, variable.values.shape[1])

        question, sums, chosen = ask(0)
        if not same and chosen.gain > AHEAD and chosen.certain > CERTAIN:
            text = (
                f"the channels' past tells {chosen.gain:.0%} of its innovation: channels run ahead of it, or it "
                "follows something hidden that they carry. Channels were asked with leads and lags of up to "
                f"{REACH} time steps; those that carry the hidden thing alone may be called."
            )
            notes.append(Note(name, "channels ahead", text))
            question, sums, chosen = ask(REACH)
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
        question = ask_slowly(variable, others, self.scores[:, asked], self.first, self.last)
        sums = block_sums(question.parts, blocks, self.noise)
        left = fit_residuals(sums, choose_penalties(sums, 1))
        slow = _test(test.space, question, left, blocks, self.flips, self.noise)
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
            history = channel_history(self.scores, self.first, past, self.view)
            return history, whiten(self.scores, self.first, past, blocks)

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
        if not variable.seldom:
            note_velocity(name, variable.narrow(8), notes)
        called = stats.false_discovery_control(test.p) <= LEVEL
        if not called.any() or variable.categorical or not variable.innovation:
            return
        values = {key: each.told_of(self.first, 8)[self.known] for key, each in self.variables.items()}
        with self.lock:
            self.hidden = self.hidden or hidden_components(self.scores_known, values)
        if moves_with_hidden(self.hidden, self.scores_known, values, name, variable.lag, called):
            notes.append(Note(name, "hidden company", HIDDEN_COMPANY))


def _test(
    name: str, question: Question, left: Residuals, blocks: list[np.ndarray], flips: int, noise: np.ndarray
) -> SpaceTest:
    """Scores, intervals and p-values of a space."""
    steps, number = sum(map(len, blocks)), len(blocks)
    by_block = left.by_block / steps
    sizes = sizes_of_blocks(left, question.parts, blocks, noise)
    forms = np.stack(
        [quadratic_form(by_block / size, each) for each, size in zip(left.whitening, sizes, strict=True)]
    )
    found = np.stack([np.square(by_block.sum(0).T @ each).sum(1) for each in left.whitening])
    expected = by_chance(np.einsum("ckk->ck", forms[0]), 1 - left.explained)
    score = found[0] - expected
    pull = 2 * forms[0].sum(2)
    chance = 2 * (np.square(forms[0]).sum((1, 2)) - np.square(np.einsum("ckk->ck", forms[0])).sum(1))
    wide = stats.t.ppf(0.975, number - 1) * np.sqrt(number * pull.var(1, ddof=1) + chance)
    usable = np.zeros(len(question.first), dtype=bool)
    usable[np.concatenate(blocks)] = True
    direction = left.whitening[0] @ (left.whitening[0].T @ by_block.sum(0))  # (feature, channel)

    def at(rows: np.ndarray) -> np.ndarray:
        out = np.full((len(rows), len(score)), np.nan)
        for part in np.array_split(np.flatnonzero(usable[rows]), -(-len(rows) // LOOKED_AT)):
            if len(part):  # a variable may be missing at all of these
                out[part] = left.products(question.parts(rows[part]), direction) - expected
        return out

    return SpaceTest(
        space=name,
        question="innovation" if question.history is not None else "level",
        score=score,
        ci_low=score - wide,
        ci_high=score + wide,
        p=np.where((score > 0) & (score < MISFIT * left.explained), 1.0, p_values(forms, found, flips)),
        level=np.full(len(score), np.nan),
        at=at,
    )
