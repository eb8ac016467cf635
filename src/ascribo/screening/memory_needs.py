"""How much memory the test of known variables takes: an upper estimate, made before it begins."""

from __future__ import annotations

from collections.abc import Mapping

from ..data.recording import Recording
from ..spaces.base import Space
from .space_tests import most_time_steps

__all__ = ["screening_needs"]

FIXED = 90_000_000
LABELS = 40


def screening_needs(recording: Recording, spaces: Mapping[str, Space]) -> int:
    """Bytes that `screen_spaces` takes for spaces with variables, one space after the other.

    Counted: the channels and their normal scores (8 bytes an entry), what is kept of each space for its scores
    over time (6 bytes an entry), and some hundred columns of features and of noise (measured: 1.2 to 2.4 times less
    than this).
    """
    steps, channels = len(recording), recording.X.shape[1]
    used = min(steps, most_time_steps(channels))
    asked = [space for space in spaces.values() if space.variables]
    columns = sum(LABELS if space.categorical else len(space.variables) for space in asked)
    tables = 8 * steps * (columns + 2) if used < steps else 0
    return FIXED + tables + used * (700 + 8 * channels + len(asked) * 6 * channels + 450 * columns)
