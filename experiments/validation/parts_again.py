"""Some parts of an experiment on a real recording once more, after a change that concerns them alone.

    python -m experiments.validation.parts_again NAME PART [PART ...]

NAME is track, reaching or grid-cells. What asks the test of known variables is one part of these, and training and
decoding are others, which take far longer and do not depend on it. This takes `results/NAME.json`, measures the
named parts anew, concludes, and says in `parts_again` which code on which machine did so; the other parts stay as
they were.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from experiments import find
from experiments.shared.results import code, machine, publish

__all__ = ["NAMES", "main", "measure_again"]

NAMES = ("track", "reaching", "grid-cells")


def measure_again(name: str, parts: list[str], folder: Path) -> dict[str, Any]:
    """The result of an experiment in a folder with these parts measured anew; it is written there."""
    module: Any = find(name)
    result = json.loads((folder / f"{name}.json").read_text())
    cases = module.cases(result["protocol"])
    there = sorted({case["part"] for case in cases})
    if unknown := set(parts) - set(there):
        raise ValueError(f"{name} has no part {sorted(unknown)[0]!r}; it has {', '.join(there)}.")
    if [row["part"] for row in result["rows"]] != [case["part"] for case in cases]:
        raise ValueError(f"{folder / name}.json has other parts than its protocol: run the experiment anew.")
    for k, case in enumerate(cases):
        if case["part"] in parts:
            result["rows"][k] = module.measure(**case)
    said = "these parts were measured again, by this code on this machine; all else is of the run that `code` names"
    result["parts_again"] = {"said": said, "parts": parts, "code": code(), "machine": machine()}
    return publish(name, folder, module.conclude(result), module.draw)


def main() -> None:
    """Measure, and write the results file and its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", choices=NAMES, help="the experiment")
    parser.add_argument("parts", nargs="+", help="the parts to measure again")
    parser.add_argument("--out", type=Path, default=Path("results"), help="the folder of the results")
    given = parser.parse_args()
    for title, table in find(given.name).tables(measure_again(given.name, given.parts, given.out)).items():
        print(f"{title}\n{table.to_string(index=False)}\n")


if __name__ == "__main__":
    main()
