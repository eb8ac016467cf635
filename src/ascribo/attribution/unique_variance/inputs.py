"""What the decoders of the unique variance get to see: values of variables, waves over them, news drawn anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ...spaces.base import Space
from .innovations import draw_anew, wave_heights, wave_numbers

__all__ = ["Question", "news_draws", "wave_phases", "white"]


@dataclass(frozen=True)
class Question:
    """What the decoders of one recording get to see.

    steps : (n,) time steps. x : (n, channel), standardised or counts. inputs : (seed, n, dim).
    masks : (variant, dim), what the decoders see. against : space -> the variants with and without it.
    news : space -> its columns of the inputs, and other draws of them, (draw, n, k), for the first variant.
    fold, block : (n,). training : for each fold its rows.
    waves : (dim, w) the phases of waves over what the variables are now, as a linear map of the inputs; see `wide`.
    """

    steps: np.ndarray
    x: Tensor
    inputs: Tensor
    masks: Tensor
    spaces: tuple[str, ...]
    against: dict[str, tuple[int, int]]
    news: dict[str, tuple[slice, Tensor]]
    fold: np.ndarray
    block: np.ndarray
    training: list[np.ndarray]
    loss: str
    waves: Tensor | None = None

    def wide(self, inputs: Tensor) -> Tensor:
        """Inputs (..., dim) with the waves behind them: (..., dim + 2w).

        A network is slow to learn that a channel rises and falls many times as a variable goes on (fields, grids),
        and what it has not learned of one variable it looks for in others that tell of it. With waves it is quick.
        """
        if self.waves is None:
            return inputs
        phase = inputs @ self.waves
        heights = wave_heights().to(inputs)
        heights = heights.repeat(self.waves.shape[1] // len(heights))  # for each space
        return torch.cat([inputs, heights * phase.cos(), heights * phase.sin()], -1)

    @property
    def wide_masks(self) -> Tensor:
        """The masks for wide inputs, (variant, dim + 2w): all decoders see the waves."""
        extra = 0 if self.waves is None else 2 * self.waves.shape[1]
        return torch.nn.functional.pad(self.masks, (0, extra), value=1.0)


def news_draws(
    space: Space,
    variables: pd.DataFrame,
    when: tuple[np.ndarray, np.ndarray],
    past: Tensor,
    given: Tensor,
    draws: int,
) -> Tensor:
    """The news of a space drawn anew, white as its inputs are: (draw, n, k). when : the steps, and those before."""
    names: list[Any] = list(space.variables)
    now, then = (variables[names].to_numpy(np.float64)[at] for at in when)
    turns = torch.tensor(space.periods, device=past.device)
    numbers = lambda table: space.values(pd.DataFrame(table, columns=names)).astype(np.float64)  # noqa: E731
    before = numbers(then)
    mean, axes = _axes(torch.from_numpy(numbers(now) - before)[None].to(past.device))
    place, origin = (torch.from_numpy(value).to(past.device) for value in (now, then))
    others = draw_anew(place, origin, turns, past, given, draws).cpu().numpy()
    changes = torch.from_numpy(np.stack([numbers(other) - before for other in others])).to(past.device)
    return ((changes - mean) @ axes[0]).float()


def wave_phases(now: Mapping[str, np.ndarray], inputs: Tensor, what: np.ndarray) -> Tensor | None:
    """Phases of waves over what each space is now, (n, k), as a linear map of the inputs (n, dim): (dim, w)."""
    found = []
    for name, value in now.items():
        # now is then and its news together: with other news the same map makes the waves of what would be now
        columns = np.flatnonzero((what == f"then {name}") | (what == f"news {name}"))
        where = torch.from_numpy(columns).to(inputs.device)
        goal = white(torch.from_numpy(value)[None].to(inputs.device))[0].double()
        u = inputs[:, where].double()
        gram = torch.linalg.pinv(u.mT @ u, rtol=1e-10, hermitian=True)
        own = torch.zeros(len(what), goal.shape[1], dtype=torch.float64, device=inputs.device)
        own[where] = gram @ (u.mT @ goal)
        found.append(own @ wave_numbers(goal.shape[1]).to(own))
    return torch.cat(found, 1).to(inputs) if found else None


def white(part: Tensor) -> Tensor:
    """Columns with zero mean and the identity as covariance: (seed, n, k); directions without variance become 0."""
    mean, axes = _axes(part)
    return ((part.double() - mean) @ axes).float()


def _axes(part: Tensor) -> tuple[Tensor, Tensor]:
    """What makes a part white: its mean (seed, 1, k) and a matrix (seed, k, k), both float64."""
    mean = part.double().mean(1, keepdim=True)
    centred = part.double() - mean
    values, axes = torch.linalg.eigh(centred.mT @ centred / part.shape[1])
    keep = values > 1e-8 * values.amax(-1, keepdim=True).clamp_min(1e-30)
    return mean, axes * torch.where(keep, values.clamp_min(1e-30).rsqrt(), 0.0)[:, None]
