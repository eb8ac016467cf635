"""Screening of real recordings, where the truth is not known: beside a GLM, beside decoys, for unrelated walks.

A decoy is a copy of a channel, shifted in time against the variables: it has everything of a real channel but what
it has to do with them. Decoys stand beside the real channels in one screening, so that Benjamini and Hochberg's
rule is as lenient with them as with real ones.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ascribo.data.recording import Recording
from ascribo.screening import screen
from ascribo.spaces.base import Space
from ascribo.spaces.kinds.follow import Follow
from experiments.shared.rows import Row
from experiments.validation.established_methods import cross_validated_glm

__all__ = ["as_numbers", "compare_with_glm", "count_decoys", "count_walks", "table_rows"]

LEVEL = 0.05


def compare_with_glm(recording: Recording, spaces: Mapping[str, Space]) -> Row:
    """Calls of each space by `screen` and by the cross-validated GLM: numbers, units, notes and seconds."""
    began = time.process_time()
    found = screen(recording, spaces, LEVEL)
    seconds = time.process_time() - began
    table, regressors = as_numbers(recording, spaces)
    glm = cross_validated_glm(Recording(recording.X, table), regressors, LEVEL)
    out: Row = {"seconds": round(seconds, 2), "spaces": {}}
    for name in regressors:
        own: Any = found.calls[found.calls["space"] == name]
        called = own["called"].to_numpy(dtype=bool)
        theirs = glm.loc[glm["space"] == name, "called"].to_numpy(dtype=bool)
        out["spaces"][name] = {
            "question": own["question"].iloc[0],
            "channels": len(own),
            "called": int(called.sum()),
            "glm": int(theirs.sum()),
            "both": int((called & theirs).sum()),
            "notes": sorted({note.kind for note in found.notes if note.space == name}),
            "units": {
                row.channel: {"score": round(row.score, 5), "q": round(row.q, 5), "called": bool(row.called)}
                for row in table_rows(own)
            },
        }
    return out


def count_decoys(recording: Recording, spaces: Mapping[str, Space], shifts: Sequence[float]) -> Row:
    """How many decoys are called for each space; shifts : shares of the recording."""
    out: Row = {name: {"called": 0, "decoys": 0} for name in spaces}
    for share in shifts:
        shifted = np.roll(recording.X, int(share * len(recording)), axis=0)
        both = Recording(
            np.concatenate([recording.X, shifted], axis=1), recording.variables, epochs=recording.epochs
        )
        calls = screen(both, spaces, LEVEL).calls
        for name in spaces:
            decoys = calls.loc[calls["space"] == name, "called"].to_numpy()[recording.X.shape[1] :]
            out[name]["called"] += int(decoys.sum())
            out[name]["decoys"] += len(decoys)
    return out


def count_walks(recording: Recording, walks: int) -> Row:
    """How many channels are called for random walks that have nothing to do with the recording."""
    called = []
    for seed in range(walks):
        walk = np.cumsum(np.random.default_rng(seed).standard_normal(len(recording)))
        unrelated = Recording(recording.X, {"walk": walk}, epochs=recording.epochs)
        found = screen(unrelated, {"walk": Follow("walk", dim=1)}, LEVEL).calls
        called.append(int(np.sum(found["called"].to_numpy())))
    return {"walks": walks, "channels": recording.X.shape[1], "called": called}


def as_numbers(
    recording: Recording, spaces: Mapping[str, Space]
) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """The variables as numbers, labels as a column each, for the GLM."""
    table: dict[str, np.ndarray] = {}
    regressors: dict[str, list[str]] = {}
    for name, space in spaces.items():
        values = space.values(recording.variables)
        values = values[:, 1:] if space.categorical else values
        regressors[name] = [f"{name}{k}" for k in range(values.shape[1])]
        table |= dict(zip(regressors[name], values.T, strict=True))
    return table, regressors


def table_rows(table: Any) -> list[Any]:
    """The rows of a DataFrame, with its columns as attributes."""
    return list(table.itertuples(index=False))
