"""Time to an answer beside cebra, trained until its map is as good.

    python -m benchmarks.answer_cebra [--cebra-python PATH] [--most 1000]  # on a CPU, all cores on both sides
    python -m benchmarks.answer_cebra --gpu FOLDER                  # on a GPU; FOLDER as of benchmarks.gpu

ascribo goes from arrays to calls with default settings. cebra trains its hybrid, regularized model on the same
standardised channels, and maps 2,000 time steps by its inverted Jacobian after every hundred steps: how many steps
until the area under the ROC curve of the channels that carry the variables is at most half a point below ascribo's,
three times in a row? Setting up and maps are not counted. If `--most` steps are not enough on a CPU, the time of a
step measured there is multiplied by the number of steps that were needed on a GPU, and the JSON says so. Writes
benchmarks/results/answer-cebra.json, or answer-cebra-gpu.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import ascribo as asc
from ascribo.metrics.scores import auroc
from benchmarks.turns import CebraProcess
from experiments.shared.environment import cebra_python
from experiments.shared.results import code, machine, write_json

__all__ = ["main", "steps_needed"]

SPACES = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
BATCH, PENALTY, SAMPLES = 512, 0.1, 2000
NEAR = 0.005
"""Area under the ROC curve by which cebra may stay below."""
ROUND, MOST_STEPS = 100, 10_000
FILE = Path(__file__).parent / "results" / "answer-cebra.json"
GPU_FILE = FILE.with_name("answer-cebra-gpu.json")


def recording(seed: int, steps: int = 20_000) -> asc.Recording:
    """50 channels, half of which carry the two variables, the others two hidden latents."""
    return asc.simulate.box(seed, observed=2, hidden=2, steps=steps, snr=3)


def truth_of(data: asc.Recording) -> np.ndarray:
    """Which channels carry the variables."""
    assert data.truth is not None
    return data.truth.sel(space="position").values


def standardised(data: asc.Recording) -> tuple[np.ndarray, np.ndarray]:
    """Channels and variables as cebra is given them."""
    labels = data.variables.to_numpy(np.float64)
    return (data.X - data.X.mean(0)) / data.X.std(0), (labels - labels.mean(0)) / labels.std(0)


def ours(data: asc.Recording) -> dict[str, Any]:
    """ascribo from arrays to calls."""
    began = time.perf_counter()
    model = asc.ContrastiveEmbedding(SPACES, random_state=0, progress=False).fit(data.X, data.variables)
    maps = model.attribute(data.X, data.variables)
    maps.calls()
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "auroc": maps.auroc(truth_of(data), "position"), "steps": model.spent_["steps"]}


def steps_needed(curve: list[tuple[int, float]], goal: float) -> int | None:
    """The first number of steps of a curve (steps, auROC) from which on it is near its goal; None if never.

    >>> steps_needed([(100, 0.8), (200, 1.0), (300, 0.9), (400, 1.0)], goal=1.0)
    400
    """
    below = [k for k, (_, value) in enumerate(curve) if value < goal - NEAR]
    first = below[-1] + 1 if below else 0
    return curve[first][0] if first < len(curve) else None


def train_until(
    steps: Callable[[int], dict[str, float]],
    scores: Callable[[], list[float]],
    truth: np.ndarray,
    goal: float,
    most: int,
) -> dict[str, Any]:
    """Train cebra until its map is near the goal, three rounds in a row, or for `most` steps."""
    curve: list[tuple[int, float]] = []
    seconds = 0.0
    while (done := len(curve) * ROUND) < most:
        seconds += steps(ROUND)["wall_ms"] * ROUND / 1000
        curve.append((done + ROUND, auroc(scores(), truth)))
        if len(curve) >= 3 and min(value for _, value in curve[-3:]) >= goal - NEAR:
            break
    ms = 1000 * seconds / (len(curve) * ROUND)
    return {"ms_per_step": ms, "steps": steps_needed(curve, goal), "curve": curve}


def compared(mine: list[dict[str, Any]], cebra: dict[str, Any]) -> dict[str, Any]:
    """Both sides, and how many times as long cebra takes; None if it never gets there."""
    ours = float(np.mean([one["seconds"] for one in mine]))
    theirs = None if cebra["steps"] is None else cebra["steps"] * cebra["ms_per_step"] / 1000
    times = None if theirs is None else theirs / ours
    print(f"ascribo {ours:.1f} s, cebra {theirs} s ({cebra['steps']} steps): {times} times as long", flush=True)
    return {"ascribo": mine, "cebra": {**cebra, "seconds": theirs}, "ascribo_s": ours, "times": times}


def on_gpu(folder: Path, seeds: range) -> list[dict[str, Any]]:
    """Both sides on a GPU, on several recordings."""
    sys.path.append(str(folder))
    from benchmarks.peer_cebra import Peer

    ours(recording(99, steps=5000))  # compiles the kernels
    rows = []
    for seed in seeds:
        data = recording(seed)
        mine, peer = ours(data), Peer(*standardised(data), 4, BATCH, PENALTY, "cuda")
        given = (peer.steps, partial(peer.scores, SAMPLES), truth_of(data), mine["auroc"], MOST_STEPS)
        rows.append({"data_seed": seed, **compared([mine], train_until(*given))})
    return rows


def on_cpu(python: Path | None, most: int) -> list[dict[str, Any]]:
    """ascribo, cebra, and ascribo again, for what else the machine does meanwhile."""
    if python is None:
        raise SystemExit("there is no environment with cebra: `make bench` makes one, or give --cebra-python.")
    data, cores = recording(0), os.cpu_count()
    options = {"dim": 4, "batch": BATCH, "penalty": PENALTY, "samples": SAMPLES}
    cebra = CebraProcess(python, *standardised(data), **options)
    mine = [ours(data)]
    steps, scores = (lambda number: cebra.ask(f"steps {number} {cores}")), (lambda: cebra.ask("scores"))
    theirs = train_until(steps, scores, truth_of(data), mine[0]["auroc"], most)
    cebra.close()
    mine.append(ours(data))
    extrapolated = theirs["steps"] is None and GPU_FILE.exists()
    if extrapolated:
        theirs["steps"] = json.loads(GPU_FILE.read_text())["rows"][0]["cebra"]["steps"]
    return [{"data_seed": 0, "extrapolated": extrapolated, **compared(mine, theirs)}]


def main() -> int:
    """Measure, write and say how many times as long cebra takes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cebra-python", type=Path, help="the Python of an environment with cebra")
    parser.add_argument("--most", type=int, default=1000, help="most steps of cebra on a CPU (%(default)s)")
    parser.add_argument("--gpu", type=Path, metavar="FOLDER", help="measure on a GPU; FOLDER holds cebra")
    given = parser.parse_args()
    python = given.cebra_python or cebra_python()
    rows = on_gpu(given.gpu, range(2)) if given.gpu else on_cpu(python, given.most)
    about = {"near": NEAR, "batch": BATCH, "penalty": PENALTY, "machine": machine(), "code": code()}
    write_json(GPU_FILE if given.gpu else FILE, {**about, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
