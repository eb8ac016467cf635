"""What is asked: kinds of spaces, their similarities, and the pairs of time steps they compare.

    base.py           `Space`: all that the library asks of a space
    kinds/            one module for each kind, with the way its positives are drawn
    similarities.py   how alike two points of a space are
    pairs.py          batches of references, positives and negatives on the host; device_pairs.py the same on a GPU
    positives.py, group_draws.py, nearest.py, sessions.py    what the kinds share

A new kind of space is one file: see `Space`.
"""

from .base import Space, dimension_names, layout, reported, space_kind
from .kinds import Discrete, Follow, Regress, Time

__all__ = [
    "Discrete",
    "Follow",
    "Regress",
    "Space",
    "Time",
    "dimension_names",
    "layout",
    "reported",
    "space_kind",
]
