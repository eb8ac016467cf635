"""The news of a variable: its change over a few steps, and the same drawn anew given the past."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from ...data.segments import same_segment

__all__ = ["draw_anew", "news_lag", "resample", "wave_heights", "wave_numbers"]

SETTLED = 0.9
"""The news is taken over the first lag at which the variables' autocorrelation has fallen to this."""
LONGEST = 50
WIDE = 20
"""Most columns whose squares and products are used: 20 make 231 features."""
ALIKE = 50
"""Time steps among which news is exchanged."""
TRIES = 20
"""Times that other news is looked for where what was drawn takes the variables to where they have never been."""
FINEST = 20
"""Most bins, along each variable, in which to ask whether the variables have been there."""
WAVES = 32
"""Waves over the variables of a space."""
NUMBERS = (0.5, 8.0)
"""Their wave numbers lie between these, in radians for a standard deviation of the variables."""


def wave_numbers(variables: int) -> Tensor:
    """Waves over some variables, in all directions, from long to short: (variables, 32), always the same.

    >>> wave_numbers(2).shape
    torch.Size([2, 32])
    """
    towards = np.random.default_rng(0).standard_normal((variables, WAVES))
    return torch.from_numpy(towards / np.linalg.norm(towards, axis=0) * np.geomspace(*NUMBERS, WAVES))


def wave_heights() -> Tensor:
    """How high those waves are, (32,): the shorter the lower, so that what is smooth is learned first.

    All of one height, they would double the noise of the scores of channels that are smooth and noisy.
    """
    return torch.from_numpy(2**0.5 / np.maximum(1.0, np.geomspace(*NUMBERS, WAVES)))


def news_lag(values: Sequence[np.ndarray], segments: np.ndarray) -> int:
    """The first lag at which the variables' mean autocorrelation has fallen to 0.9, at most 50.

    values : arrays (time, k), one for each space, NaN where missing.

    >>> walk = np.cumsum(np.random.default_rng(0).normal(size=5000)) % 20
    >>> news_lag([np.cos(walk[:, None] / 20 * 2 * np.pi)], np.zeros(5000, int))
    3
    """
    present = [np.isfinite(v) for v in values]
    centred = [np.where(there, v - np.nanmean(v, axis=0), 0.0) for v, there in zip(values, present, strict=True)]
    for lag in range(1, LONGEST + 1):
        inside = same_segment(segments, lag)[:-lag, None]
        if not inside.any():
            return max(1, lag - 1)
        shares = []
        for c, there in zip(centred, present, strict=True):
            both = inside & there[lag:]
            shares.append((c[:-lag] * c[lag:] * both).sum() / (c[:-lag] ** 2 * both).sum())
        if np.mean(shares) <= SETTLED:
            return lag
    return LONGEST


def draw_anew(now: Tensor, then: Tensor, period: Tensor, past: Tensor, given: Tensor, draws: int) -> Tensor:
    """What the variables of a space might as well be now, given the past: (draws, n, k) float64.

    now, then : (n, k) in their own units. period : (k,) their full turns, 0 if they are not circular: circular ones
    change the short way round, and stay on their circle. past, given : `then` and `given` of `resample`. What is
    drawn lies where the variables have been, in a bin of their joint histogram that is not empty: a rat does not
    leave its box.

    >>> angle = torch.from_numpy(np.random.default_rng(0).uniform(0, 360, (500, 1)))
    >>> past = torch.zeros(500, 1)
    >>> other = draw_anew((angle + 10) % 360, angle, torch.tensor([360.0]), past, past, 1)[0]
    >>> bool(((other - angle) % 360).sub(10).abs().max() < 1e-3)
    True
    """
    now, then, period = now.double(), then.double(), period.double()
    circular = period > 0
    turn = torch.where(circular, period, torch.ones_like(period))
    change = now - then
    change = torch.where(circular, change - turn * (change / turn).round(), change)
    spread = change.std(0, correction=0)
    spread = torch.where(spread > 0, spread, torch.ones_like(spread))
    low, wide = now.amin(0), (now.amax(0) - now.amin(0)).clamp_min(1e-30)
    bins = int(np.clip(len(now) ** (1 / (now.shape[1] + 1)), 2, FINEST))
    digits = bins ** torch.arange(now.shape[1], device=now.device)

    def place(values: Tensor) -> Tensor:
        """The number of the bin that values (m, k) are in, -1 beyond the range."""
        share = torch.where(circular, (values / turn).remainder(1), (values - low) / wide)
        number = ((share * bins).long().clamp(0, bins - 1) * digits).sum(1)
        return torch.where(((share < 0) | (share > 1)).any(1), -1, number)

    been = torch.unique(place(now))
    allowed = lambda rows, news: torch.isin(place(then[rows] + news * spread), been)  # noqa: E731
    return then + spread * resample(change / spread, past, given, draws, allowed=allowed).double()


