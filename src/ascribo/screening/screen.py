"""Which channels carry which known variable: calls in seconds, without training an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ..data.containers import as_recording
from ..data.recording import Recording
from ..spaces.base import Space, check_values
from ..support.memory import memory_budget, require_memory
from ..support.names import suggest
from .diagnostics import Note
from .memory_needs import screening_needs
from .space_result import SpaceTest
from .space_tests import FLIPS, screen_spaces

__all__ = ["Screening", "screen"]


@dataclass(frozen=True)
class Screening:
    """The answer of `screen`.

    calls : a row per channel and space. score is the share of the channel's variance (of its ranks, as normal
        scores) that the asked part of the space explains and nothing else does, ci_low and ci_high its 95%
        interval; p, q and `called` are those of the test; `question` is "innovation", "level" or "none" (refused,
        and a note says why). level is the share that the values of the space tell in time that was not fitted,
        whatever else goes with them: it can be compared between spaces, and is not tested. beyond_velocity, where a
        variable moves on smoothly, is what is left of the score once its velocity is conditioned on.
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


def screen(
    recording: Any, spaces: Mapping[str, Space], q: float = 0.05, *, memory: str | int | None = None
) -> Screening:
    """Find the channels that carry each of some known variables, without training an encoder.

    For each space, features of its variables and the channels' normal scores are regressed on all else that is
    known: the other spaces, the past of all channels (which stands for what is hidden), slow drift. What is left of
    both is multiplied, and its sum compared with what turning the signs of blocks of time gives: see
    docs/screening.md for what this can and cannot tell. `ContrastiveEmbedding.attribute` reports the same test.

    Parameters
    ----------
    recording : Recording, or anything that is accepted as one. Of more than 100,000 time steps so many are used, in
        evenly spaced runs.
    spaces : name -> `Follow`, `Regress` or `Discrete` space. Spaces of time alone, which have no variable, are left
        out. Nuisance spaces are conditioned on and not asked about.
    q : false discovery rate within each space (Benjamini and Hochberg).
    memory : what this may take at most, such as "2GB", in addition to what the process has already; see
        `ContrastiveEmbedding`. None: no limit.

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
    with memory_budget(memory):
        what = f"screening {len(recording):,} time steps of {recording.X.shape[1]:,} channels"
        require_memory(screening_needs(recording, asked), what, "screen fewer channels or spaces")
        tests = screen_spaces(recording, asked, flips=max(FLIPS, int(4 * recording.X.shape[1] / q)))
    tables = [_table(recording, test, q) for test in tests]
    return Screening(pd.concat(tables, ignore_index=True), [note for test in tests for note in test.notes], q)


def _check(recording: Recording, spaces: Mapping[str, Space]) -> None:
    if not any(not space.nuisance for space in spaces.values()):
        raise ValueError("no space with variables was given: screen needs at least one Follow or Discrete space.")
    for name, space in spaces.items():
        for variable in space.variables:
            if variable not in recording.variables:
                near = suggest(variable, recording.variables)
                raise ValueError(f"space {name!r}: no variable is called {variable!r}{near}")
            column: Any = recording.variables[variable]
            check_values(name, space, variable, column)


def _table(recording: Recording, test: SpaceTest, q: float) -> pd.DataFrame:
    known = np.isfinite(test.p).all()
    adjusted = stats.false_discovery_control(test.p) if known else test.p
    return pd.DataFrame(
        {
            "channel": recording.channel_names,
            "space": test.space,
            "score": test.score,
            "level": test.level,
            **({} if test.beyond_velocity is None else {"beyond_velocity": test.beyond_velocity}),
            "question": test.question,
            "p": test.p,  # what stands in the middle is left out first where a table is printed in 80 columns
            "q": adjusted,
            "ci_low": test.ci_low,
            "ci_high": test.ci_high,
            "called": adjusted <= q,
        }
    )
