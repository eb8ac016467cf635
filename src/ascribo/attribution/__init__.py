"""Which channels carry which space: attribution methods, one file each, and the one result that they all have.

    unique_variance/                        the default method: what of a channel only one space explains
    methods/                                the local methods, one file each: a map at every time step
    method_registry.py, local_methods.py    methods by name, and how local ones are registered
    method_inputs.py                        what a method is given: a fitted model and an encoded recording
    jacobian.py, mean_gradients.py          what several methods compute
    aggregate.py                            maps over time as scores of channels
    maps.py, map_files.py                   the result, and the file it can be written to
    false_discovery_rate.py                 which channels carry a space: p, q and a call for each

Attribution asks which channels carry a space of a model of this package. `ascribo.explain` asks which inputs and
which training examples built a representation, for any encoder.
"""

from . import methods
from .false_discovery_rate import call_channels
from .local_methods import local_method
from .maps import AttributionMaps
from .method_inputs import EncodedRecording
from .method_registry import METHODS, attribute, recording_method

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
