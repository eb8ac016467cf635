"""Recordings with known truth."""

from .box import box
from .mixed import mixed

__all__ = ["box", "mixed"]
