"""How positives are drawn: neighbours in time, steps of one label, steps that follow changes of variables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.spatial import KDTree

from ..data.segments import same_segment
from .base import Space
from .follow import Follow
from .regress import Regress

__all__ = [
    "Following",
    "Groups",
    "Neighbours",
    "SameLabel",
    "coordinates",
    "following",
    "known",
    "regression_statistics",
    "regression_targets",
    "regression_values",
    "scales",
    "wrap",
]


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


def known(space: Space, variables: pd.DataFrame) -> np.ndarray:
    """True at the steps where all variables of a space are known: (time,) booleans."""
    missing = variables[list(space.variables)].isna().to_numpy()
    return np.asarray(~missing.any(axis=1))


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
