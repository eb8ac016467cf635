"""Cells of a simulated rat that explores a box (Schneider et al. 2025, section 5, table 3, figure 4).

Models of position alone, in the papers' training modes, with and without penalty: auROC of position (place and grid
cells against the others) by attribution method; replicates are new initial values, as in the papers. And, beyond
the papers, models of position, head direction and speed together, one for each of several simulations: auROC,
calls, the type of each cell, and what can be decoded; also with cells of mixed selectivity, and with spikes instead
of rates. Different from the papers: batches of 512, fewer training steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ascribo.attribution.maps import AttributionMaps
from ascribo.data.segments import evenly
from ascribo.model.fitted import FittedModel
from ascribo.simulate.navigation import NavigationRecording
from ascribo.spaces.base import layout
from experiments.regcl import box_models, navigation_models
from experiments.regcl.box_models import MODES, OURS, PAPERS
from experiments.regcl.navigation_figure import panels
from experiments.regcl.navigation_models import ALL, SPACES
from experiments.regcl.reporting import compare_with_paper, describe_time, fit_table, method_table
from experiments.shared.many_models import TRAINING, experiment
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, combinations
from experiments.shared.summaries import summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "STUDY", "TARGETS", "cases", "conclude", "draw", "run", "tables"]

BY = ("mode", "penalty")
METHODS = ("unique_variance", "generative_gradient", "inverted_neuron_gradient")
"""Attribution methods for models of all variables."""
PAPER: dict[tuple[Any, ...], Row] = {}
"""Schneider et al. (2025), table 3: its numbers are not legible in our copy. Several reach 100%, says the text."""
TARGETS = {"auroc": 0.999, "fdr": 0.05, "power": 0.95, "types": 0.95}
FULL = {
    **TRAINING,
    **{"length": 20_000, "modes": MODES, "penalties": ("none", "regularized"), "data_seeds": range(3)},
    **{"simulations": range(5), "mixed": 60},
}
QUICK = {"steps": 1_000, "data_seeds": range(1), "simulations": range(2), "costly": 500}


def cases(plan: Plan) -> list[Case]:
    """Models of all variables: rates of every simulation, spikes, mixed cells; then those of position."""
    first = plan["simulations"][:1]
    base = {**{key: plan[key] for key in TRAINING}, "mode": ALL, "penalty": "none", "data_seed": 0}
    every = [{**base, "simulation": k} for k in plan["simulations"]]
    every += [{**base, "simulation": first[0], "spikes": True}]
    every += [{**base, "simulation": first[0], "mixed": plan["mixed"]}] if plan["mixed"] else []
    axes = {"mode": "modes", "penalty": "penalties", "data_seed": "data_seeds", "simulation": "first"}
    return [*every, *combinations({**plan, "first": first}, TRAINING, **axes)]


def score(case: Case, data: NavigationRecording, model: FittedModel, found: Any) -> Row:
    """What is measured of one model."""
    decoded = navigation_models.decode_spaces(case, data, model)
    if case["mode"] != ALL:
        scored = box_models.score_methods(
            case, data, model, found, "position", entries=PAPERS, channels=(*PAPERS, *OURS)
        )
        return {**scored, "r2": {name: own["r2"] for name, own in decoded.items()}, "decoding": decoded}
    row = {**navigation_models.score_all_variables(case, data, model, found, METHODS), "decoding": decoded}
    plain = not case.get("spikes") and not case.get("mixed")
    return {**row, "figure": _figure_data(data, model, found)} if plain and not case["simulation"] else row


STUDY = navigation_models.navigation_study(score)


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add scores by mode and method, means over simulations, and whether what must hold does."""
    position = [row for row in result["rows"] if row["mode"] != ALL]
    found = compare_with_paper(position, PAPER, BY) + summarise(position, "channels", BY) if position else []
    rates = [row for row in result["rows"] if row["mode"] == ALL and not row.get("spikes") and not row.get("mixed")]
    summary: dict[str, Any] = {"auroc": {}, "fdr": {}, "power": {}} if rates else {}
    for space in SPACES if rates else ():
        summary["auroc"][space] = float(np.mean([row["auroc"][space]["unique_variance"] for row in rates]))
        for key, own in (("fdr", "fdp"), ("power", "power")):
            summary[key][space] = float(np.mean([row["calls"][space][own] for row in rates]))
    if rates:
        summary["types"] = {
            how: float(np.mean([row["types"][how] for row in rates])) for how in ("rule", "cross_validated")
        }
        summary["simulations"] = len(rates)
        summary["met"] = _met(summary)
    return {**result, "cells": found, "summary": summary}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: position by mode and method, all variables by simulation, what must hold."""
    done = {}
    if result["cells"]:
        position = [row for row in result["rows"] if row["mode"] != ALL]
        title = f"auROC of position by entries in percent; {describe_time(result)}"
        done = {
            title: method_table(result["cells"], "entries", BY),
            "auROC of position by channels in percent": method_table(result["cells"], "channels", BY),
            "Models of position": fit_table(position, BY),
        }
    every = [row for row in result["rows"] if row["mode"] == ALL]
    if every:
        done["All variables, one model"] = pd.DataFrame([_scores(row) for row in every])
        done["Decoding by nearest neighbours (median error; that of a constant)"] = pd.DataFrame(
            [_decoding(row) for row in every]
        )
    if result["summary"]:
        met = [{"what": what, "met": "yes" if held else "no"} for what, held in result["summary"]["met"].items()]
        done["What must hold"] = pd.DataFrame(met)
    return done


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Figure 4: embedding by position, the map over time, scores by type; auROC by mode and method."""
    return panels(result, ax)


