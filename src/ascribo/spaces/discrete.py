"""A space whose positives share a label."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from ..kernels.terms import Similarity
from ..support.records import record
from .base import Space

__all__ = ["Discrete"]


@record
@dataclass(frozen=True)
class Discrete(Space):
    """Positives share the label of one discrete variable (numbers, strings or categories).

    similarity, temperature, nuisance : as of `Follow`.

    Examples
    --------
    >>> Discrete("stimulus", dim=2)
    Discrete(variable='stimulus', dim=2, similarity='squared_l2', temperature=1.0, nuisance=False)
    """

    variable: str
    dim: int
    _: KW_ONLY
    similarity: str | Similarity = "squared_l2"
    temperature: float | str = 1.0
    nuisance: bool = False

    def __post_init__(self):
        self._check()
        if not isinstance(self.variable, str):
            raise ValueError(f"Discrete({self.variable!r}): expected the name of one variable.")

        object.__setattr__(self, "variables", (self.variable,))
