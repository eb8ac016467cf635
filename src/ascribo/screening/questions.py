"""What is asked about a space: which of its features are looked at, and all that is conditioned on.

Two questions. *Innovation*: does the channel tell of what is new in the space's variables, the part that their own
past (some time steps ago) and the past of all channels do not tell? *Level*, for variables without innovation such
as a position on a wheel that turns evenly: does the channel tell of their values, whatever was before? In both, the
other spaces are conditioned on, now, before and after, in joint functions with the past of the channels too, which
stands for what is hidden; and so is slow drift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np

from .channel_past import ENOUGH, History
from .features import as_slice, earlier, epoch_starts, hats, products, trend, waves
from .regression import Parts, put_together

__all__ = [
    "Question",
    "Variable",
    "choose_lag",
    "epoch_clock",
    "run_starts",
]

LAGS = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45)
"""Lags, in time steps, that the past may lie back."""
FAR = 16
"""Lag beyond which the past lies only if nothing is new in a variable since then: if it moves on smoothly."""
ALIKE = 0.9
"""Autocorrelation down to which the past may fall: what is beyond is new enough to be asked about."""
AROUND = (1, 2, 4, 8)
"""Time steps before and after, at which other variables are conditioned on."""
HISTORY = (*((lag, lag) for lag in range(1, 21)), (21, 24), (25, 29), (30, 36), (37, 48))
"""Time steps before, from and to: means over them of other variables that change abruptly are conditioned on."""
HISTORY_COLUMNS = 96
"""Columns of that for each such variable, at most."""
AT_ONCE, IN_FEW = 0.4, 0.1
"""A variable changes abruptly if a step has this share of its change over eight, or if nearly all of its change is
in this share of time steps."""
INTERACTING = 8
"""Principal components of the channels whose past is in products with variables."""
USUAL_CHANGE = np.float32(np.sqrt(2 * (1 - ALIKE)))
"""Standard deviation of the change over the lag, of a variable of variance one."""
MANY = 20
"""Epochs from which on the time since their start is conditioned on."""
CLOCK_LEAVES = 0.2
"""Share of a variable that the time since an epoch's start leaves, below which it is that time, more or less."""
CHANGES = 4
"""Slow cosines of time, of which changes of tuning through the session are made."""
ONE_SIDED = 0.1
"""Share of a variable's moves that their size tells, from which on it moves more one way than the other."""
SELDOM_ON = 0.35
"""Share of time steps at one of its two values, below which a variable is on and off."""
MOST_PAIRED = 4
"""Variables of a space, any two of which are looked at together."""


