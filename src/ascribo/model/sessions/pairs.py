"""Pairs of several sessions: references in every session, positives across sessions through shared variables.

In each step every session draws as many references, and

- the positive of a space with variables lies in any of the sessions that have them, all equally often: c' = c(t) +
  Δ with Δ from any session, and the step of the positive's session whose variables are nearest to c'. Where a pair
  comes from then says nothing about how far apart it is, so one distance can serve all sessions. Variables are
  divided by one standard deviation for all sessions, that of their steps put together.
- its negatives are as many, an equal share from each of these sessions.
- positives and negatives of a `Time` space stay in their session: with negatives of others an encoder could lower
  the loss by adding a constant that tells the sessions apart.

Not every c' has a counterpart: the other animal may never have been there. A positive that is further from c' than
a tenth of a standard deviation in each variable, and further than Δ is long, does not count (`valid`); nor does one
of a session that has not the reference's label.

Which session holds the positive of which reference is not drawn but goes round: that of reference i of session k
is at place i of session (k + i + step) mod sessions. So each session embeds as many positives as references.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ...data.segments import same_segment
from ...spaces.base import Space
from ...spaces.discrete import Discrete
from ...spaces.follow import Follow
from ...spaces.pairs import Rows, arrange
from ...spaces.positives import (
    Following,
    Groups,
    Neighbours,
    SameLabel,
    coordinates,
    following,
    known,
    scales,
    wrap,
)
from ...spaces.regress import Regress
from ...spaces.time import Time

__all__ = ["Measures", "Member", "SessionPairs", "measures_of", "partners", "senders"]

NEAR = 0.1
"""Standard deviations (in each variable) within which a step of another session stands for the same values."""

Measures = dict[str, np.ndarray | list]
"""What values of different sessions are compared by: of a Follow space the scales (variable,), of a Discrete space
the labels."""


def partners(sessions: int, batch: int, step: int) -> np.ndarray:
    """The session in which the positive of each reference lies: (session, batch).

    >>> partners(3, 5, step=0)
    array([[0, 1, 2, 0, 1],
           [1, 2, 0, 1, 2],
           [2, 0, 1, 2, 0]])
    """
    return (np.arange(sessions)[:, None] + np.arange(batch) + step) % sessions


def senders(sessions: int, batch: int, step: int) -> np.ndarray:
    """The session whose reference the positive at each place belongs to, the inverse of `partners`."""
    return (np.arange(sessions)[:, None] - np.arange(batch) - step) % sessions


@dataclass(frozen=True)
class Member:
    """One session as the pairs see it.

    spaces : those whose variables it has. variables, segments : of its time steps; segment -1 is not used.
    changes : space -> (n, variable) changes, scaled, of a session of which only single steps are left.
    """

    spaces: Mapping[str, Space]
    variables: pd.DataFrame
    segments: np.ndarray
    changes: Mapping[str, np.ndarray] = field(default_factory=dict)


def measures_of(spaces: Mapping[str, Space], tables: Sequence[pd.DataFrame]) -> Measures:
    """What makes the variables of sessions comparable, from all of their steps together.

    >>> tables = [pd.DataFrame({"x": [0, 1], "s": ["a", "b"]}), pd.DataFrame({"x": [2, 3], "s": ["c", "a"]})]
    >>> measures_of({"x": Follow("x", 1), "s": Discrete("s", 1)}, tables)
    {'x': array([1.11803399]), 's': ['a', 'b', 'c']}
    """
    out: Measures = {}
    for name, space in spaces.items():
        have = [t for t in tables if set(space.variables) <= set(t)]
        if isinstance(space, Follow):
            out[name] = scales(space, pd.DataFrame(pd.concat([t[list(space.variables)] for t in have])))
        elif isinstance(space, Discrete):
            labels = pd.concat([t[space.variable].astype(object) for t in have]).dropna().unique()
            out[name] = [label.item() if isinstance(label, np.generic) else label for label in labels]
    return out


@dataclass(frozen=True)
class _FollowAcross:
    """Positives of a Follow space in several sessions."""

    sessions: list[int]
    parts: list[Following]
    changes: np.ndarray
    origin: Groups

    @classmethod
    def of(cls, name: str, space: Follow, members: Mapping[int, Member], scale: np.ndarray) -> _FollowAcross:
        parts, changes = [], []
        for member in members.values():
            values, box = coordinates(space, member.variables, scale)
            present = known(space, member.variables)
            if name in member.changes:
                steps = np.flatnonzero((member.segments >= 0) & present)
                distinct, group = np.unique(values[steps], axis=0, return_inverse=True)
                none = np.empty(0, dtype=np.int64)
                part = Following(values, box, none, space.offset, distinct, Groups.of(steps, group.ravel()))
                changes.append(member.changes[name])
            else:
                part = following(space, values, box, member.segments, present)
                changes.append(part.changes())
            parts.append(part)
        owner = np.repeat(np.arange(len(changes)), [len(c) for c in changes])
        return cls(list(members), parts, np.concatenate(changes), Groups.of(np.arange(len(owner)), owner))

    def draw(self, rng, references: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
        sessions, steps, batch = references.shape
        # Every session is asked for its changes equally often, whosever reference it is.
        change = self.changes[self.origin.pick(rng, rng.integers(0, sessions, references.shape))]
        values = np.stack([part.values[r] for part, r in zip(self.parts, references, strict=True)])
        box = self.parts[0].box
        target, length = wrap(values + change, box), np.linalg.norm(change, axis=-1)
        sender, partner = _turns(sessions, steps, batch, start)
        step, place = np.arange(steps)[:, None], np.arange(batch)
        positives, distance = np.empty_like(references), np.empty(references.shape)
        for k, part in enumerate(self.parts):
            asked = target[sender[k], step, place]
            found = part.nearest(rng, asked.reshape(-1, asked.shape[-1]))
            positives[k], distance[k] = (value.reshape(steps, batch) for value in found)
        near = NEAR * np.sqrt(target.shape[-1])
        return positives, distance[partner, step, place] <= np.maximum(length, near)


@dataclass(frozen=True)
class _LabelAcross:
    """Positives of a Discrete space in several sessions."""

    sessions: list[int]
    parts: list[SameLabel]

    @classmethod
    def of(cls, space: Discrete, members: Mapping[int, Member], labels: list) -> _LabelAcross:
        parts = []
        for member in members.values():
            column = member.variables[space.variable].astype(object)
            codes = np.asarray(pd.Categorical(column, categories=labels).codes, dtype=np.int64)
            steps = np.flatnonzero((member.segments >= 0) & (codes >= 0))
            parts.append(SameLabel(codes, Groups.of(steps, codes[steps], least=len(labels))))
        return cls(list(members), parts)

    def draw(self, rng, references: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
        sessions, steps, batch = references.shape
        codes = np.stack([part.codes[r] for part, r in zip(self.parts, references, strict=True)])
        sender, partner = _turns(sessions, steps, batch, start)
        step, place = np.arange(steps)[:, None], np.arange(batch)
        positives, valid = np.empty_like(references), np.empty(references.shape, dtype=bool)
        for k, part in enumerate(self.parts):
            asked, sizes = codes[sender[k], step, place], part.groups.sizes
            valid[k] = sizes[asked] > 0
            positives[k] = part.groups.pick(rng, np.where(valid[k], asked, sizes.argmax()))
        return positives, valid[partner, step, place]


def _turns(sessions: int, steps: int, batch: int, start: int) -> tuple[np.ndarray, np.ndarray]:
    """`senders` and `partners` of steps start, start + 1, ...: (session, step, batch) each."""
    both = [[f(sessions, batch, start + s) for s in range(steps)] for f in (senders, partners)]
    return np.stack(both[0], 1), np.stack(both[1], 1)


class SessionPairs:
    """Index batches of several sessions.

    Parameters
    ----------
    spaces : name -> Space, those of the whole model.
    members : the sessions.
    measures : what their variables are compared by, see `measures_of`.

    rows : for each session, which rows of its batch hold the references, positives and negatives of its spaces. The
        positives of a space with variables are those that *lie* in the session; see `partners` for whose they are.
    sessions : for each contrastive space with variables, the numbers of the sessions that have it.

    Examples
    --------
    >>> spaces = {"x": Follow("x", 1), "rest": Time(1)}
    >>> members = [Member(spaces, pd.DataFrame({"x": np.linspace(0, 1, n)}), np.zeros(n, int)) for n in (100, 50)]
    >>> pairs = SessionPairs(spaces, members, measures_of(spaces, [m.variables for m in members]))
    >>> index, valid = pairs.draw(np.random.default_rng(0), start=0, steps=5, batch=8)
    >>> [part.shape for part in index], valid["x"].shape
    ([(5, 4, 8), (5, 4, 8)], (2, 5, 8))
    """

    def __init__(self, spaces: Mapping[str, Space], members: Sequence[Member], measures: Measures):
        self.uniform: list[list[np.ndarray]] = []
        self.rows: list[Rows] = []
        for member in members:
            usable = member.segments >= 0
            for space in member.spaces.values():
                for offset in space.offsets if isinstance(space, Time) else ():
                    usable = usable & same_segment(member.segments, offset)
            pools = {n: np.flatnonzero(usable & known(s, member.variables)) for n, s in member.spaces.items()}
            uniform, rows = arrange(member.spaces, pools)
            self.uniform.append(uniform)
            self.rows.append(rows)
        self.neighbours = {n: Neighbours(np.asarray(s.offsets)) for n, s in spaces.items() if isinstance(s, Time)}
        self.across: dict[str, _FollowAcross | _LabelAcross] = {}
        for name, space in spaces.items():
            having = {k: member for k, member in enumerate(members) if name in member.spaces}
            if isinstance(space, Follow) and having:
                self.across[name] = _FollowAcross.of(name, space, having, np.asarray(measures[name]))
            elif isinstance(space, Discrete) and having:
                self.across[name] = _LabelAcross.of(space, having, list(measures[name]))
        self.sessions = {name: across.sessions for name, across in self.across.items()}
        self.width = [
            len(uniform) + sum(not isinstance(s, Regress) for s in member.spaces.values())
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
            for name, neighbours in self.neighbours.items():
                if name in self.rows[k]:
                    reference, row, _ = self.rows[k][name]
                    out[k][:, row] = neighbours.draw(rng, out[k][:, reference].ravel()).reshape(steps, batch)
        valid = {}
        for name, across in self.across.items():
            references = np.stack([out[k][:, self.rows[k][name][0]] for k in across.sessions])
            positives, valid[name] = across.draw(rng, references, start)
            for k, positive in zip(across.sessions, positives, strict=True):
                out[k][:, self.rows[k][name][1]] = positive
        return out, valid

    def changes(self, session: int) -> dict[str, np.ndarray]:
        """The changes of a session's variables, over their scales: Follow space -> (n, variable)."""
        out = {}
        for name, across in self.across.items():
            if isinstance(across, _FollowAcross) and session in across.sessions:
                first, last = across.origin.start[across.sessions.index(session) :][:2]
                out[name] = across.changes[across.origin.members[first:last]]
        return out

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
