"""Whether seeds agree: on the embedding, and on which channels carry what."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..attribution.maps import AttributionMaps
from ..data.recording import Recording
from ..data.segments import evenly
from ..evidence.stability import consistency, map_consistency
from ..model.estimator import ContrastiveEmbedding
from ..model.number_of_seeds import TIME_STEPS
from ..spaces.base import layout, reported

__all__ = ["seed_agreement"]


def seed_agreement(
    model: ContrastiveEmbedding, recording: Recording, maps: AttributionMaps
) -> list[dict[str, Any]]:
    """For each space how far seeds agree: `embedding`, R² after the best linear map, and `map`, the rank
    correlation of scores over channels; each with the lowest of all pairs and their mean. None if not known.

    Embeddings are compared at the time steps at which `seeds="auto"` does, so that both say the same.
    """
    fitted, rows = model.model_, evenly(len(recording), TIME_STEPS)
    embed = fitted.embedder.embed
    z = embed(fitted.parameters, fitted.standardise(recording.X), recording.epochs, rows).cpu().numpy()
    slices, usable = layout(model.model_.spaces), model.model_.usable
    names = list(model.model_.spaces)
    rows = []
    for name in reported(model.model_.spaces):
        kept = np.flatnonzero(usable[:, names.index(name)])
        row: dict[str, Any] = {
            "space": name,
            "seeds": len(kept),
            "variables": bool(model.model_.spaces[name].variables),
            "embedding": None,
            "map": None,
        }
        if len(kept) > 1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                r2 = consistency(list(z[kept][..., slices[name]]))["r2"].to_numpy()
            row["embedding"] = _summary(r2)
        if maps.blocks is not None and name in maps.blocks["space"].values and maps.blocks.sizes["seed"] > 1:
            scores = maps.blocks.sel(space=[name]).mean("block").transpose("seed", "channel", "space")
            scores = scores[np.isfinite(scores.values).all((1, 2))]
            if len(scores) > 1 and scores.sizes["channel"] > 2:
                row["map"] = _summary(map_consistency(list(scores))["spearman"].to_numpy())
        rows.append(row)
    return rows


def _summary(values: np.ndarray) -> dict[str, float] | None:
    known = values[np.isfinite(values)]
    return {"lowest": float(known.min()), "mean": float(known.mean())} if len(known) else None