@dataclass(frozen=True)
class Variable:
    """The variables of a space: values (time, k), standardised or labels in centred columns; how far their past is.

    past : (time,) index of each step's past, `lag` before it. innovation : False: only the level can be asked.
    seldom : True if it stands still most of the time. path : False: as another space than the one asked about, only
    its present is conditioned on, since its path tells that one. wanders : True if channels' tuning to it changes
    through the session: as another space, its functions are conditioned on as they change. late : time steps after
    which channels respond to it, see `late_responses`; `past` lies before them. early : time steps by which they
    run ahead of it; as another space, its values then are conditioned on. averages : of functions of the values up
    to each step, (time, columns) for each decay time, if channels respond to it late.
    """

    values: np.ndarray
    categorical: bool
    past: np.ndarray
    lag: int
    innovation: bool
    seldom: bool = False
    path: bool = True
    wanders: bool = False
    late: tuple[int, ...] = ()
    early: tuple[int, ...] = ()
    averages: Sequence[np.ndarray] = ()
    _visited: dict[tuple[int, int, int], np.ndarray] = field(default_factory=dict, repr=False, compare=False)
    _knots_by_number: dict[int, list[np.ndarray]] = field(default_factory=dict, repr=False, compare=False)

    def narrow(self, most: int) -> np.ndarray:
        """The values, or as many random mixtures of them as `most` if there are more."""
        if self.values.shape[1] <= most:
            return self.values
        mix = np.random.default_rng(5).standard_normal((self.values.shape[1], most))
        return self.values @ (mix / np.sqrt(self.values.shape[1]))

    def with_late_values(self, first: np.ndarray, most: int) -> np.ndarray:
        """The values, or mixtures of them, and those before that channels respond to late: (time, columns)."""
        own = self.narrow(most)
        return np.concatenate([own, *(own[earlier(first, lag)] for lag in self.late)], axis=1)

    @cached_property
    def columns(self) -> np.ndarray:
        """The values, or mixtures of them, of up to eight columns, in single precision."""
        return self.narrow(8).astype(np.float32)

    @cached_property
    def abrupt(self) -> bool:
        """Whether it changes abruptly, as events, labels and white noise do: what it was between two moments then
        does not follow from what it was at these.

        >>> walk = np.cumsum(np.random.default_rng(0).standard_normal((2000, 1)), axis=0)
        >>> make = lambda values: Variable(values, False, np.arange(2000), 1, True)
        >>> make(walk).abrupt, make(np.diff(walk, axis=0, prepend=0)).abrupt, make(np.round(walk / 30)).abrupt
        (False, True, True)
        """
        change = np.square(np.diff(self.values, axis=0)).sum(1)
        over_eight = np.square(self.values[8:] - self.values[:-8]).sum(1).mean()
        largest = np.sort(change)[::-1]
        few = np.searchsorted(np.cumsum(largest), 0.95 * largest.sum()) < IN_FEW * len(change)
        return bool(change.mean() > AT_ONCE * over_eight or few)

    @cached_property
    def on_and_off(self) -> bool:
        """Whether it has two values, and one of them seldom, as what comes in some trials and in others does not:
        the time since it changed then is what it says.

        >>> on = np.arange(1000) % 100 < 10
        >>> make = lambda on: Variable(np.stack([on, ~on], 1) - 0.5, True, np.arange(1000), 1, True)
        >>> make(on).on_and_off, make(np.arange(1000) % 100 < 50).on_and_off
        (True, False)
        """
        if not self.categorical:
            return False
        count = np.unique(self.values, axis=0, return_counts=True)[1]
        return len(count) == 2 and bool(count.min() < SELDOM_ON * count.sum())

    @cached_property
    def _quantiles(self) -> np.ndarray:
        return np.quantile(self.values, np.linspace(0, 1, 241), axis=0)

    def _knots(self, number: int) -> list[np.ndarray]:
        """So many quantiles of each column, or fewer where they are the same."""
        if number not in self._knots_by_number:
            few = np.linspace(0, 240, number).astype(int)
            self._knots_by_number[number] = [np.unique(each[few]) for each in self._quantiles.T]
        return self._knots_by_number[number]

    def functions(self, rows: np.ndarray, count: int, high: float = 6.0) -> np.ndarray:
        """Smooth features of the values at some time steps: themselves and waves of them, or the labels."""
        own = self.values[rows]
        if self.categorical:
            return own
        return np.concatenate([own, waves(own, count, 0.5, high)], axis=1, dtype=np.float32)

    def fine_functions(self, rows: np.ndarray, count: int) -> np.ndarray:
        """Features that any function of the values is made of, as far as possible.

        Of one variable these are piecewise linear ones with knots at its quantiles, of up to `MOST_PAIRED` ones
        products of those of any two; of three and more smooth ones of all beside them.
        """
        columns = self.values.shape[1]
        if self.categorical or columns > MOST_PAIRED:
            return self.functions(rows, count)
        pairs = list(combinations(range(columns), 2))
        knots = self._knots(int(np.sqrt(6 * count / len(pairs))) if pairs else 2 * count)
        if min(map(len, knots)) < 3:
            return self.functions(rows, count)
        own = self.values[rows]
        if not pairs:
            return np.concatenate([own, hats(own[:, 0], knots[0])], axis=1, dtype=np.float32)
        cut = [own if columns == 2 else self.functions(rows, count)]
        for one, two in pairs:
            found = _products_of_hats(own[:, [one, two]], [knots[one], knots[two]])
            key = count, one, two
            if key not in self._visited:  # the variables may keep to a part of the plane, as an angle does
                whole = _products_of_hats(self.values[:, [one, two]], [knots[one], knots[two]])
                self._visited[key] = np.flatnonzero(whole.any(0))
            cut.append(found[:, self._visited[key]])
        return np.concatenate(cut, axis=1, dtype=np.float32)

    def changing_functions(self, rows: np.ndarray, steps: int, count: int) -> np.ndarray:
        """The same, each times slow cosines of time: of which tuning that changes through the session is made."""
        return products(2 * self.fine_functions(rows, count), trend(rows, steps, CHANGES))


