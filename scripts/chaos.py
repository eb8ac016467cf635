"""Are fits that were killed at random moments lost, or other than they would have been?

    python scripts/chaos.py --kills 100

A small recording is fitted, attributed and swept by the command line, once in peace, where the time of each phase
is taken. Then the same again and again, but killed (SIGKILL). Each phase has its share of the kills (reading,
training, writing a checkpoint, fitting decoders, saving, attributing, writing the map, sweeping), at random moments
of it; a kill that comes a little late, in the next phase, is one more. After each kill the folder is looked at: a
model in it must be whole. Then the run goes on, by the same command or by `ascribo resume`; weights and calls must
be those of the run in peace, to the last bit.

The exit status is 0 only if all of it held. --out writes the figures to a JSON file.
"""

import argparse
import functools
import hashlib
import os
import random
import select
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
PHASES = {
    "fit": {"reading": 1, "training": 5, "checkpoint": 5, "decoders": 1, "saving": 3},
    "attribute": {"attributing": 2, "writing the map": 1},
    "sweep": {"sweeping": 4},
}
"""Of each command its phases, in their order, and their shares of the kills."""
WHERE = {
    "reading": [("ascribo.cli.reading", "RecordingOptions.read")],
    "training": [("ascribo.model.estimator", "train")],
    "checkpoint": [("ascribo.training.loop", "write_checkpoint")],
    "decoders": [("ascribo.model.estimator", "finish")],
    "saving": [("ascribo.cli.commands", "save")],
    "attributing": [("ascribo.model.estimator", "ContrastiveEmbedding.attribute")],
    "writing the map": [("ascribo.attribution.maps", "AttributionMaps.to_csv")],
    "sweeping": [("ascribo.cli.sweep", "run_sweep")],
}
"""The functions that make up a phase."""
KILLS_A_RUN = 5
"""Kills of a command before it is let through, at most."""


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


def mark_phases(pipe: int) -> None:
    """Let the functions of each phase tell when they begin and end."""

    def told(phase: str, function):
        @functools.wraps(function)
        def call(*given, **named):
            os.write(pipe, f"+{phase}\n".encode())
            try:
                return function(*given, **named)
            finally:
                os.write(pipe, f"-{phase}\n".encode())

        return call

    for phase, places in WHERE.items():
        for module, name in places:
            owner = import_module(module)
            *above, last = name.split(".")
            for part in above:
                owner = getattr(owner, part)
            setattr(owner, last, told(phase, getattr(owner, last)))


