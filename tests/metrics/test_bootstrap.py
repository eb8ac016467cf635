"""Bootstrap intervals: how often they hold the mean, and that groups and models are drawn as a whole."""

import numpy as np
import pytest

from ascribo.metrics.bootstrap import bootstrap_interval, bootstrap_interval_of_pairs


def test_bootstrap_interval_covers_as_often_as_it_should():
    rng = np.random.default_rng(0)
    held = {level: 0 for level in (0.8, 0.95)}
    for k in range(400):
        values = rng.exponential(size=60)
        for level in held:
            low, high = bootstrap_interval(values, level=level, seed=k)
            held[level] += low <= 1.0 <= high
    assert 0.74 <= held[0.8] / 400 <= 0.84
    assert 0.90 <= held[0.95] / 400 <= 0.97


def test_bootstrap_interval_is_of_the_mean_and_repeatable(monkeypatch):
    values = np.random.default_rng(0).normal(3, 2, size=400)
    low, high = bootstrap_interval(values)
    half = 1.96 * values.std() / np.sqrt(400)
    assert low == pytest.approx(values.mean() - half, abs=0.03) and high == pytest.approx(
        values.mean() + half, abs=0.03
    )
    assert (low, high) == bootstrap_interval(values) != bootstrap_interval(values, seed=1)
    monkeypatch.setattr("ascribo.metrics.bootstrap.VALUES_AT_ONCE", 1300)  # three draws at a time
    assert bootstrap_interval(values) == (low, high)


def test_values_of_one_group_are_drawn_together():
    """Four copies of each of 15 values say no more than the 15: without groups the interval is half as wide."""
    rng = np.random.default_rng(0)
    held, width = 0, []
    for k in range(300):
        own = rng.normal(size=15)
        copies, groups = np.repeat(own, 4), np.repeat(np.arange(15), 4)
        low, high = bootstrap_interval(copies, groups=groups, seed=k)
        np.testing.assert_allclose((low, high), bootstrap_interval(own, seed=k), rtol=1e-12)
        naive = bootstrap_interval(copies, seed=k)
        width.append((naive[1] - naive[0]) / (high - low))
        held += low <= 0 <= high
    assert 0.87 <= held / 300 <= 0.97 and 0.4 < np.mean(width) < 0.6
    assert bootstrap_interval([1.0, 2.0, 9.0], groups=["a", "a", "a"]) == (4.0, 4.0)
    # a group counts by its size
    assert bootstrap_interval([0.0, 0.0, 3.0], draws=1000, groups=[1, 1, 2])[1] == 3.0


def test_models_are_drawn_and_not_their_pairs():
    """Of an additive matrix, agreement(i, j) = quality(i) + quality(j), the mean over pairs is twice the mean."""
    rng = np.random.default_rng(0)
    quality = rng.normal(size=60)
    low, high = bootstrap_interval_of_pairs(quality[:, None] + quality[None])
    half = 2 * 1.96 * quality.std() / np.sqrt(60)
    assert low == pytest.approx(2 * quality.mean() - half, abs=0.1)
    assert high == pytest.approx(2 * quality.mean() + half, abs=0.1)
    off = np.full((4, 4), 0.5) + np.eye(4)
    assert bootstrap_interval_of_pairs(off) == pytest.approx((0.5, 0.5))  # the diagonal says nothing
    assert np.isnan(bootstrap_interval_of_pairs(np.ones((2, 2)))).all()


def test_what_cannot_be_drawn():
    with pytest.raises(ValueError, match="finite"):
        bootstrap_interval([1.0, np.nan])
    with pytest.raises(ValueError, match="level=95"):
        bootstrap_interval([1.0, 2.0], level=95)
    with pytest.raises(ValueError, match="draws=0"):
        bootstrap_interval_of_pairs(np.ones((3, 3)), draws=0)
    with pytest.raises(ValueError, match="2 groups for 3 values"):
        bootstrap_interval([1.0, 2.0, 3.0], groups=["a", "b"])
