"""Many models of one experiment: on a GPU in stacks, on a CPU one in each process. The rows are the same.

An experiment is a list of cells and a `Study`, which says what a cell stands for. On a GPU the recordings are
simulated in processes, indexed once, and what has one shape trains as one stack; rows are kept as soon as they are
there, so that an interrupted run goes on with the cells that are missing.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from rich.console import Console

from ascribo.data.recording import Recording
from ascribo.model.fitted import FittedModel
from ascribo.model.fitting import Prepared, finish, prepare
from ascribo.spaces.base import Space
from ascribo.support.compute import one_thread, resolve_device
from ascribo.support.names import suggest
from ascribo.training.penalty import Schedule
from ascribo.training.settings import Settings
from ascribo.training.stacks import pack
from ascribo.training.train import train_many
from experiments.shared.rows import Row, machine, row_files, run_grid, summary, write_json

__all__ = ["TRAINING", "Cell", "Study", "experiment", "grid", "run", "run_cells", "settle", "summarise"]

Cell = Mapping[str, Any]
WORK = 4e9
"""Most references that one stack is trained on: about five minutes on a large GPU."""
RATE = 1e-3
"""Learning rate, as the estimator's."""
TRAINING = {"length": 100_000, "steps": 3_000, "batch": 512, "samples": 20_000, "costly": 2_000}
"""What cells share unless an experiment says otherwise: time steps of a recording, training steps and references in
each, and the time steps that maps are averaged over, by cheap methods and by costly ones."""


@dataclass(frozen=True)
class Study:
    """What the cells of an experiment stand for.

    recording, spaces, schedule : of a cell; the schedule is that of λ.
    together : (cells, recordings, models) of one stack -> what is best measured for all of them at once.
    score : (cell, recording, model, its part of the above) -> what is measured, fit for JSON. The model counts all
        spaces, collapsed or not; the row says which have.
    data : the keys of a cell that its recording depends on: cells that share them share the recording.
    one_scale : see `ascribo.model.fitting.prepare`.
    encoder : of a cell's spaces; the estimator's default if there is none.
    learning_rate, constant_rate : see `ascribo.training.settings.Settings`.
    """

    recording: Callable[[Cell], Recording]
    spaces: Callable[[Cell], Mapping[str, Space]]
    schedule: Callable[[Cell], Schedule]
    together: Callable[[Sequence[Cell], Sequence[Any], Sequence[FittedModel]], list[Any]]
    score: Callable[[Cell, Any, FittedModel, Any], Row]
    data: tuple[str, ...]
    one_scale: bool
    encoder: Callable[[Mapping[str, Space]], object] | None = None
    learning_rate: float = RATE
    constant_rate: bool = False

    def prepare(self, cell: Cell, recording: Recording) -> Prepared:
        """What a cell trains on. recording : its own."""
        spaces = self.spaces(cell)
        encoder = "mlp" if self.encoder is None else self.encoder(spaces)
        return prepare(recording, spaces, encoder=encoder, one_scale=self.one_scale)


def settle(*presets: Mapping[str, Any], **overrides: Any) -> dict[str, Any]:
    """A protocol: presets, later ones before earlier ones, and what the caller wants otherwise.

    >>> settle({"dims": [4, 6], "steps": 20_000}, {"dims": [4]}, steps=100)
    {'dims': [4], 'steps': 100}
    """
    plan = {key: value for preset in presets for key, value in preset.items()}
    for key in overrides:
        if key not in plan:
            raise ValueError(f"the protocol has no {key!r}{suggest(key, plan)}")
    return {k: v if isinstance(v, str | int | float) else list(v) for k, v in {**plan, **overrides}.items()}


def grid(plan: Mapping[str, Any], **axes: str) -> list[Cell]:
    """Cells for all combinations: key of the cell = list of the plan; and the lengths of `TRAINING`.

    >>> cells = grid({**TRAINING, "dims": [4, 5], "data_seeds": [0]}, dim="dims", data_seed="data_seeds")
    >>> [(cell["dim"], cell["data_seed"], cell["steps"]) for cell in cells]
    [(4, 0, 3000), (5, 0, 3000)]
    """
    fixed = {key: plan[key] for key in TRAINING if key not in axes}
    every = product(*(plan[name] for name in axes.values()))
    return [{**dict(zip(axes, values, strict=True)), **fixed} for values in every]


def summarise(rows: Sequence[Row], kind: str, by: Sequence[str], methods: Sequence[str] | None = None) -> list[Row]:
    """Mean auROC with its interval over the rows that share the values of `by`, for every method.

    kind : "entries" or "channels". Returns a dict for each: the values of `by`, method, kind, mean, min, ci95, n.
    """
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(key) for key in by), []).append(row)
    return [
        {
            **dict(zip(by, values, strict=True)),
            "method": method,
            "kind": kind,
            **summary([row[kind][method] for row in group], draws=1_000),
        }
        for values, group in groups.items()
        for method in (group[0][kind] if methods is None else methods)
        if method in group[0][kind]
    ]


