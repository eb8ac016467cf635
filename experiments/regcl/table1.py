"""Training modes, with and without penalty, by attribution method (Schneider et al. 2025, table 1).

Data: `ascribo.simulate.box`, two observed latents and 2 to 7 hidden ones, 25 + 25 channels on one scale. Models:
the papers' three training modes, λ = 0 or 0.1 on their schedule, encoders as wide as in their released code, where
width follows the number of outputs. Measured: auROC of the observed space by entries, as in the papers, and by
channels, for the papers' methods and for ours; R² of the latents; and the papers' statistics (Schneider et al.
2023, appendix B.4). Different from the papers: batches of 512 instead of 5,000, and a learning rate of 1e-3 that
falls (they name none); `table1_batches` has the papers' batches and a constant rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from ascribo.model.fitted import FittedModel
from ascribo.simulate.box import BoxRecording
from experiments.regcl import box_models, table1_statistics
from experiments.regcl.box_models import MODES, OURS, PAPERS, Scores
from experiments.regcl.reporting import (
    compare_with_paper,
    describe_time,
    draw_dots,
    fit_table,
    method_table,
    read_printed_table,
)
from experiments.shared.many_models import TRAINING, experiment
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, combinations
from experiments.shared.summaries import summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "PAPER", "QUICK", "STUDY", "cases", "conclude", "draw", "run", "score", "tables"]

PENALTIES = ("none", "regularized")
BY = ("mode", "penalty")
CHANNELS = ("neuron_gradient", "inverted_neuron_gradient", *OURS)
"""Methods that are scored by channels too."""
PAPER = read_printed_table(
    """
feature_ablation 83.1 84.8 81.3 88.5 90.0 87.0 84.0 85.6 82.1 84.7 86.5 82.8 82.9 84.5 81.3 85.2 86.9 83.4
shapley_shuffled 82.0 83.7 80.3 89.2 90.8 87.6 83.3 84.9 81.4 84.6 86.6 82.6 81.6 83.2 80.1 85.1 87.1 83.0
shapley_zeros 81.0 82.8 79.3 84.9 86.8 83.1 82.0 83.7 80.2 82.4 84.3 80.4 81.6 83.4 79.9 83.2 85.0 81.2
integrated_gradients 81.0 82.7 79.2 84.9 86.6 83.1 81.9 83.7 80.2 82.3 84.3 80.5 83.9 85.6 82.1 86.9 88.8 84.9
neuron_gradient 79.2 81.0 77.4 93.0 94.5 91.5 80.6 82.4 78.8 86.7 89.0 84.6 79.2 81.0 77.5 88.0 90.1 85.8
inverted_neuron_gradient 76.9 78.7 74.9 92.9 94.5 91.5 77.5 79.4 75.5 86.1 88.3 83.8 87.9 89.5 86.3 98.2 98.9 97.4
""",
    [(mode, penalty) for mode in MODES for penalty in PENALTIES],
)
"""Schneider et al. (2025), table 1."""
FULL = {
    **TRAINING,
    **{"steps": 20_000, "dims": range(4, 10), "data_seeds": range(10), "modes": MODES, "penalties": PENALTIES},
}
QUICK = {"steps": 3_000, "dims": (4, 6, 9), "data_seeds": range(3)}


def score(case: Case, data: BoxRecording, model: FittedModel, unique: Scores) -> Row:
    """auROC of the observed space by all methods, and R² of both blocks."""
    return box_models.score_observed(case, data, model, unique, entries=PAPERS, channels=CHANNELS)


STUDY = box_models.box_study(score, one_scale=True, encoder=box_models.encoder)


def cases(plan: Plan) -> list[Case]:
    """All combinations of mode, penalty and data set."""
    return combinations(plan, TRAINING, mode="modes", penalty="penalties", dim="dims", data_seed="data_seeds")


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add mean scores beside the paper's, and the paper's statistics."""
    cells = compare_with_paper(result["rows"], PAPER, BY) + summarise(result["rows"], "channels", BY)
    statistics = table1_statistics.test_scores(result["rows"], PAPER)
    return {**result, "cells": cells, "statistics": statistics}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: our scores beside the paper's, scores by channels, how well the models fit, statistics."""
    return {
        f"auROC by entries in percent, measured | paper; {describe_time(result)}": method_table(
            result["cells"], "entries", BY
        ),
        "auROC by channels in percent": method_table(result["cells"], "channels", BY),
        "Models": fit_table(result["rows"], BY),
        **table1_statistics.tables(result["statistics"]),
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """All scores by entries, beside the paper's."""
    return draw_dots([cell for cell in result["cells"] if cell["kind"] == "entries"], BY, ax)


run = experiment(
    *("table1", STUDY, FULL, QUICK), cases=cases, protocol=box_models.VERIFICATION, conclude=conclude, draw=draw
)
