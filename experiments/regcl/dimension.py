"""How many dimensions? Agreement of seeds by size of the model (Schneider et al. 2025, appendix C, figure 6).

Data: `ascribo.simulate.box` with three observed and three hidden latents. Models, each with several seeds: time
contrastive (one `Time` space; six dimensions are right), supervised contrastive (one space that follows the
observed latents; three) and hybrid (both; three and three). Measured: how far seeds agree after affine alignment,
on evenly spaced time steps of the whole recording; the dimension that `ascribo.select_dimension` chooses from that;
and the auROC of the observed space, where there is one.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from ascribo import figures
from ascribo.evidence.choose_dimension import TOLERANCE, largest_consistent, seed_consistency
from ascribo.evidence.stability import WHOLE
from ascribo.model.estimator import ContrastiveEmbedding
from ascribo.simulate.box import box
from ascribo.spaces.base import Space
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.time import Time
from experiments.shared.results import estimator_parameters
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "cases", "conclude", "draw", "one_size", "run", "tables"]

OBSERVED, HIDDEN = ("x", "y", "z"), 3
METHODS = ("generative_gradient", "inverted_neuron_gradient")
TRUE = {"time": (6,), "supervised": (3,), "hybrid": (3, 3)}
PAPER = {
    "time": "consistency rises from 80-85% (2D) to almost 100% for 5D and 6D, then drops",
    "supervised": "consistency drops after 3D",
    "hybrid": "consistency is best for (3D, 2D), (2D, 3D) and (2D, 2D)",
}
FULL = {
    "dims": {"time": range(2, 11), "supervised": range(2, 11), "hybrid": range(2, 6)},
    **{"seeds": 10, "data_seed": 0, "steps": 50_000, "samples": 10_000},
    "model": {"steps": 1500},
}
"""Kind of model -> its dimensions (the hybrid one is run with all pairs; kinds left out are not run); seeds of
each; seed and time steps of the recording; time steps that embeddings are compared on and maps are averaged over;
parameters of `ContrastiveEmbedding` that are not its defaults."""
QUICK = {
    "dims": {"time": range(4, 9), "supervised": range(2, 6), "hybrid": range(2, 5)},
    "seeds": 3,
    # what reaches the minimum in few steps: a penalty from the first one keeps seeds out of poor local minima
    "model": {"steps": 500, "batch_size": 256, "learning_rate": 3e-3, "penalty": 0.1},
}


def cases(plan: Plan) -> list[Case]:
    """All sizes of each kind of model."""
    if unknown := set(plan["dims"]) - set(TRUE):
        raise ValueError(f"dims of {sorted(unknown)}: expected some of {list(TRUE)}.")
    given = {name: plan[name] for name in ("seeds", "data_seed", "steps", "samples")}
    given["model"] = {"device": plan["device"], **plan["model"]}
    return [
        {"kind": kind, "dims": list(size), **given}
        for kind, values in plan["dims"].items()
        for size in product(values, repeat=len(TRUE[kind]))
    ]


def one_size(
    kind: str,
    dims: Sequence[int],
    seeds: int,
    data_seed: int,
    steps: int,
    samples: int,
    model: Mapping[str, Any],
) -> Row:
    """One kind of model of one size, all seeds together: fit, compare the seeds, attribute."""
    began = time.monotonic()
    data = box(data_seed, observed=len(OBSERVED), hidden=HIDDEN, steps=steps)
    spaces = _spaces(kind, dims)
    fitted = _model(spaces, seeds, model).fit(data)
    found = seed_consistency(fitted, data, samples=samples).drop(columns="dim").set_index("space")
    fit = fitted.goodness_of_fit_
    collapsed = [str(name) for name, gone in zip(fit["space"], fit["collapsed"], strict=True) if gone]
    auroc: dict[str, float | None] = dict.fromkeys(METHODS)
    if "position" in spaces and "position" not in collapsed:
        # of a collapsed second space, and of samples without an inverse: the row says both
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            auroc |= {m: fitted.attribute(data, method=m, samples=samples).auroc(data, "position") for m in METHODS}
    return {
        "kind": kind,
        "dims": list(dims),
        "agreement": {name: {k: _number(v) for k, v in row.items()} for name, row in found.T.to_dict().items()},
        # each space is to be identified: the model is as consistent as its least consistent space
        "consistency": None if collapsed else _number(found.drop(index=WHOLE)["consistency"].min()),
        "collapsed": collapsed,
        "auroc": auroc,
        "lambda": fitted.history_.attrs["lambda"],
        "training_steps": fitted.history_.sizes["step"],
        "seconds": round(time.monotonic() - began, 1),
    }


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add for each kind of model the size that the rule chooses, beside the true one."""
    of_kind = {kind: [row for row in result["rows"] if row["kind"] == kind] for kind in result["protocol"]["dims"]}
    return {**result, "summary": {kind: _summary(rows, kind) for kind, rows in of_kind.items()}}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: what was chosen, and for each kind of model its curve."""
    chosen = [
        {
            "model": kind,
            "chosen": _size(s["chosen"]),
            "true": _size(s["true"]),
            "found": "yes" if s["found"] else "no",
            "peak of the variance-weighted R²": _size(s["peak_variance_weighted"]),
            "paper": s["paper"],
        }
        for kind, s in result["summary"].items()
    ]
    seeds, minutes = result["protocol"]["seeds"], result["seconds"] / 60
    title = f"Chosen dimension, {len(result['rows'])} sizes with {seeds} seeds in {minutes:.1f} minutes"
    out = {title: pd.DataFrame(chosen)}
    for kind in result["summary"]:
        out[f"Consistency, {kind}"] = pd.DataFrame(
            [
                {
                    "dim": _size(row["dims"]),
                    "consistency": _shown(row["consistency"]),
                    "variance-weighted": _shown(row["agreement"][WHOLE]["variance_weighted"]),
                    "seeds": int(row["agreement"][WHOLE]["compared"]),
                    "bits": _shown(row["agreement"][WHOLE]["bits"], 2),
                    **{f"auROC, {m.split('_')[0]}": _shown(row["auroc"][m]) for m in METHODS if kind != "time"},
                    "λ": float(np.mean(row["lambda"])),
                    "s": round(row["seconds"]),
                }
                for row in result["rows"]
                if row["kind"] == kind
            ]
        )
    return out


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Consistency against dimension, the chosen one ringed; in a figure of its own also the hybrid model's grid."""
    grid = [row for row in result["rows"] if row["kind"] == "hybrid"]
    alone = ax is None
    series: dict[str, dict[str, Any]] = {}
    rings = []
    for k, kind in enumerate(name for name in result["summary"] if name != "hybrid"):
        rows = [row for row in result["rows"] if row["kind"] == kind]
        dims, look = [row["dims"][0] for row in rows], {"color": figures.PALETTE[k]}
        values = [_known(row["consistency"]) for row in rows]
        low, high = ([_known(row["agreement"][WHOLE][side]) for row in rows] for side in ("ci_low", "ci_high"))
        series[f"{kind}, true {TRUE[kind][0]}"] = {"x": dims, "y": values, "low": low, "high": high, **look}
        weighted = [row["agreement"][WHOLE]["variance_weighted"] for row in rows]
        series[f"{kind}, by variance"] = {"x": dims, "y": weighted, "linestyle": ":", "marker": "", **look}
        if (chosen := result["summary"][kind]["chosen"]) is not None:
            rings.append((chosen[0], values[dims.index(chosen[0])]))
    labels: dict[str, Any] = {"xlabel": "dimension of the model", "ylabel": "R² between seeds"}
    ax = figures.curves(series, ax, size=(10.0 if grid else 6.4, 3.6), **labels)
    for ring in rings:
        ax.plot(*ring, "o", color=figures.INK, markersize=11, fillstyle="none")
    if alone and grid:
        _draw_grid(result, grid, ax)
    return ax