def experiment(
    name: str,
    study: Study,
    full: Mapping[str, Any],
    brief: Mapping[str, Any],
    *,
    cells: Callable[[dict[str, Any]], Sequence[Cell]],
    protocol: Mapping[str, Any],
    conclude: Callable[[dict[str, Any], Path], dict[str, Any]],
    known: Callable[[Sequence[Cell], Path], Sequence[Row]] | None = None,
) -> Callable[..., dict[str, Any]]:
    """The `run` of an experiment.

    full, brief : its plan, and what the quick form has otherwise. cells : of a plan. protocol : what else there is
    to say of it. conclude : adds to the rows what follows from them, and publishes. known : see `run`; not asked
    for by a fresh run.
    """

    def whole(
        out: str | Path = "results",
        *,
        quick: bool = False,
        jobs: int = 1,
        fresh: bool = False,
        progress: bool = True,
        device: str = "auto",
        **overrides: Any,
    ) -> dict[str, Any]:
        plan, folder = settle(full, brief if quick else {}, **overrides), Path(out)
        wanted = cells(plan)
        result = run(
            *(name, study, wanted, folder),
            protocol={**plan, **protocol},
            known=[] if known is None or fresh else known(wanted, folder),
            **{"jobs": jobs, "fresh": fresh, "progress": progress, "device": device},
        )
        return conclude(result, folder)

    whole.__name__ = "run"
    whole.__doc__ = f"""Run the experiment; write `{name}.json` and its figure to `out`; return the former.

    quick : `QUICK` beside `FULL` says what is less. jobs : processes. device : "auto" is a GPU if there is one.
    fresh : do not go on from an interrupted run. overrides : other values for what is in `FULL`.
    """
    return whole


def run(
    name: str,
    study: Study,
    cells: Sequence[Cell],
    out: Path,
    *,
    protocol: Mapping[str, Any],
    jobs: int,
    fresh: bool,
    progress: bool,
    device: str,
    known: Sequence[Row] = (),
) -> dict[str, Any]:
    """Rows of all cells, and with them what every experiment's JSON begins with.

    known : rows of another experiment; a cell that one of them has all values of is not run again.
    """
    began, device = time.monotonic(), str(resolve_device(device))
    rows: list[Row | None] = [next((r for r in known if r.items() >= cell.items()), None) for cell in cells]
    missing = [k for k, row in enumerate(rows) if row is None]
    state = out / f".{name}"
    made, resumed = run_cells(
        *(study, [cells[k] for k in missing], state),
        **{"jobs": jobs, "fresh": fresh, "progress": progress, "device": device},
    )
    for k, row in zip(missing, made, strict=True):
        rows[k] = row
    done = [row for row in rows if row is not None]
    rate = {"learning_rate": study.learning_rate, "learning_rate_held": study.constant_rate}
    parts = dict.fromkeys(part for row in done for part in row["seconds"])
    seconds = {part: round(sum(row["seconds"].get(part, 0.0) for row in done), 1) for part in parts}
    return {
        "experiment": name,
        "protocol": {**protocol, **rate, "device": device, "jobs": jobs},
        "machine": machine(),
        "models": len(done),
        "seconds": {**seconds, "total": round(sum(seconds.values()), 1)},  # on a CPU of all processes together
        "elapsed": round(time.monotonic() - began, 1),
        "rows_of_an_interrupted_run": resumed,  # which the time elapsed does not count
        "rows_of_another_experiment": len(cells) - len(missing),  # nor these
        "rows": done,
    }


def run_cells(
    study: Study, cells: Sequence[Cell], state: Path, *, jobs: int, fresh: bool, progress: bool, device: str
) -> tuple[list[Row], int]:
    """A row for every cell, and how many of them were there before, in the folder `state`."""
    if torch.device(device).type == "cpu":
        task = partial(_one, study)
        return run_grid(task, cells, state, jobs=jobs, fresh=fresh, progress=progress, describe=_line)
    if fresh:
        shutil.rmtree(state, ignore_errors=True)
    return _in_stacks(study, cells, row_files(cells, state), jobs=jobs, progress=progress, device=device)


def _one(study: Study, /, **cell: Any) -> Row:
    """The row of one cell, on the CPU."""
    with one_thread():
        began = time.monotonic()
        data = study.recording(cell)
        simulated = time.monotonic()
        item = study.prepare(cell, data)
        spent = {"simulation": simulated - began, "preparation": time.monotonic() - simulated}
        return next(_rows(study, [cell], [item], [spent], device="cpu", progress=False))


