"""How the cost of an analysis grows with time steps and channels, and a model of it beside.

    python -m benchmarks.cost

Fits one model to recordings of several sizes and attributes it, each in a process of its own, and prints processor
seconds (not those on the clock, so that other work on the machine counts little) and the most memory. The model

    seconds = constant + a·channels + b·kept·channels + c·kept + d·steps·channels + e·steps

has the shape of the work: training and decoders cost the same for any length, and a layer of each grows with the
channels; tests and decoders look at `kept` time steps, at most 100,000 of them, spread over the recording; means,
scales and pairs need all. Its coefficients, all at least 0, are fitted to some recordings by least squares of the
relative errors. For the others it is a prediction. benchmarks/results/cost.json keeps the rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls

import ascribo as asc
from ascribo.data.standardised_channels import limit_time_steps
from experiments.shared.results import code, machine

SPACES = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
FITTED = (
    *((10_000, 10), (10_000, 50), (10_000, 200), (10_000, 1_000), (10_000, 3_000)),
    *((30_000, 50), (100_000, 10), (100_000, 50), (100_000, 200), (1_000_000, 10), (1_000_000, 50)),
    (10_000_000, 10),
)
PREDICTED = ((30_000, 200), (10_000, 10_000), (1_000_000, 200), (10_000_000, 50))
TRAINING = {"seeds": 1, "steps": 300, "penalty": 0.1, "random_state": 0, "n_jobs": 1, "device": "cpu"}
USUAL = (10_000, 50)
"""A recording that is measured with the default settings as well: seeds and steps are found."""
MOST = 100_000
"""Time steps that tests and decoders look at (`screening.space_tests`, `attribution.unique_variance.design`)."""
AT_ONCE = 100_000


def simulate(steps: int, channels: int, seed: int = 0) -> asc.Recording:
    """Half of the channels are driven by the position, all by something hidden, and all are noisy."""
    rng = np.random.default_rng(seed)
    z = np.stack([np.abs((np.cumsum(0.1 * rng.standard_normal(steps)) % 4) - 2) - 1 for _ in range(3)], 1)
    weights = rng.standard_normal((3, channels))
    weights[:2, channels // 2 :] = 0
    X = np.empty((steps, channels), np.float32)
    for start in range(0, steps, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        X[part] = np.tanh(z[part] @ weights) + rng.standard_normal((len(z[part]), channels), dtype=np.float32)
    return asc.Recording(X, {"x": z[:, 0], "y": z[:, 1]})


def measure(steps: int, channels: int, default: bool = False) -> dict[str, Any]:
    """Processor seconds of fit and attribution, the most memory in GB, and what the recording takes of it.

    default : with the default settings, in one process.
    """
    torch.set_num_threads(1)
    recording = simulate(steps, channels)
    settings = {"random_state": 0, "n_jobs": 1, "device": "cpu"} if default else TRAINING
    model = asc.ContrastiveEmbedding(SPACES, progress=False, **settings)
    began = time.process_time()
    model.fit(recording)
    fitted = time.process_time()
    model.attribute(recording)
    done = time.process_time()
    return {
        "steps": steps,
        "channels": channels,
        "fit": fitted - began,
        "attribute": done - fitted,
        "memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "recording_gb": recording.X.nbytes / 1e9,
        **({"seeds": model.spent_["seeds"], "training_steps": model.spent_["steps"]} if default else {}),
    }


def terms(steps: int, channels: int) -> list[float]:
    """What the seconds are a sum of.

    >>> terms(10_000_000, 10)
    [1, 10, 1000000, 100000, 100000000, 10000000]
    """
    kept = min(steps, limit_time_steps(MOST, channels))
    return [1, channels, kept * channels, kept, steps * channels, steps]


NAMES = ("constant", "channels", "kept_channels", "kept", "steps_channels", "steps")


def coefficients(rows: list[dict[str, Any]], part: str) -> dict[str, float]:
    """Of the model, from the rows of `FITTED`."""
    used = [row for row in rows if (row["steps"], row["channels"]) in FITTED]
    design = np.array([terms(row["steps"], row["channels"]) for row in used], dtype=float)
    seconds = np.array([row[part] for row in used])
    size = np.maximum(design.max(0), 1.0)
    found, _ = nnls(design / seconds[:, None] / size, np.ones(len(used)))
    return dict(zip(NAMES, (found / size).tolist(), strict=True))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/cost.json"))
    parser.add_argument("--most", type=int, default=10**9, help="leave out recordings of more entries")
    parser.add_argument("--keep", action="store_true", help="measure only sizes that are not in the file yet")
    parser.add_argument(
        "--one", type=int, nargs=2, metavar=("STEPS", "CHANNELS"), help="measure one size, print JSON"
    )
    parser.add_argument("--default", action="store_true", help="with --one: with the default settings")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(*given.one, default=given.default)))
        return 0
    before: dict[str, Any] = json.loads(given.out.read_text()) if given.keep else {}
    rows: list[dict[str, Any]] = before.get("rows", [])
    usual = before.get("default") or _measured(*USUAL, "--default")
    there = {(row["steps"], row["channels"]) for row in rows}
    for steps, channels in (*FITTED, *PREDICTED):
        if steps * channels > given.most or (steps, channels) in there:
            continue
        rows.append(_measured(steps, channels))
        _keep(given.out, rows, usual)
    show(_keep(given.out, rows, usual))
    return 0


def _measured(steps: int, channels: int, *options: str) -> dict[str, Any]:
    """What `measure` gives, in a process of its own."""
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.cost", "--one", str(steps), str(channels), *options]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _keep(out: Path, rows: list[dict[str, Any]], usual: dict[str, Any]) -> dict[str, Any]:
    """Write the rows, the model of them, and the row with the default settings, and return it all."""
    model = {part: coefficients(rows, part) for part in ("fit", "attribute")}
    about = {"machine": machine(), "code": code()}
    found = {**about, "rows": rows, "training": TRAINING, "model": model, "default": usual}
    out.write_text(json.dumps(found, indent=1) + "\n")
    return found


def show(found: dict[str, Any]) -> None:
    """Print the rows with the model beside."""
    for row in found["rows"]:
        size = row["steps"], row["channels"]
        said = {part: float(np.dot(terms(*size), list(own.values()))) for part, own in found["model"].items()}
        print(
            f"{size[0]:>10,} x {size[1]:>6,} {'fitted   ' if size in FITTED else 'predicted'}: "
            + ", ".join(f"{part} {row[part]:6.1f} s, model {said[part]:6.1f}" for part in said)
            + f"; {row['memory_gb']:.1f} GB, the recording {row['recording_gb']:.1f}"
        )
    usual = found["default"]
    print(
        f"{usual['steps']:>10,} x {usual['channels']:>6,} with the default settings: fit {usual['fit']:.1f} s "
        f"({usual['seeds']} seeds of {usual['training_steps']} steps), attribute {usual['attribute']:.1f} s"
    )
    for part, own in found["model"].items():
        print(part, {name: f"{value:.2g}" for name, value in own.items()})


if __name__ == "__main__":
    sys.exit(main())
