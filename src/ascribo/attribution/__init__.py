"""Which channels carry which space: attribution methods, one file each, and the one result that they all have."""

from . import methods
from .calls import call_channels
from .encoded import EncodedRecording
from .local import local_method
from .maps import AttributionMaps
from .registry import METHODS, attribute, recording_method

__all__ = [
    "METHODS",
    "AttributionMaps",
    "EncodedRecording",
    "attribute",
    "call_channels",
    "local_method",
    "methods",
    "recording_method",
]
