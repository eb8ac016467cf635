"""The map of stretches of time: scores in blocks, from which a reader's stretch is put together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..attribution.maps import AttributionMaps

__all__ = ["scores_in_blocks"]

BLOCKS = 40
SHORTEST = 25
"""Time steps of a block."""
MOST_ROWS = {True: 20_000, False: 2_000}
"""Time steps that are scored, by the unique variance and by the other methods, whose Jacobians take longer."""


def scores_in_blocks(maps: AttributionMaps, length: int) -> tuple[np.ndarray, list[int]]:
    """Scores (space, channel, block) and the time step at which each block begins; no blocks if nothing is known.

    Maps that come from a file know blocks of time only of spaces without variables; others are NaN then.
    """
    names = maps.by_space["space"].values.tolist()
    if maps.parts is not None:
        return _from_parts(maps, length)
    if maps.blocks is None:
        return np.zeros((len(names), maps.by_space.sizes["channel"], 0)), []
    given: Any = maps.blocks.mean("seed", skipna=True)
    out = np.full((len(names), maps.by_space.sizes["channel"], given.sizes["block"]), np.nan)
    for k, name in enumerate(names):
        if name in given["space"].values:
            out[k] = given.sel(space=name).transpose("channel", "block").values
    return out, [b * length // out.shape[-1] for b in range(out.shape[-1])]


def _from_parts(maps: AttributionMaps, length: int) -> tuple[np.ndarray, list[int]]:
    """The same of maps that know their model and recording: time steps are scored again, so many in each block."""
    assert maps.parts is not None
    count = int(np.clip(length // SHORTEST, 1, BLOCKS))
    edges = [b * length // count for b in range(count)]
    each = max(SHORTEST, MOST_ROWS[maps.method == "unique_variance"] // count)
    out = []
    for start, stop in zip(edges, [*edges[1:], length], strict=True):
        rows = np.unique(np.linspace(start, stop - 1, min(each, stop - start)).astype(int))
        found = maps.parts.over_time(rows)  # (n, channel, space)
        known = np.isfinite(found)
        number = known.sum(0)
        with np.errstate(invalid="ignore", divide="ignore"):
            out.append(np.where(known, found, 0.0).sum(0) / np.where(number > 0, number, np.nan))
    return np.stack(out, -1).transpose(1, 0, 2), edges
