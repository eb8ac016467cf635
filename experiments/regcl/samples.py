"""auROC and bits against the length of the recording: every cheap method.

Box data with 6 latents at SNR 3; hybrid models with the self-tuned penalty and the default length of training, on
standardised channels; scored by channels. The data sets are not those (0 to 4) on which the decoders' training in
short recordings was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from ascribo.attribution import METHODS
from ascribo.model.fitted import FittedModel
from ascribo.simulate.box import BoxRecording
from experiments.regcl import box_models
from experiments.regcl.box_models import COSTLY, Scores
from experiments.regcl.reporting import (
    describe_time,
    draw_curves,
    fit_table,
    method_styles,
    method_table,
    spell_out,
)
from experiments.shared.many_models import TRAINING, experiment
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, combinations
from experiments.shared.summaries import summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "STUDY", "cases", "conclude", "draw", "run", "tables"]

CHEAP = tuple(method for method in METHODS if method not in COSTLY or method == "tangent")
FULL = {
    **{key: value for key, value in TRAINING.items() if key != "length"},
    **{"lengths": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000), "data_seeds": range(10, 15)},
    **{"dims": (6,), "snrs": (3.0,), "modes": ("hybrid contrastive",), "penalties": ("auto",)},
}
QUICK = {"lengths": (1_000, 3_000, 10_000, 30_000, 100_000), "data_seeds": range(10, 12)}


def score(case: Case, data: BoxRecording, model: FittedModel, unique: Scores) -> Row:
    """auROC of the observed space by the cheap methods, and R² of both blocks."""
    return box_models.score_observed(case, data, model, unique, channels=CHEAP)


STUDY = box_models.box_study(score)


def cases(plan: Plan) -> list[Case]:
    """All combinations."""
    axes = {"mode": "modes", "penalty": "penalties", "dim": "dims", "snr": "snrs", "length": "lengths"}
    return combinations(plan, TRAINING, **axes, data_seed="data_seeds")


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add mean scores with their intervals."""
    return {**result, "cells": summarise(result["rows"], "channels", ("length",))}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: methods by length; bits and R² by length."""
    return {
        f"auROC by channels in percent, by time steps; {describe_time(result)}": method_table(
            result["cells"], "channels", ("length",)
        ),
        "Models": fit_table(result["rows"], ("length",)),
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Lines of auROC against the length of the recording."""
    methods = list(dict.fromkeys(cell["method"] for cell in result["cells"]))
    styles = {spell_out(method): style for method, style in method_styles(methods).items()}
    series = {spell_out(m): [cell for cell in result["cells"] if cell["method"] == m] for m in methods}
    ax = draw_curves(series, lambda cell: cell["length"], ax, styles=styles)
    ax.set(xlabel="time steps of the recording", xscale="log")
    return ax


run = experiment(
    *("samples", STUDY, FULL, QUICK),
    cases=cases,
    protocol={**box_models.PROTOCOL, "channels_on": box_models.STANDARDISED},
    conclude=conclude,
    draw=draw,
)
