"""Uniform draws from groups of time steps, on the host and on a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = ["DeviceGroups", "Groups", "Ragged"]


@dataclass(frozen=True)
class Groups:
    """Members of each group, for drawing one uniformly: group g holds members[start[g]:start[g + 1]]."""

    members: np.ndarray
    start: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, group: np.ndarray, least: int = 0) -> Groups:
        """Group `rows` by their group numbers, both (n,); at least `least` groups, some of them empty."""
        order = np.argsort(group, kind="stable")
        return cls(rows[order], np.r_[0, np.cumsum(np.bincount(group, minlength=least))])

    @property
    def sizes(self) -> np.ndarray:
        """Number of members of each group."""
        return np.diff(self.start)

    def pick(self, rng: np.random.Generator, group: np.ndarray) -> np.ndarray:
        """A uniformly drawn member of each group asked for."""
        size = self.start[group + 1] - self.start[group]
        return self.members[self.start[group] + (rng.random(group.shape) * size).astype(np.int64)]


@dataclass(frozen=True)
class Ragged:
    """One array per recording, end to end on a device: recording s has values[start[s]:start[s] + size[s]]."""

    values: Tensor
    start: Tensor
    size: Tensor

    @classmethod
    def of(cls, arrays: Sequence[np.ndarray], device: torch.device) -> Ragged:
        """Arrays of several recordings, (n_s,) each."""
        sizes = np.array([len(a) for a in arrays])
        return cls(*(_to(a, device) for a in (np.concatenate(arrays), np.cumsum(sizes) - sizes, sizes)))

    def pick(self, which: Tensor, random: Tensor) -> Tensor:
        """A uniform value of recording which[m] for each random integer: (model,), (model, B) -> (model, B)."""
        return self.values[self.start[which, None] + random % self.size[which, None]]


@dataclass(frozen=True)
class DeviceGroups:
    """`Groups` of all recordings on a device; group g of recording s has the number base[s] + g."""

    members: Tensor
    start: Tensor
    size: Tensor
    base: Tensor

    @classmethod
    def of(cls, groups: Sequence[Groups], shift: Sequence[int] | np.ndarray, device: torch.device) -> DeviceGroups:
        """shift : for each recording, where its time steps begin in the joint recording."""
        counts = np.array([len(g.start) - 1 for g in groups])
        held = np.array([len(g.members) for g in groups])
        ahead = np.cumsum(held) - held
        return cls(
            _to(np.concatenate([g.members + s for g, s in zip(groups, shift, strict=True)]), device),
            _to(np.concatenate([g.start[:-1] + a for g, a in zip(groups, ahead, strict=True)]), device),
            _to(np.concatenate([np.diff(g.start) for g in groups]), device),
            _to(np.cumsum(counts) - counts, device),
        )

    def pick(self, group: Tensor, random: Tensor) -> Tensor:
        """A uniform member of each group for each random integer, both (model, B)."""
        return self.members[self.start[group] + random % self.size[group]]


def _to(array: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)
