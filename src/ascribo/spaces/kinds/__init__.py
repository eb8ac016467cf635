"""The kinds of spaces, a module each, which register themselves with `ascribo.spaces.base.space_kind`."""

from .discrete import Discrete
from .follow import Follow
from .regress import Regress
from .time import Time

__all__ = ["Discrete", "Follow", "Regress", "Time"]
