"""Innovations redrawn given the past: they go with all that they should go with, and not with themselves."""

import numpy as np
import pytest
import torch
from ascribo.attribution.unique_variance.conditional_draws import exchange_innovations, redraw_present
from ascribo.attribution.unique_variance.joint_histograms import JointHistograms


def correlation(a, b):
    return np.corrcoef(np.ravel(a), np.ravel(b))[0, 1]


@pytest.fixture(scope="module")
def pasts():
    """Two variables whose changes depend on where both were, and on each other, and whose size does too."""
    rng = np.random.default_rng(0)
    past = rng.uniform(-1, 1, (8000, 2))
    both, own = rng.normal(size=(2, 8000, 2))
    size = 0.2 + 0.3 * np.abs(past)
    change = size * (0.6 * both[:, :1] + 0.8 * own) - 0.3 * past + 0.2 * past[:, ::-1] ** 2
    return past, change


def redrawn(change, past, given, seed, **options):
    """One draw, for arrays."""
    arrays = [torch.from_numpy(np.ascontiguousarray(part)) for part in (change, past, given)]
    return exchange_innovations(*arrays, 1, seed=seed, **options)[0].numpy()


def test_a_redrawn_innovation_goes_with_the_past_and_the_others_but_not_with_itself(pasts):
    past, change = pasts
    given = np.concatenate([past, change[:, 1:]], axis=1)
    drawn = redrawn(change[:, :1], past[:, :1], given, 0)
    assert drawn.shape == (8000, 1) and drawn.dtype == np.float32
    for what in (past[:, 0], past[:, 1] ** 2, change[:, 1]):  # what may tell of it: as before
        assert correlation(drawn, what) == pytest.approx(correlation(change[:, 0], what), abs=0.04)
    assert correlation(change[:, 0], change[:, 1]) > 0.2 and abs(correlation(change[:, 0], past[:, 1] ** 2)) > 0.1
    features = np.c_[np.ones(8000), given, given**2, given[:, :1] * given[:, 1:], given[:, 1:2] * given[:, 2:]]
    left = [v - features @ np.linalg.lstsq(features, v, rcond=None)[0] for v in (change[:, :1], drawn)]
    assert abs(correlation(*left)) < 0.04 < 0.2 < correlation(np.abs(left[1]), np.abs(past[:, 0]))
    assert left[1].std() == pytest.approx(left[0].std(), rel=0.03)
    np.testing.assert_array_equal(drawn, redrawn(change[:, :1], past[:, :1], given, 0))
    assert (
        abs(correlation(drawn - change[:, :1], redrawn(change[:, :1], past[:, :1], given, 1) - change[:, :1])) < 0.7
    )


def test_what_is_expected_of_an_innovation_stays_where_it_is():
    """Few time steps: those among which innovations are exchanged are not alike."""
    rng = np.random.default_rng(0)
    past, given = rng.normal(size=(2, 150, 1))
    surprise = 0.1 * rng.normal(size=(150, 1))
    drawn = redrawn(2 * given + given**2 + surprise, past, given, 0)
    left = drawn - 2 * given - given**2
    assert left.std() == pytest.approx(surprise.std(), rel=0.1) and abs(correlation(left, surprise)) < 0.3


