"""Are fits that were killed at random moments lost, or other than they would have been?

    python scripts/chaos.py --kills 100

A small recording is fitted, attributed and swept by the command line, once in peace. Then the same again and again,
but killed (SIGKILL) at random moments: while reading, training, writing a checkpoint, saving, attributing or in a
sweep, with other numbers of processes. After each kill the folder is looked at: a model in it must be whole. After
some kills the run is let through to its end, by the same command or by `ascribo resume`; weights and calls must be
those of the run in peace, to the last bit.

The exit status is 0 only if all of it held.
"""

import argparse
import hashlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

SWEEP = """
sessions = ["data.npz"]
[spaces]
follow = ["position=x,y"]
time = ["rest:1"]
[settings]
seeds = 1
steps = 100
batch_size = 32
device = "cpu"
[grid]
penalty = [0.0, 0.1]
"""
KILLS_A_RUN = 5
"""Kills before a run is let through."""


def make_recording(folder: Path) -> Path:
    """A small recording in a file."""
    import numpy as np

    import ascribo as asc

    data = asc.simulate.box(0, observed=2, hidden=1, channels=(4, 4), steps=1500)
    np.savez(folder / "data.npz", X=data.X, **{name: data.variables[name].to_numpy() for name in ("x", "y")})
    return folder / "data.npz"


def commands(data: Path, run: Path, jobs: int) -> list[list[str]]:
    """What is run, one after the other."""
    fit = ["fit", str(data), "--channels", "X", "--follow", "position=x,y", "--time", "rest:1", "--out", str(run)]
    small = {"seeds": 2, "steps": 150, "batch-size": 32, "jobs": jobs, "device": "cpu"}
    fit += [word for name, value in small.items() for word in (f"--{name}", str(value))] + ["--quiet"]
    attribute = ["attribute", str(run), "--out", str(run / "map.csv"), "--quiet"]
    config = data.parent / "sweep.toml"
    config.write_text(SWEEP)
    # in one process: others would not know that the run is to be a small one
    return [fit, attribute, ["sweep", str(config), "--out", str(run / "sweep"), "--quiet"]]


def in_child(argv: list[str], kill_after: float | None = None) -> int | None:
    """The exit status of a command in a process of its own; None if it was killed after so many seconds."""
    child = os.fork()
    if child == 0:
        os.setsid()
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        from ascribo.attribution.unique_variance import score
        from ascribo.cli.main import main
        from ascribo.training import loop, settings

        # a small run, written down often
        loop.CHECKPOINT_SECONDS, settings.DECODER_STEPS, score.MOST_TRAINING_STEPS = 0.05, 50, 50
        os._exit(main(argv))
    if kill_after is not None:
        until = time.monotonic() + kill_after
        while time.monotonic() < until:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def outcome(run: Path) -> tuple[str, ...]:
    """Digests of the weights and of the calls, and of the weights of the cells of the sweep."""
    from ascribo.model.run_folder import read_run

    facts, _ = read_run(run)
    cells = [read_run(cell.parent)[0]["sha256"] for cell in sorted(run.glob("sweep/*/cell.json"))]
    return facts["sha256"], hashlib.sha256((run / "map.csv").read_bytes()).hexdigest(), *cells


def moment(run: Path) -> str:
    """How far a run had come, by what is in its folder; a damaged model is an error."""
    from ascribo.model.run_folder import read_run

    for model in run.glob("sweep/*/model.json"):
        read_run(model.parent)
    if (run / "sweep").exists():
        return "sweeping"
    if (run / "model.json").exists():
        read_run(run)  # whole, or this says what is wrong with it
        return "attributing" if (run / "map.csv").exists() or not (run / ".checkpoint").exists() else "saving"
    state = run / ".checkpoint"
    if not state.exists():
        return "reading"
    return "training" if list(state.glob("seeds-*")) else "beginning to train"


def main() -> int:
    """Kill, look, go on, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (%(default)s)")
    given = parser.parse_args()
    rng, where, wrong, runs, resumed, kills = random.Random(given.seed), Counter(), [], 0, 0, 0
    import torch

    import_module("ascribo.cli.commands")  # here once, rather than in every process

    torch.set_num_threads(1)  # a process with threads cannot be forked
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        data = make_recording(folder)
        began = time.monotonic()
        for argv in commands(data, folder / "peace", 1):
            assert in_child(argv) == 0, "the run in peace failed"
        expected, seconds = outcome(folder / "peace"), time.monotonic() - began
        while kills < given.kills:
            run, runs = folder / f"run-{runs}", runs + 1
            left = min(KILLS_A_RUN, given.kills - kills)
            for argv in commands(data, run, rng.choice([1, 1, 1, 2])):
                quota = left if argv[0] == "fit" else min(left, 2)
                for _ in range(quota):
                    again = argv
                    if argv[0] == "fit" and (run / ".checkpoint/fit.json").exists() and rng.random() < 0.5:
                        again, resumed = ["resume", str(run), "--quiet"], resumed + 1
                    code = in_child(again, rng.uniform(0, 1.2 * seconds))
                    if code is not None:
                        if code:
                            wrong.append(f"{run.name}: {again[0]} ended with {code}")
                        break
                    kills += 1
                    try:
                        where[f"{argv[0]}: {moment(run)}"] += 1
                    except ValueError as error:
                        wrong.append(f"{run.name}: {error}")
                if in_child(argv):
                    wrong.append(f"{run.name}: {argv[0]} did not end well")
            if outcome(run) != expected:
                wrong.append(f"{run.name}: weights or calls are not those of the run in peace")
            if left_over := [p.name for p in run.iterdir() if p.name.startswith(".")]:
                wrong.append(f"{run.name}: left behind: {', '.join(left_over)}")
            print(f"{kills} kills, {runs} runs, {len(wrong)} wrong", flush=True)
    print("killed while", dict(where), f"; {resumed} times gone on by `ascribo resume`")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
