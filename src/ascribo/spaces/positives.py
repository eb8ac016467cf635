"""How positives are drawn: what every kind of space gives, and what two kinds share.

References and negatives are uniform over time steps. A contrastive space says how the positive of a reference is
drawn, in bulk, on the host (`Positives.draw`) and as a fixed sequence of tensor operations on a device
(`DevicePositives.draw`), which is then part of the CUDA graph of a training step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from .group_draws import DeviceGroups, Groups

__all__ = ["CircularShift", "DevicePositives", "Positives", "SameGroup"]


class Positives(Protocol):
    """How the positives of a space are drawn from one recording."""

    def draw(self, rng: np.random.Generator, reference: np.ndarray) -> np.ndarray:
        """(n,) references, time steps -> (n,) positives."""
        ...

    def on_device(self, parts: Sequence, shift: np.ndarray, device: torch.device) -> DevicePositives:
        """The same on a device, for several recordings laid end to end.

        parts : the `Positives` of each recording, this one the first. shift : (recording,) where the time steps of
        each begin; indices count in the joint recording.
        """
        ...


class DevicePositives(Protocol):
    """How the positives of a space are drawn on a device.

    draws : random integers needed for each positive.
    """

    draws: int

    def draw(self, which: Tensor, reference: Tensor, random: Sequence[Tensor]) -> Tensor:
        """(model, B) references -> (model, B) positives.

        which : (model,) the recording of each model. random : `draws` tensors (model, B) of large random integers.
        """
        ...


@dataclass(frozen=True)
class CircularShift:
    """A recording whose variables are moved later by a lag, around a circle, against its channels.

    variables : (time, variable), moved. origin : (time,) where each row of them was before. segments, epochs :
    (time,) of the channels, and of the recording before. pool : (n,) time steps that references are drawn from.
    time_share : for spaces without variables the lag as a share of the circle; 0 leaves them as they are.
    """

    variables: pd.DataFrame
    origin: np.ndarray
    segments: np.ndarray
    epochs: np.ndarray
    pool: np.ndarray
    time_share: float = 0.0


@dataclass(frozen=True)
class SameGroup:
    """Positives are uniform among the members of the reference's group.

    codes : (time,) the group of each time step. groups : their members.
    """

    codes: np.ndarray
    groups: Groups

    def draw(self, rng: np.random.Generator, reference: np.ndarray) -> np.ndarray:
        """See `Positives`."""
        return self.groups.pick(rng, self.codes[reference])

    def on_device(self, parts: Sequence[SameGroup], shift: np.ndarray, device: torch.device) -> DevicePositives:
        """See `Positives`."""
        groups = DeviceGroups.of([p.groups for p in parts], shift, device)
        base = groups.base.cpu().numpy()
        codes = [p.codes + b for p, b in zip(parts, base, strict=True)]
        return _SameGroupOnDevice(groups, torch.from_numpy(np.concatenate(codes)).to(device))


class _SameGroupOnDevice:
    draws = 1

    def __init__(self, groups: DeviceGroups, codes: Tensor):
        self.groups, self.codes = groups, codes

    def draw(self, which: Tensor, reference: Tensor, random: Sequence[Tensor]) -> Tensor:
        return self.groups.pick(self.codes[reference], random[0])
