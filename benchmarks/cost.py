"""How the cost of an analysis grows: with time steps, channels and sessions, and a model of it beside.

    python -m benchmarks.cost

Fits one model and attributes it, for recordings of several sizes, and prints the processor seconds of each part
(not those on the clock, so that other work on the machine counts little), with the model

    seconds = constant + a·steps·channels + b·channels + c·steps

fitted by least squares to the relative errors, all coefficients at least 0; and the same for sessions of one size
in a sweep. benchmarks/results/cost.json keeps the rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls

import ascribo as asc

SPACES = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
SIZES = ((10_000, 10), (10_000, 50), (10_000, 200), (10_000, 1_000), (100_000, 50), (100_000, 200), (1_000_000, 50))
SESSIONS = (1, 2)
TRAINING = {"seeds": 1, "steps": 300, "penalty": 0.1, "random_state": 0, "n_jobs": 1, "device": "cpu"}


def simulate(steps: int, channels: int, seed: int = 0) -> asc.Recording:
    """Half of the channels are driven by the position, all by something hidden, and all are noisy."""
    rng = np.random.default_rng(seed)
    z = np.stack([np.abs((np.cumsum(0.1 * rng.standard_normal(steps)) % 4) - 2) - 1 for _ in range(3)], 1)
    weights = rng.standard_normal((3, channels))
    weights[:2, channels // 2 :] = 0
    X = np.tanh(z @ weights) + rng.standard_normal((steps, channels), dtype=np.float32)
    return asc.Recording(X.astype(np.float32), {"x": z[:, 0], "y": z[:, 1]})


def spent(work: Any) -> float:
    """Processor seconds of a piece of work in this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def fitted(rows: list[dict[str, Any]], part: str) -> dict[str, float]:
    """Coefficients of the model, and what it says of each row."""
    terms = np.array([[1, r["steps"] * r["channels"], r["channels"], r["steps"]] for r in rows], dtype=float)
    seconds = np.array([r[part] for r in rows])
    found, _ = nnls(terms / seconds[:, None] / terms.max(0), np.ones(len(rows)))
    found = found / terms.max(0)
    for row, said in zip(rows, terms @ found, strict=True):
        row[f"{part}_model"] = float(said)
    return dict(zip(("constant", "steps_channels", "channels", "steps"), found.tolist(), strict=True))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/cost.json"))
    parser.add_argument("--most", type=int, default=10**9, help="leave out recordings of more entries")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for steps, channels in SIZES:
        if steps * channels > given.most:
            continue
        recording = simulate(steps, channels)
        model = asc.ContrastiveEmbedding(SPACES, progress=False, **TRAINING)
        fit = spent(lambda model=model, recording=recording: model.fit(recording))
        attribute = spent(lambda model=model, recording=recording: model.attribute(recording))
        rows.append({"steps": steps, "channels": channels, "fit": fit, "attribute": attribute})
        print(f"{steps:>9,} x {channels:>5,}: fit {fit:6.1f} s, attribute {attribute:6.1f} s", flush=True)
    found: dict[str, Any] = {"rows": rows, "training": TRAINING}
    found["model"] = {part: fitted(rows, part) for part in ("fit", "attribute")}
    found["sessions"] = []
    with tempfile.TemporaryDirectory() as place:
        model = asc.ContrastiveEmbedding(SPACES, progress=False, **TRAINING)
        recordings = {f"session{k}": simulate(5_000, 50, k) for k in range(max(SESSIONS))}
        for number in SESSIONS:
            some = {name: recordings[name] for name in list(recordings)[:number]}
            seconds = spent(
                lambda some=some, number=number: asc.sweep(some, model, f"{place}/{number}", progress=False)
            )
            found["sessions"].append({"sessions": number, "seconds": seconds})
            print(f"{number} sessions of 5,000 x 50: {seconds:.1f} s", flush=True)
    for part, own in found["model"].items():
        print(part, {name: f"{value:.3g}" for name, value in own.items()})
        for row in rows:
            size = f"{row['steps']:>9,} x {row['channels']:>5,}"
            print(f"  {size}: {row[part]:6.1f} s, model {row[f'{part}_model']:6.1f}")
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
