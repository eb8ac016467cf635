"""Recordings with known truth."""

from .box import box
from .mixed import mixed
from .navigation import navigation

__all__ = ["box", "mixed", "navigation"]
