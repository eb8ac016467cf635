"""Which channels carry latents that were *not* observed? (Schneider et al. 2023 and 2025, table 2)

The data of table 1 with roles exchanged: the latents z₁, which drive all channels, are observed, and the map is
that of the two hidden ones z₂, which drive the second group only, through the time space of a hybrid model.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from ascribo.model.fitted import FittedModel
from ascribo.simulate.box import BoxRecording
from ascribo.spaces.base import Space
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.time import Time
from experiments.regcl import box_models
from experiments.regcl.box_models import OBSERVED, OURS, PAPERS, Scores
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

__all__ = ["FULL", "PAPER", "QUICK", "STUDY", "cases", "conclude", "draw", "recording", "run", "tables"]

PENALTIES = ("none", "regularized")
BY = ("penalty",)
PAPER = read_printed_table(
    """
feature_ablation 77.1 80.4 73.8 86.7 89.9 83.1
shapley_shuffled 74.4 77.5 71.2 87.5 91.0 84.0
shapley_zeros 75.8 78.7 72.6 85.3 88.6 82.0
integrated_gradients 77.5 79.6 75.4 86.8 89.9 83.4
neuron_gradient 69.3 72.4 66.0 91.9 95.3 88.3
inverted_neuron_gradient 84.2 86.7 81.2 99.2 99.8 98.4
""",
    [(penalty,) for penalty in PENALTIES],
)
"""Schneider et al. (2023), table 2."""
FULL = {
    **TRAINING,
    **{"steps": 20_000, "dims": range(4, 10), "data_seeds": range(10), "penalties": PENALTIES},
}
QUICK = {"steps": 3_000, "dims": (4, 6), "data_seeds": range(2)}


def recording(case: Case) -> BoxRecording:
    """The box of table 1 with the latents of all channels as variables, "c0", "c1", ..., the others hidden."""
    swapped = copy.copy(box_models.recording(case))
    assert swapped.truth is not None
    second = swapped.truth.sel(space="position").values
    swapped.variables = pd.DataFrame(swapped.latents[:, :-OBSERVED], columns=_names(case))
    swapped.truth = xr.DataArray(
        np.stack([np.ones_like(second), second], axis=1),
        dims=("channel", "space"),
        coords={"channel": swapped.channel_names, "space": ["position", "rest"]},
    )
    return swapped


def spaces(case: Case) -> dict[str, Space]:
    """A space for the observed latents, and a time space for the two hidden ones."""
    return {"position": Follow(_names(case), dim=case["dim"] - OBSERVED), "rest": Time(OBSERVED)}


def score(case: Case, data: BoxRecording, model: FittedModel, unique: Scores) -> Row:
    """auROC of the hidden space by all methods, and R² of both blocks."""
    goals = {"position": data.variables, "rest": data.latents[:, -OBSERVED:]}
    return {
        **box_models.score_methods(case, data, model, unique, "rest", entries=PAPERS, channels=(*PAPERS, *OURS)),
        "r2": box_models.recovered_latents(case, data, model, goals),
    }


STUDY = box_models.box_study(score, recording=recording, spaces=spaces, one_scale=True, encoder=box_models.encoder)


def cases(plan: Plan) -> list[Case]:
    """All combinations."""
    return combinations(plan, TRAINING, penalty="penalties", dim="dims", data_seed="data_seeds")


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add mean scores beside the paper's."""
    cells = compare_with_paper(result["rows"], PAPER, BY) + summarise(result["rows"], "channels", BY)
    return {**result, "cells": cells}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: our scores beside the paper's, scores by channels, how well the models fit."""
    return {
        f"auROC by entries in percent, measured | paper; {describe_time(result)}": method_table(
            result["cells"], "entries", BY
        ),
        "auROC by channels in percent": method_table(result["cells"], "channels", BY),
        "By total dimension, channels": method_table(
            summarise(result["rows"], "channels", ("penalty", "dim")), "channels", ("penalty", "dim")
        ),
        "Models": fit_table(result["rows"], ("penalty", "dim")),
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """All scores by entries, beside the paper's."""
    return draw_dots([cell for cell in result["cells"] if cell["kind"] == "entries"], BY, ax)


def _names(case: Case) -> tuple[str, ...]:
    return tuple(f"c{k}" for k in range(case["dim"] - OBSERVED))


run = experiment(
    *("table2", STUDY, FULL, QUICK),
    cases=cases,
    protocol={**box_models.VERIFICATION, "mode": "hybrid contrastive, z1 observed, map of z2"},
    conclude=conclude,
    draw=draw,
)
