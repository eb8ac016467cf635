"""A space whose positives are neighbours in time."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from ..kernels.terms import Similarity
from ..support.records import record
from .base import Space

__all__ = ["Time"]


@record
@dataclass(frozen=True)
class Time(Space):
    """Positives are neighbours in time: what remains when no variable is given.

    Parameters
    ----------
    dim : number of embedding dimensions of this space.
    offsets : the positive of step t is step t + o, with o drawn uniformly from these.
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

    def __post_init__(self):
        self._check()
        given: Any = self.offsets
        offsets = (given,) if isinstance(given, int | np.integer) else tuple(given)
        if not offsets or any(not isinstance(o, int | np.integer) or o < 1 for o in offsets):
            raise ValueError(f"Time(offsets={self.offsets!r}): expected one or more integers of at least 1.")
        object.__setattr__(self, "offsets", offsets)
