"""Pairs drawn on the device, for a stack of models over one or several recordings.

The same distributions as `ascribo.spaces.pairs.Pairs.draw`, as a fixed sequence of tensor operations: nothing goes
through the host, so the draw is part of the CUDA graph of a training step. Recordings are laid end to end; all
indices count in that joint recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .nearest import NearestTable
from .pairs import Pairs
from .positives import Following, Groups, Neighbours, SameLabel

__all__ = ["DeviceSampler"]

WIDE = 2**62
"""Random integers are drawn below this and reduced: the bias of a remainder is then below 1e-12."""


@dataclass(frozen=True)
class _Ragged:
    """One array per recording, end to end: recording s has values[start[s]:start[s] + size[s]]."""

    values: Tensor
    start: Tensor
    size: Tensor

    @classmethod
    def of(cls, arrays: Sequence[np.ndarray], device) -> _Ragged:
        sizes = np.array([len(a) for a in arrays])
        to = lambda a: torch.from_numpy(np.ascontiguousarray(a)).to(device)  # noqa: E731
        return cls(to(np.concatenate(arrays)), to(np.cumsum(sizes) - sizes), to(sizes))

    def pick(self, which: Tensor, random: Tensor) -> Tensor:
        """A uniform value of recording which[m] for each random integer: (model,), (model, B) -> (model, B)."""
        return self.values[self.start[which, None] + random % self.size[which, None]]


@dataclass(frozen=True)
class _DeviceGroups:
    """`Groups` of all recordings; group g of recording s has the number base[s] + g."""

    members: Tensor
    start: Tensor
    size: Tensor
    base: Tensor

    @classmethod
    def of(cls, groups: Sequence[Groups], shift: Sequence[int], device) -> _DeviceGroups:
        counts = np.array([len(g.start) - 1 for g in groups])
        held = np.array([len(g.members) for g in groups])
        ahead = np.cumsum(held) - held
        to = lambda a: torch.from_numpy(np.ascontiguousarray(a)).to(device)  # noqa: E731
        return cls(
            to(np.concatenate([g.members + s for g, s in zip(groups, shift, strict=True)])),
            to(np.concatenate([g.start[:-1] + a for g, a in zip(groups, ahead, strict=True)])),
            to(np.concatenate([np.diff(g.start) for g in groups])),
            to(np.cumsum(counts) - counts),
        )

    def pick(self, group: Tensor, random: Tensor) -> Tensor:
        return self.members[self.start[group] + random % self.size[group]]


class DeviceSampler:
    """Draws index batches for a stack of models, all on the device.

    Parameters
    ----------
    pairs : one `Pairs` per recording, all of the same spaces.
    lengths : time steps of each recording.
    which : (model,) the recording of each model.
    """

    def __init__(self, pairs: Sequence[Pairs], lengths: Sequence[int], which: Tensor):
        if any(p.rows != pairs[0].rows for p in pairs):
            raise ValueError("the recordings of a stack must have the same spaces with the same missing parts.")
        device = which.device
        self.which = which
        shift = np.cumsum(lengths) - np.asarray(lengths)
        self.rows = pairs[0].rows
        self._uniform = [
            _Ragged.of([p.uniform[k] + s for p, s in zip(pairs, shift, strict=True)], device)
            for k in range(len(pairs[0].uniform))
        ]
        self._positive = {
            name: _POSITIVES[type(first)]([p.positive[name] for p in pairs], shift, device)
            for name, first in pairs[0].positive.items()
        }
        self._draws = len(self._uniform) + sum(p.draws for p in self._positive.values())

    def draw(self, batch: int, generator: torch.Generator | None = None) -> Tensor:
        """Indices (model, rows, batch) for one training step."""
        shape = (self._draws, len(self.which), batch)
        random = iter(torch.randint(WIDE, shape, generator=generator, device=self.which.device))
        rows = [pool.pick(self.which, next(random)) for pool in self._uniform]
        for name, positive in self._positive.items():
            some = [next(random) for _ in range(positive.draws)]
            rows.append(positive.draw(self.which, rows[self.rows[name][0]], some))
        return torch.stack(rows, 1)


class _Neighbours:
    def __init__(self, parts: Sequence[Neighbours], shift, device):
        self.offsets = torch.from_numpy(parts[0].offsets).to(device)
        self.draws = 1 if len(self.offsets) > 1 else 0

    def draw(self, which: Tensor, reference: Tensor, random: Sequence[Tensor]) -> Tensor:
        chosen = self.offsets[random[0] % len(self.offsets)] if self.draws else self.offsets
        return reference + chosen


class _SameLabel:
    draws = 1

    def __init__(self, parts: Sequence[SameLabel], shift, device):
        self.groups = _DeviceGroups.of([p.groups for p in parts], shift, device)
        base = self.groups.base.cpu().numpy()
        codes = [p.codes + b for p, b in zip(parts, base, strict=True)]
        self.codes = torch.from_numpy(np.concatenate(codes)).to(device)

    def draw(self, which: Tensor, reference: Tensor, random: Sequence[Tensor]) -> Tensor:
        return self.groups.pick(self.codes[reference], random[0])


class _Following:
    draws = 2

    def __init__(self, parts: Sequence[Following], shift, device):
        self.offset = parts[0].offset
        self.groups = _DeviceGroups.of([p.groups for p in parts], shift, device)
        self.starts = _Ragged.of([p.starts + s for p, s in zip(parts, shift, strict=True)], device)
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


_POSITIVES = {Neighbours: _Neighbours, SameLabel: _SameLabel, Following: _Following}
