"""A recording of many gigabytes, fitted and attributed from its file; prints what memory and time it takes.

    python -m benchmarks.large --folder /scratch --steps 10000000 --channels 200

Writes a memory-mapped file of steps x channels (8 GB as above) to the folder, fits one model to it and attributes
it within a budget of memory, and removes the file. Writes benchmarks/results/large.json and prints it: the most
memory that the process had, of its own and in all (with the parts of the file that are mapped), and the training
steps a second, from the file and from a recording in memory of a tenth of the length: the best of some turns. The
file was just written, so it is in the system's cache as far as that has room.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ascribo as asc
from ascribo.model.fitting import prepare
from ascribo.training.dispatch import train
from ascribo.training.penalty_weight import Constant
from ascribo.training.settings import Settings
from experiments.shared.results import code, machine, write_json

SPACES = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
BLOCK = 100_000
RESULTS = Path(__file__).parent / "results"


class Watch:
    """The most memory of this process while a block runs, in GB: of its own, and with mapped files."""

    def __enter__(self) -> Watch:
        self.own = self.all = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            own, every = resident()
            self.own, self.all = max(self.own, own), max(self.all, every)


def resident() -> tuple[float, float]:
    """Memory of this process in GB: of its own, and with mapped files."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    own, every = (int(lines[key].split()[0]) * 1024 / 1e9 for key in ("RssAnon", "VmRSS"))
    return own, every


def write(path: Path, steps: int, channels: int) -> dict[str, np.ndarray]:
    """The file; half of the channels are driven by the position that is returned, all by something hidden."""
    rng = np.random.default_rng(0)
    z = np.empty((steps, 3), np.float32)
    for column in z.T:
        column[:] = np.abs((np.cumsum(0.05 * rng.standard_normal(steps)) % 4) - 2) - 1  # a walk between two walls
    weights = rng.standard_normal((3, channels)).astype(np.float32)
    weights[:2, channels // 2 :] = 0
    noise = rng.standard_normal((BLOCK + 1000, channels)).astype(np.float32)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (steps, channels))
    for start in range(0, steps, BLOCK):
        own = z[start : start + BLOCK]
        first = int(rng.integers(1000))
        X[start : start + BLOCK] = np.tanh(own @ weights) + noise[first : first + len(own)]
    X.flush()
    return {"x": z[:, 0].copy(), "y": z[:, 1].copy()}


def rates(recordings: Sequence[asc.Recording], steps: int, turns: int = 4) -> list[float]:
    """Training steps a second of one model on each recording: the best of some turns, taken one after the other."""
    problems = [prepare(recording, SPACES).problem for recording in recordings]
    settings = Settings(steps, 512, 1e-3, Constant(0.1), device="cpu")
    best = [0.0] * len(problems)
    for _ in range(turns):
        for k, problem in enumerate(problems):
            began = time.monotonic()
            train(problem, [0], settings, n_jobs=1, progress=False)
            best[k] = max(best[k], steps / (time.monotonic() - began))
    return best


def main() -> int:
    """Write, fit, attribute, print, remove."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="with room for the file")
    parser.add_argument("--steps", type=int, default=10_000_000, help="time steps (%(default)s)")
    parser.add_argument("--channels", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--train", type=int, default=200, help="training steps (%(default)s)")
    parser.add_argument("--memory", default="2.2GB", help="budget of the fit and the attribution (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS / "large.json", help="(%(default)s)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    size = 4 * given.steps * given.channels
    if shutil.disk_usage(given.folder).free < 1.2 * size:
        parser.error(f"{given.folder} has no room for {size / 1e9:.1f} GB.")
    path = given.folder / "large.npy"
    found: dict[str, Any] = {"steps": given.steps, "channels": given.channels, "file_gb": size / 1e9}
    found |= {"machine": machine(), "code": code(), "memory": given.memory, "training_steps": given.train}
    try:
        variables = write(path, given.steps, given.channels)
        recording = asc.Recording(np.load(path, mmap_mode="r"), variables)
        model = asc.ContrastiveEmbedding(
            SPACES, seeds=1, steps=given.train, penalty=0.1, random_state=0, memory=given.memory, device="cpu",
            progress=False,
        )  # fmt: skip
        found["before_gb"] = dict(zip(("own", "all"), resident(), strict=True))
        for name, work in {
            "fit": lambda: model.fit(recording),
            "attribute": lambda: model.attribute(recording),
        }.items():
            began = time.monotonic()
            with Watch() as watch:
                done = work()
            found[f"{name}_gb"], found[f"{name}_s"] = {"own": watch.own, "all": watch.all}, time.monotonic() - began
            print(f"{name}: {found[f'{name}_s']:.0f} s, {watch.all:.2f} GB", file=sys.stderr, flush=True)
        calls = done.calls()
        right = np.arange(given.channels) < given.channels // 2
        called = calls[calls["space"] == "position"]["called"].to_numpy()
        found["position_called_of_carriers"] = float(called[right].mean())
        found["position_called_of_others"] = float(called[~right].mean())
        tenth = given.steps // 10
        first = {name: value[:tenth] for name, value in variables.items()}
        memory = asc.Recording(np.array(recording.X[:tenth]), first)
        in_memory, from_file = rates([memory, recording], given.train)
        found |= {"steps_per_s_in_memory": in_memory, "steps_per_s_from_file": from_file}
        found["rate_of_in_memory"] = from_file / in_memory
    finally:
        path.unlink(missing_ok=True)
    write_json(given.out, found)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
