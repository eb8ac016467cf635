"""Three choices in making a map: how time is aggregated, where to cut, and what a `Time` space compares.

Box data, hybrid regularized models as in table 1. Time steps are aggregated by mean (Schneider et al. 2025,
equation 11), median or maximum; the paper says that the median is about as good and the maximum much worse. The cut
is a z-score of 0 over the entries of a map, as the paper has it: accuracy, precision and recall of the channels
above it. `whole` compares all dimensions in the loss of the `Time` space, as the paper does,
`separate` those of the space alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ascribo import figures
from ascribo.attribution import attribute
from ascribo.data.segments import evenly
from ascribo.metrics.scores import auroc
from ascribo.model.fitted import FittedModel
from ascribo.simulate.box import BoxRecording
from experiments.regcl import box_models
from experiments.regcl.reporting import describe_time, spell_out
from experiments.shared.many_models import TRAINING, experiment
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, combinations
from experiments.shared.summaries import summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "STUDY", "above_mean", "cases", "conclude", "draw", "run", "tables"]

METHODS = ("inverted_neuron_gradient", "neuron_gradient", "generative_gradient")
AGGREGATES = ("mean", "median", "maximum")
FULL = {
    **{**TRAINING, "steps": 20_000},
    **{"dims": (4, 6, 9), "data_seeds": range(3), "hybrids": ("whole", "separate")},
    **{"modes": ("hybrid contrastive",), "penalties": ("regularized",)},
}
QUICK = {
    **{"length": 1_500, "steps": 30, "batch": 64, "samples": 200, "costly": 50},
    **{"dims": (4,), "data_seeds": range(1), "hybrids": ("whole", "separate")},
}


def above_mean(scores: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """How right it is to take entries with a z-score above 0: accuracy, precision, recall.

    >>> above_mean(np.array([0.0, 0.1, 0.9, 1.0]), np.array([False, False, True, True]))
    {'accuracy': 1.0, 'precision': 1.0, 'recall': 1.0}
    """
    taken = scores > scores.mean()
    right = float((taken & truth).sum())
    return {
        "accuracy": round(float((taken == truth).mean()), 4),
        "precision": round(right / max(1, int(taken.sum())), 4),
        "recall": round(right / max(1, int(truth.sum())), 4),
    }


def score(case: Case, data: BoxRecording, model: FittedModel, unique: Any) -> Row:
    """For each method and aggregate the auROC by entries and by channels, and the cut at a z-score of 0."""
    assert data.truth is not None
    truth = data.truth.sel(space="position").values
    index, standard = evenly(len(data), case["samples"]), model.standardise(data.X)
    spread, found = box_models.channel_spread(data, model), {}
    for method in METHODS:
        for aggregate in AGGREGATES:
            entries = box_models.entry_scores(model, data, method, index, "position", standard, aggregate)
            maps = attribute(model, data, method, index, X=standard, aggregate=aggregate)
            own = {"entries": entries, "channels": box_models.channel_scores(maps, spread, "position")}
            found[f"{method}, {aggregate}"] = {
                kind: {"auroc": 0.5, "no_map": True}
                if not np.isfinite(values).all()
                else {"auroc": round(auroc(values, truths), 6), **above_mean(values, truths)}
                for kind, values in own.items()
                for truths in [np.broadcast_to(truth.reshape(-1, *(1,) * (values.ndim - 1)), values.shape)]
            }
    return {"maps": found, "r2": box_models.recovered_latents(case, data, model)}


STUDY = box_models.box_study(
    score, together=box_models.nothing_together, one_scale=True, encoder=box_models.encoder
)


def cases(plan: Plan) -> list[Case]:
    """All combinations."""
    axes = {"mode": "modes", "penalty": "penalties", "hybrid": "hybrids", "dim": "dims"}
    return combinations(plan, TRAINING, **axes, data_seed="data_seeds")


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add means over data sets, by `hybrid`, number of latents, method, aggregate and way of scoring."""
    groups: dict[tuple, list[Row]] = {}
    for row in result["rows"]:
        groups.setdefault((row["hybrid"], row["dim"]), []).append(row)
    cells = []
    for (hybrid, dim), own in groups.items():
        for name in own[0]["maps"]:
            method, aggregate = name.split(", ")
            for kind in ("entries", "channels"):
                scores = [row["maps"][name][kind] for row in own]
                cell = {"hybrid": hybrid, "dim": dim, "method": method, "aggregate": aggregate, "kind": kind}
                cut = {
                    k: float(np.mean([s.get(k, 0.5) for s in scores])) for k in ("accuracy", "precision", "recall")
                }
                cells.append({**cell, **summary([s["auroc"] for s in scores]), **cut})
    return {**result, "cells": cells}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: aggregates; the cut; `whole` beside `separate`; all averaged over numbers of latents."""
    frame: Any = pd.DataFrame(result["cells"])
    whole, mean = frame["hybrid"] == "whole", frame["aggregate"] == "mean"
    by: Any = ["method", "kind"]

    def spelled(table: Any) -> pd.DataFrame:
        return table.round(4).reset_index().assign(method=lambda t: t["method"].map(spell_out))

    aggregates = frame[whole].pivot_table(index=by, columns="aggregate", values="mean", sort=False)
    cut = frame[whole & mean].groupby(by, sort=False)[["mean", "accuracy", "precision", "recall"]].mean()
    hybrids = frame[mean].pivot_table(index=by, columns="hybrid", values="mean", sort=False)
    return {
        f"auROC by aggregate, hybrid whole; {describe_time(result)}": spelled(aggregates),
        "Cut at a z-score of 0 (mean over time, hybrid whole)": spelled(cut.rename(columns={"mean": "auROC"})),
        "auROC of whole and separate (mean over time)": spelled(hybrids),
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """auROC by entries of the papers' method: a line for each aggregate and hybrid, against latents."""
    series = {}
    for hybrid, dashes in (("whole", "-"), ("separate", "--")):
        for k, aggregate in enumerate(AGGREGATES):
            wanted = {"hybrid": hybrid, "aggregate": aggregate, "kind": "entries", "method": METHODS[0]}
            own = [cell for cell in result["cells"] if cell.items() >= wanted.items()]
            numbers = {"x": [cell["dim"] for cell in own], "y": [cell["mean"] for cell in own]}
            series[f"{aggregate}, {hybrid}"] = {**numbers, "linestyle": dashes, "color": figures.PALETTE[k]}
    labels: dict[str, Any] = {
        "xlabel": "latents, two of them observed",
        "ylabel": "auROC by entries, inverted neuron gradient",
    }
    return figures.curves(series, ax, size=(7.0, 4.0), **labels)


run = experiment(
    *("map-choices", STUDY, FULL, QUICK),
    cases=cases,
    protocol=box_models.VERIFICATION,
    conclude=conclude,
    draw=draw,
)