def _products_of_hats(values: np.ndarray, knots: list[np.ndarray]) -> np.ndarray:
    one, two = (hats(column, each) for column, each in zip(values.T, knots, strict=True))
    return (one[:, :, None] * two[:, None, :]).reshape(len(values), -1)


def choose_lag(values: np.ndarray, first: np.ndarray) -> int:
    """The shortest lag at which the autocorrelation has fallen to `ALIKE`."""
    power = np.square(values).sum()
    for lag in LAGS:
        if (values * values[earlier(first, lag)]).sum() <= ALIKE * power:
            return lag
    return LAGS[-1]


def run_starts(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The first step of the run of equal values that each step belongs to, within epochs: (time,)."""
    new = np.r_[True, (values[1:] != values[:-1]).any(1) | (first[1:] != first[:-1])]
    return np.flatnonzero(new)[np.cumsum(new) - 1]


@dataclass(frozen=True)
class Question:
    """One space's question. `parts(rows)` gives the features at some time steps.

    space : the space asked about. others : those that are conditioned on. history : None with the level question.
    channels : (time, channel), whitened. same : spaces that say the same: only their past is conditioned on.
    reach : time steps by which channels may lead or lag.
    """

    space: Variable
    others: Mapping[str, Variable]
    history: History | None
    channels: np.ndarray
    first: np.ndarray
    last: np.ndarray
    same: Mapping[str, Variable] = field(default_factory=dict)
    reach: int = 0

    def count(self, number: int) -> int:
        """So many features, or fewer in a short recording."""
        return max(2, round(number * min(1, len(self.first) / ENOUGH)))

    def parts(self, rows: np.ndarray) -> Parts:
        """All that the regressions are made of, at some time steps."""
        given, past, features = self.given(rows), [], self._features(rows)
        if self.space.innovation and not self.space.categorical:
            cosines, sines = self._waves_of_change(rows)
            (given if self.either_way else features).append(cosines)
            features.append(sines)
        if self.history is not None:
            flat, recent = self.history.averages[rows].reshape(len(rows), -1), self.history.recent[rows]
            past += [flat, waves(flat, self.count(6), 0.1, 1.5)]
            if self.space.innovation:  # what products with the channels' past, among the features, have of the past
                given.append(products(self.space.columns[self._past(rows, 0)], recent[:, :INTERACTING]))
            for other in self.others.values():
                values = other.columns[rows]
                given.append(products(values, recent[:, :INTERACTING]))
                joined = np.concatenate([values, recent[:, :6]], axis=1)
                past.append(products(waves(values, self.count(4), 0.5, 4.0, seed=3), recent[:, :4]))
                past.append(waves(joined, self.count(10), 0.3, 2.0, seed=2))
        return put_together(given, past, features, self.channels[as_slice(rows)])

    def given(self, rows: np.ndarray) -> list[np.ndarray]:
        """What is conditioned on but the past of the channels, at some time steps: drift, and functions of
        variables."""
        given, joint = [np.ones((len(rows), 1)), trend(rows, len(self.first), 10)], []
        lags = np.array([*dict.fromkeys((*AROUND, *self.space.late, *[self.reach] * (self.reach > 0)))])
        around = self._within_epoch(rows, np.concatenate([-lags, lags]))
        for other in self.others.values():
            given += self._functions(other, rows)
            joint.append(other.columns[rows])
            if not other.path:
                continue
            given.append(other.columns[around].reshape(len(rows), -1))
            given += self._history_of(other, rows)
            if self.reach and not other.categorical:
                shifted = self._before(rows, self.reach), self._after(rows, self.reach)
                given += [waves(other.columns[index], self.count(8), 0.5, 6.0) for index in shifted]
            if not other.categorical:
                for lag in (lag for lag in self.space.late if lag not in other.late):
                    given.append(waves(other.columns[self._before(rows, lag)], self.count(8), 0.5, 6.0))
        if len(self.others) > 1:  # what the joint waves among the features have of the other spaces alone
            given.append(self._joint_waves(np.zeros_like(self.space.columns[rows]), rows))
        if self.space.innovation:
            index, before = self._past(rows, 0), np.stack([self._past(rows, more) for more in (1, 5)], axis=1)
            others = [other for other in self.others.values() if other.path]
            for each in (self.space, *others, *self.same.values()):
                given.append(each.fine_functions(index, self.count(16)))
                given.append(each.columns[before].reshape(len(rows), -1))
                joint.append(each.columns[index])
            given.append(waves(np.concatenate(joint, axis=1), self.count(16), 0.5, 4.0))
        return given + self._clocks(rows)

    def _functions(self, other: Variable, rows: np.ndarray) -> list[np.ndarray]:
        """Functions of another space's values at present, and when channels respond to them."""
        changing = [other.changing_functions(rows, len(self.first), self.count(6))] if other.wanders else []
        late = [other.fine_functions(self._before(rows, lag), self.count(16)) for lag in other.late]
        early = [other.fine_functions(self._after(rows, lead), self.count(16)) for lead in other.early]
        if other.late and not other.abrupt:  # and what outlasts it
            late += [each[rows] for each in other.averages]
        return [other.fine_functions(rows, self.count(24)), *changing, *late, *early]

    def _history_of(self, other: Variable, rows: np.ndarray) -> list[np.ndarray]:
        """Values of another space's variable at each of the steps before, and how much it had just changed then, if
        it changes abruptly."""
        if not other.abrupt:
            return []
        pieces = HISTORY[: max(1, self.count(HISTORY_COLUMNS) // (2 * other.columns.shape[1]))]
        lags = -np.arange(pieces[-1][1] + 2)
        values = other.columns[self._within_epoch(rows, lags)]  # (rows, lag, column)
        changes = np.abs(values[:, :-1] - values[:, 1:])
        starts = [a for a, _ in pieces]
        size = np.array([b + 1 - a for a, b in pieces], np.float32)[:, None]
        told = [np.add.reduceat(each, starts, axis=1) / size for each in (values[:, :-1], changes)]
        return [told[0].reshape(len(rows), -1), changes[:, 0], told[1].reshape(len(rows), -1)]

    def _joint_waves(self, own: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Waves of values (rows, k) of the space and those of all other spaces together."""
        everything = [own, *(other.columns[rows] for other in self.others.values())]
        return waves(np.concatenate(everything, axis=1), self.count(12), 0.3, 3.0, seed=1)

    @cached_property
    def is_time_in_epoch(self) -> bool:
        """Whether the time since the start of the epoch tells the space: then it cannot be conditioned on."""
        if len(epoch_starts(self.first)) < MANY:
            return False
        rows = np.arange(0, len(self.first), max(1, len(self.first) // 5_000))
        clock, own = _clock(rows, self.first, 24), self.space.narrow(8)[rows]
        left = own - clock @ np.linalg.lstsq(clock, own, rcond=None)[0] if clock.shape[1] else own
        return bool(np.square(left).sum() < CLOCK_LEAVES * np.square(own - own.mean(0)).sum())

    @cached_property
    def _starts(self) -> list[np.ndarray]:
        """What a response may be locked to that is not about the values: the start of each step's run of equal
        values, where they change seldom, and of its epoch, where there are many."""
        many = len(epoch_starts(self.first)) >= MANY and not self.is_time_in_epoch
        held = run_starts(self.space.values, self.first) if self._any_change is None else self._any_change
        locked = self.space.seldom and not self.space.on_and_off
        return [held] * locked + [self.first] * many

    @cached_property
    def _any_change(self) -> np.ndarray | None:
        """The start of the stretch that each step belongs to in which none of the variables changes that stand
        still most of the time, this one and others: it marks trials that no single one of them does. None if there
        is one such variable only."""
        held = [other.values for other in self.others.values() if other.seldom]
        if not (self.space.seldom and held):
            return None
        return run_starts(np.concatenate([self.space.values, *held], axis=1), self.first)

    def _clocks(self, rows: np.ndarray) -> list[np.ndarray]:
        """Functions of the time since what a response may be locked to; since any change, one for each value of the
        other variables that stand still: a response in each trial is theirs."""
        out = [_clock(rows, start, self.count(24)) for start in self._starts]
        if self._any_change is not None:
            since = _clock(rows, self._any_change, self.count(10))
            out += [products(2 * other.columns[rows], since) for other in self.others.values() if other.seldom]
        return out

    def _within_epoch(self, rows: np.ndarray, shifts: np.ndarray) -> np.ndarray:
        """The time steps so much later than each, or the edge of its epoch: (rows, shifts)."""
        return np.clip(rows[:, None] + shifts, self.first[rows][:, None], self.last[rows][:, None])

    def _before(self, rows: np.ndarray, lag: int) -> np.ndarray:
        return np.maximum(rows - lag, self.first[rows])

    def _after(self, rows: np.ndarray, lag: int) -> np.ndarray:
        return np.minimum(rows + lag, self.last[rows])

    def _past(self, rows: np.ndarray, more: int) -> np.ndarray:
        return np.maximum(self.space.past[rows] - self.reach - more, self.first[rows])

    def _features(self, rows: np.ndarray) -> list[np.ndarray]:
        own = self.space.columns
        out = [self.space.functions(rows, self.count(16))]
        out += [self.space.functions(self._before(rows, lag), self.count(8)) for lag in self.space.late]
        if self.reach:
            for index in (self._before(rows, self.reach), self._after(rows, self.reach)):
                out.append(self.space.functions(index, self.count(8), 3.0))
        if self.others:
            out.append(self._joint_waves(own[rows], rows))
        if self.history is not None:
            out.append(products(own[rows], self.history.recent[rows][:, :INTERACTING]))
        return out

    @cached_property
    def either_way(self) -> bool:
        """Whether the space's variables move step by step, and as far one way as the other: then how far they moved
        says nothing of which way. Of what jumps up and falls slowly, or of single events, it would say all."""
        if self.space.categorical or self.space.seldom or self.space.abrupt:
            return False
        few = np.arange(0, len(self.first), max(1, len(self.first) // 5_000))
        moved = self.space.columns[few] - self.space.columns[self.space.past[few]]
        design = np.concatenate([np.ones((len(few), 1)), self._waves_of_change(few)[0]], axis=1)
        left = moved - design @ np.linalg.lstsq(design, moved, rcond=None)[0]
        whole = np.square(moved - moved.mean(0)).sum()
        return bool(np.square(left).sum() > (1 - ONE_SIDED) * whole)

    def _waves_of_change(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cosines and sines of how the space's variables have changed since their past, (rows, waves) each.

        Cosines say how far it moved, sines which way. Something hidden, such as arousal, may scale how far an
        animal moves, and channels that carry it would be called for the variable; so cosines are conditioned on.
        """
        own = self.space.columns
        change = (own[rows] - own[self.space.past[rows]]) / USUAL_CHANGE
        both = np.float32(0.5) * waves(change, self.count(6), 0.5, 3.0)
        return both[:, : both.shape[1] // 2], both[:, both.shape[1] // 2 :]


def epoch_clock(rows: np.ndarray, first: np.ndarray, count: int) -> list[np.ndarray]:
    """Functions of the time since the start of the epoch, (rows, ...), if there are many epochs; otherwise none."""
    return [_clock(rows, first, count)] if len(epoch_starts(first)) >= MANY else []


def _clock(rows: np.ndarray, start: np.ndarray, count: int) -> np.ndarray:
    """Any function of the time since a start, with knots at its quantiles. start : (time,), that of each step."""
    since = np.log1p(np.arange(len(start)) - start)
    knots = np.unique(np.quantile(since, np.linspace(0, 1, 2 * count)))
    return hats(since[rows], knots) if len(knots) > 2 else np.zeros((len(rows), 0))
