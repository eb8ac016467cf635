"""Calls at q = 0.05 by `screen`, beside those of methods in common use: tuning curves, linear models, a decoder.

Recordings of mixed selectivity (`simulate.mixed`): two observed spaces, "a" and "b", and hidden latents. Every
method gets the same variables exactly as they are, and nothing else. Least squares of changes and a linear model
with history, the simplest methods that work, are there, too. Seconds are those of one processor thread.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from ascribo import figures
from ascribo.screening import screen
from ascribo.simulate.mixed import mixed
from ascribo.spaces.kinds.follow import Follow
from ascribo.support.compute import one_thread
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one
from experiments.validation.established_methods import METHODS, score_calls
from experiments.validation.simple_methods import PEERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CONDITIONS", "FULL", "QUICK", "cases", "compare", "conclude", "draw", "run", "tables"]

Q = 0.05
OWN = "ascribo"
BESIDE = {**METHODS, "least_squares_of_changes": PEERS["changes"], "glm_with_history": PEERS["history"]}
"""The other methods, by name."""
PLAIN = {"hidden": 2, "snr": 3.0, "steps": 20_000, "correlation": 0.0, "counts": False}
CONDITIONS: dict[str, dict[str, Any]] = {
    "independent variables": PLAIN,
    "correlated (0.6)": {**PLAIN, "correlation": 0.6},
    "correlated (0.6), SNR 1": {**PLAIN, "correlation": 0.6, "snr": 1.0},
    "correlated (0.6), 5,000 steps": {**PLAIN, "correlation": 0.6, "steps": 5_000},
    "correlated (0.6), 4 hidden latents": {**PLAIN, "correlation": 0.6, "hidden": 4},
    "counts": {**PLAIN, "snr": None, "counts": True},
}
FULL = {"conditions": CONDITIONS, "data_seeds": range(5)}
QUICK = {"data_seeds": range(1)}


def cases(plan: Plan) -> list[Case]:
    """A recording for each condition and seed."""
    return [
        {"condition": name, "data_seed": seed, "data": data}
        for name, data in plan["conditions"].items()
        for seed in plan["data_seeds"]
    ]


def compare(condition: str, data_seed: int, data: dict[str, Any]) -> Row:
    """All methods on one recording: F1, share of false calls and power over the observed spaces."""
    recording = mixed(seed=30_000 + data_seed, **data)
    spaces = recording.spaces
    truth = recording.truth
    assert truth is not None
    rows = []
    for name in (OWN, *BESIDE):
        began = time.process_time()
        with one_thread():
            calls = BESIDE[name](recording, spaces, Q) if name in BESIDE else _ascribo(recording)
        spent = time.process_time() - began
        scored = score_calls(calls.loc[calls["space"].isin(list(spaces))], truth)
        last = scored.iloc[-1]  # over the spaces together
        rows.append(
            {"method": name, **{k: float(last[k]) for k in ("f1", "fdp", "power")}, "seconds": round(spent, 2)}
        )
    return {"condition": condition, "data_seed": data_seed, "methods": rows}


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add the means of each method over the recordings of a condition."""
    table = pd.DataFrame(
        [{"condition": row["condition"], **method} for row in result["rows"] for method in row["methods"]]
    )
    grouped: Any = table.groupby(["condition", "method"], sort=False)[["f1", "fdp", "power", "seconds"]]
    return {**result, "summary": grouped.mean().round(4).reset_index().to_dict("records")}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: each condition."""
    table = pd.DataFrame(result["summary"]).rename(columns={"fdp": "false discovery rate"})
    return {
        f"{name}, {len(result['protocol']['data_seeds'])} recordings": own.drop(columns="condition")
        for name, own in table.groupby("condition", sort=False)
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Power against false discovery rate, a colour for each method, a point for each condition."""
    table = pd.DataFrame(result["summary"])
    series = {
        str(name).replace("_", " "): {"x": own["fdp"], "y": own["power"], "s": 36}
        for name, own in table.groupby("method", sort=False)
    }
    ax = figures.points(series, ax, xlabel="false discovery rate", ylabel="power", size=(6.4, 3.8))
    ax.axvline(Q, color=figures.INK, linestyle=":", linewidth=1)
    return ax


def _ascribo(recording: Any) -> pd.DataFrame:
    return screen(
        recording, {name: Follow(tuple(own), dim=len(own)) for name, own in recording.spaces.items()}, Q
    ).calls


def _line(row: Row) -> str:
    scores = ", ".join(f"{m['method']} {m['f1']:.2f}" for m in row["methods"])
    return f"{row['condition']}, seed {row['data_seed']}: F1 {scores}"


run = experiment(
    *("peers", FULL, QUICK),
    cases=cases,
    rows=one_by_one(compare, _line),
    conclude=conclude,
    draw=draw,
    protocol={"q": Q},
    cpu_only=True,
)
