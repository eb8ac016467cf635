"""A space whose positives are neighbours in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ...data.segments import same_segment
from ...kernels.similarity_terms import Similarity
from ..base import Option, Space, space_kind
from ..group_draws import Groups
from ..positives import CircularShift, DevicePositives, Positives, SameGroup

__all__ = ["Neighbours", "Time"]


@space_kind
@dataclass(frozen=True, init=False)
class Time(Space):
    """Positives are neighbours in time: what remains when no variable is given.

    Parameters
    ----------
    dim : number of embedding dimensions of this space.
    offsets : the positive of time step t is t + o, with o drawn uniformly from these.
    similarity, temperature, nuisance : as of `Follow`.

    Examples
    --------
    >>> Time(dim=3, offsets=(1, 2)).offsets
    (1, 2)
    """

    dim: int
    _: KW_ONLY
    offsets: tuple[int, ...] = (1,)
    similarity: str | Similarity = "squared_l2"
    temperature: float | str = 1.0
    nuisance: bool = False

    variables: ClassVar[tuple[str, ...]] = ()
    option: ClassVar[Option | None] = Option("time", "NAME:DIM", "positives are neighbours in time")

    def __init__(
        self,
        dim: int,
        *,
        offsets: int | Sequence[int] = (1,),
        similarity: str | Similarity = "squared_l2",
        temperature: float | str = 1.0,
        nuisance: bool = False,
    ):
        given = (offsets,) if isinstance(offsets, int | np.integer) else tuple(offsets)
        self._set(dim=dim, offsets=given, similarity=similarity, temperature=temperature, nuisance=nuisance)
        self._check()
        if not given or any(not isinstance(o, int | np.integer) or o < 1 for o in given):
            raise ValueError(f"Time(offsets={offsets!r}): expected one or more integers of at least 1.")

    @property
    def reach(self) -> int:
        """See `Space`."""
        return max(self.offsets)

    @property
    def ahead(self) -> int:
        """See `Space`."""
        return max(self.offsets)

    def check_length(self, longest: int) -> None:
        """See `Space`."""
        if self.reach >= longest:
            raise ValueError(f"offset {self.reach} reaches beyond the longest epoch ({longest} time steps).")

    def usable(self, segments: np.ndarray) -> np.ndarray:
        """See `Space`."""
        return np.logical_and.reduce([same_segment(segments, offset) for offset in self.offsets])

    def why_empty(self) -> str:
        """See `Space`."""
        return f"no epoch is longer than its offset of {self.reach} time steps"

    def positives(self, variables: pd.DataFrame, segments: np.ndarray) -> Positives:
        """See `Space`."""
        return Neighbours(np.asarray(self.offsets))

    def shifted_positives(self, shift: CircularShift) -> Positives:
        """The neighbours of another time step, a lag away among those that are used.

        The lag is counted through the pool of references, so that the partner of a held-out time step is held out,
        and is (where the pool is long enough) at least one segment long: partners come from elsewhere.
        """
        pool, lag = shift.pool, 0
        if shift.time_share:
            least = min(int(np.bincount(shift.segments[pool]).max()), len(pool) // 4)
            lag = least + round(shift.time_share * (len(pool) - 2 * least))
        codes = np.zeros(len(shift.segments), dtype=np.int64)
        codes[pool] = np.arange(len(pool))
        neighbours = np.roll(pool, -lag)[:, None] + np.asarray(self.offsets)
        return SameGroup(codes, Groups(neighbours.ravel(), np.arange(len(pool) + 1) * len(self.offsets)))


@dataclass(frozen=True)
class Neighbours:
    """Positives of a `Time` space: the reference plus an offset drawn uniformly."""

    offsets: np.ndarray

    def draw(self, rng: np.random.Generator, reference: np.ndarray) -> np.ndarray:
        """See `Positives`."""
        return reference + self.offsets[rng.integers(0, len(self.offsets), len(reference))]

    def on_device(self, parts: Sequence[Neighbours], shift: np.ndarray, device: torch.device) -> DevicePositives:
        """See `Positives`."""
        return _NeighboursOnDevice(torch.from_numpy(self.offsets).to(device))


class _NeighboursOnDevice:
    def __init__(self, offsets: Tensor):
        self.offsets, self.draws = offsets, 1 if len(offsets) > 1 else 0

    def draw(self, which: Tensor, reference: Tensor, random: Sequence[Tensor]) -> Tensor:
        chosen = self.offsets[random[0] % len(self.offsets)] if self.draws else self.offsets
        return reference + chosen
