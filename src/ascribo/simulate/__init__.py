"""Recordings with known truth."""

from .box import box

__all__ = ["box"]
