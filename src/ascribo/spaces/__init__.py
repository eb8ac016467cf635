"""What is asked: kinds of spaces, their similarities, and the pairs of time steps they compare."""

from .base import Space, layout, reported
from .discrete import Discrete
from .follow import Follow
from .regress import Regress
from .time import Time

__all__ = ["Discrete", "Follow", "Regress", "Space", "Time", "layout", "reported"]
