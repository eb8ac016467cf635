"""Calls for known variables in seconds, without training an encoder.

    screen.py               `screen`: from a recording and its spaces to calls
    space_tests.py          the test of each space, which the default attribution reports too
    space_result.py         its scores, intervals and p-values
    variables.py            the variables of the spaces, and blocks of time
    questions.py            what is asked about a space, and all that is conditioned on
    late_responses.py       channels that respond some time after
    slow_responses.py       a second question for channels that respond slowly
    features.py             features of variables and of channels, within epochs
    measurement_error.py    variables that were measured with error
    regression.py           regressions on many features
    noise.py                noise that stands for channels which carry nothing
    levels.py               how much of a channel the values of a space tell
    sign_flips.py           is a sum of products above chance?
    diagnostics.py          what about the variables may mislead, each with what to do

A space follows variables that were measured: what nobody measured needs a model.
"""

from .diagnostics import Note
from .screen import Screening, screen
from .space_result import SpaceTest
from .space_tests import screen_spaces

__all__ = ["Note", "Screening", "SpaceTest", "screen", "screen_spaces"]
