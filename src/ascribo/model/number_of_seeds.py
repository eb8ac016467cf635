"""What a fit spends: whether seeds agree, so that no more are needed, and the account of it in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.segments import evenly
from ..networks.model_stack import Embedder
from ..spaces.base import layout, reported
from ..support.names import plural
from ..training.dispatch import side_by_side
from ..training.loop import Trained
from .fitting import Prepared

__all__ = ["describe_batch", "describe_spent", "seeds_agree", "train_seeds"]

FIRST_SEEDS = 2
"""Seeds that `seeds="auto"` begins with."""
AGREE = 0.7
"""R² between the embeddings of two seeds, for every space, from which on they agree."""
TIME_STEPS = 5000


def train_seeds(
    training: Callable[..., Trained], every: list[int], prepared: Prepared, *, until_agreed: bool
) -> tuple[list[int], Trained, str]:
    """The seeds that were trained, what came of it, and why there are no more.

    training : trains the models of some `seeds`. every : all seeds there may be. until_agreed : begin with a
        few, and train the others only if the first disagree.
    """
    if not until_agreed:
        most = len(every)
        why = f"{most} seed{plural(most)} {'was' if most == 1 else 'were'} asked for"
        return every, training(seeds=every), why
    trained = training(seeds=every[:FIRST_SEEDS])
    enough, why = seeds_agree(prepared, trained.parameters)
    if enough:
        return every[:FIRST_SEEDS], trained, why
    return every, side_by_side([trained, training(seeds=every[FIRST_SEEDS:])]), why


def seeds_agree(prepared: Prepared, parameters: Mapping[str, Tensor]) -> tuple[bool, str]:
    """Whether the embeddings of all seeds tell the same, and that in words.

    Each space of each seed is predicted from the same space of each other one by a linear map: a space is
    identified up to such a map.
    """
    problem = prepared.problem
    index = evenly(len(problem.X), TIME_STEPS)
    parameters = {name: value.to(problem.X.device) for name, value in parameters.items()}
    embedder = Embedder(problem.module, problem.spaces)
    z = embedder.embed(parameters, problem.X, prepared.recording.epochs, index).cpu()
    slices, found = layout(problem.spaces), {}
    for name in reported(problem.spaces):
        own = z[..., slices[name]].double()
        own = own - own.mean(1, keepdim=True)
        pairs = [(a, b) for a in range(len(own)) for b in range(len(own)) if a != b]
        found[name] = min((_explained(own[a], own[b]) for a, b in pairs), default=1.0)
    worst = min(found, key=lambda name: found[name])
    told = f"{len(z)} seeds {{}}: the embeddings of {worst!r}, the space they are furthest apart in, have an R² of "
    if found[worst] >= AGREE:
        return True, told.format("agree") + f"{found[worst]:.2f}"
    return False, told.format("disagree") + f"{max(0.0, found[worst]):.2f}, so there are more"


def _explained(source: Tensor, target: Tensor) -> float:
    """R² of target (time, dim) from source by the best linear map; both have zero mean."""
    solution = torch.linalg.lstsq(source, target).solution
    whole = target.square().sum()
    return float(1 - (target - source @ solution).square().sum() / whole) if whole > 0 else 1.0


def describe_batch(asked: int, used: int, where: str = "") -> str | None:
    """What to say of batches that were made smaller, as the data have fewer time steps; None if they were not.

    where : which of the data, such as "in the shortest session".

    >>> describe_batch(512, 200)
    '200 time steps, all there are (batch_size=512)'
    """
    return f"{used} time steps, all there are {where and f'{where} '}(batch_size={asked})" if used < asked else None


def describe_spent(spent: Mapping[str, Any]) -> list[str]:
    """What was spent, and why no more, a line for seeds and one for every different reason why training ended.

    >>> describe_spent({"seeds": 1, "why_seeds": "1 was asked for", "steps": [90], "why_steps": ["all were taken"]})
    ['1 seed: 1 was asked for', '90 steps: all were taken']
    """
    lines = [f"{spent['seeds']} seed{plural(spent['seeds'])}: {spent['why_seeds']}"]
    for why in dict.fromkeys(spent["why_steps"]):
        steps = [done for done, reason in zip(spent["steps"], spent["why_steps"], strict=True) if reason == why]
        lines.append(f"{', '.join(map(str, np.unique(steps)))} steps: {why}")
    return lines