def _met(summary: Mapping[str, Any]) -> dict[str, bool]:
    """Each thing that must hold, and whether it does."""
    held = {f"auROC {space} ≥ {TARGETS['auroc']}": v >= TARGETS["auroc"] for space, v in summary["auroc"].items()}
    held |= {
        f"false discovery rate {space} ≤ {TARGETS['fdr']}": v <= TARGETS["fdr"]
        for space, v in summary["fdr"].items()
    }
    held |= {f"power {space} ≥ {TARGETS['power']}": v >= TARGETS["power"] for space, v in summary["power"].items()}
    held[f"types told apart ≥ {TARGETS['types']}"] = summary["types"]["cross_validated"] >= TARGETS["types"]
    return held


def _scores(row: Row) -> Row:
    kind = "spikes" if row.get("spikes") else f"{row['mixed']} mixed cells" if row.get("mixed") else "rates"
    line: Row = {"simulation": row["simulation"], "channels": kind}
    for space in SPACES:
        line |= {
            f"auROC {space}": row["auroc"][space]["unique_variance"],
            f"FDP {space}": row["calls"][space]["fdp"],
            f"power {space}": row["calls"][space]["power"],
        }
    return {**line, "types, rule": row["types"]["rule"], "types, learned": row["types"]["cross_validated"]}


def _decoding(row: Row) -> Row:
    pairs = {name: (own["median_error"], own["constant_error"]) for name, own in row["decoding"].items()}
    kind = "spikes" if row.get("spikes") else f"{row['mixed']} mixed" if row.get("mixed") else "rates"
    return {"simulation": row["simulation"], "channels": kind} | {
        name: f"{got:.3f}; {constant:.3f}" for name, (got, constant) in pairs.items()
    }


def _figure_data(data: NavigationRecording, model: FittedModel, maps: AttributionMaps) -> Row:
    """What figure 4 is drawn from: 1,000 points of the embedding, 400 steps of 80 channels, all scores."""
    steps = evenly(len(data), 1_000)
    z = model.embedder.embed(model.parameters, model.standardise(data.X), data.epochs, steps)[0].cpu().numpy()
    block = z[:, layout(model.spaces)["position"]]
    axes = np.linalg.svd(block - block.mean(0), full_matrices=False)[2][:3]
    chosen = np.concatenate(
        [np.flatnonzero(data.types == kind)[:20] for kind in ("place", "grid", "head_direction", "speed")]
    )
    window = slice(len(data) // 2, len(data) // 2 + 400)
    local = maps.over_time(window.start, window.stop).sel(space="position").values[:, chosen]
    return {
        "embedding": ((block - block.mean(0)) @ axes.T).round(4).tolist(),
        "position": data.variables[["x", "y"]].to_numpy()[steps].round(4).tolist(),
        "over_time": np.nan_to_num(local).round(4).tolist(),
        "channels": [data.channel_names[k] for k in chosen],
        "types": data.types[chosen].tolist(),
        "scores": maps.by_space.sel(space=list(SPACES)).values.round(5).tolist(),
        "type_of_channel": data.types.tolist(),
    }


run = experiment(
    *("navigation", STUDY, FULL, QUICK),
    cases=cases,
    protocol=navigation_models.PROTOCOL,
    conclude=conclude,
    draw=draw,
)
