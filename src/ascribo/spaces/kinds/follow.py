"""A space whose positives follow the changes of continuous variables.

The positive of time step t is the one whose variables are nearest to c(t) + Δ, where c are the variables and Δ is a
change that was drawn from the recording, uniformly over time (Schneider et al. 2025, appendix A.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from scipy.spatial import KDTree
from torch import Tensor

from ...data.segments import same_segment
from ...kernels.similarity_terms import Similarity
from ...support.circle import short_way, wrap
from ..base import Option, Space, circular_names, space_kind, variable_names
from ..group_draws import DeviceGroups, Groups, Ragged
from ..nearest import NearestTable
from ..positives import CircularShift, DevicePositives, Positives
from ..sessions import Across, Member, turns

__all__ = ["Follow", "Following"]

NEAR = 0.1
"""Standard deviations (in each variable) within which a step of another session stands for the same values."""


@space_kind
@dataclass(frozen=True, init=False)
class Follow(Space):
    """Positives follow the changes of continuous variables: c' = c(t) + Δ, Δ drawn from the recording.

    Parameters
    ----------
    variables : one name or several. Together they are one vector c; distances are taken after dividing each
        by its standard deviation.
    dim : number of embedding dimensions of this space.
    circular : True if all variables are angles, or the names of those that are. Differences and distances
        are then taken on the circle.
    period : full turn of the circular variables, in their own unit (radians by default; 360 for degrees).
    offset : Δ is the change over this many time steps.
    similarity : how alike two points of the block are: "squared_l2", "dot" (on a sphere), or an object such as
        `ascribo.Lp(3)`. temperature : what the similarity is divided by, or "learn".
    nuisance : True to account for the space without reporting it: see `Space`.

    Examples
    --------
    >>> Follow(["x", "y"], dim=3).variables
    ('x', 'y')
    >>> Follow("heading", dim=2, circular=True).circular
    ('heading',)
    """

    variables: tuple[str, ...]
    dim: int
    _: KW_ONLY
    circular: tuple[str, ...] = ()
    period: float = 2 * np.pi
    offset: int = 1
    similarity: str | Similarity = "squared_l2"
    temperature: float | str = 1.0
    nuisance: bool = False

    comparable: ClassVar[bool] = True
    option: ClassVar[Option | None] = Option(
        "follow",
        "NAME=VAR[,VAR...][:DIM]",
        "positives follow the changes of continuous variables (DIM: one per variable, two per circular one)",
        dim="maybe",
        many=True,
    )

    def __init__(
        self,
        variables: str | Sequence[str],
        dim: int,
        *,
        circular: bool | str | Sequence[str] = (),
        period: float = 2 * np.pi,
        offset: int = 1,
        similarity: str | Similarity = "squared_l2",
        temperature: float | str = 1.0,
        nuisance: bool = False,
    ):
        self._set(dim=dim, period=period, offset=offset)
        self._set(similarity=similarity, temperature=temperature, nuisance=nuisance)
        self._check()
        names = variable_names("Follow", variables)
        self._set(variables=names, circular=circular_names("Follow", names, circular, period))
        if not isinstance(offset, int | np.integer) or offset < 1:
            raise ValueError(f"Follow(offset={offset!r}): expected an integer of at least 1.")

    @property
    def reach(self) -> int:
        """See `Space`."""
        return self.offset

    @property
    def periods(self) -> tuple[float, ...]:
        """See `Space`."""
        return tuple(self.period if name in self.circular else 0.0 for name in self.variables)

    def positives(self, variables: pd.DataFrame, segments: np.ndarray) -> Following:
        """See `Space`."""
        values, box = self._coordinates(variables, self.measure([variables]))
        return self._following(values, box, segments, self.known(variables))

    def shifted_positives(self, shift: CircularShift) -> Positives:
        """Changes are taken within the variables' own epochs, wherever the shift has brought them, and not across
        the seam where the end of the variables meets their beginning."""
        found = self.positives(shift.variables, shift.segments)
        good = (shift.segments >= 0) & self.known(shift.variables)
        start, stop = np.arange(len(good) - self.offset), np.arange(self.offset, len(good))
        origin, epochs = shift.origin, shift.epochs
        change = good[start] & good[stop] & (epochs[origin[start]] == epochs[origin[stop]])
        change &= origin[stop] - origin[start] == self.offset
        if not change.any():
            raise ValueError(f"{list(self.variables)}: after a shift no change of the variables is left.")
        return replace(found, starts=start[change])

    def measure(self, tables: Sequence[pd.DataFrame]) -> np.ndarray:
        """What makes the variables comparable: the standard deviation of each; of an angle, that of a uniform one.

        (variable,)
        """
        joint = pd.DataFrame(pd.concat([t[list(self.variables)] for t in tables])) if len(tables) > 1 else tables[0]
        values = joint[list(self.variables)].to_numpy(dtype=np.float64)
        circular = np.isin(self.variables, self.circular)
        return np.where(circular, self.period / np.sqrt(12), np.nanstd(values, axis=0))

    def across(self, name: str, members: Mapping[int, Member], measure: Any) -> Across:
        """See `Space`."""
        parts, changes = [], []
        for member in members.values():
            values, box = self._coordinates(member.variables, np.asarray(measure))
            present = self.known(member.variables)
            if name in member.kept:  # single time steps of a session: the changes were kept beside them
                rows, none = np.flatnonzero((member.segments >= 0) & present), np.empty(0, dtype=np.int64)
                parts.append(Following.of(values, box, none, self.offset, rows))
                changes.append(member.kept[name])
            else:
                parts.append(self._following(values, box, member.segments, present))
                changes.append(parts[-1].changes())
        owner = np.repeat(np.arange(len(changes)), [len(c) for c in changes])
        origin = Groups.of(np.arange(len(owner)), owner)
        return _FollowAcross(list(members), parts, np.concatenate(changes), origin)

    def binning_values(self, table: pd.DataFrame, measure: Any) -> np.ndarray:
        """See `Space`."""
        return self._coordinates(table, np.asarray(measure))[0]

    @classmethod
    def from_option(cls, variables: tuple[str, ...], dim: int | None, **others: Any) -> Follow:
        """One dimension per variable and two per circular one, unless `dim` says otherwise."""
        return cls(
            variables, dim=len(variables) + len(others.get("circular", ())) if dim is None else dim, **others
        )

    def _coordinates(self, variables: pd.DataFrame, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Variables over their scales, (time, variable), and the period of each (0: not circular)."""
        values = variables[list(self.variables)].to_numpy(dtype=np.float64)
        box = np.where(np.isin(self.variables, self.circular), self.period / scale, 0.0)
        return wrap(values / scale, box), box

    def _following(
        self, values: np.ndarray, box: np.ndarray, segments: np.ndarray, present: np.ndarray
    ) -> Following:
        """How positives are drawn from the time steps of some segments that are `present`."""
        rows = np.flatnonzero((segments >= 0) & present)
        starts = np.flatnonzero(same_segment(segments, self.offset) & present)
        starts = starts[present[starts + self.offset]]
        if not len(starts):
            raise ValueError(
                f"{list(self.variables)}: no change over {self.offset} steps can be taken within an epoch."
            )
        return Following.of(values, box, starts, self.offset, rows)


