"""Variables that never change within an epoch: the values of whole trials, exchanged among trials.

Such a variable has no innovation. But trials can be exchanged: if a channel does not carry the label of its trial,
a decoder that has learned from other trials predicts it as well with the label of any other one, provided that
labels were given to trials at random.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

__all__ = ["exchange_trials", "why_not_exchangeable"]

FEWEST_TRIALS = 16
IN_ORDER = 3.0
"""Standard errors by which the values of neighbouring trials may correlate."""
TOLD_BY_OTHERS = 0.1
"""Share of the values' variance over trials that the means of other variables may tell."""


def exchange_trials(values: Tensor, trial: np.ndarray, fold: np.ndarray, draws: int) -> Tensor:
    """Values (n, k) with trials exchanged within their fold: (draws, n, k).

    trial, fold : (n,), the number of the trial of each row, from 0 on, and its fold.

    >>> found = exchange_trials(torch.arange(4.0)[:, None], np.array([0, 1, 2, 3]), np.array([0, 0, 1, 1]), 40)
    >>> sorted({tuple(draw) for draw in found[..., 0].int().tolist()})
    [(0, 1, 2, 3), (0, 1, 3, 2), (1, 0, 2, 3), (1, 0, 3, 2)]
    """
    random = np.random.default_rng(0)
    first = np.unique(trial, return_index=True)[1]
    out = []
    for _ in range(draws):
        source = np.empty(len(first), dtype=np.int64)
        for k in np.unique(fold):
            own = np.flatnonzero(fold[first] == k)
            source[own] = random.permutation(own)
        out.append(values[torch.from_numpy(first[source][trial]).to(values.device)])
    return torch.stack(out)


def why_not_exchangeable(values: np.ndarray, others: Mapping[str, np.ndarray], trial: np.ndarray) -> str:
    """Why trials cannot be exchanged; nothing if they can.

    values : (n, k), the variables in question. others : space -> (n, m), the other variables. trial : (n,).
    """
    first = np.unique(trial, return_index=True)[1]
    own = values[first].astype(np.float64)
    own, count = own - own.mean(0), len(first)
    if count < FEWEST_TRIALS:
        return f"its values are those of whole epochs, and there are {count} of these: too few to exchange"
    if (own[1:] * own[:-1]).sum() / np.square(own).sum() > IN_ORDER / np.sqrt(count):
        return (
            "its values are those of whole epochs, and go on from one to the next: what a channel owes to it and "
            "what drifts meanwhile cannot be told apart. Record the values in a random order"
        )
    for name, other in others.items():
        size = np.bincount(trial)[:, None]
        mean = np.stack([np.bincount(trial, weights=column) for column in other.T], axis=1) / size
        mean = np.column_stack([np.ones(count), mean - mean.mean(0)])
        left = own - mean @ np.linalg.lstsq(mean, own, rcond=None)[0]
        used = np.linalg.matrix_rank(mean)
        told = 1 - np.square(left).sum() / max(1, count - used) / (np.square(own).sum() / (count - 1))
        if told > TOLD_BY_OTHERS:
            return (
                f"its values are those of whole epochs, and {name!r} tells {told:.0%} of them: exchanging epochs "
                "would undo that. Give both one space"
            )
    return ""
