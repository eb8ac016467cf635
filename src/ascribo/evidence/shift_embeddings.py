"""Embeddings under shifts: has an embedding more bits than those that were trained with shifted variables?

Each copy has pairs of its own, and a model that is trained with them; the held-out time steps are the same in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ..data.recording import Recording
from ..model.estimator import ContrastiveEmbedding
from ..model.fitting import prepare
from ..model.goodness_of_fit import TEMPERATURES, block_interval, goodness_of_fit
from ..networks.model_stack import Embedder
from ..spaces.base import Space
from ..spaces.pairs import Pairs
from ..spaces.positives import CircularShift, Positives
from ..training.dispatch import train_many
from ..training.settings import Settings
from ..training.training_problem import Problem
from .shift_decoders import Scores

__all__ = ["Task", "bits_under_shifts", "prepare_task", "shifted_pairs", "train_tasks"]


@dataclass(frozen=True)
class Task:
    """All models of one recording: the real one first, then those of the copies.

    null : for each space that is tested, the positions of the copies it is compared with.
    """

    problems: list[Problem]
    seeds: list[int]
    validation_pairs: list[Pairs]
    validation_segments: np.ndarray
    null: dict[str, slice]


def prepare_task(
    model: ContrastiveEmbedding,
    recording: Recording,
    spaces: Mapping[str, Space],
    names: Sequence[str],
    lags: Sequence[int],
    rng: np.random.Generator,
) -> Task:
    """The models of a recording, with all its spaces, and of the copies that those in `names` are compared with.

    lags : time steps by which copies are shifted. rng : of the initial values and the batches.
    """
    options = {name: getattr(model, name) for name in ("encoder", "hybrid", "validation_fraction")}
    prepared = prepare(recording, spaces, **options)
    real, validation = prepared.problem, prepared.validation_segments
    moves: list[dict[str, int]] = [{}]
    null = {}
    for kind, is_kind in (("variables_by", False), ("time_by", True)):
        of_kind = [name for name in names if spaces[name].follows_time == is_kind]
        if of_kind:
            null.update(dict.fromkeys(of_kind, slice(len(moves), len(moves) + len(lags))))
            moves += [{kind: lag} for lag in lags]
    problems, judging, used = [], [], np.flatnonzero(real.segments >= 0)
    for move in moves:
        pairs, moved = shifted_pairs(spaces, recording.variables, real.segments, recording.epochs, **move)
        targets = {
            name: space.targets(moved, space.target_statistics(moved, used))
            for name, space in spaces.items()
            if not space.contrastive
        }
        problems.append(replace(real, pairs=pairs, targets=targets))
        judging.append(shifted_pairs(spaces, recording.variables, validation, recording.epochs, **move)[0])
    seeds = rng.integers(np.iinfo(np.int32).max, size=len(problems)).tolist()
    return Task(problems, seeds, judging, validation, null)


def train_tasks(
    tasks: Sequence[Task], settings: Settings, n_jobs: int | None, progress: bool
) -> list[dict[str, Tensor]]:
    """Train in as few stacks as possible: the parameters of every task, stacked (model, ...), on the CPU."""
    problems = [problem for task in tasks for problem in task.problems]
    seeds = [seed for task in tasks for seed in task.seeds]
    trained = iter(train_many(problems, seeds, settings, n_jobs=n_jobs, progress=progress))
    each = [[next(trained).parameters for _ in task.problems] for task in tasks]
    return [{name: torch.cat([one[name] for one in models]) for name in models[0]} for models in each]


def bits_under_shifts(task: Task, parameters: Mapping[str, Tensor], settings: Settings) -> dict[str, Scores]:
    """The bits of all models of a task on the same held-out time steps."""
    real = task.problems[0]
    X, embedder = real.X.to(settings.device), Embedder(real.module, real.spaces)
    alike: dict[str, list[int]] = {}
    for number, pairs in enumerate(task.validation_pairs):  # missing values may give copies rows of their own
        alike.setdefault(repr(pairs.rows), []).append(number)
    bits = np.empty((len(task.problems), len(real.spaces)))
    low = high = np.empty(0)
    for members in alike.values():
        fit = goodness_of_fit(
            *(embedder, {name: value[members].to(X.device) for name, value in parameters.items()}, real.spaces, X),
            *(
                task.validation_segments,
                [task.validation_pairs[k] for k in members],
                [task.problems[k].targets for k in members],
            ),
            batch=min(settings.batch_size, int((task.validation_segments >= 0).sum())),
            seed=task.seeds[0],
            temperatures=TEMPERATURES,
        )
        bits[members] = fit.bits
        if members[0] == 0:
            low, high = block_interval(fit.block_bits[:, 0], fit.block_share[:, 0])
    places = {name: k for k, name in enumerate(real.spaces)}
    found = {}
    for name, own in task.null.items():
        k = places[name]
        found[name] = Scores("embedding", bits[0, k], bits[own, k], low[k], high[k])
    return found


def shifted_pairs(
    spaces: Mapping[str, Space],
    variables: pd.DataFrame,
    segments: np.ndarray,
    epochs: np.ndarray,
    *,
    variables_by: int = 0,
    time_by: int = 0,
) -> tuple[Pairs, pd.DataFrame]:
    """The pairs of a copy in which variables, or the neighbours of `Time` spaces, are shifted; and its variables.

    segments : (time,) as for `Pairs`, of the channels. epochs : (time,) of the recording.
    variables_by : time steps by which the variables are moved later. time_by : lag of the neighbours in time.

    Changes of variables are taken within the variables' own epochs, wherever the shift has brought them, and not
    from the end of the recording to its beginning; neighbours in time are neighbours within a segment. With both
    lags 0 the distribution is that of `Pairs`.

    >>> table, zeros = pd.DataFrame({"x": np.arange(8.0)}), np.zeros(8, int)
    >>> from ascribo import Follow
    >>> pairs, moved = shifted_pairs({"x": Follow("x", 1)}, table, zeros, zeros, variables_by=3)
    >>> moved["x"].to_list()
    [5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    >>> pairs.positive["x"].starts
    array([0, 1, 3, 4, 5, 6])
    """
    steps = len(segments)
    origin = np.roll(np.arange(steps), variables_by)
    moved = variables.iloc[origin].reset_index(drop=True)

    def make(name: str, pool: np.ndarray) -> Positives:
        shift = CircularShift(moved, origin, segments, epochs, pool, time_by / steps)
        try:
            return spaces[name].shifted_positives(shift)
        except ValueError as error:
            raise ValueError(f"space {name!r}, shifted by {variables_by} time steps: {error}") from error

    return Pairs(spaces, moved, segments, make), moved