@dataclass(frozen=True)
class Following:
    """Positives of a `Follow` space: the step whose variables are nearest to c(t) + c(τ + offset) - c(τ).

    values : (time, k) variables on comparable scales. box : (k,) their periods, 0 if not circular.
    starts : (n,) the steps τ. distinct : (m, k) the values that occur, `groups` the steps of each.
    """

    values: np.ndarray
    box: np.ndarray
    starts: np.ndarray
    offset: int
    distinct: np.ndarray
    groups: Groups

    @classmethod
    def of(
        cls, values: np.ndarray, box: np.ndarray, starts: np.ndarray, offset: int, rows: np.ndarray
    ) -> Following:
        """rows : (n,) the time steps that positives are taken from."""
        own = values[rows]
        # np.unique(own, axis=0) takes a second for a million steps; as a rule the first variable has no ties
        order = np.argsort(own[:, 0])
        if (own[order[1:], 0] == own[order[:-1], 0]).any():
            order = np.lexsort(own.T[::-1])
        first = np.ones(len(own), dtype=bool)
        first[1:] = (own[order[1:]] != own[order[:-1]]).any(1)
        groups = Groups(rows[order], np.r_[np.flatnonzero(first), len(own)])
        return cls(values, box, starts, offset, own[order[first]], groups)

    @cached_property
    def tree(self) -> KDTree:
        """Over distinct values: a tree of all steps would always answer a tie with the same one of them."""
        # a tree that knows of no period answers in two thirds of the time, leaves of 16 a little sooner than of 10
        return KDTree(self.distinct, leafsize=16, boxsize=self.box if self.box.any() else None)

    def draw(self, rng: np.random.Generator, reference: np.ndarray) -> np.ndarray:
        """See `Positives`."""
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
        return short_way(change, self.box)

    def on_device(self, parts: Sequence[Following], shift: np.ndarray, device: torch.device) -> DevicePositives:
        """See `Positives`."""
        return _FollowingOnDevice(parts, shift, device)


