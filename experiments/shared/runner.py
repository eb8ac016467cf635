"""The runner of every experiment: a plan, its cases, their rows, what follows from them, and the files they end in.

An experiment says what it does in a few functions and numbers, and `experiment` makes its `run` of them:

    FULL = {"dims": range(4, 10), "data_seeds": range(10), "steps": 3_000}     # the plan
    QUICK = {"dims": (4,), "data_seeds": range(2)}                             # what its short form has otherwise

    run = experiment(
        "name", FULL, QUICK, cases=cases, rows=one_by_one(measure), conclude=conclude, draw=draw, protocol={...}
    )

`run` writes name.json and name.png. The JSON holds: experiment, protocol (the plan, and in words what else there is
to say), machine, code (version and digest of the source), seconds, rows, and what `conclude` adds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

from ascribo.support.compute import resolve_device
from ascribo.support.files import only_writer
from ascribo.support.names import suggest
from ascribo.support.progress import say
from experiments.shared.results import code, finished, machine, publish
from experiments.shared.rows import Case, Row, compute_rows, start_over

__all__ = ["Plan", "RowMaker", "combinations", "experiment", "make_plan", "one_by_one"]

Plan = dict[str, Any]
"""All numbers of a protocol, fit for JSON; `plan["device"]` is where it runs."""
Result = dict[str, Any]


RowMaker = Callable[..., tuple[list[Row], int]]
"""Makes a row for each case: the rows, and how many of them an interrupted run had left in a folder.

