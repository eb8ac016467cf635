"""Innovations redrawn, given the past: what the variables of a space might as well have become.

This is the randomisation of the test. An innovation is exchanged for that of another time step at which the past
was alike and about the same was to be expected, so what is redrawn depends on the past and on the other innovations
as the innovation itself does, but is no longer the one that the channels have seen.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ...data.segments import evenly
from ...spaces.base import Space
from ...support.circle import short_way
from .joint_histograms import JointHistograms
from .whitening import whitening

__all__ = ["exchange_innovations", "redraw_present", "redraw_white_innovations"]

MOST_COLUMNS_SQUARED = 20
"""Most columns whose squares and products are used to predict an innovation: 20 make 231 features."""
MOST_WAVES, ROWS_PER_WAVE, WAVE_NUMBER = 200, 40, 0.6
"""Waves over all that is given, by which an innovation is predicted too: at most so many, one for so many rows, of
wave numbers of this standard deviation (inputs have variance 1). A quadratic function alone does not follow a
variable that is a sine of another."""
MOST_ROWS = 20_000
"""Rows that the prediction is fitted to, at most."""
FEWEST_ALIKE = 50
"""Innovations are exchanged among at least this many time steps, and at most twice as many."""
TRIES = 20
"""Times that another innovation is looked for where one takes the variables to where they have never been."""
MOST_BINS = 20
"""Bins along each variable, at most, by which it is known where the variables have been."""


def redraw_white_innovations(
    space: Space,
    variables: pd.DataFrame,
    index: np.ndarray,
    lag: int,
    past: Tensor,
    given: Tensor,
    draws: int,
    *,
    fold: Tensor | None = None,
    beside: Tensor | None = None,
) -> tuple[Tensor, tuple[float, float]]:
    """Innovations of a space at time steps `index`, redrawn and white as the inputs of the decoders are: (draw, n,
    k); and how far the distribution of what is drawn is from that of what was there, see
    `JointHistograms.mismatch`.

    past, given, fold : as of `exchange_innovations`. beside : (n, m), the variables of other spaces at present. For
    spaces whose variables are numbers.
    """
    names = list(space.variables)
    table = variables[names].to_numpy(np.float64)
    present, before = table[index], table[index - lag]
    turns = torch.tensor(space.periods, device=past.device)
    numbers = lambda rows: space.values(pd.DataFrame(rows, columns=names)).astype(np.float64)  # noqa: E731
    origin = numbers(before)
    mean, axes = whitening(torch.from_numpy(numbers(present) - origin)[None].to(past.device))
    rows, rows_before = (torch.from_numpy(own).to(past.device) for own in (present, before))
    together = None if beside is None else JointHistograms(_on_circle(rows, turns), beside.double())
    found = redraw_present(rows, rows_before, turns, past, given, draws, fold=fold, together=together)
    mismatch = (0.0, 0.0) if together is None else together.mismatch(_on_circle(found, turns))
    changes = np.stack([numbers(other) - origin for other in found.cpu().numpy()])
    return ((torch.from_numpy(changes).to(past.device) - mean) @ axes[0]).float(), mismatch


def redraw_present(
    present: Tensor,
    before: Tensor,
    period: Tensor,
    past: Tensor,
    given: Tensor,
    draws: int,
    *,
    fold: Tensor | None = None,
    together: JointHistograms | None = None,
) -> Tensor:
    """What the variables of a space might as well be at present, given the past: (draws, n, k) float64.

    present, before : (n, k), the variables in their own units, and one lag ago. period : (k,), their full turns, 0
    if they are not circular; circular ones change the short way round, and stay on their circle. past, given, fold
    : as of `exchange_innovations`. together : where these variables, on their circle, and others have been.

    What is drawn lies where the variables have been, in a bin of their joint histogram that is not empty: a rat
    does not leave its box. So do each of them and each of the others together: where one variable is nearly a
    function of another, a draw that leaves the curve would ask a decoder about what it has never seen.

    >>> angle = torch.from_numpy(np.random.default_rng(0).uniform(0, 360, (500, 1)))
    >>> past = torch.zeros(500, 1)
    >>> other = redraw_present((angle + 10) % 360, angle, torch.tensor([360.0]), past, past, 1)[0]
    >>> bool(((other - angle) % 360).sub(10).abs().max() < 1e-3)
    True
    """
    present, before, period = present.double(), before.double(), period.double()
    circular = period > 0
    turn = torch.where(circular, period, torch.ones_like(period))
    change = short_way(present - before, period)
    spread = change.std(0, correction=0)
    spread = torch.where(spread > 0, spread, torch.ones_like(spread))
    low, wide = present.amin(0), (present.amax(0) - present.amin(0)).clamp_min(1e-30)
    bins = int(np.clip(len(present) ** (1 / (present.shape[1] + 1)), 2, MOST_BINS))
    digits = bins ** torch.arange(present.shape[1], device=present.device)

    def place(values: Tensor) -> Tensor:
        """The number of the bin that values (m, k) are in, -1 beyond the range."""
        share = torch.where(circular, (values / turn).remainder(1), (values - low) / wide)
        number = ((share * bins).long().clamp(0, bins - 1) * digits).sum(1)
        return torch.where(((share < 0) | (share > 1)).any(1), -1, number)

    visited = torch.unique(place(present))

    def possible(rows: Tensor, innovations: Tensor) -> Tensor:
        values = before[rows] + innovations * spread
        alone = torch.isin(place(values), visited)
        return alone if together is None else alone & together.visited(rows, _on_circle(values, period))

    drawn = exchange_innovations(change / spread, past, given, draws, possible=possible, fold=fold)
    return before + spread * drawn.double()


def _on_circle(values: Tensor, period: Tensor) -> Tensor:
    """Values (..., k), the circular ones from 0 to their period."""
    period = period.to(values)
    return torch.where(period > 0, values.remainder(torch.where(period > 0, period, 1.0)), values)


def exchange_innovations(
    innovations: Tensor,
    past: Tensor,
    given: Tensor,
    draws: int,
    *,
    labels: bool = False,
    fold: Tensor | None = None,
    seed: int = 0,
    possible: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Innovations exchanged among time steps at which the past was alike: (draws, n, k) float32.

    Parameters
    ----------
    innovations, past : (n, k), the change of a space's variables, and what they were before it.
    given : (n, p), what else an innovation may depend on: the past of all variables, and the innovations of the
        others. What these predict of it, by a regression on them, their products and waves over them (on them
        alone above 20 columns), stays where it is.
    draws : how often.
    labels : the variables are labels, one column each. Innovations are then exchanged among time steps that had the
        same label and at which about the same was expected, and nothing is added to them: between labels there is
        nothing.
    fold : (n,) integers; innovations are exchanged within a fold. Those of a fold that decoders have learned from
        would be known to them, and those that they are exchanged for would not.
    possible : (rows, innovations at these) -> whether they can be. What cannot be is drawn again; where nothing
        else is found the innovation stays what it was.

    Examples
    --------
    >>> past, change = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 5000, 1)))
    >>> other = exchange_innovations(change, past, past, 1)[0]
    >>> bool(abs(np.corrcoef(change[:, 0], other[:, 0])[0, 1]) < 0.05)
    True
    >>> bool(abs(other.std() / change.std() - 1) < 0.02)
    True
    """
    innovations, past = innovations.double(), past.double()
    n, device = len(innovations), innovations.device
    fold = torch.zeros(n, dtype=torch.long, device=device) if fold is None else fold
    expected = _expected(innovations, given.double())
    if labels:
        where = torch.cat([fold[:, None].double(), past.mul(1000).round()], 1)
        group = _groups(expected, torch.unique(where, dim=0, return_inverse=True)[1])
    else:
        group = _groups(torch.cat([past, expected], 1), fold)
    order = torch.argsort(group, stable=True)
    size = torch.bincount(group)
    start = size.cumsum(0) - size
    random = torch.Generator(device).manual_seed(seed)
    out = torch.empty(draws, *innovations.shape, device=device)
    for draw in range(draws):
        key = torch.rand(n, generator=random, device=device, dtype=torch.float64)
        shuffled = torch.argsort(group + key)  # the same groups, each in an order of its own
        other = innovations[shuffled]
        out[draw, order] = (other if labels else other + expected[order] - expected[shuffled]).float()
        if possible is None:
            continue
        rows = torch.arange(n, device=device)
        for _ in range(TRIES):
            rows = rows[~possible(rows, out[draw, rows].double())]
            chance = torch.rand(len(rows), generator=random, device=device, dtype=torch.float64)
            source = order[start[group[rows]] + (chance * size[group[rows]]).long()]
            out[draw, rows] = (innovations[source] + expected[rows] - expected[source]).float()
        rows = rows[~possible(rows, out[draw, rows].double())]
        out[draw, rows] = innovations[rows].float()
    return out