class _FollowingOnDevice:
    draws = 2

    def __init__(self, parts: Sequence[Following], shift: np.ndarray, device: torch.device):
        self.offset = parts[0].offset
        self.groups = DeviceGroups.of([p.groups for p in parts], shift, device)
        self.starts = Ragged.of([p.starts + s for p, s in zip(parts, shift, strict=True)], device)
        self.values = torch.from_numpy(np.concatenate([p.values for p in parts]).astype(np.float32)).to(device)
        changes = [p.values[p.starts + p.offset] - p.values[p.starts] for p in parts]
        margin = float(max(np.quantile(np.abs(c), 0.999) for c in changes))
        self.table = NearestTable.build([p.distinct for p in parts], parts[0].box, margin, device)

    def draw(self, which: Tensor, reference: Tensor, random: Sequence[Tensor]) -> Tensor:
        tau = self.starts.pick(which, random[0])
        target = self.values[reference] + self.values[tau + self.offset] - self.values[tau]
        box = self.table.box
        if self.table.circular:
            target = torch.where(box > 0, target.remainder(torch.where(box > 0, box, 1.0)), target)
        nearest = self.table.query(which, target)
        return self.groups.pick(self.groups.base[which, None] + nearest, random[1])


@dataclass(frozen=True)
class _FollowAcross:
    """Positives of a `Follow` space in several sessions.

    Variables are divided by one standard deviation for all sessions, and changes come from all of them alike: where
    a pair comes from then says nothing about how far apart it is. Not every c' has a counterpart: the other animal
    may never have been there. A positive that is further from c' than a tenth of a standard deviation in each
    variable, and further than Δ is long, does not count.
    """

    sessions: list[int]
    parts: list[Following]
    all_changes: np.ndarray
    origin: Groups

    def draw(self, rng: np.random.Generator, references: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
        sessions, steps, batch = references.shape
        # Every session is asked for its changes equally often, whosever reference it is.
        change = self.all_changes[self.origin.pick(rng, rng.integers(0, sessions, references.shape))]
        values = np.stack([part.values[r] for part, r in zip(self.parts, references, strict=True)])
        box = self.parts[0].box
        target, length = wrap(values + change, box), np.linalg.norm(change, axis=-1)
        sender, partner = turns(sessions, steps, batch, start)
        step, place = np.arange(steps)[:, None], np.arange(batch)
        positives, distance = np.empty_like(references), np.empty(references.shape)
        for k, part in enumerate(self.parts):
            asked = target[sender[k], step, place]
            found = part.nearest(rng, asked.reshape(-1, asked.shape[-1]))
            positives[k], distance[k] = (value.reshape(steps, batch) for value in found)
        near = NEAR * np.sqrt(target.shape[-1])
        return positives, distance[partner, step, place] <= np.maximum(length, near)

    def keep(self, session: int) -> np.ndarray:
        """The changes of a session's variables, over their scales: (n, variable)."""
        first, last = self.origin.start[self.sessions.index(session) :][:2]
        return self.all_changes[self.origin.members[first:last]]