It takes the cases and the folder, and by name jobs (int), fresh, progress (bool) and device (str). If workers of a
Dask cluster are to compute the rows it is told their scheduler (str), unless it is `in_one_process`."""


def experiment(
    name: str,
    full: Mapping[str, Any],
    quick: Mapping[str, Any],
    *,
    cases: Callable[[Plan], Sequence[Case]],
    rows: RowMaker,
    draw: Callable[[Result], Any],
    protocol: Mapping[str, Any] | Callable[[Plan], Mapping[str, Any]],
    conclude: Callable[[Result], Result] | None = None,
    known: Callable[[Sequence[Case], Path], Sequence[Row]] | None = None,
    cpu_only: bool = False,
    in_one_process: bool = False,
) -> Callable[..., Result]:
    """The `run` of an experiment.

    Parameters
    ----------
    name : of the experiment and of its files, as it is registered in `experiments.EXPERIMENTS`.
    full, quick : the plan, and what its short form has otherwise.
    cases : plan -> cases.
    rows : how the rows of cases are made: `one_by_one(task)`, or another `RowMaker`.
    draw : result -> the axes of its figure.
    protocol : what else is to be said of the protocol, or a function of the plan that says it.
    conclude : the result with its rows -> the result with what follows from them. It draws nothing and writes
        nothing, so that rows of another machine can be concluded here. None: nothing follows.
    known : cases, folder -> rows of another experiment in that folder. A case whose values one of them has is not
        run again. A fresh run does not ask for them.
    cpu_only : the experiment measures one CPU thread, and runs nowhere else.
    in_one_process : its rows are made one after the other by one process, and by no cluster.
    """

    def run(
        out: str | Path = "results",
        *,
        quick: bool = False,
        jobs: int = 1,
        scheduler: str | None = None,
        fresh: bool = False,
        progress: bool = True,
        device: str = "auto",
        **overrides: Any,
    ) -> Result:
        began, folder = time.monotonic(), Path(out)
        if scheduler is not None and in_one_process:
            raise ValueError(f"scheduler={scheduler!r}: {name} is computed by one process; run it without.")
        plan = make_plan(full, short if quick else {}, **overrides)
        plan["device"] = _device(name, device, cpu_only)
        said = protocol(plan) if callable(protocol) else protocol
        head = {"experiment": name, "protocol": {**plan, **said, "jobs": jobs}}
        with _one_at_a_time(folder / f".{name}") as state:
            if not fresh and (before := finished(name, folder, head["protocol"])) is not None:
                say(f"{name}: taken as it was finished by this code with this plan (--fresh starts over)", progress)
                return publish(name, folder, before, draw)
            wanted = cases(plan)
            there = [] if known is None or fresh else known(wanted, folder)
            found = [next((row for row in there if row.items() >= case.items()), None) for case in wanted]
            missing = [k for k, row in enumerate(found) if row is None]
            how = {"jobs": jobs, "fresh": fresh, "progress": progress, "device": plan["device"]}
            on_cluster = {} if scheduler is None else {"scheduler": scheduler}
            made, resumed = rows([wanted[k] for k in missing], state, **how, **on_cluster)
            for k, row in zip(missing, made, strict=True):
                found[k] = row
            result = {
                **head,
                "machine": machine(),
                "code": code(),
                "seconds": round(time.monotonic() - began, 1),
                "rows_of_an_interrupted_run": resumed,  # which those seconds do not count
                "rows_of_another_experiment": len(wanted) - len(missing),  # nor these
                "rows": found,
            }
            return publish(name, folder, result if conclude is None else conclude(result), draw)

    short = quick
    run.__doc__ = f"""Run the experiment; write `{name}.json` and `{name}.png` to `out`; return what the JSON holds.

    quick : its short form: `QUICK` beside `FULL` says what is less. jobs : processes. scheduler : address of a Dask
    scheduler, whose workers compute the rows instead. device : "auto" is a GPU if there is one. fresh : start over,
    whatever an earlier run has left or finished. overrides : other values for what is in `FULL`.
    """
    return run


@contextmanager
def _one_at_a_time(state: Path) -> Iterator[Path]:
    """The folder that an experiment keeps its rows in, with one writer; removed when the experiment is over."""
    try:
        with only_writer(state):
            yield state
            start_over(state)
    finally:
        with suppress(OSError):  # rows are kept, or somebody else has begun
            state.rmdir()


def one_by_one(task: Callable[..., Row], describe: Callable[[Row], str] = str) -> RowMaker:
    """Rows by `task(**case)`, in processes: see `compute_rows`. Cases that depend on the device hold it."""

    def make(cases: Sequence[Case], state: Path, /, *, device: str, **how: Any) -> tuple[list[Row], int]:
        return compute_rows(task, cases, state, describe=describe, **how)

    return make


def make_plan(*presets: Mapping[str, Any], **overrides: Any) -> Plan:
    """Presets, later ones before earlier ones, and what the caller wants otherwise; fit for JSON.

    >>> make_plan({"dims": range(4, 7), "steps": 20_000}, {"dims": [4]}, steps=100)
    {'dims': [4], 'steps': 100}
    """
    plan = {key: value for preset in presets for key, value in preset.items()}
    for key in overrides:
        if key not in plan:
            raise ValueError(f"the protocol has no {key!r}{suggest(key, plan)}")
    return {key: _plain(value) for key, value in {**plan, **overrides}.items()}


def combinations(plan: Mapping[str, Any], shared: Iterable[str] = (), **axes: str) -> list[Case]:
    """Cases for all combinations: key of the case = list of the plan; and the values of the plan they share.

    >>> combinations({"dims": [4, 5], "data_seeds": [0], "steps": 9}, ["steps"], dim="dims", data_seed="data_seeds")
    [{'dim': 4, 'data_seed': 0, 'steps': 9}, {'dim': 5, 'data_seed': 0, 'steps': 9}]
    """
    fixed = {key: plan[key] for key in shared if key not in axes}
    every = product(*(plan[name] for name in axes.values()))
    return [{**dict(zip(axes, values, strict=True)), **fixed} for values in every]


def _device(name: str, device: str, cpu_only: bool) -> str:
    if cpu_only and device not in ("auto", "cpu"):
        raise ValueError(f"device={device!r}: {name} measures one CPU thread; expected 'auto' or 'cpu'.")
    return "cpu" if cpu_only else str(resolve_device(device))


def _plain(value: Any) -> Any:
    """The same for JSON: ranges and tuples as lists."""
    if isinstance(value, Mapping):
        return {key: _plain(own) for key, own in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    return [_plain(own) for own in value]
