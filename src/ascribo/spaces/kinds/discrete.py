"""A space whose positives share a label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...kernels.similarity_terms import Similarity
from ..base import Option, Space, space_kind
from ..group_draws import Groups
from ..positives import Positives, SameGroup
from ..sessions import Across, Member, SameGroupAcross

__all__ = ["Discrete"]


@space_kind
@dataclass(frozen=True)
class Discrete(Space):
    """Positives share the label of one discrete variable (numbers, strings or categories).

    Parameters
    ----------
    variable : name of the variable.
    dim : number of embedding dimensions of this space.
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

    categorical: ClassVar[bool] = True
    comparable: ClassVar[bool] = True
    option: ClassVar[Option | None] = Option("discrete", "NAME=VAR:DIM", "positives share the label of a variable")

    def __post_init__(self):
        self._check()
        if not isinstance(self.variable, str):
            raise ValueError(f"Discrete({self.variable!r}): expected the name of one variable.")
        self._set(variables=(self.variable,))

    def check_variable(self, name: str, column: pd.Series) -> None:
        """Any kind of value can be a label."""

    def positives(self, variables: pd.DataFrame, segments: np.ndarray) -> Positives:
        """See `Space`."""
        rows = np.flatnonzero((segments >= 0) & self.known(variables))
        codes = pd.factorize(variables[self.variable])[0]
        return SameGroup(codes, Groups.of(rows, codes[rows]))

    def values(self, variables: pd.DataFrame) -> np.ndarray:
        """See `Space`."""
        return pd.get_dummies(variables[self.variable]).to_numpy(np.float32)

    def measure(self, tables: Sequence[pd.DataFrame]) -> list[Any]:
        """The labels of all sessions, in the order in which they are met."""
        labels = pd.concat([t[self.variable].astype(object) for t in tables]).dropna().unique()
        return [label.item() if isinstance(label, np.generic) else label for label in labels]

    def extended_measure(self, measure: Any, table: pd.DataFrame) -> list[Any]:
        """See `Space`."""
        return [*measure, *(label for label in self.measure([table]) if label not in measure)]

    def across(self, name: str, members: Mapping[int, Member], measure: Any) -> Across:
        """See `Space`."""
        return SameGroupAcross(list(members), [self._part(member, measure) for member in members.values()])

    def _part(self, member: Member, labels: Any) -> SameGroup:
        column = member.variables[self.variable].astype(object)
        codes = np.asarray(pd.Categorical(column, categories=list(labels)).codes, dtype=np.int64)
        rows = np.flatnonzero((member.segments >= 0) & (codes >= 0))
        return SameGroup(codes, Groups.of(rows, codes[rows], least=len(labels)))

    def binning_values(self, table: pd.DataFrame, measure: Any) -> np.ndarray:
        """See `Space`."""
        return table[[self.variable]].astype(object).to_numpy()

    @classmethod
    def from_option(cls, variables: tuple[str, ...], dim: int | None, **others: Any) -> Discrete:
        """See `Space`."""
        return cls(variables[0], dim=dim or 0, **others)