def resample(
    news: Tensor,
    then: Tensor,
    given: Tensor,
    draws: int,
    *,
    labels: bool = False,
    seed: int = 0,
    allowed: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """News drawn anew, given the past: exchanged among time steps at which the past was alike.

    Parameters
    ----------
    news, then : (n, k) the change of a space's variables, and what they were before it.
    given : (n, p) what else the news may depend on: all variables before, and the news of the others. What these
        predict of it, by a quadratic regression (linear above 20 columns), stays where it is.
    draws : how often.
    labels : the variables are labels, one column each. News is then exchanged among steps that had the same label
        and of which like news was expected, and nothing is added to it: there are no labels between labels.
    allowed : (rows, news of theirs) -> whether such news can be. What cannot be is drawn again; where nothing else
        is found the news stays what it was.

    Returns
    -------
    (draws, n, k) float32.

    Examples
    --------
    >>> then, news = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 5000, 1)))
    >>> other = resample(news, then, then, 1)[0]
    >>> bool(abs(np.corrcoef(news[:, 0], other[:, 0])[0, 1]) < 0.05), bool(abs(other.std() / news.std() - 1) < 0.02)
    (True, True)
    """
    news, then = news.double(), then.double()
    expected = _expected(news, given.double())
    if labels:
        cell = _cells(expected, torch.unique(then.mul(1000).round(), dim=0, return_inverse=True)[1])
    else:
        cell = _cells(torch.cat([then, expected], 1), torch.zeros(len(news), dtype=torch.long, device=news.device))
    order = torch.argsort(cell, stable=True)
    size = torch.bincount(cell)
    start = size.cumsum(0) - size
    random = torch.Generator(news.device).manual_seed(seed)
    out = torch.empty(draws, *news.shape, device=news.device)
    for draw in range(draws):
        key = torch.rand(len(news), generator=random, device=news.device, dtype=torch.float64)
        shuffled = torch.argsort(cell + key)  # the same cells, each in an order of its own
        other = news[shuffled] if labels else news[shuffled] + expected[order] - expected[shuffled]
        out[draw, order] = other.float()
        if allowed is None:
            continue
        rows = torch.arange(len(news), device=news.device)
        for _ in range(TRIES):
            rows = rows[~allowed(rows, out[draw, rows].double())]
            chance = torch.rand(len(rows), generator=random, device=news.device, dtype=torch.float64)
            source = order[start[cell[rows]] + (chance * size[cell[rows]]).long()]
            out[draw, rows] = (news[source] + expected[rows] - expected[source]).float()
        rows = rows[~allowed(rows, out[draw, rows].double())]
        out[draw, rows] = news[rows].float()
    return out


def _expected(news: Tensor, given: Tensor) -> Tensor:
    """What is predicted of the news (n, k) by a regression on `given` (n, p), with its products if p is small."""
    one = torch.ones_like(given[:, :1])
    parts = [one, given]
    if given.shape[1] <= WIDE:
        first, second = torch.triu_indices(given.shape[1], given.shape[1], device=given.device)
        parts.append(given[:, first] * given[:, second])
    features = torch.cat(parts, 1)
    gram = features.mT @ features / len(features)
    return features @ (torch.linalg.pinv(gram, rtol=1e-10, hermitian=True) @ (features.mT @ news / len(features)))


def _cells(past: Tensor, cell: Tensor) -> Tensor:
    """Groups of like past (n, k): each of the groups given is halved along its widest direction until few are left.

    cell : (n,) numbers of the groups, 0, 1, 2, ... Returns the same of the parts.
    """
    steps = torch.arange(len(past), device=past.device)
    while True:
        size = torch.bincount(cell)
        large = size > 2 * ALIKE
        if not large.any():
            return cell
        where = cell[:, None].expand_as(past)
        ends = torch.zeros(len(size), past.shape[1], dtype=past.dtype, device=past.device)
        low, high = (ends.scatter_reduce(0, where, past, how, include_self=False) for how in ("amin", "amax"))
        value = past.gather(1, (high - low).argmax(1)[cell, None])[:, 0]
        order = torch.argsort(value, stable=True)
        order = order[torch.argsort(cell[order], stable=True)]
        rank = torch.empty_like(cell)
        rank[order] = steps - (size.cumsum(0) - size)[cell[order]]
        parts = 1 + large.long()
        cell = (parts.cumsum(0) - parts)[cell] + (large[cell] & (rank >= size[cell] // 2))
