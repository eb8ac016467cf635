"""ascribo beside cebra on one CPU thread: time of a training step, of an attribution, and memory.

    python -m benchmarks.cpu [--cebra-python PATH]      # of an environment with cebra 0.6.1, cvxpy and captum

The two sides take turns, so that what else the machine does hits both. Writes benchmarks/results/cpu.json and
exits with 0 only if every bar holds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import ascribo as asc
from ascribo.support.files import write_atomically
from ascribo.training.dispatch import train
from ascribo.training.settings import Settings
from ascribo.training.training_problem import Problem
from benchmarks.clock import clock
from benchmarks.problems import problem_of
from benchmarks.turns import CHECKOUT, ONE_THREAD, CebraProcess, take_turns
from experiments.shared.environment import cebra_python
from experiments.shared.results import code, machine

HERE = Path(__file__).parent
SPACES = {"position": asc.Follow(["x", "y", "z"], dim=3), "rest": asc.Time(dim=3)}
DIM = sum(space.dim for space in SPACES.values())
PENALTY = 0.1
console = Console(stderr=True)

Times = dict[str, float]
"""What `clock` says."""


@dataclass(frozen=True)
class Size:
    """How much to measure: `Size()` is the benchmark, `QUICK` only shows that it runs."""

    length: int = 100_000
    batch: int = 512
    stacks: tuple[int, ...] = (1, 4, 8)
    rounds: int = 5
    cebra_steps: int = 5
    samples: int = 20_000
    spread_steps: int = 100
    fit_steps: int = 400
    lengths: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    step_batches: tuple[int, ...] = (5_000, 10_000, 20_000)
    loss_batches: tuple[int, ...] = (50_000,)

    def steps(self, seeds: int) -> int:
        """Training steps to time at once: enough of them that starting up does not count."""
        return max(5, min(50, 100 // seeds))


QUICK = Size(5_000, 128, (1, 2), 1, 1, 2_000, 4, 50, (2_000, 5_000), (500, 1_000), (2_000,))


def train_steps(problem: Problem, seeds: int, steps: int, batch: int) -> None:
    """Train a stack of models, the drawing of pairs included."""
    settings = Settings(steps, batch, 1e-3, asc.Constant(PENALTY))
    train(problem, range(seeds), settings, progress=False)


def model_step(problem: Problem, seeds: int, size: Size) -> dict[str, float]:
    """Time of one step of one model in a stack."""
    steps = size.steps(seeds)
    return clock(partial(train_steps, problem, seeds, steps, size.batch), steps * seeds)


def over_processes(problem: Problem, seeds: int, processes: int, size: Size) -> dict[str, float]:
    """The same with the models spread over processes; only the wall time means anything. Processes are kept, but
    each time they are sent the recording and index it anew (0.3 s): more steps, so that this does not count."""
    steps = size.spread_steps
    settings = Settings(steps, size.batch, 1e-3, asc.Constant(PENALTY))
    work = partial(train, problem, range(seeds), settings, n_jobs=processes, progress=False)
    return clock(work, steps * seeds)


def training(problem: Problem, cebra: CebraProcess | None, size: Size) -> dict:
    """Time of a model-step: one model, one step, pairs drawn, by stacks of several seeds and by cebra."""
    most, cores = max(size.stacks), os.cpu_count() or 1
    sides: dict[str, Callable[[], Times]] = {}
    if cebra:
        sides["cebra"] = lambda: cebra.ask(f"steps {size.cebra_steps} 1")
        sides[f"cebra, {cores} threads"] = lambda: cebra.ask(f"steps {size.cebra_steps} {cores}")
    for seeds in size.stacks:
        sides[f"ascribo, stack of {seeds}"] = partial(model_step, problem, seeds, size)
    spread = partial(over_processes, problem, most, cores, size)
    return take_turns("training", {**sides, f"ascribo, {most} models over {cores} processes": spread}, size.rounds)


def attribution(recording: asc.Recording, cebra: CebraProcess | None, size: Size) -> dict:
    """Time of an attribution by the inverted neuron gradient, one seed, the same samples on both sides."""
    with console.status("a model to attribute"):
        options = {"seeds": 1, "steps": size.fit_steps, "batch_size": size.batch, "random_state": 0}
        model = asc.ContrastiveEmbedding(SPACES, penalty=PENALTY, progress=False, device="cpu", **options)
        model.fit(recording)
    part, maps = recording[: size.samples], []

    work = lambda: maps.append(model.attribute(part, method="inverted_neuron_gradient"))  # noqa: E731
    theirs = {"cebra": lambda: cebra.ask("attribute")} if cebra else {}
    with warnings.catch_warnings(action="ignore"):  # of rank-deficient Jacobians: their share is reported
        got = take_turns("attribution", {**theirs, "ascribo": lambda: clock(work)}, size.rounds)
    return {**got, "rank_deficient": maps[-1].rank_deficient}


def recording_length(size: Size) -> dict:
    """Time of a model-step by the length of the recording, and what is set up once: standardising, the kd-tree."""
    with console.status("recordings of several lengths"):
        longest = asc.simulate.box(observed=3, hidden=3, steps=max(size.lengths))
        problems: dict[int, Problem] = {}
        once = {n: clock(lambda n=n: problems.update({n: problem_of(longest[:n], SPACES)})) for n in size.lengths}

    sides = {str(n): partial(model_step, problem, size.stacks[1], size) for n, problem in problems.items()}
    got = take_turns("recording length", sides, size.rounds)
    return {name: {**value, "set_up_once": once[int(name)]} for name, value in got.items()}


def memory(size: Size) -> dict:
    """Peak memory by batch size, each measured in a process of its own."""
    out = {}
    for what, batches in (("step", size.step_batches), ("loss", size.loss_batches)):
        for batch in batches:
            with console.status(f"memory: {what} of batch {batch:,}"):
                command = [sys.executable, "-m", "benchmarks.memory", what, str(batch)]
                done = subprocess.run(
                    command, cwd=CHECKOUT, env=ONE_THREAD, check=True, capture_output=True, text=True
                )
                out[f"{what}, batch {batch}"] = json.loads(done.stdout)
    return out


def bars(got: dict, size: Size) -> list[dict]:
    """What must hold, and whether it does. Ratios are of median processor times."""
    found = []

    def took(group: str, name: str) -> float:
        return got[group].get(name, {}).get("median_processor_ms", np.nan)

    def bar(what: str, value: float, least: float | None = None, under: float | None = None) -> None:
        known = float(value) if np.isfinite(value) else None
        holds = None
        if known is not None and (least or under):
            holds = known >= least if least else known < under
        found.append({"what": what, "value": known, "at_least": least, "under": under, "holds": holds})

    for seeds in size.stacks:
        ratio = took("training", "cebra") / took("training", f"ascribo, stack of {seeds}")
        bar(f"times less per model-step than cebra, stack of {seeds}", ratio, least=40)
    most, cores = max(size.stacks), os.cpu_count() or 1
    spread = f"ascribo, {most} models over {cores} processes"
    alone, both, own = (
        got["training"].get(name, {}).get("median_wall_ms", np.nan)
        for name in ("cebra", f"cebra, {cores} threads", spread)
    )
    bar(f"times less wall time per model-step than cebra, both on {cores} cores, {most} models", both / own, 60)
    bar(f"times less wall time per model-step than cebra on one core, {most} models on {cores}", alone / own)
    names = ("cebra, its call", "cebra, Jacobian and one inversion", "ascribo")
    whole, one, mine = (took("attribution", name) for name in names)
    bar("times faster attribution than cebra's call", whole / mine, least=20)
    bar("times faster attribution than cebra's Jacobian and one inversion", one / mine)
    shortest, longest = (took("recording_length", str(n)) for n in (min(size.lengths), max(size.lengths)))
    grown = f"step time at {max(size.lengths):,} over that at {min(size.lengths):,} time steps"
    bar(grown, longest / shortest, under=1.25)
    for name, value in got["memory"].items():
        bar(f"GB of memory, {name}", value["growth_mb"] / 1e3, under=2)
    return found


def measure(size: Size, cebra_python: str | Path | None = None) -> dict:
    """All measurements; without cebra's Python those of ascribo alone."""
    torch.set_num_threads(1)
    recording = asc.simulate.box(observed=3, hidden=3, steps=size.length)
    problem = problem_of(recording, SPACES)
    options = {"dim": DIM, "batch": size.batch, "samples": size.samples, "penalty": PENALTY}
    labels = recording.variables.to_numpy()
    cebra = CebraProcess(cebra_python, problem.X.numpy(), labels, **options) if cebra_python else None
    got = {
        "machine": {
            **machine(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        },
        "code": code(),
        "cebra": cebra.about if cebra else None,
        "size": asdict(size),
        "parameters": sum(p.numel() for p in problem.module.parameters()),
        "training": training(problem, cebra, size),
        "attribution": attribution(recording, cebra, size),
    }
    if cebra:
        cebra.close()
    got |= {"recording_length": recording_length(size), "memory": memory(size)}
    got["bars"] = bars(got, size)
    got["holds"] = all(bar["holds"] for bar in got["bars"] if bar["at_least"] or bar["under"])
    return got


def show(got: dict) -> None:
    """The measurements as two tables."""
    times = Table("one thread", "median ms, processor", "wall", title="Time", title_justify="left")
    for group in ("training", "attribution", "recording_length"):
        for name, value in got[group].items():
            if isinstance(value, dict):
                both = (f"{value[key]:,.1f}" for key in ("median_processor_ms", "median_wall_ms"))
                times.add_row(f"{group.replace('_', ' ')}: {name}", *both)
        times.add_section()
    held = Table("what", "value", "bar", "", title="Bars", title_justify="left")
    for bar in got["bars"]:
        limit = f"≥ {bar['at_least']}" if bar["at_least"] else f"< {bar['under']}" if bar["under"] else ""
        verdict = {True: "[green]holds", False: "[red]does not hold", None: ""}[bar["holds"]]
        value = "not measured" if bar["value"] is None else f"{bar['value']:.2f}"
        held.add_row(bar["what"], value, limit, verdict)
    Console().print(times, held)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cebra-python",
        default=cebra_python(),
        help="the Python of an environment with cebra 0.6.1, cvxpy and captum (default: the setting "
        "ASCRIBO_CEBRA_PYTHON, or .venv-cebra in the checkout; without it ascribo runs alone)",
    )
    parser.add_argument("--quick", action="store_true", help="a small form, in which the bars mean nothing")
    parser.add_argument("--out", type=Path, help="where to write the JSON")
    given = parser.parse_args()
    got = measure(QUICK if given.quick else Size(), given.cebra_python)
    out = given.out or HERE / "results" / ("cpu-quick.json" if given.quick else "cpu.json")
    write_atomically(out, lambda path: path.write_text(json.dumps(got, indent=1) + "\n"))
    show(got)
    return 0 if got["holds"] or given.quick else 1


if __name__ == "__main__":
    sys.exit(main())
