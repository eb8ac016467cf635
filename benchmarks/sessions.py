"""A folder of sessions as NWB files, analysed by one command: what it takes, and that nothing is computed again.

    python -m benchmarks.sessions --folder /scratch/sessions --numbers 1 10 100 500

For each number simulates so many small sessions, runs `ascribo sweep` on the folder with two processes, and
then the same command again. Prints and keeps (benchmarks/results/sessions.json) seconds on the clock and of
processors, cells that are done, the largest process, and the seconds of the second run. The fits are small, 100
training steps on 1,000 time steps of 10 channels: the point is the machinery around them.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ascribo as asc
from experiments.shared.results import code, machine, write_json

SIZE = ("--steps", "1000", "--channels", "5", "5", "--training", "100")
JOBS = 2


def run(*words: object) -> dict[str, float]:
    """Seconds of a command: on the clock, and of the processors, its own processes together."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([sys.executable, "-W", "ignore", *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.monotonic() - began, "processor_seconds": spent}


def measure(folder: Path, number: int) -> dict[str, Any]:
    """Simulate, sweep, sweep again."""
    made = run("scripts/simulate_sessions.py", folder, "--number", number, "--format", "nwb", *SIZE)
    command = ("-m", "ascribo", "sweep", folder / "sweep.toml", "--jobs", JOBS, "--quiet")
    first, again = run(*command), run(*command)
    found = asc.Sweep(folder / "swept")
    cells, written = found.cells(), [file for file in found.folder.rglob("*") if file.is_file()]
    return {
        "sessions": number,
        "simulating": made,
        "sweep": first,
        "again": again,
        "done": int((cells["state"] == "done").sum()),
        "seconds_of_cells": float(cells["seconds"].sum()),
        "megabytes": sum(file.stat().st_size for file in written) / 1e6,
        "largest_process_gb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6,
        "summary": found.summary().to_dict("records"),
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="is made, and removed at the end")
    parser.add_argument("--numbers", type=int, nargs="+", default=[1, 10, 100, 500])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/sessions.json"))
    given = parser.parse_args()
    rows = []
    for number in given.numbers:
        rows.append(measure(given.folder / str(number), number))
        shutil.rmtree(given.folder / str(number))
        about = {"machine": machine(), "code": code(), "size": SIZE, "processes": JOBS}
        write_json(given.out, {**about, "rows": rows})
        row = rows[-1]
        print(
            f"{number:>4} sessions: {row['sweep']['seconds']:7.1f} s on the clock, "
            f"{row['sweep']['processor_seconds']:7.1f} s of processors, {row['done']} done; again "
            f"{row['again']['seconds']:.1f} s; {row['megabytes']:.1f} MB written, "
            f"{row['largest_process_gb']:.2f} GB a process",
            flush=True,
        )
    given.folder.rmdir()
    return 0


if __name__ == "__main__":
    sys.exit(main())
