"""Recordings in longer bins than their file has, and which bins would let a question be asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ..data.formats.timed_series import samples_recording
from ..data.preprocessing import Treatment
from ..data.recording import Recording
from ..screening import screen_spaces
from ..spaces.base import Space

__all__ = ["average_in_bins", "propose_bin_size"]

FACTORS = (2, 4, 10, 20, 40)
"""Time steps in a bin that are tried."""
FEWEST_BINS = 500


def average_in_bins(recording: Recording, treatment: Treatment) -> Recording:
    """A recording in bins of the treatment's size, in seconds, then treated: channels are averaged.

    Of a variable each bin has the value nearest to its middle. No bin crosses the edge of an epoch.

    >>> recording = Recording(np.arange(8.0)[:, None], {"x": np.arange(8)}, time=np.arange(8) / 10)
    >>> longer = average_in_bins(recording, Treatment(bin_size=0.2))
    >>> longer.X.ravel().tolist(), longer.time.round(2).tolist()
    ([0.5, 2.5, 4.5, 6.5], [0.1, 0.3, 0.5, 0.7])
    """
    time, table = recording.time, recording.variables
    first = np.flatnonzero(np.diff(recording.epochs, prepend=-1))
    last = np.append(first[1:], len(recording)) - 1
    step = float(np.median(np.diff(time)[np.diff(recording.epochs) == 0]))
    intervals = np.stack([time[first], time[last] + step], 1)
    numeric = [str(name) for name in table if table[name].dtype.kind in "if"]
    return samples_recording(
        recording.X,
        time,
        recording.channel_names,
        intervals,
        treatment,
        variables={str(name): (time, table[name]) for name in table} or None,
        units=recording.units if recording.units.shape[1] else None,
        how=dict.fromkeys(numeric, "nearest"),
    )


def propose_bin_size(
    recording: Recording, spaces: Mapping[str, Space], undecided: Collection[str]
) -> tuple[float, list[str]] | None:
    """The shortest bin, in seconds, in which something can be asked about spaces that were undecided, and which.

    In very short time steps a variable that moves is told by its own past, and nothing new is left to ask about.
    Only whether there is a question counts here, never what its answer is.
    """
    known = {name: space for name, space in spaces.items() if space.variables}
    if not undecided or (np.diff(recording.time) < 0).any() or recording.treatment not in (None, Treatment()):
        return None
    step = float(np.median(np.diff(recording.time)))
    for factor in FACTORS:
        if len(recording) < factor * FEWEST_BINS:
            return None
        try:
            longer = average_in_bins(recording, Treatment(bin_size=factor * step))
            answers = screen_spaces(longer, known)
        except ValueError:  # too short for it
            return None
        decided = [test.space for test in answers if test.space in undecided and not test.why_refused]
        if decided:
            return float(np.format_float_positional(factor * step, 3, fractional=False)), decided
    return None
