"""Many models of many recordings in as few stacks as possible.

Models can share a stack if their parameters have the same shapes and their batches the same rows: seeds, shuffles,
data sets, penalties. Models that cannot, such as other training modes or other dimensions, go into stacks of their
own; a stack that would not fit into memory is split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from .graphs import GraphSteps
from .loop import Trained, run_steps
from .penalty import Each, Schedule
from .problem import Problem
from .settings import Settings

__all__ = ["pack", "train_stack"]


def pack(problems: Sequence[Problem], batch_size: int, memory: float | None = None) -> list[list[int]]:
    """Numbers of the problems that train together, a list for each stack.

    memory : bytes one stack may take on the device; None: half of the GPU's, or no bound without one.
    """
    if memory is None:
        cuda = torch.cuda.is_available()
        memory = torch.cuda.get_device_properties(0).total_memory / 2 if cuda else float("inf")
    groups: dict[str, list[int]] = {}
    for number, problem in enumerate(problems):
        shapes = [(name, tuple(value.shape)) for name, value in problem.module.named_parameters()]
        key = repr((shapes, dict(problem.spaces), list(problem.objectives), problem.pairs.rows))
        groups.setdefault(key, []).append(number)
    stacks = []
    for members in groups.values():
        fit = memory / max(_bytes(problems[k], batch_size) for k in members)
        most = max(1, int(min(len(members), fit)))
        stacks += [members[k : k + most] for k in range(0, len(members), most)]
    return stacks


def _bytes(problem: Problem, batch_size: int) -> float:
    """An upper estimate of what one model takes: its recording, and ten copies of its activations."""
    widths = sum(value.shape[0] for value in problem.module.parameters() if value.ndim > 1)
    rows = batch_size * (1 + len(problem.pairs.uniform) + len(problem.pairs.positive))
    return 4 * (2 * problem.X.numel() + 10 * rows * (widths + problem.X.shape[1]))


def train_stack(
    problems: Sequence[Problem],
    seeds: Sequence[int],
    schedules: Sequence[Schedule],
    settings: Settings,
    *,
    progress: bool = True,
) -> Trained:
    """Train one model per problem as one stack; each has its seed and its own schedule of λ.

    A problem that occurs several times, as the same object, is on the device once.
    """
    distinct = list({id(problem): problem for problem in problems}.values())
    place = {id(problem): k for k, problem in enumerate(distinct)}
    settings = replace(settings, schedule=Each(tuple(schedules)))
    engine = GraphSteps(distinct, [place[id(problem)] for problem in problems], seeds, settings)
    return run_steps(engine, problems[0].objectives, len(seeds), settings, "", progress, None)