def _expected(innovations: Tensor, given: Tensor) -> Tensor:
    """What a regression on `given` (n, p) predicts of the innovations (n, k); with products and waves if p is
    small."""
    some = torch.from_numpy(evenly(len(given), MOST_ROWS)).to(given.device)
    features = _features(given, len(some))
    own, goal = (features, innovations) if len(some) == len(given) else (features[some], innovations[some])
    gram = own.mT @ own / len(own)
    weights = torch.linalg.pinv(gram, rtol=1e-10, hermitian=True) @ (own.mT @ goal / len(own))
    return features @ weights


def _features(given: Tensor, rows: int) -> Tensor:
    """What an innovation is predicted from: 1, what is given (n, p), its products, and waves over it."""
    parts = [torch.ones_like(given[:, :1]), given]
    if given.shape[1] <= MOST_COLUMNS_SQUARED:
        first, second = torch.triu_indices(given.shape[1], given.shape[1], device=given.device)
        parts.append(given[:, first] * given[:, second])
        waves, random = min(MOST_WAVES, rows // ROWS_PER_WAVE), np.random.default_rng(0)
        numbers = WAVE_NUMBER * random.standard_normal((given.shape[1], MOST_WAVES))[:, :waves]
        start = random.uniform(0, 2 * np.pi, MOST_WAVES)[:waves]
        numbers, start = (torch.from_numpy(part).to(given) for part in (numbers, start))
        parts.append((given @ numbers + start).cos())
    return torch.cat(parts, 1)


def _groups(past: Tensor, group: Tensor) -> Tensor:
    """Time steps of like past (n, k): each of the groups given is halved along its widest direction until few are
    left.

    group : (n,), numbers of the groups, 0, 1, 2, ... Returns the same of the parts.
    """
    rows = torch.arange(len(past), device=past.device)
    while True:
        size = torch.bincount(group)
        large = size > 2 * FEWEST_ALIKE
        if not large.any():
            return group
        where = group[:, None].expand_as(past)
        ends = torch.zeros(len(size), past.shape[1], dtype=past.dtype, device=past.device)
        low, high = (ends.scatter_reduce(0, where, past, how, include_self=False) for how in ("amin", "amax"))
        value = past.gather(1, (high - low).argmax(1)[group, None])[:, 0]
        order = torch.argsort(value, stable=True)
        order = order[torch.argsort(group[order], stable=True)]
        rank = torch.empty_like(group)
        rank[order] = rows - (size.cumsum(0) - size)[group[order]]
        parts = 1 + large.long()
        group = (parts.cumsum(0) - parts)[group] + (large[group] & (rank >= size[group] // 2))
