"""A space that predicts variables: the supervised baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from ..base import Option, Space, circular_names, space_kind, variable_names

__all__ = ["Regress"]


@space_kind
@dataclass(frozen=True, init=False)
class Regress(Space):
    """The supervised baseline: the block predicts the standardised variables under mean squared error.

    One dimension per variable (two, cosine and sine, per circular one); `dim` may be left out.

    circular, period, nuisance : as of `Follow`.

    Examples
    --------
    >>> Regress(["x", "y"]).dim
    2
    >>> table = pd.DataFrame({"a": [0.0, 1.0, 2.0]})
    >>> Regress("a").targets(table, Regress("a").target_statistics(table, np.arange(3))).ravel().round(2)
    array([-1.22,  0.  ,  1.22], dtype=float32)
    """

    variables: tuple[str, ...]
    dim: int = 0
    _: KW_ONLY
    circular: tuple[str, ...] = ()
    period: float = 2 * np.pi
    nuisance: bool = False

    similarity: ClassVar[str] = "squared_l2"
    temperature: ClassVar[float] = 1.0
    contrastive: ClassVar[bool] = False
    comparable: ClassVar[bool] = True
    option: ClassVar[Option | None] = Option(
        "regress", "NAME=VAR[,VAR...]", "predict the variables: the supervised baseline", dim="no", many=True
    )

    def __init__(
        self,
        variables: str | Sequence[str],
        dim: int = 0,
        *,
        circular: bool | str | Sequence[str] = (),
        period: float = 2 * np.pi,
        nuisance: bool = False,
    ):
        names = variable_names("Regress", variables)
        angles = circular_names("Regress", names, circular, period)
        needed = len(names) + len(angles)
        self._set(variables=names, dim=dim or needed, circular=angles, period=period, nuisance=nuisance)
        self._check()
        if self.dim != needed:
            raise ValueError(
                f"Regress({list(names)}, dim={self.dim}): a regression has one dimension per variable and "
                f"two per circular one, here {needed}. Leave dim out or set it to {needed}."
            )

    @property
    def periods(self) -> tuple[float, ...]:
        """See `Space`."""
        return tuple(self.period if name in self.circular else 0.0 for name in self.variables)

    def target_values(self, variables: pd.DataFrame) -> np.ndarray:
        """The variables in their own units, angles as cosine and sine: (time, dim)."""
        return self.values(variables)
