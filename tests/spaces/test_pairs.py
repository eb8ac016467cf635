"""Batches of pairs: uniform references and negatives, nothing missing, nothing across an epoch's edge."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascribo.data.segments import same_segment
from ascribo.spaces.kinds.discrete import Discrete
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.regress import Regress
from ascribo.spaces.kinds.time import Time
from ascribo.spaces.pairs import Pairs
from tests.spaces.given import rows, table, uniform


def test_references_and_negatives_are_uniform():
    segments = np.repeat([0, 1, -1, 2], [30, 20, 10, 40])
    pairs = Pairs({"rest": Time(1)}, table(x=np.zeros(100)), segments)
    batch = pairs.draw(np.random.default_rng(0), 200, 100)
    reference, positive, negative = rows(pairs, batch, "rest")
    valid = np.flatnonzero(same_segment(segments, 1))
    assert len(valid) == 87
    assert uniform(reference, valid) > 1e-3
    assert uniform(negative, valid) > 1e-3
    assert (positive == reference + 1).all()
    # references and negatives are not the same draw
    assert np.corrcoef(reference, negative)[0, 1] < 0.05


def test_missing_rows_are_left_out_of_their_space_only():
    x = np.linspace(0, 1, 100)
    x[20:40] = np.nan
    pairs = Pairs({"x": Follow("x", 1), "rest": Time(1)}, table(x=x), np.zeros(100, int))
    batch = pairs.draw(np.random.default_rng(8), 100, 100)
    hole = np.arange(20, 40)
    for part in rows(pairs, batch, "x"):
        assert not np.isin(part, hole).any()
    assert np.isin(hole, rows(pairs, batch, "rest")[0]).all()
    assert pairs.left_out == {"x": 20, "rest": 0}


def test_spaces_with_the_same_steps_share_references():
    variables = table(x=np.arange(50.0), y=np.r_[np.nan, np.arange(49.0)], g=list("ab") * 25)
    spaces = {"x": Follow("x", 1), "y": Follow("y", 1), "g": Discrete("g", 1), "r": Regress("y"), "t": Time(1)}
    pairs = Pairs(spaces, variables, np.zeros(50, int))
    reference = {name: row[0] for name, row in pairs.rows.items()}
    assert reference["x"] == reference["g"] == reference["t"] != reference["y"] == reference["r"]
    assert pairs.rows["r"][1:] == (None, None)
    assert pairs.draw(np.random.default_rng(0), 2, 8).shape == (2, 2 * 2 + 4, 8)


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    offsets=st.sets(st.integers(1, 4), min_size=1),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_no_pair_or_change_crosses_an_epoch(lengths, offsets, seed):
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    # within an epoch x rises by 1 a step, between epochs it leaps by 1000: a change across an edge would show
    x = np.arange(len(epochs)) + 1000.0 * epochs
    if max(lengths) <= max(offsets):
        with pytest.raises(ValueError, match="rest"):
            Pairs({"rest": Time(1, offsets=tuple(offsets))}, table(x=x), epochs)
        return
    spaces = {"x": Follow("x", 1, offset=min(offsets)), "rest": Time(1, offsets=tuple(offsets))}
    pairs = Pairs(spaces, table(x=x), epochs)
    batch = pairs.draw(np.random.default_rng(seed), 4, 32)
    reference, positive, _ = rows(pairs, batch, "rest")
    assert (epochs[reference] == epochs[positive]).all()
    reference, positive, _ = rows(pairs, batch, "x")
    assert np.abs(x[positive] - x[reference]).max() <= 500