def _known(value: float | None) -> float:
    return math.nan if value is None else value


def _draw_grid(result: Mapping[str, Any], rows: list[Row], beside: Axes) -> None:
    """The hybrid model's consistency, to the right of `beside` in its figure."""
    figure: Any = beside.figure
    parts = figure.add_gridspec(1, 2, width_ratios=(1.5, 1))
    beside.set_subplotspec(parts[0])
    ax = figure.add_subplot(parts[1])
    table = pd.DataFrame(
        {"position": row["dims"][0], "rest": row["dims"][1], "R²": _known(row["consistency"])} for row in rows
    ).pivot(index="position", columns="rest", values="R²")
    chosen = result["summary"]["hybrid"]["chosen"]
    labels: dict[str, Any] = {"xlabel": "dimension of rest", "ylabel": "dimension of position", "label": "R²"}
    figures.number_grid(table, ax, marked=chosen, title="hybrid, true 3 and 3", **labels)


def _summary(rows: list[Row], kind: str) -> dict[str, Any]:
    """What the rule chooses, and what the paper's measure peaks at."""
    sizes = [tuple(row["dims"]) for row in rows]
    values = [np.nan if row["consistency"] is None else row["consistency"] for row in rows]
    bits = [row["agreement"][WHOLE]["bits"] for row in rows]
    chosen = None if np.isnan(values).all() else largest_consistent(sizes, values, bits)
    weighted = [row["agreement"][WHOLE]["variance_weighted"] or 0.0 for row in rows]
    return {
        "chosen": None if chosen is None else list(chosen),
        "true": list(TRUE[kind]),
        "found": chosen == TRUE[kind],
        "peak_variance_weighted": list(sizes[int(np.argmax(weighted))]),
        "auroc_of_chosen": None if chosen is None else rows[sizes.index(chosen)]["auroc"],
        "spearman_of_consistency_and_auroc": {
            m: _spearman(values, [row["auroc"][m] for row in rows]) for m in METHODS
        },
        "paper": PAPER[kind],
    }


