"""How long table 1 of Schneider et al. (2025) takes: 360 models and their maps, by `experiments.regcl.table1`.

    python -m benchmarks.grid [--device cuda] [--steps 20000] [--work FOLDER] [--out benchmarks/results/grid.json]
    python -m benchmarks.grid --table results/table1.json     # of a run that is already there

The JSON holds the seconds by part and the mean scores; the rows are in the `table1.json` of the working folder.
Finished rows are kept there, and a run that is started again goes on with the models that are missing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from experiments.regcl import table1
from experiments.shared.results import code, write_json

KEPT = ("machine", "code", "protocol", "models", "seconds", "elapsed", "rows_of_an_interrupted_run")


def timing(table: dict) -> dict:
    """What a finished table 1 says of time, with the mean scores beside it."""
    auroc: dict[str, dict] = {}
    for cell in table["cells"]:
        column = auroc.setdefault(f"{cell['mode']}, {cell['penalty']}, by {cell['kind']}", {})
        column[cell["method"]] = {key: cell[key] for key in ("mean", "min", "ci95", "n")}
    return {**{key: table[key] for key in KEPT if key in table}, "auroc": auroc}


def main() -> None:
    """Run the grid, or read it, and write its timing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--length", type=int, default=100_000)
    parser.add_argument("--dims", type=int, nargs=2, default=(4, 9))
    parser.add_argument("--data-seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--work", type=Path, default=Path("runs/grid"))
    parser.add_argument("--table", type=Path, help="a table1.json to take instead of running")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/grid.json"))
    given = parser.parse_args()
    if given.table is not None:
        table = json.loads(given.table.read_text())
    else:
        table = table1.run(
            given.work,
            dims=range(given.dims[0], given.dims[1] + 1),
            data_seeds=range(given.data_seeds),
            **{name: getattr(given, name) for name in ("device", "steps", "batch", "length", "jobs")},
        )
    content = {"code": table.get("code", code()), **timing(table)}
    write_json(given.out, content)
    for column, methods in content["auroc"].items():
        print(f"{column:48s}", {m: round(100 * s["mean"], 2) for m, s in methods.items()})
    print(f"{content['models']} models: {content['seconds']} s")


if __name__ == "__main__":
    main()
