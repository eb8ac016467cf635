"""What the columns of the decoders' inputs are: each has a role, and belongs to a space."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

__all__ = ["Column", "Role", "which"]


class Role(Enum):
    """What a column tells about the variables, or about the embedding."""

    VALUE = auto()
    """The variables of a space at the time step itself."""
    EMBEDDING = auto()
    """The embedding of a space without variables, averaged over neighbours of the time step."""


@dataclass(frozen=True)
class Column:
    """A column of the inputs, and the space it belongs to."""

    role: Role
    space: str


def which(columns: Sequence[Column], roles: Collection[Role], space: str | None = None) -> np.ndarray:
    """(column,) booleans: those with one of some roles, of one space or (None) of all.

    >>> columns = [Column(Role.VALUE, "a"), Column(Role.EMBEDDING, "rest"), Column(Role.VALUE, "b")]
    >>> which(columns, {Role.VALUE}), which(columns, {Role.VALUE}, "b")
    (array([ True, False,  True]), array([False, False,  True]))
    """
    return np.array([c.role in roles and space in (None, c.space) for c in columns], dtype=bool)
