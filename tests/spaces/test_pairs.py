"""Every sampler against the distribution it states, and nothing across an epoch's edge."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ascribo.data.segments import evenly, hold_out, same_segment, segment_bounds
from ascribo.spaces.kinds.discrete import Discrete
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.regress import Regress
from ascribo.spaces.kinds.time import Time
from ascribo.spaces.pairs import Pairs


def table(**columns):
    return pd.DataFrame(columns)


def rows(pairs, batch, name):
    reference, positive, negative = pairs.rows[name]
    return batch[:, reference].ravel(), batch[:, positive].ravel(), batch[:, negative].ravel()


def uniform(draws, support):
    counts = np.bincount(draws, minlength=max(support) + 1)
    assert set(np.flatnonzero(counts)) <= set(support)
    return stats.chisquare(counts[support]).pvalue


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


def test_time_offsets_are_uniform_and_independent_of_the_reference():
    pairs = Pairs({"rest": Time(1, offsets=(1, 3, 7))}, table(x=np.zeros(200)), np.zeros(200, int))
    reference, positive, _ = rows(pairs, pairs.draw(np.random.default_rng(1), 100, 100), "rest")
    offset = positive - reference
    assert stats.chisquare([(offset == o).sum() for o in (1, 3, 7)]).pvalue > 1e-3
    assert set(offset) == {1, 3, 7}
    assert stats.spearmanr(offset, reference).pvalue > 1e-3


def test_discrete_positives_are_uniform_within_the_label():
    labels = np.array(list("abbbbcccc") + [None] * 3 + list("aaaaab"))
    pairs = Pairs({"s": Discrete("s", 1)}, table(s=labels), np.zeros(18, int))
    reference, positive, _ = rows(pairs, pairs.draw(np.random.default_rng(2), 100, 200), "s")
    assert (labels[reference] == labels[positive]).all()
    for label in "abc":
        members = np.flatnonzero(labels == label)
        assert uniform(positive[labels[reference] == label], members) > 1e-3
    assert not np.isin([9, 10, 11], reference).any() and not np.isin([9, 10, 11], positive).any()


def test_follow_positives_have_the_distribution_of_the_changes():
    """c' - c must be distributed as the recording's changes: a KS test, with a grid fine enough for both."""
    rng = np.random.default_rng(3)
    # values fill [-50, 50] densely, most steps are small: edges hardly matter and neighbours are always near
    x = np.cumsum(rng.laplace(size=40_000)) % 100
    x = np.where(x > 50, 100 - x, x) * 2 - 50
    pairs = Pairs({"x": Follow("x", 1)}, table(x=x), np.zeros(len(x), int))
    reference, positive, _ = rows(pairs, pairs.draw(rng, 50, 100), "x")
    inner = np.abs(x[reference]) < 30
    assert stats.ks_2samp((x[positive] - x[reference])[inner], np.diff(x)).pvalue > 1e-3
    # and a sampler of mere nearest neighbours (no change added) would fail the same test
    assert stats.ks_2samp(np.zeros(inner.sum()), np.diff(x)).pvalue < 1e-12


def test_follow_draws_the_change_independently_of_the_reference():
    rng = np.random.default_rng(4)
    x, y = rng.uniform(size=(2, 5000)).cumsum(1) % 1
    pairs = Pairs({"p": Follow(["x", "y"], 2)}, table(x=x, y=y), np.zeros(5000, int))
    reference, positive, _ = rows(pairs, pairs.draw(rng, 20, 100), "p")
    assert stats.spearmanr(reference, positive).pvalue > 1e-3


def test_follow_breaks_ties_at_random():
    x = np.tile([0.0, 1.0], 500)
    pairs = Pairs({"x": Follow("x", 1)}, table(x=x), np.zeros(1000, int))
    _, positive, _ = rows(pairs, pairs.draw(np.random.default_rng(5), 100, 100), "x")
    ones = positive[x[positive] == 1]
    assert uniform(ones, np.flatnonzero(x == 1)) > 1e-3


def test_circular_changes_go_around_the_circle():
    rng = np.random.default_rng(6)
    angle = np.cumsum(0.2 * rng.standard_normal(20_000)) % (2 * np.pi)
    space = {"h": Follow("h", 2, circular=True)}
    pairs = Pairs(space, table(h=angle), np.zeros(20_000, int))
    reference, positive, _ = rows(pairs, pairs.draw(rng, 50, 100), "h")
    change = (angle[positive] - angle[reference] + np.pi) % (2 * np.pi) - np.pi
    true = (np.diff(angle) + np.pi) % (2 * np.pi) - np.pi
    assert stats.ks_2samp(change, true).pvalue > 1e-3
    near_seam = (angle[reference] < 0.1) | (angle[reference] > 2 * np.pi - 0.1)
    assert near_seam.sum() > 50
    assert stats.ks_2samp(change[near_seam], true).pvalue > 1e-3
    # taken as plain numbers the same variable jumps by a whole turn at the seam
    plain = Pairs({"h": Follow("h", 2)}, table(h=angle), np.zeros(20_000, int))
    r, p, _ = rows(plain, plain.draw(rng, 50, 100), "h")
    seam = (angle[r] < 0.05) | (angle[r] > 2 * np.pi - 0.05)
    crossed = np.abs(angle[p] - angle[r])[seam] > np.pi
    crossed_circular = np.abs(angle[positive] - angle[reference])[near_seam] > np.pi
    assert crossed.mean() < 0.1 < crossed_circular.mean()


def test_degrees_and_radians_agree():
    rng = np.random.default_rng(7)
    angle = np.cumsum(0.3 * rng.standard_normal(3000))
    a = Pairs({"h": Follow("h", 2, circular=True)}, table(h=angle), np.zeros(3000, int))
    b = Pairs({"h": Follow("h", 2, circular=True, period=360)}, table(h=np.degrees(angle)), np.zeros(3000, int))
    same = a.draw(np.random.default_rng(0), 5, 50) == b.draw(np.random.default_rng(0), 5, 50)
    assert same.mean() > 0.99


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


def test_regression_targets_are_standardised_and_circular_ones_are_two():
    rng = np.random.default_rng(0)
    variables = table(speed=rng.normal(5, 3, 500), heading=rng.uniform(0, 360, 500))
    space = Regress(["speed", "heading"], circular=["heading"], period=360)
    goal = space.targets(variables, space.target_statistics(variables, np.arange(400)))
    assert goal.shape == (500, space.dim) == (500, 3)
    np.testing.assert_allclose(goal[:400].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(goal[:400].std(0), 1, atol=1e-5)


def test_a_space_without_any_positive_is_refused():
    with pytest.raises(ValueError, match="missing everywhere"):
        Pairs({"x": Follow("x", 1)}, table(x=np.full(5, np.nan)), np.zeros(5, int))
    with pytest.raises(ValueError, match="no change over 3 steps"):
        Pairs({"x": Follow("x", 1, offset=3)}, table(x=np.arange(4.0)), np.array([0, 0, 1, 1]))


def test_steps_are_spread_evenly_and_none_is_taken_twice():
    assert np.diff(evenly(1000, 10)).tolist() == [111] * 9
    assert evenly(5, 100).tolist() == evenly(5, None).tolist() == [0, 1, 2, 3, 4]
    assert evenly(0, 10).shape == (0,)
    for length, most in ((1_000_003, 999_999), (7, 6), (100_001, 100_000)):
        steps = evenly(length, most)
        assert len(np.unique(steps)) == most and steps[0] == 0 and steps[-1] == length - 1
