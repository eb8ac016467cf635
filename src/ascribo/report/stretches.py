"""The map of stretches of time: scores in blocks, from which a reader's stretch is put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..attribution.maps import AttributionMaps
from ..attribution.unique_variance.maps import known_spaces
from ..data.recording import Recording
from ..model.estimator import ContrastiveEmbedding
from ..screening import screen_spaces

__all__ = ["scores_in_blocks"]

BLOCKS = 40
SHORTEST = 25
"""Time steps of a block."""
MOST_ROWS = {True: 20_000, False: 2_000}
"""Time steps that are scored, by the unique variance and by the other methods, whose Jacobians take longer."""


def scores_in_blocks(
    maps: AttributionMaps, model: ContrastiveEmbedding, recording: Recording
) -> tuple[np.ndarray, list[int]]:
    """Scores (space, channel, block) and the time step at which each block begins; no blocks if nothing is known.

    Maps that come from a file keep blocks of spaces without variables. The test of known variables, which needs no
    model, is made again for them; maps by other methods have no blocks then.
    """
    length = len(recording)
    if maps.parts is None:
        return _from_file(maps, model, recording)
    edges = _edges(length, int(np.clip(length // SHORTEST, 1, BLOCKS)))
    each = max(SHORTEST, MOST_ROWS[maps.method == "unique_variance"] // len(edges))
    out = [_mean(maps.parts.over_time(rows)) for rows in _rows(edges, length, each)]
    return np.stack(out, -1).transpose(1, 0, 2), edges


def _from_file(
    maps: AttributionMaps, model: ContrastiveEmbedding, recording: Recording
) -> tuple[np.ndarray, list[int]]:
    names, length = maps.by_space["space"].values.tolist(), len(recording)
    if maps.blocks is None and maps.tests is None:
        return np.zeros((len(names), maps.by_space.sizes["channel"], 0)), []
    count = int(np.clip(length // SHORTEST, 1, BLOCKS)) if maps.blocks is None else maps.blocks.sizes["block"]
    edges = _edges(length, count)
    out = np.full((len(names), maps.by_space.sizes["channel"], count), np.nan)
    if maps.blocks is not None:
        given: Any = maps.blocks.mean("seed", skipna=True)
        for name in given["space"].values.tolist():
            out[names.index(name)] = given.sel(space=name).transpose("channel", "block").values
    if maps.tests is not None:
        spaces = model.model_.spaces
        parts = _rows(edges, length, max(SHORTEST, MOST_ROWS[True] // count))
        for test in screen_spaces(
            recording, {name: spaces[name] for name in known_spaces(model.model_, recording)}
        ):
            if test.space in names:
                out[names.index(test.space)] = np.stack([_mean(test.at(rows)) for rows in parts], -1)
    return out, edges


def _edges(length: int, count: int) -> list[int]:
    """The time steps at which so many blocks begin."""
    return [b * length // count for b in range(count)]


def _rows(edges: Sequence[int], length: int, each: int) -> list[np.ndarray]:
    """Up to so many time steps of each block, evenly spaced."""
    ends = zip(edges, [*edges[1:], length], strict=True)
    return [np.unique(np.linspace(start, stop - 1, min(each, stop - start)).astype(int)) for start, stop in ends]


def _mean(found: np.ndarray) -> np.ndarray:
    """Mean over the first axis of what is known; NaN where nothing is."""
    known = np.isfinite(found)
    number = known.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(known, found, 0.0).sum(0) / np.where(number > 0, number, np.nan)
