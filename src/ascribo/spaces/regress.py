"""A space that predicts variables: the supervised baseline."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from ..support.records import record
from .base import Space, _names, _set_circular

__all__ = ["Regress"]


@record
@dataclass(frozen=True)
class Regress(Space):
    """The supervised baseline: the block predicts the standardised variables under mean squared error.

    One dimension per variable (two, cosine and sine, per circular one); `dim` may be left out.

    circular, period, nuisance : as of `Follow`.

    Examples
    --------
    >>> Regress(["x", "y"]).dim
    2
    """

    variables: tuple[str, ...]
    dim: int = 0
    _: KW_ONLY
    circular: tuple[str, ...] = ()
    period: float = 2 * np.pi
    nuisance: bool = False
    similarity: ClassVar[str] = "squared_l2"
    temperature: ClassVar[float] = 1.0

    def __post_init__(self):
        names = _names(self, self.variables)
        object.__setattr__(self, "variables", names)
        needed = len(names) + len(_set_circular(self, names))
        if not self.dim:
            object.__setattr__(self, "dim", needed)
        self._check()
        if self.dim != needed:
            raise ValueError(
                f"Regress({list(names)}, dim={self.dim}): a regression has one dimension per variable and "
                f"two per circular one, here {needed}. Leave dim out or set it to {needed}."
            )
