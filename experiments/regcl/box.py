"""Which channels carry the observed latents of a simulated box? (Schneider et al. 2025, section 5, appendix B)

Data: `ascribo.simulate.box` with two observed latents and 2 to 7 hidden ones, 100,000 time steps, and 50 channels
of which 25 carry the observed latents. Model: a space that follows the observed latents, a time space for the rest,
one seed, otherwise defaults. Measured: auROC of the observed space by each attribution method.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ascribo import attribution, figures
from ascribo.metrics.scores import linear_r2
from ascribo.model.estimator import ContrastiveEmbedding
from ascribo.simulate.box import box
from ascribo.spaces.base import layout
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.time import Time
from experiments.shared.results import estimator_parameters
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, combinations, experiment, one_by_one
from experiments.shared.summaries import summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "METHODS", "QUICK", "cases", "conclude", "data_set", "draw", "run", "tables"]

METHODS = ("unique_variance", "generative_gradient", "inverted_neuron_gradient", "neuron_gradient")
PAPER = {"inverted_neuron_gradient": 0.982}
"""Mean auROC (Schneider et al. 2025, table 1), there after 20,000 training steps of batch 5,000."""
TARGETS = {
    "unique_variance": {"mean": 0.999, "min": 0.995},
    "generative_gradient": {"mean": 0.999, "min": 0.995},
    "inverted_neuron_gradient": {"mean": 0.98},
}
OBSERVED = 2
FULL = {"dims": range(4, 10), "data_seeds": range(10), "steps": 100_000, "samples": 20_000, "model": {}}
"""Numbers of latents, observed and hidden together; seeds of the data; time steps of a recording, and those that
maps are averaged over; parameters of `ContrastiveEmbedding` that are not its defaults."""
QUICK = {"dims": (4, 6, 9), "data_seeds": range(3)}


def cases(plan: Plan) -> list[Case]:
    """A model for each number of latents and each data set."""
    model = {"device": plan["device"], **plan["model"]}
    return [
        {**case, "model": model}
        for case in combinations(plan, ["steps", "samples"], dim="dims", data_seed="data_seeds")
    ]


def data_set(dim: int, data_seed: int, steps: int, samples: int, model: Mapping[str, Any]) -> Row:
    """One data set: simulate, fit, attribute by every method."""
    began = time.monotonic()
    data = box(data_seed, observed=OBSERVED, hidden=dim - OBSERVED, steps=steps)
    fitted = _model(dim, model)
    fitting = time.monotonic()
    fitted.fit(data)
    fitting = time.monotonic() - fitting
    fit = fitted.goodness_of_fit_
    collapsed = [str(name) for name, gone in zip(fit["space"], fit["collapsed"], strict=True) if gone]
    # a collapsed space has no map, which tells as much as one drawn at random
    auroc, deficient = dict.fromkeys(METHODS, 0.5), None
    if "position" not in collapsed:
        some = {m: samples if "samples" in attribution.METHODS[m].takes else None for m in METHODS}
        maps = {m: fitted.attribute(data, method=m, samples=some[m]) for m in METHODS}
        auroc = {m: found.auroc(data, "position") for m, found in maps.items()}
        deficient = maps["inverted_neuron_gradient"].rank_deficient
    z, blocks = fitted.transform(data), layout(fitted.model_.spaces)
    hidden = data.latents[:, : dim - OBSERVED]
    return {
        "dim": dim,
        "data_seed": data_seed,
        "auroc": auroc,
        "lambda": fitted.history_.attrs["lambda"],
        "bits": dict(zip(fit["space"], map(float, fit["bits"]), strict=True)),
        "collapsed": collapsed,
        "rank_deficient": deficient,
        "r2": {
            "x, y from position": linear_r2(z[:, blocks["position"]], data.variables),
            "hidden from rest": linear_r2(z[:, blocks["rest"]], hidden),
        },
        "training_steps": fitted.history_.sizes["step"],
        "seconds_fit": round(fitting, 1),
        "seconds": round(time.monotonic() - began, 1),
    }


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add mean auROC by method, beside the paper's and what must hold."""
    found = {}
    for method in METHODS:
        own = summary([row["auroc"][method] for row in result["rows"]])
        target = TARGETS.get(method)
        met = None if target is None else all(own[key] >= least for key, least in target.items())
        found[method] = {**own, "paper": PAPER.get(method), "target": target, "met": met}
    return {**result, "summary": found}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: each data set, and the summary beside the paper's number."""
    rows = [
        {
            "dim": row["dim"],
            "seed": row["data_seed"],
            **{_short(m): row["auroc"][m] for m in METHODS},
            "λ": float(np.mean(row["lambda"])),
            # the share of samples that the inverted map is not an average of
            "left out": "all" if row["rank_deficient"] is None else f"{row['rank_deficient']:.0%}",
            "R² x, y": row["r2"]["x, y from position"],
            "R² hidden": row["r2"]["hidden from rest"],
            "s": round(row["seconds"]),
        }
        for row in result["rows"]
    ]
    of_methods = [
        {
            "method": m.removesuffix("_gradient").replace("_", " "),
            "mean": s["mean"],
            "95% interval": "{:.3f} to {:.3f}".format(*s["ci95"]),
            "lowest": s["min"],
            "paper": "" if s["paper"] is None else f"{s['paper']:.3f}",
            "target": ", ".join(f"{k} ≥ {v:g}" for k, v in (s["target"] or {}).items()),
            "met": {None: "", True: "yes", False: "no"}[s["met"]],
        }
        for m, s in result["summary"].items()
    ]
    took = f"{len(rows)} data sets in {result['seconds'] / 60:.1f} minutes"
    return {
        f"auROC of the observed space, {took}": pd.DataFrame(rows),
        "Over data sets": pd.DataFrame(of_methods),
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """auROC of every data set by method, coloured by total dimension; black: mean and 95% interval."""
    dims = sorted({row["dim"] for row in result["rows"]})
    groups = [m.replace("_", " ") for m in METHODS]
    series: dict[str, dict[str, Any]] = {}
    for dim in dims:
        rows = [row for row in result["rows"] if row["dim"] == dim]
        values = [row["auroc"][m] for m in METHODS for row in rows]
        series[f"{dim} latents"] = {"group": [g for g in groups for _ in rows], "value": values}
    summary = [result["summary"][m] for m in METHODS]
    low, high = np.array([s["ci95"] for s in summary]).T
    mean = {"value": [s["mean"] for s in summary], "low": low, "high": high, "marker": "|", "color": figures.INK}
    series["mean, 95% interval"] = {"group": groups, **mean}
    printed = [(g, s["paper"]) for g, s in zip(groups, summary, strict=True) if s["paper"] is not None]
    if printed:
        names, values = zip(*printed, strict=True)
        look = {"color": figures.INK, "hollow": True, "lane": len(dims)}
        series["paper"] = {"group": names, "value": values, **look}
    return figures.dots(series, groups, ax, label="auROC, observed space", upright=True, size=(8.2, 3.8))


def _model(dim: int, changes: Mapping[str, Any]) -> ContrastiveEmbedding:
    spaces = {"position": Follow(("x", "y"), dim=2), "rest": Time(dim=dim - OBSERVED)}
    return ContrastiveEmbedding(spaces, **{"seeds": 1, "random_state": 0, "progress": False, **changes})


def _protocol(plan: Plan) -> dict[str, Any]:
    case = cases(plan)[0]
    return {
        "observed": OBSERVED,
        "model": estimator_parameters(_model(case["dim"], case["model"])),
        "spaces": "position: Follow(x, y; dim=2), rest: Time(dim=dim-2)",
    }


def _line(row: Row) -> str:
    values = ", ".join(f"{_short(m)} {row['auroc'][m]:.3f}" for m in METHODS)
    return f"dim {row['dim']}, seed {row['data_seed']}: auROC {values} ({row['seconds']:.0f} s)"


def _short(method: str) -> str:
    return method.removesuffix("_gradient").removesuffix("_neuron")


run = experiment(
    *("box", FULL, QUICK),
    cases=cases,
    rows=one_by_one(data_set, _line),
    conclude=conclude,
    draw=draw,
    protocol=_protocol,
)
