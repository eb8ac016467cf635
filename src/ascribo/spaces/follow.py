"""A space whose positives follow the changes of continuous variables."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from ..kernels.terms import Similarity
from ..support.records import record
from .base import Space, _names, _set_circular

__all__ = ["Follow"]


@record
@dataclass(frozen=True)
class Follow(Space):
    """Positives follow the changes of continuous variables: c' = c(t) + Δ, Δ drawn from the recording.

    Parameters
    ----------
    variables : one name or several. Together they are one vector c; distances are taken after dividing each
        by its standard deviation.
    dim : number of embedding dimensions of this space.
    circular : True if all variables are angles, or the names of those that are. Differences and distances
        are then taken on the circle.
    period : full turn of the circular variables, in their own unit (radians by default; 360 for degrees).
    offset : Δ is the change over this many time steps.
    similarity, temperature : geometry of the space, see `ascribo.networks.losses`.
    nuisance : True to account for the space without reporting it: see `Space`.

    Examples
    --------
    >>> Follow(["x", "y"], dim=3).variables
    ('x', 'y')
    >>> Follow("heading", dim=2, circular=True).circular
    ('heading',)
    """

    variables: tuple[str, ...]
    dim: int
    _: KW_ONLY
    circular: tuple[str, ...] = ()
    period: float = 2 * np.pi
    offset: int = 1
    similarity: str | Similarity = "squared_l2"
    temperature: float | str = 1.0
    nuisance: bool = False

    def __post_init__(self):
        self._check()
        names = _names(self, self.variables)
        object.__setattr__(self, "variables", names)
        _set_circular(self, names)
        if not isinstance(self.offset, int | np.integer) or self.offset < 1:
            raise ValueError(f"Follow(offset={self.offset!r}): expected an integer of at least 1.")
