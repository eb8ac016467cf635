"""Formats of neuroscience, in and out: pynapple objects and NWB files (extra `[neuro]`)."""

from .nwb import read_nwb
from .pynapple import annotate, from_pynapple, to_pynapple

__all__ = ["annotate", "from_pynapple", "read_nwb", "to_pynapple"]