def _in_stacks(
    study: Study, cells: Sequence[Cell], files: Sequence[Path], *, jobs: int, progress: bool, device: str
) -> tuple[list[Row], int]:
    """Simulate, pack, and train stack after stack what has no file yet."""
    tell = partial(Console(stderr=True, quiet=not progress).print, highlight=False, soft_wrap=True)
    waiting = [k for k, file in enumerate(files) if not file.exists()]
    began = time.monotonic()
    of_data = {k: json.dumps([cells[k].get(key) for key in study.data]) for k in waiting}
    distinct = {key: cells[k] for k, key in of_data.items()}
    made: Any = Parallel(n_jobs=jobs)(delayed(study.recording)(cell) for cell in distinct.values())
    data = dict(zip(distinct, made, strict=True))
    simulated = time.monotonic()
    tell(f"{len(data)} recordings in {simulated - began:.0f} s; {len(files) - len(waiting)} rows were there before")
    of_item = {k: (of_data[k], repr(study.spaces(cells[k]))) for k in waiting}
    first = {key: k for k, key in reversed(of_item.items())}
    # the same object for all cells that share it: on the device once. Threads: most of the work is numpy's
    prepared: Any = Parallel(n_jobs=jobs, prefer="threads")(
        delayed(study.prepare)(cells[k], data[key[0]]) for key, k in first.items()
    )
    items: dict[tuple, Prepared] = dict(zip(first, prepared, strict=True))
    each = max(1, len(waiting))
    spent = {"simulation": (simulated - began) / each, "preparation": (time.monotonic() - simulated) / each}
    stacks = _pack(cells, waiting, {k: items[key] for k, key in of_item.items()})
    for number, members in enumerate(stacks, 1):
        tell(f"stack {number} of {len(stacks)}: {len(members)} models; finished rows are kept")
        began = time.monotonic()
        chosen = [items[of_item[k]] for k in members]
        rows = _rows(
            *(study, [cells[k] for k in members], chosen, [spent] * len(members)), device=device, progress=progress
        )
        for k, row in zip(members, rows, strict=True):
            write_json(files[k], row)
        tell(f"stack {number} of {len(stacks)}: {time.monotonic() - began:.0f} s")
    return [json.loads(file.read_text()) for file in files], len(files) - len(waiting)


def _pack(cells: Sequence[Cell], waiting: Sequence[int], items: Mapping[int, Prepared]) -> list[list[int]]:
    """Numbers of the cells that train together; no stack takes much longer than five minutes."""
    groups: dict[tuple[int, int], list[int]] = {}
    for k in waiting:
        groups.setdefault((cells[k]["steps"], cells[k]["batch"]), []).append(k)
    stacks = []
    for (steps, batch), group in groups.items():
        most = max(1, int(WORK / (steps * batch)))
        for members in pack([items[k].problem for k in group], batch):
            parts = np.array_split([group[m] for m in members], -(-len(members) // most))
            stacks += [part.tolist() for part in parts]
    return stacks


def _rows(
    study: Study,
    cells: Sequence[Cell],
    items: Sequence[Prepared],
    spent: Sequence[Mapping[str, float]],
    *,
    device: str,
    progress: bool,
) -> Iterator[Row]:
    """Train the models of some cells, all of one shape and length of training; a row as soon as it is scored.

    spent : for each cell the seconds it took before.
    """
    began = time.monotonic()
    settings = Settings(
        cells[0]["steps"],
        cells[0]["batch"],
        study.learning_rate,
        study.schedule(cells[0]),
        device=device,
        constant_rate=study.constant_rate,
    )
    seeds = [cell["data_seed"] for cell in cells]
    schedules = [study.schedule(cell) for cell in cells]
    trained = train_many([i.problem for i in items], seeds, settings, schedules=schedules, progress=progress)
    ended = time.monotonic()
    fitted = finish(
        *(items, [one.parameters for one in trained], [[seed] for seed in seeds]),
        batch_size=settings.batch_size,
        decoder_steps=settings.decoder_steps,
        device=device,
        progress=progress,
    )
    models = [replace(model, usable=np.ones_like(model.usable)).to(device) for model, _ in fitted]
    common = study.together(cells, [item.recording for item in items], models)
    decoded = time.monotonic()
    shares = {"training": (ended - began) / len(cells), "decoders": (decoded - ended) / len(cells)}
    for k, (cell, (_, fit)) in enumerate(zip(cells, fitted, strict=True)):
        started = time.monotonic()
        measured = study.score(cell, items[k].recording, models[k], common[k])
        seconds = {**spent[k], **shares, "maps": time.monotonic() - started}
        yield {
            **cell,
            **measured,
            "lambda": float(trained[k].history["lambda"][-1, 0]),
            "bits": {name: round(float(bits), 4) for name, bits in zip(fit.spaces, fit.bits[0], strict=True)},
            "collapsed": [name for name, gone in zip(fit.spaces, fit.collapsed[0], strict=True) if gone],
            "seconds": {part: round(value, 3) for part, value in seconds.items()},
        }


def _line(row: Row) -> str:
    """A finished cell in one line: what it is, and its scores."""
    names = ("mode", "penalty", "dim", "snr", "length", "scale", "data_seed")
    cell = ", ".join(f"{key} {row[key]}" for key in names if row.get(key) is not None)
    shown = {"entries": "inverted_neuron_gradient", "channels": "generative_gradient"}
    scores = [f"{m.split('_')[0]} {row[kind][m]:.3f}" for kind, m in shown.items() if m in row.get(kind, {})]
    return f"{cell}: {', '.join(scores)} ({sum(row['seconds'].values()):.0f} s)"
