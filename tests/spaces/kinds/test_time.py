"""`Time`: positives lie one of the offsets later, each as often, within their epoch."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ascribo.spaces.kinds.time import Time
from ascribo.spaces.pairs import Pairs
from ascribo.spaces.positives import CircularShift
from tests.spaces.given import rows, table


def test_time_offsets_are_uniform_and_independent_of_the_reference():
    pairs = Pairs({"rest": Time(1, offsets=(1, 3, 7))}, table(x=np.zeros(200)), np.zeros(200, int))
    reference, positive, _ = rows(pairs, pairs.draw(np.random.default_rng(1), 100, 100), "rest")
    offset = positive - reference
    assert stats.chisquare([(offset == o).sum() for o in (1, 3, 7)]).pvalue > 1e-3
    assert set(offset) == {1, 3, 7}
    assert stats.spearmanr(offset, reference).pvalue > 1e-3


def test_offsets_that_no_epoch_is_long_enough_for_are_refused():
    with pytest.raises(ValueError, match="no epoch is longer than its offset of 3 time steps"):
        Pairs({"rest": Time(1, offsets=(1, 3))}, table(x=np.zeros(9)), np.repeat([0, 1, 2], 3))
    with pytest.raises(ValueError, match=r"offset 3 reaches beyond the longest epoch \(3 time steps\)"):
        Time(1, offsets=3).check_length(3)


def test_partners_of_a_shift_come_from_another_segment():
    """The neighbours of a step elsewhere: a shift takes the relation of channels and time away."""
    segments = np.repeat([0, 1, 2, 3], 50)
    pool = np.flatnonzero(Time(1).usable(segments))
    none = pd.DataFrame(index=range(200))
    shift = CircularShift(none, np.arange(200), segments, segments, pool, time_share=0.3)
    positive = Time(1).shifted_positives(shift).draw(np.random.default_rng(0), pool)
    assert (segments[positive] != segments[pool]).all() and len(np.unique(positive)) == len(pool)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Time(dim=0), "dim must be an integer of at least 1"),
        (lambda: Time(dim=1.5), "dim=1.5"),
        (lambda: Time(1, offsets=0), "offsets=0"),
    ],
)
def test_a_bad_description_is_refused_when_made(make, message):
    with pytest.raises(ValueError, match=message):
        make()