def _spearman(values: list[float], auroc: list[float | None]) -> float | None:
    pairs = [(v, a) for v, a in zip(values, auroc, strict=True) if a is not None and np.isfinite(v)]
    if len(pairs) < 3 or any(len(set(side)) < 2 for side in zip(*pairs, strict=True)):
        return None
    return float(spearmanr(*zip(*pairs, strict=True)).statistic)  # type: ignore[union-attr]


def _spaces(kind: str, dims: Sequence[int]) -> dict[str, Space]:
    if kind == "time":
        return {"all": Time(dim=dims[0])}
    follow = Follow(OBSERVED, dim=dims[0])
    return {"position": follow} if kind == "supervised" else {"position": follow, "rest": Time(dim=dims[1])}


def _model(spaces: dict[str, Space], seeds: int, changes: Mapping[str, Any]) -> ContrastiveEmbedding:
    return ContrastiveEmbedding(spaces, **{"seeds": seeds, "random_state": 0, "progress": False, **changes})


def _protocol(plan: Plan) -> dict[str, Any]:
    case = cases(plan)[0]
    return {
        "latents": {"observed": len(OBSERVED), "hidden": HIDDEN},
        "model": estimator_parameters(_model({"all": Time(dim=2)}, case["seeds"], case["model"])),
        "spaces": "time: Time(d); supervised: Follow(x, y, z; d); hybrid: Follow(x, y, z; d₁) and Time(d₂)",
        "rule": f"the largest dimension whose consistency is within {TOLERANCE} of the best",
    }


def _number(value: Any) -> float | None:
    """For JSON, which has no NaN."""
    return float(value) if np.isfinite(value) else None


def _shown(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _size(dims: Sequence[int] | None) -> str:
    return "none" if dims is None else " + ".join(map(str, dims))


def _line(row: Row) -> str:
    return f"{row['kind']} {_size(row['dims'])}: consistency {_shown(row['consistency'])} ({row['seconds']:.0f} s)"


run = experiment(
    *("dimension", FULL, QUICK),
    cases=cases,
    rows=one_by_one(one_size, _line),
    conclude=conclude,
    draw=draw,
    protocol=_protocol,
)
