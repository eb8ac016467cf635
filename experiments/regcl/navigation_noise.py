"""auROC of position, head direction and speed against noise, by every method (Schneider et al. 2025, figure 10).

Models of all variables (`navigation_models`), on rates with white noise of 0 to 3 standard deviations of each cell.
The paper shows this without numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ascribo import figures
from ascribo.attribution import METHODS
from ascribo.model.fitted import FittedModel
from ascribo.simulate.navigation import NavigationRecording
from experiments.regcl import navigation_models
from experiments.regcl.navigation_models import ALL, SPACES
from experiments.regcl.reporting import describe_time, draw_curves, method_styles, spell_out
from experiments.shared.many_models import TRAINING, experiment
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, combinations
from experiments.shared.summaries import summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "STUDY", "TARGET", "cases", "conclude", "draw", "run", "tables"]

TARGET = {"position": 0.99, "head_direction": 0.99}
"""What the unique variance must reach at the highest level of noise."""
FULL = {
    **TRAINING,
    **{"length": 20_000, "costly": 1_000, "noises": (0.0, 0.5, 1.0, 2.0, 3.0), "simulations": range(2)},
    **{"modes": (ALL,), "penalties": ("none",), "data_seeds": (0,)},
}
QUICK = {"steps": 1_000, "costly": 200, "noises": (0.0, 3.0), "simulations": (0,)}


def score(case: Case, data: NavigationRecording, model: FittedModel, maps: Any) -> Row:
    """auROC of every space by every method, calls and types."""
    return navigation_models.score_all_variables(case, data, model, maps, tuple(METHODS))


STUDY = navigation_models.navigation_study(score)


def cases(plan: Plan) -> list[Case]:
    """All combinations."""
    axes = {"mode": "modes", "penalty": "penalties", "noise": "noises", "simulation": "simulations"}
    return combinations(plan, TRAINING, **axes, data_seed="data_seeds")


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add mean scores at each level of noise, and whether what must hold does."""
    levels = sorted({row["noise"] for row in result["rows"]})
    cells = [
        {"space": space, "method": method, "noise": noise, **summary([r["auroc"][space][method] for r in own])}
        for noise in levels
        for own in [[row for row in result["rows"] if row["noise"] == noise]]
        for space in SPACES
        for method in METHODS
    ]
    worst = {c["space"]: c["mean"] for c in cells if c["noise"] == levels[-1] and c["method"] == "unique_variance"}
    met = {f"auROC {s} ≥ {least} at noise {levels[-1]:g}": worst[s] >= least for s, least in TARGET.items()}
    return {**result, "cells": cells, "met": met}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: each space, methods by levels of noise; calls."""
    done = {}
    levels = sorted({cell["noise"] for cell in result["cells"]})
    for space in SPACES:
        rows = [
            {"method": spell_out(method)}
            | {
                f"noise {noise:g}": next(
                    c["mean"]
                    for c in result["cells"]
                    if (c["space"], c["method"], c["noise"]) == (space, method, noise)
                )
                for noise in levels
            }
            for method in METHODS
        ]
        done[f"auROC of {space.replace('_', ' ')}; {describe_time(result)}"] = pd.DataFrame(rows)
    calls = [
        {"noise": row["noise"], "simulation": row["simulation"]}
        | {f"{key} {space}": row["calls"][space][key] for space in SPACES for key in ("fdp", "power")}
        | {"types, learned": row["types"]["cross_validated"]}
        for row in result["rows"]
    ]
    done["Calls at q = 0.05"] = pd.DataFrame(calls)
    met = [{"what": what, "met": "yes" if held else "no"} for what, held in result["met"].items()]
    done["What must hold"] = pd.DataFrame(met)
    return done


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """auROC of position against noise, a line for each method."""
    ax = figures.new_axes(ax, (7.6, 4.2))
    styles = {spell_out(m): style for m, style in method_styles(list(METHODS)).items()}
    chosen = [cell for cell in result["cells"] if cell["space"] == "position"]
    series = {spell_out(m): [cell for cell in chosen if cell["method"] == m] for m in METHODS}
    ax = draw_curves(series, lambda cell: cell["noise"], ax, styles=styles)
    ax.set(xlabel="noise, in standard deviations of the cell", ylabel="auROC of position")
    ax.set_ylim(min(0.45, *(float(np.min(c["ci95"])) for c in chosen)), 1.01)
    return ax


run = experiment(
    *("navigation-noise", STUDY, FULL, QUICK),
    cases=cases,
    protocol=navigation_models.PROTOCOL,
    conclude=conclude,
    draw=draw,
)
