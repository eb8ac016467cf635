"""Many models of one experiment: on a GPU in stacks, on a CPU one in each process. The rows are the same.

An experiment is a list of cases and a `Study`, which says what a case stands for. On a GPU the recordings are
simulated in processes, indexed once, and what has one shape trains as one stack; rows are kept as soon as they are
there, so that an interrupted run goes on with the cases that are missing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

from ascribo.data.recording import Recording
from ascribo.model.fitted import FittedModel
from ascribo.model.fitting import Prepared, finish, prepare
from ascribo.spaces.base import Space
from ascribo.support.compute import one_thread
from ascribo.support.progress import say
from ascribo.training.dispatch import train_many
from ascribo.training.penalty_weight import Schedule
from ascribo.training.settings import Settings
from ascribo.training.stack_packing import pack
from experiments.shared import runner
from experiments.shared.rows import Case, Row, compute_rows, read_row, row_files, start_over, write_row
from experiments.shared.runner import Plan

__all__ = ["TRAINING", "Study", "compute_study_rows", "experiment"]

WORK = 4e9
"""Most references that one stack is trained on: about five minutes on a large GPU."""
RATE = 1e-3
"""Learning rate, as the estimator's."""
TRAINING = {"length": 100_000, "steps": 3_000, "batch": 512, "samples": 20_000, "costly": 2_000}
"""What cases share unless an experiment says otherwise: time steps of a recording, training steps and references in
each, and the time steps that maps are averaged over, by cheap methods and by costly ones."""


@dataclass(frozen=True)
class Study:
    """What the cases of an experiment stand for.

    recording, spaces, schedule : of a case; the schedule is that of λ.
    together : (cases, recordings, models) of one stack -> what is best measured for all of them at once.
    score : (case, recording, model, its part of the above) -> what is measured, fit for JSON. The model uses all
        spaces, collapsed or not; the row says which have collapsed.
    data : the keys of a case that its recording depends on: cases that share them share the recording.
    one_scale : see `ascribo.model.fitting.prepare`.
    encoder : of a case's spaces; the estimator's default if there is none.
    learning_rate, constant_rate : see `ascribo.training.settings.Settings`.
    """

    recording: Callable[[Case], Recording]
    spaces: Callable[[Case], Mapping[str, Space]]
    schedule: Callable[[Case], Schedule]
    together: Callable[[Sequence[Case], Sequence[Any], Sequence[FittedModel]], list[Any]]
    score: Callable[[Case, Any, FittedModel, Any], Row]
    data: tuple[str, ...]
    one_scale: bool
    encoder: Callable[[Mapping[str, Space]], object] | None = None
    learning_rate: float = RATE
    constant_rate: bool = False

    def prepare(self, case: Case, recording: Recording) -> Prepared:
        """What a case trains on. recording : its own."""
        spaces = self.spaces(case)
        encoder = "mlp" if self.encoder is None else self.encoder(spaces)
        hybrid = case.get("hybrid", "whole")
        return prepare(recording, spaces, encoder=encoder, hybrid=hybrid, one_scale=self.one_scale)


def experiment(
    name: str,
    study: Study,
    full: Mapping[str, Any],
    quick: Mapping[str, Any],
    *,
    cases: Callable[[Plan], Sequence[Case]],
    protocol: Mapping[str, Any],
    conclude: Callable[[dict[str, Any]], dict[str, Any]],
    draw: Callable[[dict[str, Any]], Any],
    known: Callable[[Sequence[Case], Path], Sequence[Row]] | None = None,
) -> Callable[..., dict[str, Any]]:
    """The `run` of an experiment whose rows are those of a study: see `runner.experiment`."""

    def rows(cases: Sequence[Case], state: Path, /, **how: Any) -> tuple[list[Row], int]:
        return compute_study_rows(study, cases, state, **how)

    rate = {"learning_rate": study.learning_rate, "learning_rate_held": study.constant_rate}
    return runner.experiment(
        *(name, full, quick),
        cases=cases,
        rows=rows,
        conclude=lambda result: conclude(_with_times(result)),
        draw=draw,
        protocol={**protocol, **rate},
        known=known,
    )


def _with_times(result: dict[str, Any]) -> dict[str, Any]:
    """The result with the seconds of each part of the work, on a CPU those of all processes together."""
    parts = dict.fromkeys(part for row in result["rows"] for part in row["seconds"])
    seconds = {part: round(sum(row["seconds"].get(part, 0.0) for row in result["rows"]), 1) for part in parts}
    times = {"seconds": {**seconds, "total": round(sum(seconds.values()), 1)}, "elapsed": result["seconds"]}
    return {**result, "models": len(result["rows"]), **times}


def compute_study_rows(
    study: Study, cases: Sequence[Case], state: Path, *, device: str, **how: Any
) -> tuple[list[Row], int]:
    """A row for every case, and how many of them were there before, in the folder `state`. Workers of a cluster
    compute on the CPU. how : see `runner.RowMaker`."""
    if "scheduler" in how or torch.device(device).type == "cpu":
        return compute_rows(partial(_one, study), cases, state, describe=_line, **how)
    if how.pop("fresh"):
        start_over(state)
    return _in_stacks(study, cases, row_files(cases, state), device=device, **how)


def _one(study: Study, /, **case: Any) -> Row:
    """The row of one case, on the CPU."""
    with one_thread():
        began = time.monotonic()
        data = study.recording(case)
        simulated = time.monotonic()
        item = study.prepare(case, data)
        spent = {"simulation": simulated - began, "preparation": time.monotonic() - simulated}
        return next(_rows(study, [case], [item], [spent], device="cpu", progress=False))


