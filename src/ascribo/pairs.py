"""Which time steps are compared with which: references, positives and negatives, as indices.

References and negatives are uniform. Positives are neighbours in time, share a label, or follow the changes of
variables: c' = c(t) + Δ(τ) with τ uniform, and the step whose variables are nearest to c' (001, appendix A.2).
Everything is drawn in bulk, many training steps at once, and nothing crosses the edge of a segment.

A *segment* is a run of steps that belong together: an epoch, or a part of one when some of it is held out.
Segment -1 marks steps that are not to be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.spatial import KDTree

from .spaces import Discrete, Follow, Regress, Space, Time

__all__ = [
    "Following",
    "Groups",
    "Neighbours",
    "Pairs",
    "Rows",
    "SameLabel",
    "arrange",
    "coordinates",
    "evenly",
    "following",
    "hold_out",
    "known",
    "regression_statistics",
    "regression_targets",
    "regression_values",
    "same_segment",
    "scales",
    "segment_bounds",
    "wrap",
]


def evenly(length: int, most: int | None) -> np.ndarray:
    """All of `length` time steps, or `most` of them, evenly spaced, if there are more.

    >>> evenly(10, 4), evenly(3, 4)
    (array([0, 3, 6, 9]), array([0, 1, 2]))
    """
    return np.linspace(0, length - 1, length if most is None else min(most, length)).astype(np.int64)


def same_segment(segments: np.ndarray, offset: int) -> np.ndarray:
    """True at the steps t for which t + offset lies in the same segment.

    >>> same_segment(np.array([0, 0, 0, 1, 1, -1]), 1)
    array([ True,  True, False,  True, False, False])
    """
    inside = np.zeros(len(segments), dtype=bool)
    if offset < len(segments):
        inside[: len(segments) - offset] = segments[offset:] == segments[: len(segments) - offset]
    return inside & (segments >= 0)


def segment_bounds(segments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and last step of the segment each step belongs to, both (time,).

    >>> first, last = segment_bounds(np.array([0, 0, 1, 1, 1]))
    >>> first, last
    (array([0, 0, 2, 2, 2]), array([1, 1, 4, 4, 4]))
    """
    edges = np.flatnonzero(np.diff(segments)) + 1
    starts, stops = np.r_[0, edges], np.r_[edges, len(segments)]
    lengths = stops - starts
    return np.repeat(starts, lengths), np.repeat(stops - 1, lengths)


