"""Pairs of several sessions: references in every session, positives across sessions through shared variables.

In each step every session draws as many references. The positive of a space that sessions share lies in any of the
sessions that have it, all equally often (`ascribo.spaces.sessions`), and its negatives are as many, an equal share
from each of these sessions. Positives and negatives of a space that follows time stay in their session: with
negatives of others an encoder could lower the loss by adding a constant that tells the sessions apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...spaces.base import Space
from ...spaces.pairs import Rows, arrange
from ...spaces.positives import Positives
from ...spaces.sessions import Across, Member, partners

__all__ = ["Measures", "SessionPairs", "joint_measures"]

Measures = dict[str, Any]
"""What values of different sessions are compared by, for each space that needs it: see `Space.measure`."""


def joint_measures(spaces: Mapping[str, Space], tables: Sequence[pd.DataFrame]) -> Measures:
    """What makes the variables of sessions comparable, from all of their time steps together.

    >>> from ascribo import Discrete, Follow
    >>> tables = [pd.DataFrame({"x": [0, 1], "s": ["a", "b"]}), pd.DataFrame({"x": [2, 3], "s": ["c", "a"]})]
    >>> joint_measures({"x": Follow("x", 1), "s": Discrete("s", 1)}, tables)
    {'x': array([1.11803399]), 's': ['a', 'b', 'c']}
    """
    out: Measures = {}
    for name, space in spaces.items():
        measure = space.measure([t for t in tables if set(space.variables) <= set(t)])
        if measure is not None:
            out[name] = measure
    return out


class SessionPairs:
    """Index batches of several sessions.

    Parameters
    ----------
    spaces : name -> Space, those of the whole model.
    members : the sessions.
    measures : what their variables are compared by, see `joint_measures`.

    rows : for each session, which rows of its batch hold the references, positives and negatives of its spaces. The
        positives of a space with variables are those that *lie* in the session; see `partners` for whose they are.
    sessions : for each space that is shared, the numbers of the sessions that have it.

    Examples
    --------
    >>> from ascribo import Follow, Time
    >>> spaces = {"x": Follow("x", 1), "rest": Time(1)}
    >>> members = [Member(spaces, pd.DataFrame({"x": np.linspace(0, 1, n)}), np.zeros(n, int)) for n in (100, 50)]
    >>> pairs = SessionPairs(spaces, members, joint_measures(spaces, [m.variables for m in members]))
    >>> index, valid = pairs.draw(np.random.default_rng(0), start=0, steps=5, batch=8)
    >>> [part.shape for part in index], valid["x"].shape
    ([(5, 4, 8), (5, 4, 8)], (2, 5, 8))
    """

    def __init__(self, spaces: Mapping[str, Space], members: Sequence[Member], measures: Measures):
        self.uniform: list[list[np.ndarray]] = []
        self.rows: list[Rows] = []
        for member in members:
            own = member.spaces
            usable = [member.segments >= 0, *(space.usable(member.segments) for space in own.values())]
            usable = np.logical_and.reduce(usable)
            pools = {n: np.flatnonzero(usable & space.known(member.variables)) for n, space in own.items()}
            uniform, rows = arrange(own, pools)
            self.uniform.append(uniform)
            self.rows.append(rows)
        self.across: dict[str, Across] = {}
        self.within: dict[str, dict[int, Positives]] = {}
        for name, space in spaces.items():
            having = {k: member for k, member in enumerate(members) if name in member.spaces}
            if not space.contrastive or not having:
                continue
            across = space.across(name, having, measures.get(name))
            if across is None:
                self.within[name] = {k: space.positives(m.variables, m.segments) for k, m in having.items()}
            else:
                self.across[name] = across
        self.sessions = {name: across.sessions for name, across in self.across.items()}
        self.width = [
            len(uniform) + sum(space.contrastive for space in member.spaces.values())
            for uniform, member in zip(self.uniform, members, strict=True)
        ]

    def draw(
        self, rng: np.random.Generator, start: int, steps: int, batch: int
    ) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        """Steps start, start + 1, ... of training.

        Returns time steps (steps, rows, batch) of each session, each counting from its own start, and for each
        space with variables whether the positive of a reference counts: (session, steps, batch), the sessions being
        those in `sessions`.
        """
        out = [np.empty((steps, width, batch), dtype=np.int64) for width in self.width]
        for k, pools in enumerate(self.uniform):
            for row, pool in enumerate(pools):
                out[k][:, row] = pool[rng.integers(0, len(pool), (steps, batch))]
            for name, positives in self.within.items():
                if k in positives:
                    reference, row, _ = self.rows[k][name]
                    out[k][:, row] = positives[k].draw(rng, out[k][:, reference].ravel()).reshape(steps, batch)
        valid = {}
        for name, across in self.across.items():
            references = np.stack([out[k][:, self.rows[k][name][0]] for k in across.sessions])
            positives, valid[name] = across.draw(rng, references, start)
            for k, positive in zip(across.sessions, positives, strict=True):
                out[k][:, self.rows[k][name][1]] = positive
        return out, valid

    def keep(self, session: int) -> dict[str, np.ndarray]:
        """What is kept of a session beside single time steps of it, by space: see `Across.keep`."""
        having = {name: across for name, across in self.across.items() if session in across.sessions}
        found = {name: across.keep(session) for name, across in having.items()}
        return {name: value for name, value in found.items() if value is not None}

    def overlap(self, draws: int = 2000) -> pd.DataFrame:
        """How much of each session has a counterpart in each other: space, session, other (numbers), share."""
        rng, found = np.random.default_rng(0), []
        batch = draws - draws % max([len(s) for s in self.sessions.values()], default=1)
        _, valid = self.draw(rng, 0, 1, max(batch, 1))
        for name, sessions in self.sessions.items():
            turn = partners(len(sessions), valid[name].shape[-1], 0)
            for k, session in enumerate(sessions):
                for j, other in enumerate(sessions):
                    if j != k:
                        found.append((name, session, other, float(valid[name][k, 0][turn[k] == j].mean())))
        return pd.DataFrame(found, columns=["space", "session", "other", "share"])
