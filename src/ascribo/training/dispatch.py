"""Where and how models are trained: the one place that chooses between CPU and GPU, stacks and processes.

On a GPU models are trained in this process, in as few stacks as its memory allows, their steps captured as CUDA
graphs. On a CPU a step is one operation after the other on one thread, and stacks are spread over processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from joblib import effective_n_jobs

from ..support.compute import in_processes, one_thread
from .batch_source import DeviceSource, Source
from .checkpoints import checkpoint_file
from .data_parallel import SharedBatches, ranks
from .early_stopping import Watch, watch_held_out
from .interruption import Interrupted, stops_cleanly
from .loop import Trained, run_steps
from .penalty_weight import Each, Schedule
from .recording_batches import RecordingSource
from .settings import Settings
from .stack_packing import pack, pack_on_host
from .steps import Steps
from .steps_cuda_graph import GraphSteps
from .steps_eager import EagerSteps
from .training_problem import Problem

__all__ = ["side_by_side", "train", "train_many", "train_source"]

WORTH_PROCESSES = 5e5
"""References to train on, of all seeds and steps, from which on it is worth to start processes: some seconds'
work."""
Work = tuple[Sequence[Problem], Sequence[int], Settings, Path | None]
"""A stack to train: for each model its problem and its seed; how; and a file to keep the state in."""


def train(
    problem: Problem,
    seeds: Sequence[int],
    settings: Settings,
    *,
    n_jobs: int | None = None,
    progress: bool = True,
    checkpoint: Path | None = None,
) -> Trained:
    """Train one model per seed on one problem.

    n_jobs : processes over which the seeds are spread on a CPU (None: one for each core if there is work for more
        than a few seconds; -1: one for each core). Each seed is trained on its own there, which costs no more than
        in a stack, so that none depends on the others or on the number of processes.
    checkpoint : a folder for a file per stack (`checkpoint_file`), from which an interrupted run goes on, also with
        another number of processes; they are left there at the end.
    """
    work = len(seeds) * settings.steps * settings.batch_size * (1 + problem.X.shape[1] / 200)
    jobs = -1 if n_jobs is None and work > WORTH_PROCESSES else n_jobs
    processes = min(_processes(jobs, settings), len(seeds)) if ranks() == 1 else 1
    on_host = torch.device(settings.device).type == "cpu"
    shares = [[int(seed)] for seed in seeds] if on_host else [list(seeds)]
    files = [None if checkpoint is None else checkpoint_file(checkpoint, own) for own in shares]
    stacks = [([problem] * len(own), own, settings, file) for own, file in zip(shares, files, strict=True)]
    # the problem is sent to each process once
    parts = [[stacks[k] for k in part] for part in np.array_split(np.arange(len(stacks)), processes)]
    return side_by_side([trained for part in _in_processes(parts, processes, progress) for trained in part])


def train_many(
    problems: Sequence[Problem],
    seeds: Sequence[int],
    settings: Settings,
    *,
    schedules: Sequence[Schedule] | None = None,
    n_jobs: int | None = None,
    progress: bool = True,
) -> list[Trained]:
    """Train one model for each of many problems, in stacks.

    schedules : for each model its schedule of λ; None: that of the settings for all.
    n_jobs : processes over which the stacks are spread on a CPU (None: 1; -1: one for each core).

    Returns what was trained for each problem, with one model in it.
    """
    plans = [settings.schedule] * len(problems) if schedules is None else list(schedules)
    jobs = _processes(n_jobs, settings)
    graphs = _as_graphs(torch.device(settings.device))
    stacks = pack(problems, settings.batch_size) if graphs else pack_on_host(problems, plans, jobs)
    work: list[Work] = []
    for members in stacks:
        own = [plans[k] for k in members]
        plan = replace(settings, schedule=Each(tuple(own)) if graphs else own[0])
        work.append(([problems[k] for k in members], [seeds[k] for k in members], plan, None))
    trained: dict[int, Trained] = {}
    done = _in_processes([[each] for each in work], jobs, progress)
    for members, (stack,) in zip(stacks, done, strict=True):
        for place, number in enumerate(members):
            trained[number] = _model(stack, place)
    return [trained[number] for number in range(len(problems))]


def train_source(
    source: Source,
    settings: Settings,
    *,
    progress: bool = True,
    checkpoint: Path | None = None,
    watch: Watch | None = None,
    rounds: tuple[int, int] = (1, 1),
) -> Trained:
    """Train the stack of models of a source, in this process.

    watch, rounds : see `run_steps`. checkpoint : a file to write the state to every ten seconds, and to go on from
    if it is there.
    """
    with one_thread():
        steps = take_steps(source, settings)
        return run_steps(steps, progress=progress, checkpoint=checkpoint, watch=watch, rounds=rounds)


def take_steps(source: Source, settings: Settings) -> Steps:
    """How to take training steps on a source: as CUDA graphs where that can be done, else one by one."""
    if _as_graphs(source.device) and isinstance(source, DeviceSource) and ranks() == 1:
        return GraphSteps(source, settings)
    return EagerSteps(source, settings)


def _as_graphs(device: torch.device) -> bool:
    """Whether to train as CUDA graphs, many recordings in one stack."""
    return device.type == "cuda"


def _processes(n_jobs: int | None, settings: Settings) -> int:
    """How many processes there are to work with: one, unless the models are trained on a CPU."""
    on_host = torch.device(settings.device).type == "cpu"
    return effective_n_jobs(n_jobs) if on_host and n_jobs is not None else 1


def _in_processes(parts: Sequence[Sequence[Work]], processes: int, progress: bool) -> list[list[Trained]]:
    """All stacks, spread over processes, those of a part one after the other. Parts advance side by side, so only
    the first shows its bars."""
    workers = min(processes, len(parts))
    if workers <= 1:
        each = iter(_train_in_rounds([stack for part in parts for stack in part], progress))
        return [[next(each) for _ in part] for part in parts]
    folder = next((file.parent for part in parts for *_, file in part if file is not None), None)
    with stops_cleanly(folder):
        found = in_processes(
            _train_in_worker, [(part, progress and number == 0) for number, part in enumerate(parts)], workers
        )
    done = [part for part in found if part is not None]
    if folder is not None and len(done) < len(parts):
        raise Interrupted.kept_in(folder, "")
    return done


def _train_in_worker(part: Sequence[Work], progress: bool) -> list[Trained] | None:
    """None if it was interrupted: an exception would end the other workers before they have kept their state."""
    try:
        return _train_in_rounds(part, progress)
    except Interrupted:
        return None


def _train_in_rounds(stacks: Sequence[Work], progress: bool) -> list[Trained]:
    """One stack after the other; the bars say which."""
    return [_train_stack(*stack, progress, (number, len(stacks))) for number, stack in enumerate(stacks, 1)]


def _train_stack(
    problems: Sequence[Problem],
    seeds: Sequence[int],
    settings: Settings,
    checkpoint: Path | None,
    progress: bool,
    rounds: tuple[int, int],
) -> Trained:
    batches = RecordingSource if ranks() == 1 else SharedBatches
    source = batches(problems, seeds, device=settings.device, exact_penalty=settings.exact_penalty)
    watch = None
    if all(problem is problems[0] for problem in problems):
        watch = watch_held_out(problems[0], list(seeds), settings.device, settings.batch_size)
    return train_source(source, settings, progress=progress, checkpoint=checkpoint, watch=watch, rounds=rounds)


def side_by_side(parts: Sequence[Trained]) -> Trained:
    """One stack of what was trained apart; curves that stopped early are filled up with NaN."""
    longest = max(len(part.history["lambda"]) for part in parts)
    history = {
        name: np.concatenate([_padded(part.history[name], longest) for part in parts], axis=1)
        for name in parts[0].history
    }
    parameters = {name: torch.cat([part.parameters[name] for part in parts]) for name in parts[0].parameters}
    return Trained(parameters, history, tuple(why for part in parts for why in part.ended))


def _padded(curve: np.ndarray, length: int) -> np.ndarray:
    out = np.full((length, *curve.shape[1:]), np.nan)
    out[: len(curve)] = curve
    return out


def _model(stack: Trained, place: int) -> Trained:
    """One model of a stack."""
    own = slice(place, place + 1)
    return Trained(
        {name: value[own] for name, value in stack.parameters.items()},
        {name: value[:, own] for name, value in stack.history.items()},
        stack.ended[own],
    )
