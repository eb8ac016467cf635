"""Responses that outlast what they respond to, as those of a calcium indicator do.

What is new in a variable is over before a slow channel has told of it. So channels that are slower than the
variable are asked a second question, and so are all channels about a variable that stands still most of the time:
do they tell of *averages* of the variable over the time before? The other spaces' averages are conditioned on. Slow
signals have few independent moments; so of all columns, features and channels alike, what the step before tells by
the channels' usual persistence is taken away first (Cochrane and Orcutt 1949). p is twice the smaller of both
questions'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .features import averages, trend
from .questions import ALIKE, AROUND, Question, Variable
from .regression import Parts, put_together

__all__ = ["SlowQuestion", "slow_question", "slower_channels"]

AVERAGED = (5.0, 20.0, 80.0)
"""Time steps over which the variables are averaged."""
NEARLY_WHITE = 0.1
"""Autocorrelation below which a channel is nearly white."""
LOOKED_AT = 5_000
"""Time steps from which it is judged which channels are slower."""
WAVES = 4
"""Waves of the variables among what is averaged."""


def slower_channels(variable: Variable, scores: np.ndarray) -> np.ndarray:
    """Channels that are asked the second question: those that keep more over the variable's lag than it does
    (autocorrelation above `ALIKE`) or next to nothing (below `NEARLY_WHITE`), or all if it seldom changes.

    Of a channel that is nearly white all past values can be asked about at once: next to nothing that is slow goes
    along with them. scores : (time, channel).
    """
    if variable.seldom:
        return np.arange(scores.shape[1])
    few = np.arange(0, len(scores), max(1, len(scores) // LOOKED_AT))
    kept = np.einsum("tc,tc->c", scores[few], scores[variable.past[few]]) / len(few)
    return np.flatnonzero((kept > ALIKE) | (np.abs(kept) < NEARLY_WHITE))


def slow_question(
    variable: Variable, others: Mapping[str, Variable], channels: np.ndarray, first: np.ndarray, last: np.ndarray
) -> SlowQuestion:
    """The second question. channels : normal scores (time, channel) of those that are asked."""
    before = np.maximum(np.arange(len(first)) - 1, first)
    kept = np.einsum("tc,tc->c", channels, channels[before]) / np.maximum(np.square(channels).sum(0), 1e-12)
    persistence = np.float32(np.clip(np.median(kept), 0, 0.99))
    change = channels - persistence * channels[before]
    spread = change.std(0)
    change /= np.where(spread > 0, spread, np.inf)
    return SlowQuestion(variable, others, None, change, first, last, persistence=float(persistence))


@dataclass(frozen=True)
class SlowQuestion(Question):
    """The question about averages.

    channels : what the step before does not tell of them, of variance one. persistence : the share of the step
    before that is taken away from all columns.
    """

    persistence: float = 0.0

    @cached_property
    def _averages(self) -> dict[int, np.ndarray]:
        """Averages of functions of each variable: (time, columns)."""
        rows = np.arange(len(self.first))
        out = {}
        for each in (self.space, *self.others.values()):
            found = averages(each.functions(rows, WAVES, 3.0), AVERAGED, self.first)
            out[id(each)] = np.ascontiguousarray(np.concatenate([*found], axis=1))
        return out

    def parts(self, rows: np.ndarray) -> Parts:
        """All that the regressions are made of, at some time steps."""
        now, before = self._columns(rows), self._columns(self._before(rows, 1))
        return replace(now, x=now.x - np.float32(self.persistence) * before.x)

    def _columns(self, rows: np.ndarray) -> Parts:
        given = [np.ones((len(rows), 1)), trend(rows, len(self.first), 10)]
        for other in self.others.values():
            given += self._functions(other, rows)
            if other.path:
                given += [other.columns[self._before(rows, lag)] for lag in AROUND]
                given += [other.columns[self._after(rows, lag)] for lag in AROUND]
                given += self._history_of(other, rows)
                given.append(self._averages[id(other)][rows])
        given += self._clocks(rows)
        return put_together(given, [], [self._averages[id(self.space)][rows]], self.channels[rows])