def test_drawn_labels_are_labels():
    """A label is followed by one that has followed it, however few share it."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 40, 3000)
    following = np.where(rng.random(3000) < 0.5, label, (label + rng.integers(1, 3, 3000)) % 40)
    past, present = np.eye(40)[label], np.eye(40)[following]
    drawn = redrawn(present - past, past, rng.normal(size=(3000, 2)), 0, labels=True)
    other = past + drawn
    assert set(np.unique(other)) == {0.0, 1.0} and (other.sum(1) == 1).all()
    assert set(zip(label, other.argmax(1), strict=True)) <= set(zip(label, following, strict=True))
    np.testing.assert_array_equal(np.bincount(other.argmax(1)), np.bincount(following))
    assert 0.2 < (other.argmax(1) == following).mean() < 0.6


def test_drawn_labels_keep_their_company():
    """A label that changes with another variable does so when it is redrawn, as far as groups are small."""
    rng = np.random.default_rng(0)
    label, company = rng.integers(0, 2, 4000), rng.normal(size=4000)
    following = np.where(company > 0, 1 - label, label)
    past, present = np.eye(2)[label], np.eye(2)[following]
    changes = past * company[:, None]  # what predicts the change, given the label
    drawn = redrawn(present - past, past, np.column_stack([past, changes]), 0, labels=True)
    changed = (past + drawn).argmax(1) != label
    assert (changed == (company > 0)).mean() > 0.9


def test_many_columns_are_no_burden():
    """Squares of hundreds of labels would be tens of thousands of columns, and predict anything."""
    rng = np.random.default_rng(0)
    change, past = rng.normal(size=(2, 600, 1))
    drawn = redrawn(change, past, rng.normal(size=(600, 100)), 0)
    assert abs(correlation(drawn, change)) < 0.5


def test_what_is_drawn_stays_where_the_variables_have_been():
    """An L-shaped place and an angle: never in the empty corner, always on the circle."""
    rng = np.random.default_rng(0)
    place = rng.uniform(0, 1, (9000, 2))
    place = torch.from_numpy(place[(place < 0.5).any(1)][:6000])
    past = place + 0.05 * torch.randn(6000, 2, generator=torch.Generator().manual_seed(0))
    flat = torch.zeros(6000, 1)
    other = redraw_present(place, past, torch.zeros(2), past, past, 2)
    assert other.shape == (2, 6000, 2) and not torch.allclose(other[0], other[1])
    corner = (other > 0.55).all(-1)
    assert not corner.any() and other.min() >= place.min() and other.max() <= place.max()
    angle = torch.from_numpy(rng.uniform(0, 360, (6000, 1)))
    turned = (angle + 20 * torch.randn(6000, 1, generator=torch.Generator().manual_seed(1))) % 360
    found = redraw_present(turned, angle, torch.tensor([360.0]), flat, flat, 1)[0] - angle
    found = found - 360 * (found / 360).round()
    assert found.abs().max() < 110 and found.std() == pytest.approx(20, rel=0.05)


def test_innovations_are_exchanged_within_a_fold():
    """A decoder knows the innovations of the fold that it learned from, and not those of the one it is judged
    on."""
    rng = np.random.default_rng(0)
    fold = torch.from_numpy(np.arange(4000) // 200 % 2)
    label = rng.integers(0, 30, 4000)
    past, present = (torch.from_numpy(np.eye(30)[rows]) for rows in (label, rng.integers(0, 30, 4000)))
    other = exchange_innovations(present - past, past, past, 1, labels=True, fold=fold)[0] + past
    marked = fold[:, None] + 2 * torch.rand(4000, 1, generator=torch.Generator().manual_seed(0))
    drawn = exchange_innovations(marked, torch.zeros(4000, 1), torch.zeros(4000, 0), 1, fold=fold)[0]
    for k in range(2):
        np.testing.assert_array_equal(other[fold == k].sum(0), present[fold == k].sum(0))
        np.testing.assert_allclose(np.sort(drawn[fold == k].ravel()), np.sort(marked[fold == k].ravel()), rtol=1e-6)


def curve(rng, steps=8000):
    """b is a sine of a, and a little of its own: present and before of both, each (n, 1)."""
    a = rng.uniform(-1, 1, (steps, 1))
    before = a + 0.2 * rng.normal(size=a.shape)
    make = lambda value: np.sin(np.pi * value) + 0.1 * rng.normal(size=value.shape)  # noqa: E731
    return [torch.from_numpy(part) for part in (a, before, make(a), make(before))]


def test_what_is_drawn_stays_where_two_variables_have_been_together():
    a, before, b, earlier = curve(np.random.default_rng(0))
    given = torch.cat([before, earlier, b - earlier], 1) / 0.6
    seen = JointHistograms(a, b)
    draws = lambda **options: redraw_present(a, before, torch.zeros(1), before, given, 4, **options)  # noqa: E731
    free, bound = draws(), draws(together=seen)
    rows = torch.arange(len(a))
    away = [np.mean([1 - seen.visited(rows, draw).double().mean() for draw in found]) for found in (free, bound)]
    assert away[0] > 0.03 and away[1] == 0
    distance = [(draw - a).abs().mean() for draw in (free[0], bound[0])]
    assert distance[1] > 0.2 * distance[0]  # they are other values still
    real, chance = seen.mismatch(free)
    assert real > 2 * chance
    unrelated = JointHistograms(a, torch.from_numpy(np.random.default_rng(1).normal(size=a.shape)))
    real, chance = unrelated.mismatch(draws(together=unrelated))
    assert real < 1.3 * chance
