"""Simulated recordings, of which it is known which channels carry which variables."""

from .box import box
from .mixed import mixed
from .navigation import navigation

__all__ = ["box", "mixed", "navigation"]
