"""What can be wrong with several sessions, found before training starts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...data.containers import as_recording
from ...data.recording import Recording
from ...spaces.base import Space
from ...spaces.kinds.follow import Follow
from ...spaces.kinds.time import Time
from ...support.names import suggest
from ..fitting import Prepared
from ..input_checks import resolve_spaces
from .session_pairs import SessionPairs

__all__ = ["as_recordings", "check_overlap", "joint_statistics", "own_spaces", "shared_spaces"]

LITTLE = 0.2
"""Share of a session that should have a counterpart in some other; below it there is a warning."""


def as_recordings(recordings: Any, y: Any = None) -> dict[str, Recording]:
    """Sessions as a dict of recordings."""
    if not isinstance(recordings, Mapping):
        raise ValueError(
            f"sessions are given as a dict of names and recordings, {{'rat1': recording, ...}}, not as "
            f"{type(recordings).__name__}."
        )
    if y is not None and (not isinstance(y, Mapping) or set(y) != set(recordings)):
        raise ValueError(f"y: expected a dict with the variables of each session, {list(recordings)}.")
    for name in recordings:
        if not isinstance(name, str) or not name:
            raise ValueError(f"session {name!r}: expected a name, a text that is not empty.")
    return {name: as_recording(X, None if y is None else y[name]) for name, X in recordings.items()}


def own_spaces(spaces: Mapping[str, Space], recording: Recording) -> dict[str, Space]:
    """The spaces of which a recording has all variables, known together at some time step.

    >>> recording = Recording(np.eye(3), {"x": [0.0, 1.0, 2.0], "y": [np.nan] * 3})
    >>> list(own_spaces({"a": Follow("x", 1), "b": Follow("y", 1), "c": Follow("z", 1), "d": Time(1)}, recording))
    ['a', 'd']
    """
    table = recording.variables
    return {n: s for n, s in spaces.items() if set(s.variables) <= set(table) and s.known(table).any()}


def shared_spaces(
    spaces: Any, recordings: Mapping[str, Recording], fitted: Mapping[str, Mapping[str, Space]] | None = None
) -> dict[str, Space]:
    """The spaces of a model of several sessions, checked against what variables they have.

    fitted : the sessions that the model has already, and their spaces.
    """
    fitted = fitted or {}
    if spaces is None:
        common = [v for v in next(iter(recordings.values())).variables if _everywhere(v, recordings)]
        if not common:
            raise ValueError(f"no variable is in all sessions ({_variables(recordings)}): nothing relates them.")
        spaces = {"variables": Follow(tuple(common), dim=len(common)), "rest": Time(dim=3)}
    wrong = not isinstance(spaces, Mapping) or not spaces
    if wrong or (bad := {n: s for n, s in spaces.items() if not isinstance(n, str) or not isinstance(s, Space)}):
        resolve_spaces(spaces if wrong else bad, next(iter(recordings.values())))  # says what is wrong
    have = {name: own_spaces(spaces, recording) for name, recording in recordings.items()} | dict(fitted)
    every = list(dict.fromkeys(v for recording in recordings.values() for v in recording.variables))
    for name, space in spaces.items():
        if not any(name in own for own in have.values()):
            missing = [v for v in space.variables if v not in every]
            if missing:
                raise ValueError(f"space {name!r}: no session has {missing[0]!r}{suggest(missing[0], every)}")
            raise ValueError(f"space {name!r}: no session has all of {list(space.variables)} at one time step.")
    for session in recordings:
        shared = {n for n in have[session] if spaces[n].variables}
        if not any(shared & set(own) for other, own in have.items() if other != session):
            wanted = sorted({v for space in spaces.values() for v in space.variables})
            raise ValueError(
                f"session {session!r} shares no variable of a space with any other session: it has "
                f"{list(recordings[session].variables) or 'none'}, the spaces are about {wanted or 'time alone'}. "
                "Sessions are brought into one space by variables that they share."
            )
    return dict(spaces)


def _everywhere(variable: str, recordings: Mapping[str, Recording]) -> bool:
    return all(variable in r.variables and r.variables[variable].notna().any() for r in recordings.values())


def _variables(recordings: Mapping[str, Recording]) -> str:
    return "; ".join(f"{name}: {', '.join(map(str, r.variables)) or 'none'}" for name, r in recordings.items())


def joint_statistics(spaces: Mapping[str, Space], prepared: Sequence[Prepared]) -> dict[str, np.ndarray]:
    """Mean and spread (2, dim) of the targets of each space that has some, over all sessions' training time."""
    out = {}
    for name, space in spaces.items():
        if not space.contrastive:
            having = [part for part in prepared if name in part.problem.spaces]
            names = list(space.variables)
            tables = [part.recording.variables.loc[part.problem.segments >= 0, names] for part in having]
            joint = pd.DataFrame(pd.concat(tables))
            out[name] = space.target_statistics(joint, np.arange(len(joint)))
    return out


def check_overlap(pairs: SessionPairs, names: Sequence[str], asked: Sequence[str]) -> pd.DataFrame:
    """How much of each session has a counterpart in each other; warns or refuses if it is little or nothing.

    names : of the sessions of the pairs. asked : those that are to be trained; rows about others are left out.
    """
    table = pairs.overlap()
    table = table.assign(**{column: [names[k] for k in table[column]] for column in ("session", "other")})
    table = table.loc[table["session"].isin(asked) | table["other"].isin(asked)].reset_index(drop=True)
    for session in asked:
        for space, share in table.loc[table["session"] == session].groupby("space", sort=False)["share"]:
            best = float(share.max())
            if best == 0:
                raise ValueError(
                    f"space {space!r}: no time step of session {session!r} has a counterpart in another session: "
                    "the values of its variables do not meet. Are their units, and their labels, the same?"
                )
            if best < LITTLE:
                warnings.warn(
                    f"space {space!r}: {best:.0%} of session {session!r} has a counterpart in another session. Are "
                    "the units of the variables the same? See overlap_.",
                    stacklevel=4,
                )
    return table
