"""Calls for known variables in seconds, without training an encoder."""

from .calls import Screening, screen
from .notes import Note

__all__ = ["Note", "Screening", "screen"]
