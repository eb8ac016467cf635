"""The test of known variables once more, on the recordings of an experiment's results.

    python -m experiments.regcl.known_variables NAME [--only 1000 3000 ...]

NAME is calibration, table1, table1-batches, fig3, noise, samples, lambda, navigation or navigation-noise. The
test asks no model: after a change of it nothing has to be trained again. This takes `results/NAME.json`, runs the
test on its recordings (of some lengths, if --only names them), puts what was found into the rows (the area under
the ROC of the unique variance, the calls for spaces with variables and, of cells, which type they are taken for
by it), and says in `known_variables` which code did so and of which lengths; all else stays as it was, figure
apart. `simple_methods` has what the simplest methods find on the same recordings of box data: a cross-validated
GLM, least squares of changes, and a linear model with history.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from ascribo.data.recording import Recording
from ascribo.metrics.scores import auroc
from ascribo.model.estimator import ContrastiveEmbedding
from ascribo.screening import screen
from ascribo.spaces.base import Space
from experiments import EXPERIMENTS
from experiments.regcl import box_models, navigation_models, penalties
from experiments.shared.results import code, machine, publish
from experiments.shared.rows import Case, Row
from experiments.validation import calibration
from experiments.validation.established_methods import score_calls
from experiments.validation.simple_methods import PEERS

__all__ = ["SOURCES", "ask", "ask_simple_methods", "main", "put_into"]

LEVEL = 0.05
Source = tuple[Callable[[Case], Recording], Callable[[Case], dict[str, Space]]]
ON_BOX_DATA: Source = (box_models.recording, box_models.spaces)
SOURCES: dict[str, Source] = {
    "calibration": (calibration.recording, calibration.spaces),
    **{name: ON_BOX_DATA for name in ("table1", "table1-batches", "fig3", "noise", "samples")},
    "lambda": (penalties.recording, box_models.spaces),
    **{
        name: (navigation_models.recording, navigation_models.spaces) for name in ("navigation", "navigation-noise")
    },
}
"""Experiment -> the recording and the spaces of a case."""
DATA = ("kind", "number", "dim", "snr", "scale", "length", "data_seed")
CELLS = ("mode", "simulation", "noise", "spikes", "mixed", "length")
"""What tells recordings of an experiment apart, of channels and of cells: models of one recording have one test."""


def ask(case: Case, source: Source) -> pd.DataFrame:
    """The calls for spaces with variables, and in `carries` whether the channel carries the space in truth."""
    recording, spaces = source
    data = recording(case)
    known = {name: space for name, space in spaces(case).items() if space.variables}
    calls = screen(data, known, LEVEL).calls
    truth = cast(Any, data.truth)
    carries = [bool(truth.sel(space=s, channel=c)) for s, c in zip(calls["space"], calls["channel"], strict=True)]
    return calls.assign(carries=carries)


def ask_simple_methods(case: Case, source: Source) -> list[Row]:
    """What the simplest methods find on a recording of box data: a row for each."""
    recording, spaces = source
    data = recording(case)
    assert data.truth is not None
    regressors = {name: list(space.variables) for name, space in spaces(case).items() if space.variables}
    told = {name: case[name] for name in DATA if name in case}
    rows = []
    for name, method in PEERS.items():
        calls = method(data, regressors, LEVEL)
        found = score_calls(calls, data.truth).iloc[-1]
        areas = [
            auroc(own["score"].to_numpy(), data.truth.sel(space=space).values)
            for space, own in calls.groupby("space", sort=False)
        ]
        rates = {key: round(float(found[key]), 4) for key in ("fdp", "power")}
        rows.append({**told, "method": name, "auroc": round(float(np.mean(areas)), 4), **rates})
    return rows


def ask_about_cells(case: Case, source: Source) -> Row:
    """auROC of every space, calls and types of cells by the unique variance of all variables."""
    recording, spaces = source
    data: Any = recording(case)
    known = {name: space for name, space in spaces(case).items() if space.variables}
    untrained = ContrastiveEmbedding(
        known, steps=1, seeds=1, penalty=0.0, random_state=0, device="cpu", progress=False
    ).fit(data)
    maps = untrained.attribute(data)
    return navigation_models.score_all_variables(case, data, untrained.model_, maps, ("unique_variance",))


def put_cells_into(row: Row, found: Row) -> None:
    """Put what `ask_about_cells` found in place of what a row has of it."""
    for space, own in found["auroc"].items():
        row["auroc"][space] |= own
    row |= {name: found[name] for name in ("calls", "types")}


def put_into(row: Row, calls: pd.DataFrame) -> None:
    """Put what `ask` found in place of what a row has of it."""
    if "channels" in row and isinstance(row["channels"], dict):
        own = calls.query("space == 'position'")
        row["channels"]["unique_variance"] = round(auroc(own["score"].to_numpy(), own["carries"].to_numpy()), 6)
        if own.get("beyond_velocity") is not None:
            found = auroc(own["beyond_velocity"].to_numpy(), own["carries"].to_numpy())
            row["channels"]["unique_variance_beyond_velocity"] = round(found, 6)
        if "calls" in row:
            row["calls"] = _count(own, [LEVEL])
    for name, own in calls.groupby("space", sort=False):
        if name in row.get("spaces", {}):
            row["spaces"][name] = _count(own, calibration.LEVELS)


def _count(calls: pd.DataFrame, levels: list[float] | tuple[float, ...]) -> Row:
    """How many channels carry a space, and at each level how many are called and how many of these wrongly."""
    q, truth = calls["q"].to_numpy(), calls["carries"].to_numpy(bool)
    counted = {
        str(level): {"called": int(np.sum(q <= level)), "wrong": int(np.sum((q <= level) & ~truth))}
        for level in levels
    }
    return {"carried": int(truth.sum()), "channels": len(truth), **counted}


def main() -> None:
    """Measure, and write the results file and its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", choices=list(SOURCES), help="the experiment")
    parser.add_argument("--only", type=int, nargs="+", metavar="LENGTH", help="time steps of the recordings")
    parser.add_argument("--out", type=Path, default=Path("results"), help="the folder of the results")
    given = parser.parse_args()
    module = importlib.import_module(f"experiments.{EXPERIMENTS[given.name].module}")
    result = json.loads((given.out / f"{given.name}.json").read_text())
    lengths = sorted(given.only or {row["length"] for row in result["rows"]})
    found: dict[str, Any] = {}
    source = SOURCES[given.name]
    simple: list[Row] = []
    for row in result["rows"]:
        if row["length"] in lengths:
            key = json.dumps([row.get(name) for name in (CELLS if "simulation" in row else DATA)])
            if key not in found:
                found[key] = (ask_about_cells if "types" in row else ask)(row, source)
                if source[1] is box_models.spaces:
                    simple += ask_simple_methods(row, source)
                print(key, flush=True)
            (put_cells_into if "types" in row else put_into)(row, found[key])
    said = (
        "the test of known variables was run again on the same recordings, by this code on this machine: the "
        "unique variance of `position` and, where rows have them, the calls for spaces with variables, for "
        "recordings of these lengths. It asks no model, so nothing was trained again; all else is of the run that "
        "`machine` names, or of code before this."
    )
    result["known_variables"] = {"said": said, "lengths": lengths, "code": code(), "machine": machine()}
    if simple:
        result["simple_methods"] = simple
        by = [name for name in ("dim", "snr", "scale", "length") if name in simple[0]]
        means: Any = pd.DataFrame(simple).groupby([*by, "method"], sort=False, dropna=False)
        print(means[["auroc", "fdp", "power"]].mean().round(4).to_string())
    publish(given.name, given.out, module.conclude(result), module.draw)


if __name__ == "__main__":
    main()
