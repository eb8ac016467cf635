"""The test of known variables once more, on the recordings of an experiment's results on box data.

    python -m experiments.regcl.known_variables samples [--only 1000 3000 ...]

The test asks no model: after a change of it nothing needs to be trained again. This takes `results/NAME.json`, runs
the test on its recordings (of some lengths, if --only names them), puts the new area under the ROC of the unique
variance and the calls into the rows, and says in `known_variables` which code did so and of which lengths; all else
stays as it was, figure apart.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Any, cast

from ascribo.metrics.scores import auroc
from ascribo.screening import screen
from experiments import EXPERIMENTS
from experiments.regcl import box_models
from experiments.shared.results import code, machine, publish
from experiments.shared.rows import Case, Row

__all__ = ["main", "measure"]

LEVEL = 0.05


def measure(case: Case) -> Row:
    """Area under the ROC of the unique variance of `position`, and its calls."""
    data = box_models.recording(case)
    known = {name: space for name, space in box_models.spaces(case).items() if space.variables}
    calls = screen(data, known, LEVEL).calls
    truth = cast(Any, data.truth).sel(space="position").values
    called = calls["called"].to_numpy(bool)
    counted = {str(LEVEL): {"called": int(called.sum()), "wrong": int((called & ~truth).sum())}}
    return {
        "auroc": round(auroc(calls["score"].to_numpy(), truth), 6),
        "calls": {"carried": int(truth.sum()), "channels": len(truth), **counted},
    }


def main() -> None:
    """Measure, and write the results file and its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", choices=["samples"], help="the experiment")
    parser.add_argument("--only", type=int, nargs="+", metavar="LENGTH", help="time steps of the recordings")
    parser.add_argument("--out", type=Path, default=Path("results"), help="the folder of the results")
    given = parser.parse_args()
    module = importlib.import_module(f"experiments.{EXPERIMENTS[given.name].module}")
    result = json.loads((given.out / f"{given.name}.json").read_text())
    lengths = sorted(given.only or {row["length"] for row in result["rows"]})
    for row in result["rows"]:
        if row["length"] in lengths:
            found = measure(row)
            row["channels"]["unique_variance"], row["calls"] = found["auroc"], found["calls"]
            print(row["length"], row["data_seed"], found, flush=True)
    said = (
        "the test of known variables was run again on the same recordings, by this code on this machine: the "
        "unique variance of `position` and its calls at q = 0.05, for recordings of these lengths. It asks no "
        "model, so nothing was trained again; all else is of the run that `machine` names, or of code before this."
    )
    result["known_variables"] = {"said": said, "lengths": lengths, "code": code(), "machine": machine()}
    publish(given.name, given.out, module.conclude(result), module.draw)


if __name__ == "__main__":
    main()
