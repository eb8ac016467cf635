"""Does the self-tuned λ do as well as the best fixed one, wherever that lies? (The experiment "lambda".)

Hybrid models of box data with 4, 6 and 9 latents, without noise and at SNR 1, the channels as they are, or each
multiplied by a number of its own from 0.1 to 10 ("spread"). The estimator standardises channels, so their scale
should change nothing. `Auto()` beside fixed λ from 0.001 to 10 on the papers' schedule (0 for an eighth of the
steps, then a ramp of an eighth, then constant). Measured: auROC of the inverted neuron gradient, which λ is for, by
entries and by channels, and of our methods by channels.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ascribo import figures
from ascribo.model.fitted import FittedModel
from ascribo.simulate.box import BoxRecording
from experiments.regcl import box_models
from experiments.regcl.box_models import OURS, Scores
from experiments.regcl.reporting import describe_time, fit_table, spell_out
from experiments.shared.many_models import TRAINING, experiment
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, combinations
from experiments.shared.summaries import summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "STUDY", "cases", "conclude", "draw", "recording", "run", "tables", "verdict"]

INVERTED = "inverted_neuron_gradient"
CONDITION = ("dim", "snr", "scale")
FULL = {
    **TRAINING,
    **{"dims": (4, 6, 9), "snrs": (None, 1.0), "scales": (1.0, "spread"), "data_seeds": range(10)},
    **{"modes": ("hybrid contrastive",), "penalties": ("auto", 0.001, 0.01, 0.1, 1.0, 10.0)},
}
QUICK = {"dims": (6,), "scales": (1.0, "spread"), "data_seeds": range(1)}


def recording(case: Case) -> BoxRecording:
    """The box data of a case, its channels multiplied."""
    data = copy.copy(box_models.recording(case))
    factor = case["scale"]
    if factor == "spread":
        rng = np.random.default_rng([case["dim"], case["data_seed"]])
        factor = 10 ** rng.uniform(-1, 1, data.X.shape[1])
    data.X = (data.X * factor).astype(np.float32)
    return data


def score(case: Case, data: BoxRecording, model: FittedModel, unique: Scores) -> Row:
    """auROC of the observed space, and R² of both blocks."""
    return box_models.score_observed(case, data, model, unique, entries=[INVERTED], channels=(INVERTED, *OURS))


STUDY = box_models.box_study(score, recording=recording, data=("dim", "data_seed", "length", "snr", "scale"))


def cases(plan: Plan) -> list[Case]:
    """All combinations."""
    axes = {"mode": "modes", "dim": "dims", "snr": "snrs", "scale": "scales", "penalty": "penalties"}
    return combinations(plan, TRAINING, **axes, data_seed="data_seeds")


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add for each method a verdict on the self-tuned λ."""
    kinds = [("channels", INVERTED), ("entries", INVERTED), *(("channels", method) for method in OURS)]
    verdicts = [verdict(result["rows"], kind, method) for kind, method in kinds]
    return {**result, "verdicts": verdicts}


def verdict(rows: Sequence[Row], kind: str, method: str) -> dict[str, Any]:
    """The self-tuned λ beside fixed ones, for one method.

    Returns conditions (for each the mean auROC by λ, the best fixed λ and how much auto is above it) and penalties
    (for each λ its mean over conditions, its lowest condition, and the most it falls short of the best fixed λ).
    """
    found: dict[tuple, dict[str, float]] = {}
    for cell in summarise(rows, kind, (*CONDITION, "penalty"), [method]):
        found.setdefault(tuple(cell[key] for key in CONDITION), {})[str(cell["penalty"])] = cell["mean"]
    conditions = []
    for values, means in found.items():
        fixed = {penalty: mean for penalty, mean in means.items() if penalty != "auto"}
        best = max(fixed, key=fixed.__getitem__)
        above = {"auto_minus_best": round(means["auto"] - fixed[best], 4)} if "auto" in means else {}
        conditions.append(
            {**dict(zip(CONDITION, values, strict=True)), "auroc": means, "best_fixed": best, **above}
        )
    penalties = {}
    for penalty in conditions[0]["auroc"]:
        own = [c["auroc"][penalty] for c in conditions]
        short = [c["auroc"][c["best_fixed"]] - c["auroc"][penalty] for c in conditions]
        where = conditions[int(np.argmax(short))]
        penalties[penalty] = {
            "mean": round(float(np.mean(own)), 4),
            "lowest": round(min(own), 4),
            "worst_shortfall": round(max(short), 4),
            "worst_condition": {key: where[key] for key in CONDITION},
        }
    return {"method": method, "kind": kind, "conditions": conditions, "penalties": penalties}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: for each method auROC by condition and λ, and each λ at its worst; the λ that were found."""
    out = {}
    for found in result["verdicts"]:
        title = f"{spell_out(found['method'])} by {found['kind']}"
        out[f"{title}: auROC by λ"] = pd.DataFrame(
            [
                {
                    **{k: str(c[k]) for k in CONDITION},
                    **c["auroc"],
                    "auto - best fixed": c.get("auto_minus_best", ""),
                }
                for c in found["conditions"]
            ]
        )
        out[f"{title}: each λ over conditions"] = pd.DataFrame(
            [
                {
                    "λ": penalty,
                    **p,
                    "worst_condition": ", ".join(f"{k} {v}" for k, v in p["worst_condition"].items()),
                }
                for penalty, p in found["penalties"].items()
            ]
        )
    chosen = [row for row in result["rows"] if row["penalty"] == "auto"]
    return {**out, f"Models with the self-tuned λ; {describe_time(result)}": fit_table(chosen, CONDITION)}


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """auROC of the inverted neuron gradient by channels: for each condition the fixed λ, and the self-tuned one."""
    conditions = result["verdicts"][0]["conditions"]
    names = [f"{c['dim']} latents, {_noise(c['snr'])}, x {c['scale']}" for c in conditions]
    series: dict[str, dict[str, Any]] = {}
    for k, penalty in enumerate(conditions[0]["auroc"]):
        own = {"group": names, "value": [condition["auroc"][penalty] for condition in conditions], "lane": 0}
        look = {"color": figures.INK, "marker": "|"} if penalty == "auto" else {"color": figures.PALETTE[k - 1]}
        series[penalty if penalty == "auto" else f"λ = {penalty}"] = {**own, **look}
    return figures.dots(series, names, ax, label="auROC, inverted neuron gradient, by channels")


def _noise(snr: float | None) -> str:
    return "no noise" if snr is None else f"SNR {snr:g}"


run = experiment(
    *("lambda", STUDY, FULL, QUICK),
    cases=cases,
    protocol={**box_models.PROTOCOL, "channels_on": box_models.STANDARDISED},
    conclude=conclude,
    draw=draw,
)
