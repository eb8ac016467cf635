"""Latents up to an affine map: R² of twelve processes and models, most of which violate the theory.

Zimmermann et al. (2021), table 1 (mixings of three layers), and Zimmermann et al. (2020), table 1 (of two).
Process: ten latents, a uniform or other marginal, positives from a conditional, an invertible mixing. Model: an
encoder trained by InfoNCE. Measured: R² of the latents by an affine map of the embedding; beside it that of the
observations as they are, and of the same encoder trained with the latents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.inversion.models import (
    SHORT,
    TRAINING,
    Setting,
    by_mixing,
    cases,
    draw_scores,
    judged_again,
    score_tables,
    table_experiment,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "SETTINGS", "cases", "conclude", "draw", "run", "tables"]

S, B, U = "sphere", "box", "unbounded"
WIDE: dict[str, Any] = {"larger": 12, "decorrelate": True}
NO_OFFSETS: dict[str, Any] = {
    "homogeneous": True,
    "otherwise": {"steps": 2_000, "batch_size": 1_024, "width": 13, "last_steps": 0},
}
"""Chosen for two cores, with mixings 50 and 51."""
CLOSE = (
    "printed with a conditional of width 1, with which the loss is least near R² 0.92; run with that of other rows"
)
WITH_BIASES = f"{CLOSE}; an encoder with biases, as the papers have: the loss is least near R² 0.97, not judged"
WITHOUT = (
    f"{CLOSE}; the mixing has no offsets, and the encoder is told so: it has no biases, which the papers' encoders "
    "have"
)
AS_PRINTED = "as printed; the loss is least near R² 0.92, see docs/identifiability.md"
SETTINGS = (
    Setting(S, "Uniform", "vMF(1)", S, "vMF", {3: 99.42, 2: 99.42}, matched=True, **WIDE),
    Setting(S, "Uniform", "vMF(10)", S, "vMF", {3: 99.86, 2: 99.86}),
    Setting(S, "Uniform", "Laplace(0.05)", S, "vMF", {3: 99.91, 2: 99.88}),
    Setting(S, "Uniform", "Normal(0.05)", S, "vMF", {3: 99.86, 2: 99.86}),
    Setting(B, "Uniform", "Normal(0.05)", U, "Normal", {3: 99.60, 2: 99.52}),
    Setting(B, "Uniform", "Laplace(0.05)", U, "Normal", {3: 99.64, 2: 99.53}),
    Setting(B, "Uniform", "Laplace(0.05)", U, "GenNorm(3)", {3: 99.70, 2: 99.70}),
    Setting(B, "Uniform", "Normal(0.05)", U, "GenNorm(3)", {3: 99.69, 2: 99.69}),
    Setting(S, "Normal(1)", "Laplace(0.05)", S, "vMF", {3: 99.02, 2: 98.94}),
    Setting(S, "Normal(1)", "Normal(0.05)", S, "vMF", {3: 99.02, 2: 98.94}),
    Setting(
        U, "Laplace(1)", "Normal(0.05)", U, "Normal", {3: 98.13, 2: 97.57}, longer=4, judged=False, said=WITH_BIASES
    ),
    Setting(U, "Normal(1)", "Normal(0.05)", U, "Normal", {3: 98.76, 2: 98.70}, said=CLOSE),
    Setting(U, "Laplace(1)", "Normal(1)", U, "Normal", {3: 98.13, 2: 97.57}, judged=False, said=AS_PRINTED),
    Setting(U, "Normal(1)", "Normal(1)", U, "Normal", {3: 98.76, 2: 98.70}, judged=False, said=AS_PRINTED),
    Setting(U, "Laplace(1)", "Normal(0.05)", U, "Normal", {3: 98.13, 2: 97.57}, said=WITHOUT, **NO_OFFSETS),
)
"""The rows of the tables, in the order of the paper of 2021 (the table of 2020 has its fifth row second); the last
two once more with the conditional that is printed; and the Laplace marginal with an encoder that knows that the
mixing has no offsets, which is judged instead of the one with biases."""
TOLERANCE = 0.3
"""Points by which a row may be below the printed score."""
FULL = {**TRAINING, "layers": (3, 2), "settings": range(len(SETTINGS))}
QUICK = {
    **{**SHORT, "mixings": 1, "encoders": 2, "supervised_steps": 300},
    **{"layers": (3,), "settings": range(12)},
}
TAKES = "30 rows of 7 encoders, about 10 minutes on an H200, most of a day on two cores"


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add which rows reach the printed score, less 0.3 points. Short forms have fewer latents: there, matched rows
    should reach R² 0.99. Verdicts are those of the present rule."""
    rows = judged_again(result["rows"])
    full = result["protocol"]["dim"] == FULL["dim"]
    bound = lambda row: (row["printed"] - TOLERANCE) / 100 if full else 0.99  # noqa: E731
    judged = [row for row in rows if row["judged"] and row["printed"] is not None and (full or row["matched"])]
    missed = [
        f"{row['setting']} ({row['layers']} layers)" for row in judged if np.mean(by_mixing(row, "r2")) < bound(row)
    ]
    summary = {"judged": len(judged), "reached": len(judged) - len(missed), "missed": missed}
    return {**result, "rows": rows, "summary": summary}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: every row beside the printed score."""
    return score_tables(result, "r2", "R²", "judged rows reach their bound")


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """R² of every model beside the printed one."""
    return draw_scores(result["rows"], "r2", "R² of the latents", ax)


run = table_experiment("inversion", FULL, QUICK, SETTINGS, conclude=conclude, draw=draw)