class Child:
    """A command in a process of its own, and what it tells of its phases."""

    def __init__(self, argv: list[str]):
        self.pipe, own = os.pipe()
        self.open: list[str] = []
        self.spans: list[tuple[str, float]] = []
        self._begun: list[float] = []
        self._rest = b""
        self.process = os.fork()
        if self.process == 0:
            os.close(self.pipe)
            os.setsid()
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            from ascribo.attribution.unique_variance import score
            from ascribo.cli.main import main
            from ascribo.training import loop, settings

            # a small run, written down often
            loop.CHECKPOINT_SECONDS, settings.DECODER_STEPS, score.MOST_TRAINING_STEPS = 0.05, 50, 50
            mark_phases(own)
            os._exit(main(argv))
        os.close(own)

    def listen(self, until: float | None = None) -> str | None:
        """The phase that begins next; None at a time, or when the process is over (`ended`)."""
        while True:
            line, found, rest = self._rest.partition(b"\n")
            if not found:
                left = None if until is None else max(0.0, until - time.monotonic())
                if not select.select([self.pipe], [], [], left)[0] or not (more := os.read(self.pipe, 4096)):
                    return None
                self._rest += more
                continue
            self._rest, name = rest, line[1:].decode()
            if line[:1] == b"+":
                self.open.append(name)
                self._begun.append(time.monotonic())
                return name
            self.open.pop()
            self.spans.append((name, time.monotonic() - self._begun.pop()))

    def wait(self) -> int:
        """The exit status, when the command has ended."""
        while self.listen() is not None:
            pass
        os.close(self.pipe)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def kill(self, phase: str, number: int, after: float) -> str | int:
        """Kill it some seconds after a phase has begun so many times; the phase it died in, or its exit status if
        it has ended by itself before."""
        while number > 0 and (begun := self.listen()) is not None:
            number -= begun == phase
        if number > 0:
            return self.wait()
        until = time.monotonic() + after
        while self.listen(until) is not None:
            pass
        os.kill(self.process, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        while self.listen(0.0) is not None:  # what it told last
            pass
        os.close(self.pipe)
        if code >= 0:
            return code
        return "sweeping" if "sweeping" in self.open else self.open[-1] if self.open else "between two phases"


def outcome(run: Path) -> tuple[str, ...]:
    """Digests of the weights and of the calls, and of the weights of the cells of the sweep."""
    from ascribo.model.run_folder import read_run

    facts, _ = read_run(run)
    cells = [read_run(cell.parent)[0]["sha256"] for cell in sorted(run.glob("sweep/*/cell.json"))]
    return facts["sha256"], hashlib.sha256((run / "map.csv").read_bytes()).hexdigest(), *cells


def check_models(run: Path) -> None:
    """A model that is there must be whole, or this says what is wrong with it."""
    from ascribo.model.run_folder import read_run

    for model in (*run.glob("model.json"), *run.glob("sweep/*/model.json")):
        read_run(model.parent)


def shares(kills: int, rng: random.Random) -> list[str]:
    """The phases of all kills, in a random order; each has its share."""
    weights = {phase: weight for own in PHASES.values() for phase, weight in own.items()}
    whole = sum(weights.values())
    exact = {phase: kills * weight / whole for phase, weight in weights.items()}
    found = [phase for phase, number in exact.items() for _ in range(int(number))]
    by_rest = sorted(exact, key=lambda phase: int(exact[phase]) - exact[phase])
    found += by_rest[: kills - len(found)]
    rng.shuffle(found)
    return found


class Chaos:
    """Runs that are killed, and what was seen of them."""

    def __init__(self, folder: Path, kills: int, seed: int):
        self.folder, self.rng = folder, random.Random(seed)
        self.data = make_recording(folder)
        self.to_do = shares(kills, self.rng)
        self.killed, self.resumed, self.wrong = Counter(), Counter(), []
        self.seconds: dict[str, list[float]] = {}
        self.runs = self.missed = 0

    def in_peace(self) -> None:
        """The outcome to compare with, and how often each phase comes and how long it takes."""
        for argv in commands(self.data, self.folder / "peace", 1):
            child = Child(argv)
            assert child.wait() == 0, "the run in peace failed"
            for phase, seconds in child.spans:
                if phase in PHASES[argv[0]]:
                    self.seconds.setdefault(phase, []).append(seconds)
        self.expected = outcome(self.folder / "peace")

    def one_run(self) -> None:
        """Kill a run in several phases, let it through, and compare."""
        run, self.runs = self.folder / f"run-{self.runs}", self.runs + 1
        jobs = self.rng.choice([1, 1, 1, 2])
        for argv in commands(self.data, run, jobs):
            target = run / "sweep" if argv[0] == "sweep" else run
            phases = [phase for phase in PHASES[argv[0]] if phase in self.to_do]
            if jobs > 1:  # worker processes tell nothing of their checkpoints
                phases = [phase for phase in phases if phase != "checkpoint"]
            drawn = sorted(self.rng.choices(phases, k=KILLS_A_RUN), key=phases.index) if phases else []
            code: str | int = ""
            for phase in drawn:
                if phase in self.to_do:
                    code = self._kill(self._again(argv, target), phase, argv[0], run)
            if isinstance(code, str):
                code = Child(self._again(argv, target)).wait()
            if code:
                self.wrong.append(f"{run.name}: {argv[0]} ended with {code}")
        if outcome(run) != self.expected:
            self.wrong.append(f"{run.name}: weights or calls are not those of the run in peace")
        # the lock of a cell that was done when the sweep was killed is nobody's, and stays
        ours = {*run.glob("sweep/.fingerprints.json"), *run.glob("sweep/*/.lock")}
        if left_over := [str(p.relative_to(run)) for p in run.rglob(".*") if p not in ours]:
            self.wrong.append(f"{run.name}: left behind: {', '.join(left_over)}")

    def _again(self, argv: list[str], target: Path) -> list[str]:
        """The command, or `ascribo resume` where it was begun: either way half of the time."""
        if not (target / ".checkpoint/fit.json").exists() or self.rng.random() < 0.5:
            return argv
        self.resumed[argv[0]] += 1
        return ["resume", str(target), "--quiet"]

    def _kill(self, argv: list[str], phase: str, command: str, run: Path) -> str | int:
        """Kill a command in a phase; the phase it died in, or its exit status if it ended before the moment."""
        number = self.rng.randint(1, 2) if phase == "checkpoint" else 1  # two seeds write one each at least
        died = Child(argv).kill(phase, number, self.rng.uniform(0, min(self.seconds[phase])))
        self.missed += died != phase
        if isinstance(died, int):  # it went on from a state, and had less to do
            return died
        if died in self.to_do:
            self.to_do.remove(died)
        self.killed[f"{command}: {died}"] += 1
        try:
            check_models(run)
        except ValueError as error:
            self.wrong.append(f"{run.name}: {error}")
        return died

    def figures(self) -> dict:
        """What was seen."""
        return {
            "kills": sum(self.killed.values()),
            "killed while": dict(sorted(self.killed.items())),
            "seconds in peace": {phase: round(sum(own), 3) for phase, own in self.seconds.items()},
            "runs": self.runs,
            "gone on by resume": dict(self.resumed),
            "another phase than was meant, or none": self.missed,
            "wrong": self.wrong,
        }


def main() -> int:
    """Kill, look, go on, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="at least (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (%(default)s)")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    given = parser.parse_args()
    import torch

    import_module("ascribo.cli.commands")  # here once, rather than in every process

    torch.set_num_threads(1)  # a process with threads cannot be forked
    with tempfile.TemporaryDirectory() as place:
        chaos = Chaos(Path(place), given.kills, given.seed)
        chaos.in_peace()
        while chaos.to_do and chaos.missed <= 20 + 5 * given.kills:
            chaos.one_run()
            done = sum(chaos.killed.values())
            print(f"{done} kills, {chaos.runs} runs, {len(chaos.wrong)} wrong", flush=True)
    if chaos.to_do:
        chaos.wrong.append(f"the moments of {len(chaos.to_do)} kills never came: {sorted(set(chaos.to_do))}")
    from keep_figures import keep_figures

    keep_figures(given.out, chaos.figures())
    return 1 if chaos.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
