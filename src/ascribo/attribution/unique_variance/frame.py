"""The frame of a question of unique variance: what the variables decide of it, whatever the model.

Models of one recording, with other penalties or seeds, are asked about within one frame: the time steps, the news
and what it might as well have been are worked out once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ...data.segments import evenly, same_segment
from ...data.standardised import StandardisedChannels, limit_time_steps
from ...spaces.base import Space, reported
from .innovations import news_lag, resample
from .inputs import news_draws, wave_phases, white

__all__ = ["STRETCHES", "Frame", "frame_of"]

STRETCHES = 20
"""Held-out stretches of time, taken by the folds in turn."""
MOST = 100_000
"""Most time steps that the decoders of a recording are fitted to and judged on."""
DRAWS = 4
"""Times that the news of a space is drawn anew."""


@dataclass(frozen=True)
class Frame:
    """What the variables decide.

    steps : (n,) time steps that are asked about. lags : space -> the steps over which its variables have news;
    hidden : the other spaces. before : how far back the embedding is taken that knows no news; near : how far off
    the one that does not know a channel's own noise. reach : steps back and ahead that a row has to do with.
    what : (k,) what the columns are of. values : (1, n, k), white. draws : space -> other news, (draw, n, k).
    waves : (k, w), see `Question`.
    """

    steps: np.ndarray
    lags: dict[str, int]
    hidden: tuple[str, ...]
    before: int
    near: int
    reach: int
    what: np.ndarray
    values: Tensor
    draws: dict[str, Tensor]
    waves: Tensor | None


def frame_of(
    spaces: Mapping[str, Space],
    window: int,
    epochs: np.ndarray,
    variables: pd.DataFrame,
    X: Tensor | StandardisedChannels,
    lag: int | None = None,
) -> Frame:
    """The frame of a recording, for spaces of some encoders; see `ascribo.attribution.ask`.

    window : time steps that the encoders see. X : (time, channel), where it is and how many channels it has.
    """
    values, hidden = _values(spaces, epochs, variables)
    half = window // 2
    # An encoder may have learned its positives by heart: a step's embedding may know of the steps up to `ahead` on.
    ahead = max(space.ahead for space in spaces.values())
    near = 1 + half + ahead
    # A space has news over its own lag. What is new of a slow one after a few steps is little, and faster ones may
    # tell it: where an animal is heading, and how fast, is where it will be.
    room = int(np.median(np.unique(epochs, return_counts=True)[1])) - (2 * near + half + 2)
    # most epochs should have steps with a past and a future
    lags = {n: lag or max(1, min(news_lag([v], epochs), room // 2)) for n, v in values.items()}
    longest = max(lags.values(), default=1)
    before = longest + half + ahead
    back, on = max(before + 1 if values else 0, near if hidden else 0), near if hidden else 0
    steps = np.flatnonzero(same_segment(epochs, back + on)) + back
    for name in values:
        present = spaces[name].known(variables)
        for ago in (0, lags[name], longest, before):
            steps = steps[present[steps - ago]]
    steps = steps[evenly(len(steps), limit_time_steps(MOST, X.shape[1]))]
    if len(steps) < 4 * STRETCHES:
        raise ValueError(
            f"{len(steps)} time steps have all their variables and neighbours within their epoch: unique variance "
            f"needs at least {4 * STRETCHES}. Use a longer recording, longer epochs, or another method."
        )
    parts: list[tuple[str, Tensor]] = []
    for name, value in values.items():
        now, then, past, earlier = (
            torch.from_numpy(value[steps - ago])[None].to(X.device) for ago in (0, lags[name], longest, before)
        )
        parts += [(f"then {name}", then), (f"news {name}", now - then), ("now", now)]
        # where it was when the embedding was taken, which may have mixed it up with others; and how it was
        # moving: the embedding may know, and paths may be smooth
        parts += [("then, past", past)] if lags[name] < longest else []
        parts += [("then, moving", past - earlier)]
    parts = [(what, white(part)) for what, part in parts]
    what = np.array([w for w, part in parts for _ in range(part.shape[-1])], dtype=object)
    columns = (
        torch.cat([part for _, part in parts], -1) if parts else torch.zeros(1, len(steps), 0, device=X.device)
    )
    draws = {}
    for name in (n for n in values if n in reported(spaces)):
        given = (what != "now") & (what != f"news {name}")
        own, origin, company = (columns[0][:, w] for w in (what == f"news {name}", what == f"then {name}", given))
        if spaces[name].categorical:
            draws[name] = resample(own, origin, company, DRAWS, labels=True)
        else:
            when = (steps, steps - lags[name])
            draws[name] = news_draws(spaces[name], variables, when, origin, company, DRAWS)
    waves = wave_phases({n: v[steps] for n, v in values.items() if not spaces[n].categorical}, columns[0], what)
    return Frame(steps, lags, hidden, before, near, back + on, what, columns, draws, waves)


def _values(
    spaces: Mapping[str, Space], epochs: np.ndarray, variables: pd.DataFrame
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Spaces with the numbers (time, k) they follow, and the names of the others.

    Those are spaces that follow time, whose variables are not there, or never change within an epoch.
    """
    given = {name: space for name, space in spaces.items() if space.variables}
    values = {n: s.values(variables) for n, s in given.items() if set(s.variables) <= set(variables)}
    inside = np.flatnonzero(same_segment(epochs, 1))
    values = {n: v for n, v in values.items() if np.nan_to_num(v[inside + 1] - v[inside]).any()}
    return values, tuple(name for name in spaces if name not in values)
