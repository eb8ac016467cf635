"""Which models train together as one stack.

Models can share a stack if their parameters have the same shapes and their batches the same rows: seeds, shuffles,
data sets, penalties. Models that cannot, such as other training modes or other dimensions, go into stacks of their
own. A GPU takes as many as fit into its memory; a CPU gains nothing from many, and takes those of one recording.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..support.compute import device_memory, resolve_device
from .penalty_weight import Schedule
from .training_problem import Problem

__all__ = ["pack", "pack_on_host"]

MOST_ON_HOST = 10
"""Models in one stack on a CPU. More would not fit into its cache: 40 took 2.5 times as long a model as 10."""


def pack(problems: Sequence[Problem], batch_size: int, memory: float | None = None) -> list[list[int]]:
    """Numbers of the problems that train together on a GPU, a list for each stack.

    memory : bytes one stack may take on the device; None: half of the GPU's, or of the machine's without one.
    """
    if memory is None:
        memory = (device_memory(resolve_device("auto")) or float("inf")) / 2
    groups: dict[str, list[int]] = {}
    for number, problem in enumerate(problems):
        groups.setdefault(_shape(problem), []).append(number)
    stacks = []
    for members in groups.values():
        fit = memory / max(_bytes(problems[k], batch_size) for k in members)
        most = max(1, int(min(len(members), fit)))
        stacks += [members[k : k + most] for k in range(0, len(members), most)]
    return stacks


def pack_on_host(problems: Sequence[Problem], schedules: Sequence[Schedule], jobs: int) -> list[list[int]]:
    """Numbers of the problems that train together on a CPU: they have one recording and one schedule of λ.

    jobs : processes that there are; what belongs together is divided so that all of them have work.
    """
    groups: dict[tuple, list[int]] = {}
    for number, (problem, schedule) in enumerate(zip(problems, schedules, strict=True)):
        key = (id(problem.X), id(problem.segments), id(schedule), _shape(problem))
        groups.setdefault(key, []).append(number)
    each = -(-jobs // max(1, len(groups)))
    return [
        part.tolist()
        for members in groups.values()
        for part in np.array_split(members, min(len(members), max(each, -(-len(members) // MOST_ON_HOST))))
    ]


def _shape(problem: Problem) -> str:
    """What models of one stack must have in common."""
    shapes = [(name, tuple(value.shape)) for name, value in problem.module.named_parameters()]
    return repr((shapes, dict(problem.spaces), list(problem.objectives), problem.pairs.rows))


def _bytes(problem: Problem, batch_size: int) -> float:
    """An upper estimate of what one model takes: its recording, and ten copies of its activations."""
    widths = sum(value.shape[0] for value in problem.module.parameters() if value.ndim > 1)
    rows = batch_size * (1 + len(problem.pairs.uniform) + len(problem.pairs.positive))
    return 4 * (2 * problem.X.numel() + 10 * rows * (widths + problem.X.shape[1]))
