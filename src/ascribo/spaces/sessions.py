"""Positives across sessions: who is compared with whom when several recordings share a space.

In each training step every session draws as many references, and the positive of a reference lies in any of the
sessions that share the space, all equally often. Which session holds it is not drawn but goes round: the positive
of reference i of session k is at place i of session (k + i + step) mod sessions. So each session embeds as many
positives as references.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd

from .positives import SameGroup

__all__ = ["Across", "Member", "SameGroupAcross", "partners", "senders", "turns"]


@dataclass(frozen=True)
class Member:
    """One session as the pairs see it.

    spaces : those whose variables it has. variables, segments : of its time steps; segment -1 is not used.
    kept : space -> what was kept of a session of which only single time steps are left (`Across.keep`).
    """

    spaces: Mapping[str, Any]
    variables: pd.DataFrame
    segments: np.ndarray
    kept: Mapping[str, np.ndarray] = field(default_factory=dict)


class Across(Protocol):
    """How the positives of a space are drawn across sessions.

    sessions : the numbers of the sessions that have the space.
    """

    @property
    def sessions(self) -> list[int]:
        """See the class."""
        ...

    def draw(self, rng: np.random.Generator, references: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
        """Positives of steps start, start + 1, ... and whether they count.

        references : (session, step, batch) time steps, each counting from its session's start. Returns the
        positives that *lie* in each session (see `partners` for whose they are), and for each reference whether its
        positive counts: both (session, step, batch).
        """
        ...

    def keep(self, session: int) -> np.ndarray | None:
        """What must be kept of a session, beside the variables of single time steps, so that others can later be
        trained against it; `Member.kept` hands it back. None: nothing."""
        ...


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


def turns(sessions: int, steps: int, batch: int, start: int) -> tuple[np.ndarray, np.ndarray]:
    """`senders` and `partners` of steps start, start + 1, ...: (session, step, batch) each."""
    both = [[f(sessions, batch, start + s) for s in range(steps)] for f in (senders, partners)]
    return np.stack(both[0], 1), np.stack(both[1], 1)


@dataclass(frozen=True)
class SameGroupAcross:
    """Positives that share a group, in several sessions: they count where the other session has the group at all.

    parts : of each session its groups; a group has the same number in all, and all have as many groups.
    """

    sessions: list[int]
    parts: list[SameGroup]

    def draw(self, rng: np.random.Generator, references: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Across`."""
        sessions, steps, batch = references.shape
        codes = np.stack([part.codes[r] for part, r in zip(self.parts, references, strict=True)])
        sender, partner = turns(sessions, steps, batch, start)
        step, place = np.arange(steps)[:, None], np.arange(batch)
        positives, valid = np.empty_like(references), np.empty(references.shape, dtype=bool)
        for k, part in enumerate(self.parts):
            asked, sizes = codes[sender[k], step, place], part.groups.sizes
            valid[k] = sizes[asked] > 0
            positives[k] = part.groups.pick(rng, np.where(valid[k], asked, sizes.argmax()))
        return positives, valid[partner, step, place]

    def keep(self, session: int) -> None:
        """See `Across`: the variables tell the groups."""
