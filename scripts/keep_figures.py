"""What an attack has found, as a JSON file that says on which machine and with which code."""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def keep_figures(out: Path | None, figures: dict[str, Any]) -> None:
    """Print the figures, and write them to a file if one is given (by the Makefile: scripts/results/NAME.json)."""
    print(json.dumps(figures, indent=1), flush=True)
    if out is None:
        return
    sys.path.append(str(ROOT))  # the experiments are beside the scripts, and not installed
    from experiments.shared.results import code, machine, write_json

    write_json(out, {**figures, "machine": machine(), "code": code()})
