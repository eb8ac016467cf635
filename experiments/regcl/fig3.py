"""auROC against the number of latents (Schneider et al. 2025, figure 3), and beyond the papers' nine.

The papers' method (hybrid, regularized, inverted neuron gradient), their supervised baselines, and our methods,
with 4 to 9 latents; then 12, 15 and 20 latents with hybrid models. The models with 4 to 9 latents are those of
table 1: where `table1.json` or its unfinished rows are in the same folder, they are taken from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ascribo import figures
from ascribo.support.sealed_json import read_json
from experiments.regcl import box_models, table1
from experiments.regcl.box_models import OURS, PAPERS
from experiments.regcl.reporting import describe_time, draw_curves, fit_table, method_table, spell_out
from experiments.shared.many_models import experiment
from experiments.shared.rows import Case, Row, read_row, row_files
from experiments.shared.runner import Plan
from experiments.shared.summaries import summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "cases", "conclude", "draw", "run", "tables"]

FULL = {
    **{key: value for key, value in table1.FULL.items() if key != "modes"},
    **{"far_dims": (12, 15, 20), "far_data_seeds": range(5)},
}
QUICK = {**table1.QUICK, "far_dims": (12,), "far_data_seeds": range(2)}
HYBRID, SUPERVISED = "hybrid contrastive", "supervised"
BY = ("mode", "penalty", "dim")


def cases(plan: Plan) -> list[Case]:
    """Those of table 1 without the supervised contrastive ones, and hybrid ones with more latents."""
    far = {**plan, "modes": [HYBRID], "dims": plan["far_dims"], "data_seeds": plan["far_data_seeds"]}
    return table1.cases({**plan, "modes": [SUPERVISED, HYBRID]}) + table1.cases(far)


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add mean scores with their intervals."""
    cells = [cell for kind in ("entries", "channels") for cell in summarise(result["rows"], kind, BY)]
    return {**result, "cells": cells}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: by entries and by channels, a column for each number of latents; how well the models fit."""
    out = {}
    for mode, penalty in dict.fromkeys((cell["mode"], cell["penalty"]) for cell in result["cells"]):
        own = [cell for cell in result["cells"] if (cell["mode"], cell["penalty"]) == (mode, penalty)]
        for kind in ("entries", "channels"):
            out[f"{mode}, {penalty}: auROC by {kind} in percent, by latents"] = method_table(own, kind, ("dim",))
    return {**out, f"Models; {describe_time(result)}": fit_table(result["rows"], BY)}


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Lines of auROC against the number of latents: the papers' method black, supervised baselines grey."""
    series, styles = {}, {}

    def add(mode: str, penalty: str, kind: str, method: str, label: str, **style: Any) -> None:
        wanted = {"mode": mode, "penalty": penalty, "kind": kind, "method": method}
        points = [cell for cell in result["cells"] if cell.items() >= wanted.items()]
        if points:
            series[label] = points
            styles[label] = style

    add(HYBRID, "regularized", "entries", PAPERS[-1], "papers', by entries", color=figures.INK, linewidth=2)
    add(HYBRID, "regularized", "channels", PAPERS[-1], "papers', by channels", color=figures.INK, linestyle=":")
    for k, method in enumerate(OURS):
        add(HYBRID, "none", "channels", method, spell_out(method), color=figures.PALETTE[k], linewidth=2)
    for k, method in enumerate(PAPERS):
        dashes = {"color": figures.FAINT, "linewidth": 0.9, "linestyle": (0, (1 + k, 1.5))}
        add(SUPERVISED, "none", "entries", method, f"supervised, {spell_out(method)}, by entries", **dashes)
    ax = draw_curves(series, lambda point: point["dim"], ax, styles=styles)
    ax.set(xlabel="latents, two of them observed")
    return ax


def _known(wanted: Sequence[Case], out: Path) -> list[Row]:
    """Rows of table 1: of the finished experiment, or those of one that was interrupted."""
    finished = out / "table1.json"
    if finished.exists():
        return read_json(finished)["rows"]
    return [row for file in row_files(wanted, out / ".table1") if (row := read_row(file)) is not None]


run = experiment(
    *("fig3", table1.STUDY, FULL, QUICK),
    cases=cases,
    protocol=box_models.VERIFICATION,
    conclude=conclude,
    draw=draw,
    known=_known,
)