def _in_stacks(
    study: Study, cases: Sequence[Case], files: Sequence[Path], *, jobs: int, progress: bool, device: str
) -> tuple[list[Row], int]:
    """Simulate recordings, and train stack after stack the models of cases that have no row yet."""
    tell = partial(say, enabled=progress)
    done = [read_row(file) for file in files]
    waiting = [k for k, row in enumerate(done) if row is None]
    began = time.monotonic()
    of_data = {k: json.dumps([cases[k].get(key) for key in study.data]) for k in waiting}
    distinct = {key: cases[k] for k, key in of_data.items()}
    made: Any = Parallel(n_jobs=jobs)(delayed(study.recording)(case) for case in distinct.values())
    data = dict(zip(distinct, made, strict=True))
    simulated = time.monotonic()
    tell(f"{len(data)} recordings in {simulated - began:.0f} s; {len(files) - len(waiting)} rows were there before")
    of_item = {k: (of_data[k], repr(study.spaces(cases[k])), cases[k].get("hybrid")) for k in waiting}
    first = {key: k for k, key in reversed(of_item.items())}
    # the same object for all cases that share it: on the device once. Threads: most of the work is numpy's
    prepared: Any = Parallel(n_jobs=jobs, prefer="threads")(
        delayed(study.prepare)(cases[k], data[key[0]]) for key, k in first.items()
    )
    items: dict[tuple, Prepared] = dict(zip(first, prepared, strict=True))
    each = max(1, len(waiting))
    spent = {"simulation": (simulated - began) / each, "preparation": (time.monotonic() - simulated) / each}
    stacks = _pack(cases, waiting, {k: items[key] for k, key in of_item.items()})
    for number, members in enumerate(stacks, 1):
        tell(f"stack {number} of {len(stacks)}: {len(members)} models; finished rows are kept")
        began = time.monotonic()
        chosen = [items[of_item[k]] for k in members]
        rows = _rows(
            *(study, [cases[k] for k in members], chosen, [spent] * len(members)), device=device, progress=progress
        )
        for k, row in zip(members, rows, strict=True):
            done[k] = write_row(files[k], row)
        tell(f"stack {number} of {len(stacks)}: {time.monotonic() - began:.0f} s")
    return [row for row in done if row is not None], len(files) - len(waiting)


def _pack(cases: Sequence[Case], waiting: Sequence[int], items: Mapping[int, Prepared]) -> list[list[int]]:
    """Numbers of the cases that train together; no stack takes much longer than five minutes."""
    groups: dict[tuple[int, int], list[int]] = {}
    for k in waiting:
        groups.setdefault((cases[k]["steps"], cases[k]["batch"]), []).append(k)
    stacks = []
    for (steps, batch), group in groups.items():
        most = max(1, int(WORK / (steps * batch)))
        for members in pack([items[k].problem for k in group], batch):
            parts = np.array_split([group[m] for m in members], -(-len(members) // most))
            stacks += [part.tolist() for part in parts]
    return stacks


def _rows(
    study: Study,
    cases: Sequence[Case],
    items: Sequence[Prepared],
    spent: Sequence[Mapping[str, float]],
    *,
    device: str,
    progress: bool,
) -> Iterator[Row]:
    """Train the models of some cases, all of one shape and length of training; a row as soon as it is scored.

    spent : for each case the seconds it took before.
    """
    began = time.monotonic()
    settings = Settings(
        cases[0]["steps"],
        cases[0]["batch"],
        study.learning_rate,
        study.schedule(cases[0]),
        device=device,
        constant_rate=study.constant_rate,
    )
    seeds = [case["data_seed"] for case in cases]
    schedules = [study.schedule(case) for case in cases]
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
    common = study.together(cases, [item.recording for item in items], models)
    decoded = time.monotonic()
    shares = {"training": (ended - began) / len(cases), "decoders": (decoded - ended) / len(cases)}
    for k, (case, (_, fit)) in enumerate(zip(cases, fitted, strict=True)):
        started = time.monotonic()
        measured = study.score(case, items[k].recording, models[k], common[k])
        seconds = {**spent[k], **shares, "maps": time.monotonic() - started}
        yield {
            **case,
            **measured,
            "lambda": float(trained[k].history["lambda"][-1, 0]),
            "bits": {name: round(float(bits), 4) for name, bits in zip(fit.spaces, fit.bits[0], strict=True)},
            "collapsed": [name for name, gone in zip(fit.spaces, fit.collapsed[0], strict=True) if gone],
            "seconds": {part: round(value, 3) for part, value in seconds.items()},
        }


def _line(row: Row) -> str:
    """A finished case in one line: what it is, and its scores."""
    names = ("mode", "penalty", "dim", "snr", "length", "scale", "data_seed")
    case = ", ".join(f"{key} {row[key]}" for key in names if row.get(key) is not None)
    shown = {"entries": "inverted_neuron_gradient", "channels": "generative_gradient"}
    scored = {m: row[kind] for kind, m in shown.items() if isinstance(row.get(kind), dict)}
    scores = [f"{m.split('_')[0]} {own[m]:.3f}" for m, own in scored.items() if m in own]
    return f"{': '.join(filter(None, [case, ', '.join(scores)]))} ({sum(row['seconds'].values()):.0f} s)"
