"""Segments: runs of neighbours in time, what is held out of them, and steps spread evenly."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascribo.data.segments import evenly, hold_out, same_segment, segment_bounds


@given(lengths=st.lists(st.integers(1, 50), min_size=1, max_size=8), fraction=st.floats(0.0, 0.5))
@settings(max_examples=60, deadline=None)
def test_hold_out_splits_without_overlap_and_keeps_edges(lengths, fraction):
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    train, test = hold_out(epochs, fraction)
    assert ((train >= 0) ^ (test >= 0)).all()
    assert abs((test >= 0).mean() - fraction) <= 5 / len(epochs) + 0.02
    blocks = np.unique(test[test >= 0])
    assert len(blocks) <= 10 + len(lengths)
    for part in (train, test):
        together = same_segment(part, 1)[:-1]
        assert (epochs[1:] == epochs[:-1])[together].all()


def test_segment_bounds_enclose_each_step():
    segments = np.repeat([0, -1, 1, 2], [3, 2, 1, 4])
    first, last = segment_bounds(segments)
    assert (segments[first] == segments).all() and (segments[last] == segments).all()
    assert list(last - first + 1) == [3] * 3 + [2] * 2 + [1] + [4] * 4


def test_steps_are_spread_evenly_and_none_is_taken_twice():
    assert np.diff(evenly(1000, 10)).tolist() == [111] * 9
    assert evenly(5, 100).tolist() == evenly(5, None).tolist() == [0, 1, 2, 3, 4]
    assert evenly(0, 10).shape == (0,)
    for length, most in ((1_000_003, 999_999), (7, 6), (100_001, 100_000)):
        steps = evenly(length, most)
        assert len(np.unique(steps)) == most and steps[0] == 0 and steps[-1] == length - 1
