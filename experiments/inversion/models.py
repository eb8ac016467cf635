"""Rows of the papers' tables: a generative process, a model of it, and the printed scores.

A row is trained as one stack: five mixings, each with an encoder of its own, and the same supervised. The scores
are on new samples; the affine map behind R² is fitted to other samples than it is scored on (the published code
takes the same).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ascribo import figures
from ascribo.model.generative_process_inversion import Inversion, invert_process
from ascribo.networks.outputs import Box, Output, as_output
from ascribo.simulate.generative_process import Process, process
from ascribo.spaces.similarities import Lp
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, combinations, experiment, one_by_one

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "CONDITIONALS",
    "TRAINING",
    "Setting",
    "cases",
    "draw_scores",
    "make_process",
    "score_tables",
    "table_experiment",
]

CONDITIONALS: dict[str, dict[str, Any]] = {
    "vMF(1)": {"conditional": "von_mises_fisher", "concentration": 1.0},
    "vMF(10)": {"conditional": "von_mises_fisher", "concentration": 10.0},
    "Laplace(0.05)": {"conditional": "laplace", "scale": 0.05},
    "Normal(0.05)": {"conditional": "normal", "scale": 0.05},
    "GenNorm(3; 0.05)": {"conditional": "generalized_normal", "exponent": 3.0, "scale": 0.05},
    "Normal(1)": {"conditional": "normal", "scale": 1.0},
}
MARGINALS = {"Uniform": {}, "Normal(1)": {"marginal": "normal"}, "Laplace(1)": {"marginal": "laplace"}}
SIMILARITIES: dict[str, Any] = {"vMF": "dot", "Normal": "squared_l2", "Laplace": Lp(1), "GenNorm(3)": Lp(3)}
TRAINING = {
    **{"dim": 10, "seeds": 5, "steps": 5_000, "batch_size": 2048, "learning_rate": 1e-2, "width": 30},
    **{"supervised_steps": 1_000},
}
"""What cases share: latents, mixings, training steps, references in each, hidden units for each latent in each of
three layers, and training steps of the supervised encoder (0: none). The papers: 300,000 steps of 6,144 references,
six hidden layers of up to 50 units a latent, a constant learning rate of 1e-4."""


@dataclass(frozen=True)
class Setting:
    """One row of a table. The names are the papers'; conditional and model are keys of the tables above.

    printed : the papers' score in percent, by number of layers of the mixing.
    matched : whether the theorem's assumptions hold.
    identified : whether theory, or the paper's own experiment, says that latents are found.
    larger, longer : times the batch and the training steps of other rows, where pairs tell little (vMF(1) in ten
        dimensions: 0.05 nats) or the bias of small batches is large (Laplace). learning_rate : None: that of all.
    first_alpha : weight of the uniformity in the first half of training, InfoNCE in the second; None: InfoNCE
        throughout. Where positives are close and the model is wide, the alignment pulls too little to be fast.
    fixed_half_width : of the model's box; None: its sides are learned.
    """

    space: str
    marginal: str
    conditional: str
    output: str
    model: str
    printed: Mapping[int, float]
    matched: bool = False
    identified: bool = True
    larger: int = 1
    longer: int = 1
    learning_rate: float | None = None
    first_alpha: float | None = None
    fixed_half_width: float | None = None

    @property
    def name(self) -> str:
        """Process and model in one line."""
        return f"{self.space}, {self.marginal}, {self.conditional} → {self.output}, {self.model}"


def make_process(setting: Setting, dim: int, layers: int, seed: int) -> Process:
    """The generative process of a row."""
    given = {**MARGINALS[setting.marginal], **CONDITIONALS[setting.conditional]}
    return process(setting.space, dim=dim, layers=layers, seed=seed, **given)


def table_experiment(
    name: str,
    full: Mapping[str, Any],
    quick: Mapping[str, Any],
    settings: Sequence[Setting],
    *,
    conclude: Callable[[dict[str, Any]], dict[str, Any]],
    draw: Callable[[dict[str, Any]], Any],
) -> Callable[..., dict[str, Any]]:
    """The `run` of a table: every row with every depth of the mixing, see `experiments.shared.runner`."""
    return experiment(
        *(name, full, quick),
        cases=cases,
        rows=one_by_one(partial(_fit_row, settings), _describe),
        conclude=conclude,
        draw=draw,
        protocol={"negatives": "references of the batch, each with itself too; the positive is counted"},
    )


def cases(plan: Plan) -> list[Case]:
    return combinations(plan, (*TRAINING, "device"), layers="layers", setting_number="settings")


def _fit_row(settings: Sequence[Setting], **case: Any) -> Row:
    """Train the models of a row, and the supervised ones beside them; the scores of each mixing."""
    began, setting = time.monotonic(), settings[case["setting_number"]]
    first = make_process(setting, case["dim"], case["layers"], 0)
    processes = [first.with_seed(seed) for seed in range(case["seeds"])]
    common: dict[str, Any] = {
        **{"similarity": SIMILARITIES[setting.model], "output": _output(setting), "device": case["device"]},
        **{"batch_size": setting.larger * case["batch_size"], "progress": False},
        "widths": (case["width"] * case["dim"],) * 3,
    }
    steps, pace = setting.longer * case["steps"], setting.learning_rate or case["learning_rate"]
    if setting.first_alpha is None:
        found = invert_process(processes, steps=steps, learning_rate=pace, **common)
    else:
        early = invert_process(processes, steps=steps // 2, learning_rate=pace, alpha=setting.first_alpha, **common)
        found = invert_process(processes, steps=steps // 2, learning_rate=pace / 10, start=early, **common)
    trained = time.monotonic()
    row = {**case, "setting": setting.name, "printed": setting.printed.get(case["layers"])}
    row |= {"matched": setting.matched, "identified": setting.identified, **_scores(found)}
    if case["supervised_steps"]:
        best = invert_process(
            processes, steps=case["supervised_steps"], supervised=True, learning_rate=3e-3, **common
        )
        row["supervised"] = {name: best.scores[name].tolist() for name in ("r2", "mcc")}
    row["seconds"] = {"training": round(trained - began, 1), "all": round(time.monotonic() - began, 1)}
    return row


def _output(setting: Setting) -> Output:
    """Where the embedding of a row lies."""
    if setting.fixed_half_width is None:
        return as_output(setting.output)
    return Box(setting.fixed_half_width, learned=False)


def _scores(found: Inversion) -> Row:
    names = ("r2", "mcc", "mcc_spearman", "identity_r2", "alignment", "uniformity")
    last = found.history[-100:].mean(0)
    return {**{name: found.scores[name].tolist() for name in names}, "loss": [float(value) for value in last]}


def score_tables(result: Mapping[str, Any], measure: str, name: str, said: str) -> dict[str, pd.DataFrame]:
    """Title -> table: a line for each row, ours beside the printed score, in percent.

    measure : "r2" or "mcc". name : its name. said : what the rows that are counted as reached do.
    """
    lines = []
    for row in result["rows"]:
        ours = 100 * np.asarray(row[measure])
        lines.append(
            {
                "process → model": row["setting"],
                "layers": row["layers"],
                "matched": "yes" if row["matched"] else "",
                "identity R²": f"{100 * np.mean(row['identity_r2']):.1f}",
                "supervised": f"{100 * np.mean(row['supervised'][measure]):.2f}" if "supervised" in row else "",
                "ours": f"{ours.mean():.2f} ± {ours.std():.2f}",
                "printed": "" if row["printed"] is None else f"{row['printed']:.2f}",
                "seconds": row["seconds"]["all"],
            }
        )
    found = result["summary"]
    title = (
        f"{name} in percent, {result['protocol']['dim']} latents; {found['reached']} of {found['judged']} {said}"
    )
    return {title: pd.DataFrame(lines)}


def draw_scores(rows: Sequence[Row], measure: str, label: str, ax: Axes | None = None) -> Axes:
    """Every model as a dot, the printed score as a line, row by row."""
    names = [f"{row['setting']} ({row['layers']} layers)" for row in rows]
    series: dict[str, dict[str, Any]] = {}
    for k, (kind, identified) in enumerate((("identified", True), ("not identified", False))):
        own = [
            (n, 100 * v)
            for n, r in zip(names, rows, strict=True)
            if r["identified"] == identified
            for v in r[measure]
        ]
        if own:
            groups, values = zip(*own, strict=True)
            series[kind] = {"group": groups, "value": values, "color": figures.PALETTE[k], "lane": 0}
    printed = [(n, row["printed"]) for n, row in zip(names, rows, strict=True) if row["printed"] is not None]
    if printed:
        groups, values = zip(*printed, strict=True)
        series["printed"] = {"group": groups, "value": values, "marker": "|", "color": figures.INK, "lane": 0}
    return figures.dots(series, names, ax, label=f"{label}, in percent", size=(7.5, 1.2 + 0.27 * len(rows)))


def _describe(row: Row) -> str:
    """One line about a finished row."""
    return (
        f"{row['setting']} ({row['layers']} layers): R² {np.mean(row['r2']):.4f}, MCC {np.mean(row['mcc']):.4f} "
        f"({row['seconds']['all']} s)"
    )
