"""Spaces that are proposed for a recording from the variables it has, each with what was assumed, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ..data.recording import Recording
from ..spaces import Discrete, Follow, Time
from ..spaces.base import Space
from ..support.names import first_few, suggest

__all__ = ["Proposal", "angle_period", "choose_variables", "is_label", "propose_spaces"]

ANGLES = re.compile(r"angle|heading|head_?dir|direction|theta|phase|orient|azimuth|yaw|\bhd\b", re.IGNORECASE)
"""Names that angles have."""
FEW_LABELS = 10
FEWEST_OF_A_LABEL = 5
"""Time steps that a label has, on average, of those that are asked about."""
MOST_SPACES = 8
REST = 3
"""Dimensions for what no variable tells."""


@dataclass(frozen=True)
class Proposal:
    """spaces : by name. assumed : what was assumed, a sentence each."""

    spaces: dict[str, Space] = field(default_factory=dict)
    assumed: list[str] = field(default_factory=list)


def propose_spaces(recording: Recording, follow: Sequence[str] = ()) -> Proposal:
    """A space for each variable, or for variables that belong together, and one for what is left.

    follow : names of variables, or what several begin with ("position" for position0 and position1). None: all.

    >>> rng = np.random.default_rng(0)
    >>> table = {"x": rng.normal(size=500), "y": rng.normal(size=500), "side": ["left", "right"] * 250}
    >>> proposal = propose_spaces(Recording(rng.normal(size=(500, 8)), table))
    >>> list(proposal.spaces), proposal.assumed[1]
    (['xy', 'side', 'rest'], "'side' holds labels (2 of them).")
    """
    table: Any = recording.variables
    spaces: dict[str, Space] = {}
    assumed = []
    groups = _groups(choose_variables(list(table), follow))
    for name, members in groups.items():
        useful = [v for v in members if table[v].nunique(dropna=True) > 1]
        for v in [v for v in members if v not in useful]:
            assumed.append(f"{v!r} never changes or is missing everywhere: it was left out.")
        labels = [v for v in useful if is_label(table[v])]
        rare = [v for v in labels if table[v].nunique() * FEWEST_OF_A_LABEL > table[v].count()]
        for v in rare:
            assumed.append(f"{v!r} has {table[v].nunique():,} labels, too rare to compare: it was left out.")
        for v in [v for v in labels if v not in rare]:
            count = int(table[v].nunique())
            spaces[v] = Discrete(v, dim=min(2, count - 1))
            assumed.append(f"{v!r} holds labels ({count} of them).")
        numbers = [v for v in useful if v not in labels]
        angles = {v: turn for v in numbers if (turn := angle_period(v, table[v].to_numpy(float)))}
        for v, turn in angles.items():
            spaces[v] = Follow(v, 2, circular=True, period=turn)
            unit = "degrees" if turn == 360 else "radians"
            assumed.append(f"{v!r} is an angle in {unit}: its two ends are the same.")
        plain = [v for v in numbers if v not in angles]
        if plain:
            own = name if len(plain) > 1 or plain == [name] else plain[0]
            spaces[own] = Follow(plain, dim=len(plain))
            if len(plain) > 1:
                assumed.append(f"{first_few(plain)} belong together: they are one space, {own!r}.")
            else:
                assumed.append(f"{plain[0]!r} is a number that varies along a line.")
    if len(spaces) > MOST_SPACES:
        dropped = list(spaces)[MOST_SPACES:]
        spaces = {name: spaces[name] for name in list(spaces)[:MOST_SPACES]}
        assumed.append(f"{first_few(dropped)} were left out: choose up to {MOST_SPACES} spaces with --follow.")
    room = recording.X.shape[1] - sum(space.dim for space in spaces.values())
    rest = min(REST, room - 1)
    if rest >= 1:
        name = "rest" if "rest" not in spaces else "what is left"
        spaces[name] = Time(dim=rest)
        assumed.append(f"What moves smoothly in time and no variable tells has {rest} dimension(s), {name!r}.")
    if not spaces:
        raise ValueError(
            "there is nothing to fit: the recording has no variable that changes, and too few channels."
        )
    return Proposal(spaces, assumed)


def is_label(column: pd.Series) -> bool:
    """Whether a variable holds labels: text, true and false, or a few whole numbers.

    >>> is_label(pd.Series([0, 1, 1, 2] * 20)), is_label(pd.Series(np.arange(80)))
    (True, False)
    """
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return True
    known = column.dropna().to_numpy(float)
    whole = len(known) and np.isfinite(known).all() and (known == np.round(known)).all()
    return bool(whole and len(np.unique(known)) <= FEW_LABELS and len(known) >= 5 * FEW_LABELS)


def angle_period(name: str, values: np.ndarray) -> float:
    """The full turn of a variable that seems to be an angle: 2π or 360; 0 if it does not.

    Its values fill most of a turn and stay within it, and either its name says so or it jumps from one end to the
    other as angles do.

    >>> turning = np.cumsum(np.full(1000, 7.0)) % 360
    >>> angle_period("v", turning), angle_period("heading", np.deg2rad(turning)) == 2 * np.pi
    (360.0, True)
    >>> angle_period("v", np.linspace(0, 360, 1000))
    0.0
    """
    known = values[np.isfinite(values)]
    if len(known) < 20:
        return 0.0
    low, high = float(known.min()), float(known.max())
    for period in (2 * np.pi, 360.0):
        slack = 0.005 * period
        inside = (low >= -slack and high <= period + slack) or (
            low >= -period / 2 - slack and high <= period / 2 + slack
        )
        if not inside or high - low < 0.9 * period:
            continue
        moves = np.abs(np.diff(known))
        wraps = (moves > 0.8 * period).sum()
        smooth = np.median(moves) < 0.1 * period
        if ANGLES.search(name) or (smooth and wraps >= 2 and (moves > 0.3 * period).sum() <= 1.2 * wraps):
            return period
    return 0.0


def choose_variables(names: list[str], follow: Sequence[str]) -> list[str]:
    """The variables that were asked for, by their names or what they begin with."""
    if not follow:
        return names
    chosen: list[str] = []
    for asked in follow:
        found = [name for name in names if name == asked] or [
            name for name in names if re.match(rf"{re.escape(asked)}[\d_./ -]", name) or name.endswith(f"/{asked}")
        ]
        if not found:
            raise ValueError(
                f"--follow {asked}: no variable is called that or begins with it{suggest(asked, names)}"
            )
        chosen += [name for name in found if name not in chosen]
    return chosen


def _groups(names: Sequence[str]) -> dict[str, list[str]]:
    """Variables that belong together: x and y, and those that differ only in a number or letter at the end.

    >>> _groups(["x", "speed", "y", "hand0", "hand1", "eye_x", "eye_y"])
    {'xy': ['x', 'y'], 'speed': ['speed'], 'hand': ['hand0', 'hand1'], 'eye': ['eye_x', 'eye_y']}
    """
    stems: dict[str, list[str]] = {}
    for name in names:
        alone = re.fullmatch(r"(.*[/.])?([xyz])", name)
        ended = re.fullmatch(r"(.+?)(?:\d+|[_ .-][xyz])", name)
        stem = (alone[1] or "") + "\0" if alone else ended[1] if ended else name
        stems.setdefault(stem, []).append(name)
    groups = {}
    for stem, members in stems.items():
        together = len(members) > 1 and len(members) <= 3
        if together:
            groups[stem.replace("\0", "") or "".join(members) if "\0" in stem else stem] = members
        else:
            groups |= {name: [name] for name in members}
    return groups
