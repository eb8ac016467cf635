"""`Follow`: positives lie where the variables would be after a change as they make them."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.pairs import Pairs
from tests.spaces.given import rows, table, uniform


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


def test_a_space_without_any_positive_is_refused():
    with pytest.raises(ValueError, match="missing everywhere"):
        Pairs({"x": Follow("x", 1)}, table(x=np.full(5, np.nan)), np.zeros(5, int))
    with pytest.raises(ValueError, match="no change over 3 steps"):
        Pairs({"x": Follow("x", 1, offset=3)}, table(x=np.arange(4.0)), np.array([0, 0, 1, 1]))


def test_changes_are_those_over_the_offset():
    x = np.arange(100.0)
    pairs = Pairs({"x": Follow("x", 1, offset=3)}, table(x=x), np.zeros(100, int))
    reference, positive, _ = rows(pairs, pairs.draw(np.random.default_rng(0), 5, 100), "x")
    inner = reference < 97
    assert (positive[inner] == reference[inner] + 3).all()


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["a", "b"], r"variable 'x' is .*, but Follow needs numbers. Use ascribo.Discrete\('x'"),
        ([1.0, np.inf], "variable 'x' holds infinity"),
    ],
)
def test_values_that_cannot_be_followed_are_refused(column, message):
    with pytest.raises(ValueError, match=message):
        Follow("x", 1).check_variable("x", pd.Series(column))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Follow([], 1), "names of one or more"),
        (lambda: Follow(["x", "x"], 1), "named twice"),
        (lambda: Follow("x", 1, circular=["y"]), "not among its variables"),
        (lambda: Follow("x", 1, period=0), "must be positive"),
        (lambda: Follow("x", 2, period=360), r"period=360.*none of \['x'\] is one. Pass circular=True"),
        (lambda: Follow(["x", "y"], 2, circular=(), period=360), "Pass circular=True"),
        (lambda: Follow("x", 1, offset=0), "offset=0"),
        (lambda: Follow("x", 1, temperature=-1), "temperature=-1"),
        (lambda: Follow("x", 1, similarity="cosine"), "similarity='cosine'"),
    ],
)
def test_a_bad_description_is_refused_when_made(make, message):
    with pytest.raises(ValueError, match=message):
        make()
