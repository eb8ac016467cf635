"""Does a sweep on a Dask cluster lose anything when workers and the scheduler are killed?

    python scripts/cluster_chaos.py --cells 40 --every 5

A sweep of small recordings is computed in this process. Then the same on a scheduler with two workers: a worker is
killed (SIGKILL) every few seconds and replaced, and the scheduler once, when half of the cells are done, and a new
one takes its place. Weights and calls of all cells must be those of the sweep in this process, to the last bit, and
no cell that was done when the scheduler was killed may be computed again.

The exit status is 0 only if all of it held.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np


class Cluster:
    """A scheduler and two workers in processes of their own, which are started again when they are gone."""

    def __init__(self, every: float, out: Path, cells: int):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.every, self.out, self.cells = every, out, cells
        self.killed, self.done_before, self.over = 0, {}, False
        self.scheduler = self._start_scheduler()
        self.workers = [self._start_worker() for _ in range(2)]
        self.thread = threading.Thread(target=self._disturb)
        self.thread.start()

    def _start_scheduler(self) -> subprocess.Popen:
        return _start("dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")

    def _start_worker(self) -> subprocess.Popen:
        return _start("dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")

    def _disturb(self) -> None:
        """Kill a worker now and then, once the work has begun, and the scheduler once."""
        next_kill, done = 0.0, 0
        while not self.over:
            time.sleep(0.1)
            records = sorted(self.out.glob("*/cell.json"))
            if time.monotonic() > next_kill and len(records) > done:  # a worker takes seconds to start
                self.workers[self.killed % 2].kill()
                self.killed, next_kill, done = self.killed + 1, time.monotonic() + self.every, len(records)
                print(f"  {len(records)} cells done, {self.killed} workers killed", flush=True)
            if not self.done_before and len(records) >= self.cells // 2:
                self.scheduler.send_signal(signal.SIGKILL)
                self.scheduler.wait()
                self.done_before = {file: file.stat().st_mtime_ns for file in sorted(self.out.glob("*/cell.json"))}
                self.scheduler = self._start_scheduler()
            for k, worker in enumerate(self.workers):
                if worker.poll() is not None:
                    self.workers[k] = self._start_worker()

    def close(self) -> None:
        """End all processes that were started here."""
        self.over = True
        self.thread.join()
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


def _start(module: str, *words: str) -> subprocess.Popen:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-m", f"distributed.cli.{module}", *words], env=os.environ, **quiet)


def outcome(sweep: Any) -> dict[str, Any]:
    """Digest of the weights, and the calls, of every cell by its name."""
    found = {}
    for run in sweep.cells()["run"]:
        record = json.loads((Path(run) / "cell.json").read_text())
        weights = json.loads((Path(run) / "model.json").read_text())["sha256"]
        found[Path(run).name] = (weights, record["called"], [space["bits"] for space in record["spaces"]])
    return found


def main() -> int:
    """Compute in peace and under attack, and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", type=int, default=40, help="(%(default)s)")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two kills (%(default)s)")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    given = parser.parse_args()
    import ascribo as asc

    penalties = [0.0, 0.05, 0.1, 0.2]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "sessions").mkdir()
        for k in range(-(-given.cells // len(penalties))):
            data = asc.simulate.box(k, observed=1, hidden=1, channels=(3, 3), steps=400)
            np.savez(folder / f"sessions/rat{k}.npz", X=data.X, x=data.variables["x"].to_numpy())
        spaces = {"position": asc.Follow("x", dim=1), "rest": asc.Time(dim=1)}
        small: dict[str, Any] = {"seeds": 1, "steps": 50, "batch_size": 32, "device": "cpu"}
        model = asc.ContrastiveEmbedding(spaces, random_state=0, **small)
        what: dict[str, Any] = {"sessions": folder / "sessions", "model": model, "grid": {"penalty": penalties}}
        began = time.monotonic()
        serial = asc.sweep(**what, out=folder / "serial", progress=False)
        alone = time.monotonic() - began
        print(f"in one process: {serial}, {alone:.0f} s", flush=True)
        began = time.monotonic()
        cluster = Cluster(given.every, folder / "cluster", len(serial.cells()))
        try:
            found = asc.sweep(**what, out=folder / "cluster", scheduler=cluster.address, progress=False)
        finally:
            cluster.close()
        spent = time.monotonic() - began
        again = [file for file, when in cluster.done_before.items() if file.stat().st_mtime_ns != when]
        same = outcome(serial) == outcome(found) if set(found.cells()["state"]) == {"done"} else False
        figures = {
            "cells": given.cells,
            "on the cluster": repr(found),
            "seconds in one process": round(alone),
            "seconds on the cluster": round(spent),
            "workers killed": cluster.killed,
            "cells done when the scheduler was killed": len(cluster.done_before),
            "of these computed again": len(again),
            "weights and calls are those of one process": same,
        }
    from keep_figures import keep_figures

    keep_figures(given.out, figures)
    return 0 if same and cluster.killed and cluster.done_before and not again else 1


if __name__ == "__main__":
    sys.exit(main())
