"""auROC against observation noise: every method, with the self-tuned penalty and without one.

Box data with white noise on every channel, 6 and 9 latents; hybrid models with the default length of training, on
standardised channels; scored by channels. The papers show noise only on simulated cells (Schneider et al. 2025,
figure 10), without numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from ascribo.attribution import METHODS
from ascribo.model.fitted import FittedModel
from ascribo.simulate.box import BoxRecording
from experiments.regcl import box_models
from experiments.regcl.box_models import Scores
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

BY = ("penalty", "dim", "snr")
FULL = {
    **TRAINING,
    **{"snrs": (None, 30.0, 10.0, 3.0, 1.0, 0.5), "dims": (6, 9), "data_seeds": range(5)},
    **{"modes": ("hybrid contrastive",), "penalties": ("auto", "none")},
}
QUICK = {"snrs": (None, 3.0, 1.0), "dims": (6,), "data_seeds": range(2)}


def score(case: Case, data: BoxRecording, model: FittedModel, unique: Scores) -> Row:
    """auROC of the observed space by every method, and R² of both blocks."""
    return box_models.score_observed(case, data, model, unique, channels=tuple(METHODS))


STUDY = box_models.box_study(score)


def cases(plan: Plan) -> list[Case]:
    """All combinations."""
    axes = {"mode": "modes", "penalty": "penalties", "dim": "dims", "snr": "snrs", "data_seed": "data_seeds"}
    return combinations(plan, TRAINING, **axes)


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add mean scores with their intervals."""
    return {**result, "cells": summarise(result["rows"], "channels", BY)}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: methods by SNR for each penalty and dimension; how well the models fit."""
    out = {}
    for penalty, dim in dict.fromkeys((cell["penalty"], cell["dim"]) for cell in result["cells"]):
        own = [cell for cell in result["cells"] if (cell["penalty"], cell["dim"]) == (penalty, dim)]
        title = f"auROC by channels in percent, by SNR; {dim} latents, penalty {penalty}"
        out[title] = method_table(own, "channels", ("snr",))
    return {**out, f"Models; {describe_time(result)}": fit_table(result["rows"], BY)}


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Lines of auROC against SNR, over all dimensions, with the first penalty; no noise is at the right end."""
    first = result["protocol"]["penalties"][0]
    cells = summarise([row for row in result["rows"] if row["penalty"] == first], "channels", ("snr",))
    levels = sorted({cell["snr"] for cell in cells}, key=lambda snr: float("inf") if snr is None else snr)
    methods = list(dict.fromkeys(cell["method"] for cell in cells))
    styles = {spell_out(method): style for method, style in method_styles(methods).items()}
    series = {spell_out(method): [cell for cell in cells if cell["method"] == method] for method in methods}
    ax = draw_curves(series, lambda cell: levels.index(cell["snr"]), ax, styles=styles)
    ax.set_xticks(range(len(levels)), ["no noise" if snr is None else f"{snr:g}" for snr in levels])
    ax.set(xlabel="SNR (variance of a channel over that of its noise)", title=f"penalty {first}")
    return ax


run = experiment(
    *("noise", STUDY, FULL, QUICK),
    cases=cases,
    protocol={**box_models.PROTOCOL, "channels_on": box_models.STANDARDISED},
    conclude=conclude,
    draw=draw,
)
