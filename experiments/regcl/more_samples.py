"""Do more samples allow more latents, beyond the papers' 100,000 (Schneider et al. 2025, section 5.1)?

Box data with 12 latents, where figure 3 has the papers' map at 91 (it is at 99.5 with 9), 100,000 to a million time
steps, without noise; hybrid regularized models, trained as in table 1. The papers' map, whose samples must have no
output at its limit, beside the generative gradient; and how well the latents are recovered (R² of a linear map).
A model takes ten minutes of a CPU core.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from ascribo.model.fitted import FittedModel
from ascribo.simulate.box import BoxRecording
from experiments.regcl import box_models
from experiments.regcl.reporting import describe_time, draw_curves, fit_table, method_table
from experiments.shared.many_models import TRAINING, experiment
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, combinations
from experiments.shared.summaries import summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "STUDY", "cases", "conclude", "draw", "run", "tables"]

PAPERS = ("inverted_neuron_gradient",)
CHANNELS = ("generative_gradient", "inverted_neuron_gradient")
FULL = {
    **{key: value for key, value in TRAINING.items() if key != "length"},
    **{"steps": 20_000, "lengths": (100_000, 300_000, 1_000_000), "dims": (12,), "data_seeds": range(2)},
    **{"modes": ("hybrid contrastive",), "penalties": ("regularized",)},
}
QUICK = {
    **{"steps": 30, "batch": 64, "lengths": (1_000, 2_000), "dims": (9,), "data_seeds": range(1)},
    **{"samples": 200, "costly": 50},
}


def score(case: Case, data: BoxRecording, model: FittedModel, unique: Any) -> Row:
    """auROC of the observed space, and R² of both blocks."""
    return box_models.score_observed(case, data, model, {}, entries=PAPERS, channels=CHANNELS)


STUDY = box_models.box_study(
    score, together=box_models.nothing_together, one_scale=True, encoder=box_models.encoder
)


def cases(plan: Plan) -> list[Case]:
    """All combinations."""
    axes = {"mode": "modes", "penalty": "penalties", "dim": "dims", "length": "lengths"}
    return combinations(plan, TRAINING, **axes, data_seed="data_seeds")


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add mean scores with their intervals."""
    cells = [
        cell for kind in ("entries", "channels") for cell in summarise(result["rows"], kind, ("dim", "length"))
    ]
    return {**result, "cells": cells}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: auROC by latents and time steps; how well the models fit."""
    by = ("dim", "length")
    return {
        f"auROC by entries in percent, latents and time steps; {describe_time(result)}": method_table(
            result["cells"], "entries", by
        ),
        "auROC by channels": method_table(result["cells"], "channels", by),
        "Models": fit_table(result["rows"], by),
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Lines of auROC by entries of the papers' method against the length, one for each number of latents."""
    own = [cell for cell in result["cells"] if cell["kind"] == "entries"]
    dims = sorted({cell["dim"] for cell in own})
    series = {f"{dim} latents": [cell for cell in own if cell["dim"] == dim] for dim in dims}
    ax = draw_curves(series, lambda cell: cell["length"], ax)
    ax.set(xlabel="time steps of the recording", ylabel="auROC by entries, inverted neuron gradient", xscale="log")
    return ax


run = experiment(
    *("more-samples", STUDY, FULL, QUICK),
    cases=cases,
    protocol=box_models.VERIFICATION,
    conclude=conclude,
    draw=draw,
)
