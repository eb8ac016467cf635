"""Position across training: auROC and cross-validated R² (Schneider et al. 2025, figures 4e and 4b).

Hybrid models of position alone on a simulated rat's cells, as in `navigation`, trained for a few steps up to the
default 3,000, each from the start with its own schedule. Measured: auROC of position by entries (the papers'
gradients) and by channels (ours), and R² of position from its four dimensions of the embedding on held-out time, by
nearest neighbours. The paper shows both as pictures, without numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from ascribo import figures
from ascribo.model.fitted import FittedModel
from ascribo.simulate.navigation import NavigationRecording
from experiments.regcl import box_models, navigation_models
from experiments.regcl.box_models import Scores
from experiments.regcl.reporting import describe_time, spell_out
from experiments.shared.many_models import TRAINING, experiment
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, combinations
from experiments.shared.summaries import summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "STUDY", "cases", "conclude", "draw", "run", "tables"]

ENTRIES = ("neuron_gradient", "inverted_neuron_gradient")
CHANNELS = ("unique_variance",)
FULL = {
    **{key: value for key, value in TRAINING.items() if key != "steps"},
    **{"length": 20_000, "training_steps": (30, 100, 300, 1_000, 3_000), "simulations": range(2)},
    **{"modes": ("hybrid contrastive",), "penalties": ("none", "regularized"), "data_seeds": (0,)},
}
QUICK = {
    **{"length": 1_500, "training_steps": (2, 40), "simulations": (0,), "penalties": ("none",)},
    **{"batch": 64, "samples": 200},
}


def score(case: Case, data: NavigationRecording, model: FittedModel, unique: Scores) -> Row:
    """auROC of position by both ways of scoring, and R² of position on held-out time."""
    found = box_models.score_methods(case, data, model, unique, "position", entries=ENTRIES, channels=CHANNELS)
    return {**found, "r2": navigation_models.decode_spaces(case, data, model)["position"]["r2"]}


STUDY = navigation_models.navigation_study(score)


def cases(plan: Plan) -> list[Case]:
    """All combinations."""
    axes = {"mode": "modes", "penalty": "penalties", "steps": "training_steps", "simulation": "simulations"}
    return combinations(plan, TRAINING, **axes, data_seed="data_seeds")


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add means over rats, by penalty and training steps: what = a method, or "R² of position"."""
    groups: dict[tuple, list[Row]] = {}
    for row in result["rows"]:
        groups.setdefault((row["penalty"], row["steps"]), []).append(row)
    cells = []
    for (penalty, steps), own in groups.items():
        measured = {f"{m}, by {kind}": [row[kind][m] for row in own] for kind in ("entries", "channels")
                    for m in own[0][kind]}  # fmt: skip
        measured["R² of position"] = [row["r2"] for row in own]
        cells += [{"what": what, "penalty": penalty, "steps": steps, **summary(v)} for what, v in measured.items()]
    return {**result, "cells": cells}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: what was measured by training steps, for each penalty."""
    out = {}
    for penalty in dict.fromkeys(cell["penalty"] for cell in result["cells"]):
        rows: dict[str, Row] = {}
        for cell in result["cells"]:
            if cell["penalty"] == penalty:
                own = rows.setdefault(cell["what"], {"what": spell_out(cell["what"])})
                own[f"{cell['steps']} steps"] = f"{cell['mean']:.3f}"
        out[f"penalty {penalty}; {describe_time(result)}"] = pd.DataFrame(list(rows.values()))
    return out


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Lines of auROC and R² against training steps; dashed: regularized."""
    kinds = list(dict.fromkeys(cell["what"] for cell in result["cells"]))
    series: dict[str, dict[str, Any]] = {}
    for penalty, dashes in (("none", "-"), ("regularized", "--")):
        for k, what in enumerate(kinds):
            own = [cell for cell in result["cells"] if (cell["what"], cell["penalty"]) == (what, penalty)]
            name = spell_out(what) if penalty == "none" else f"_{what}"  # dashed lines stay out of the legend
            numbers = {"x": [cell["steps"] for cell in own], "y": [cell["mean"] for cell in own]}
            if own:
                series[name] = {**numbers, "linestyle": dashes, "color": figures.PALETTE[k]}
    labels: dict[str, Any] = {"xlabel": "training steps (dashed: with penalty)", "ylabel": "auROC, R²"}
    ax = figures.curves(series, ax, size=(7.6, 4.2), **labels)
    ax.set_xscale("log")
    return ax


run = experiment(
    *("navigation-training", STUDY, FULL, QUICK),
    cases=cases,
    protocol={**navigation_models.PROTOCOL, "each point": "models trained anew for so many steps"},
    conclude=conclude,
    draw=draw,
)