def hold_out(epochs: np.ndarray, fraction: float, least: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Split a recording into segments to train on and up to ten evenly spaced blocks of time to test on.

    least : steps a block should have; where ten would be shorter there are fewer.

    Returns two segment arrays (time,), each -1 where the other is not. Blocks, not single steps: neighbours
    in time are nearly copies of each other.

    >>> train, test = hold_out(np.zeros(100, int), 0.2, least=10)
    >>> (test >= 0).sum(), (train >= 0).sum(), len(np.unique(train[train >= 0]))
    (np.int64(20), np.int64(80), 3)
    """
    steps = len(epochs)
    blocks = int(np.clip(steps * fraction // least, 1, 10))
    length = round(steps * fraction / blocks)
    testing = np.zeros(steps, dtype=bool)
    if length >= 1:
        # each block in the middle of its share of the recording
        starts = (np.arange(blocks) + 0.5) * steps / blocks - length / 2
        for start in starts.astype(int):
            testing[start : start + length] = True
    runs = np.r_[0, np.cumsum((np.diff(epochs) != 0) | (np.diff(testing.astype(int)) != 0))]
    return np.where(testing, -1, runs), np.where(testing, runs, -1)


@dataclass(frozen=True)
class Groups:
    """Members of each group, for drawing one uniformly: group g holds members[start[g]:start[g + 1]]."""

    members: np.ndarray
    start: np.ndarray

    @classmethod
    def of(cls, steps: np.ndarray, group: np.ndarray, least: int = 0) -> Groups:
        """Group `steps` by their group numbers, both (n,); at least `least` groups, some of them empty."""
        order = np.argsort(group, kind="stable")
        return cls(steps[order], np.r_[0, np.cumsum(np.bincount(group, minlength=least))])

    @property
    def sizes(self) -> np.ndarray:
        """Number of members of each group."""
        return np.diff(self.start)

    def pick(self, rng: np.random.Generator, group: np.ndarray) -> np.ndarray:
        """A uniformly drawn member of each group asked for."""
        size = self.start[group + 1] - self.start[group]
        return self.members[self.start[group] + (rng.random(group.shape) * size).astype(np.int64)]


@dataclass(frozen=True)
class Neighbours:
    """Positives of a Time space: the reference plus an offset drawn uniformly."""

    offsets: np.ndarray

    def draw(self, rng: np.random.Generator, reference: np.ndarray) -> np.ndarray:
        """(n,) references -> (n,) positives."""
        return reference + self.offsets[rng.integers(0, len(self.offsets), len(reference))]


@dataclass(frozen=True)
class SameLabel:
    """Positives of a Discrete space: uniform among the steps with the reference's label."""

    codes: np.ndarray
    groups: Groups

    def draw(self, rng: np.random.Generator, reference: np.ndarray) -> np.ndarray:
        """(n,) references -> (n,) positives."""
        return self.groups.pick(rng, self.codes[reference])


@dataclass(frozen=True)
class Following:
    """Positives of a Follow space: the step whose variables are nearest to c(t) + c(τ + offset) - c(τ).

    values : (time, k) variables on comparable scales. box : (k,) their periods, 0 if not circular.
    starts : (n,) the steps τ. distinct : (m, k) the values that occur, `groups` the steps of each.
    """

    values: np.ndarray
    box: np.ndarray
    starts: np.ndarray
    offset: int
    distinct: np.ndarray
    groups: Groups

    @cached_property
    def tree(self) -> KDTree:
        """Over distinct values: a tree of all steps would always answer a tie with the same one of them."""
        # a tree that knows of no period answers in two thirds of the time, leaves of 16 a little sooner than of 10
        return KDTree(self.distinct, leafsize=16, boxsize=self.box if self.box.any() else None)

    def draw(self, rng: np.random.Generator, reference: np.ndarray) -> np.ndarray:
        """(n,) references -> (n,) positives."""
        tau = self.starts[rng.integers(0, len(self.starts), len(reference))]
        target = self.values[reference] + self.values[tau + self.offset] - self.values[tau]
        return self.nearest(rng, target)[0]

    def nearest(self, rng: np.random.Generator, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The steps whose variables are nearest to targets (n, k), and how far they are: both (n,)."""
        distance, place = self.tree.query(wrap(target, self.box))
        return self.groups.pick(rng, np.asarray(place)), np.asarray(distance)

    def changes(self) -> np.ndarray:
        """All the changes that may be drawn, circular ones the short way round: (n, k)."""
        change = self.values[self.starts + self.offset] - self.values[self.starts]
        return change - self.box * np.round(change / np.where(self.box > 0, self.box, np.inf))


Positives = Neighbours | SameLabel | Following


class Pairs:
    """Index batches for all spaces of a model, from the steps of one set of segments.

    Parameters
    ----------
    spaces : name -> Space.
    variables : DataFrame (time, variable).
    segments : (time,) integers, -1 for steps not to be used.

    A step whose variables are missing (NaN, None) is left out of that space's references, positives and
    negatives; spaces with the same steps share references and negatives.

    rows : for each space, which rows of a drawn batch hold its references, positives and negatives.
    uniform : for each of the first rows, the steps it is drawn from uniformly.
    positive : for each contrastive space, in the order of the rows that follow, how its positives are drawn.
    left_out : for each space, the number of steps whose variables are missing.

    Examples
    --------
    >>> table = pd.DataFrame({"x": np.linspace(0, 1, 100)})
    >>> pairs = Pairs({"x": Follow("x", 1), "rest": Time(1)}, table, np.zeros(100, int))
    >>> pairs.rows
    {'x': (0, 2, 1), 'rest': (0, 3, 1)}
    >>> pairs.draw(np.random.default_rng(0), steps=5, batch=8).shape
    (5, 4, 8)
    """

    def __init__(self, spaces: Mapping[str, Space], variables: pd.DataFrame, segments: np.ndarray):
        usable = segments >= 0
        for space in spaces.values():
            for offset in space.offsets if isinstance(space, Time) else ():
                usable = usable & same_segment(segments, offset)
        self.left_out, pools, present = {}, {}, {}
        for name, space in spaces.items():
            present[name] = known(space, variables)
            self.left_out[name] = int(((segments >= 0) & ~present[name]).sum())
            pools[name] = np.flatnonzero(usable & present[name])
            if not len(pools[name]):
                raise ValueError(f"space {name!r} has no time step with a positive: {_why_empty(space)}.")
        self.uniform, self.rows = arrange(spaces, pools)
        self.positive: dict[str, Positives] = {
            name: _positives(space, variables, segments, present[name])
            for name, space in spaces.items()
            if not isinstance(space, Regress)
        }

    def draw(self, rng: np.random.Generator, steps: int, batch: int) -> np.ndarray:
        """Indices of time steps, (steps, rows, batch), drawn for `steps` training steps at once."""
        out = np.empty((steps, len(self.uniform) + len(self.positive), batch), dtype=np.int64)
        for row, pool in enumerate(self.uniform):
            out[:, row] = pool[rng.integers(0, len(pool), (steps, batch))]
        for name, positive in self.positive.items():
            reference, row, _ = self.rows[name]
            out[:, row] = positive.draw(rng, out[:, reference].ravel()).reshape(steps, batch)
        return out


Rows = dict[str, tuple[int, int | None, int | None]]
"""For each space the rows of a batch that hold its references, positives and negatives (None: it has none)."""


def arrange(spaces: Mapping[str, Space], pools: Mapping[str, np.ndarray]) -> tuple[list[np.ndarray], Rows]:
    """What the rows of a batch are for: the steps that the first ones are drawn from, and the rows of each space.

    pools : for each space the steps it takes references and negatives from. Spaces with the same steps share both.
    """
    uniform: list[np.ndarray] = []
    rows: Rows = {}
    shared: dict[bytes, tuple[int, int | None]] = {}
    for name, space in spaces.items():
        key = pools[name].tobytes()
        if key not in shared:
            shared[key] = (len(uniform), None)
            uniform.append(pools[name])
        reference, negative = shared[key]
        if negative is None and not isinstance(space, Regress):
            negative = len(uniform)
            shared[key] = (reference, negative)
            uniform.append(pools[name])
        rows[name] = (reference, None, None if isinstance(space, Regress) else negative)
    contrastive = [name for name, space in spaces.items() if not isinstance(space, Regress)]
    for row, name in enumerate(contrastive, start=len(uniform)):
        rows[name] = (rows[name][0], row, rows[name][2])
    return uniform, rows


def known(space: Space, variables: pd.DataFrame) -> np.ndarray:
    """True at the steps where all variables of a space are known: (time,) booleans."""
    missing = variables[list(space.variables)].isna().to_numpy()
    return np.asarray(~missing.any(axis=1))


def _why_empty(space: Space) -> str:
    if isinstance(space, Time):
        return f"no epoch is longer than its offset of {max(space.offsets)} steps"
    return f"{list(space.variables)} are missing everywhere"


def _positives(space: Space, variables: pd.DataFrame, segments: np.ndarray, present: np.ndarray) -> Positives:
    if isinstance(space, Time):
        return Neighbours(np.asarray(space.offsets))
    steps = np.flatnonzero((segments >= 0) & present)
    if isinstance(space, Discrete):
        codes = pd.factorize(variables[space.variable])[0]
        return SameLabel(codes, Groups.of(steps, codes[steps]))
    assert isinstance(space, Follow)
    values, box = coordinates(space, variables, scales(space, variables))
    return following(space, values, box, segments, present)


def following(
    space: Follow, values: np.ndarray, box: np.ndarray, segments: np.ndarray, present: np.ndarray
) -> Following:
    """How the positives of a Follow space are drawn from the steps of some segments that are `present`."""
    steps = np.flatnonzero((segments >= 0) & present)
    starts = np.flatnonzero(same_segment(segments, space.offset) & present)
    starts = starts[present[starts + space.offset]]
    if not len(starts):
        raise ValueError(
            f"{list(space.variables)}: no change over {space.offset} steps can be taken within an epoch."
        )
    distinct, group = np.unique(values[steps], axis=0, return_inverse=True)
    return Following(values, box, starts, space.offset, distinct, Groups.of(steps, group.ravel()))


def scales(space: Follow, variables: pd.DataFrame) -> np.ndarray:
    """What makes the variables of a space comparable: the standard deviation of each; of an angle, that of a
    uniform one. (variable,)"""
    values = variables[list(space.variables)].to_numpy(dtype=np.float64)
    circular = np.isin(space.variables, space.circular)
    return np.where(circular, space.period / np.sqrt(12), np.nanstd(values, axis=0))


def coordinates(space: Follow, variables: pd.DataFrame, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variables over their scales, (time, variable), and the period of each (0: not circular)."""
    values = variables[list(space.variables)].to_numpy(dtype=np.float64)
    box = np.where(np.isin(space.variables, space.circular), space.period / scale, 0.0)
    return wrap(values / scale, box), box


def wrap(values: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Circular columns folded into [0, period)."""
    circular = box > 0
    if circular.any():
        values = values.copy()
        folded = np.mod(values[..., circular], box[circular])
        values[..., circular] = np.where(folded >= box[circular], 0.0, folded)  # mod may round up to it
    return values


def regression_values(space: Regress, variables: pd.DataFrame) -> np.ndarray:
    """The variables of a Regress space in their own units, angles as cosine and sine: (time, dim)."""
    columns = []
    for name in space.variables:
        value = variables[name].to_numpy(dtype=np.float64)
        if name in space.circular:
            angle = 2 * np.pi * value / space.period
            columns += [np.cos(angle), np.sin(angle)]
        else:
            columns.append(value)
    return np.stack(columns, axis=1)


def regression_statistics(space: Regress, variables: pd.DataFrame, steps: np.ndarray) -> np.ndarray:
    """Mean and spread of what a Regress space predicts, over `steps`: (2, dim)."""
    used = regression_values(space, variables)[steps]
    spread = np.nanstd(used, axis=0)
    return np.stack([np.nanmean(used, axis=0), np.where(spread > 0, spread, 1)])


def regression_targets(space: Regress, variables: pd.DataFrame, statistics: np.ndarray) -> np.ndarray:
    """What a Regress space predicts, standardised with given statistics (2, dim): (time, dim) float32.

    >>> table = pd.DataFrame({"a": [0.0, 1.0, 2.0]})
    >>> space = Regress("a")
    >>> regression_targets(space, table, regression_statistics(space, table, np.arange(3))).ravel().round(2)
    array([-1.22,  0.  ,  1.22], dtype=float32)
    """
    mean, spread = statistics
    return ((regression_values(space, variables) - mean) / spread).astype(np.float32)
