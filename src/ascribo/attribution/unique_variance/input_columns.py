"""What the columns of the decoders' inputs are: each has a role, and belongs to a space."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

__all__ = ["SEEN_WITH_EMBEDDINGS", "SEEN_WITH_INNOVATIONS", "VARIABLES", "Column", "Role", "which"]


class Role(Enum):
    """What a column tells about the variables, or about the embedding."""

    PAST_EMBEDDING = auto()
    """The embedding of all spaces, taken so early that it knows nothing of any innovation."""
    PAST = auto()
    """The variables of a space, one lag ago."""
    EARLIER_PAST = auto()
    """The same when the past embedding was taken, for a space whose own lag is shorter."""
    PAST_CHANGE = auto()
    """How the variables were changing then: the past embedding may know, and paths may be smooth."""
    INNOVATION = auto()
    """The change of the variables since one lag ago."""
    PRESENT = auto()
    """The variables at the time step itself."""
    EMBEDDING = auto()
    """The embedding of a space without variables, averaged over neighbours of the time step."""


SEEN_WITH_INNOVATIONS = frozenset(
    {Role.PAST_EMBEDDING, Role.PAST, Role.EARLIER_PAST, Role.PAST_CHANGE, Role.INNOVATION}
)
"""What the decoder sees that spaces with variables are tested with."""
SEEN_WITH_EMBEDDINGS = frozenset({Role.PRESENT, Role.EMBEDDING})
"""What the decoders see that spaces without variables are compared with."""

VARIABLES = frozenset({Role.PAST, Role.EARLIER_PAST, Role.PAST_CHANGE, Role.INNOVATION, Role.PRESENT})
"""What is known of the variables, not of the embedding."""


@dataclass(frozen=True)
class Column:
    """A column of the inputs. space : the space it belongs to; None for the past embedding, which is of all."""

    role: Role
    space: str | None = None


def which(columns: Sequence[Column], roles: Collection[Role], space: str | None = None) -> np.ndarray:
    """(column,) booleans: those with one of some roles, of one space or (None) of all.

    >>> columns = [Column(Role.PAST, "a"), Column(Role.INNOVATION, "a"), Column(Role.PAST, "b")]
    >>> which(columns, {Role.PAST}), which(columns, {Role.PAST}, "b")
    (array([ True, False,  True]), array([False, False,  True]))
    """
    return np.array([c.role in roles and space in (None, c.space) for c in columns], dtype=bool)
