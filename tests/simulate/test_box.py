"""The simulated truth is the truth."""

import numpy as np
import pytest
from scipy import stats

from ascribo import simulate
from ascribo.simulate.box import BoxRecording, Mixing, wander


def test_steps_are_truncated_gaussians_and_fill_the_box():
    z = wander(np.random.default_rng(0), 200_000, 1, 0.1)[:, 0]
    assert np.abs(z).max() <= 1
    inner = np.abs(z[:-1]) < 0.5
    step = np.diff(z)[inner][::10]
    assert stats.kstest(step / 0.1, "norm").pvalue > 1e-3
    # beside the edge the step is a Gaussian cut off at the edge
    edge = np.flatnonzero((z[:-1] > 0.94) & (z[:-1] < 0.96))[::3]
    room = (1 - z[edge]) / 0.1
    quantile = stats.norm.cdf((z[edge + 1] - z[edge]) / 0.1) / stats.norm.cdf(room)
    assert stats.kstest(quantile, "uniform").pvalue > 1e-3
    counts, _ = np.histogram(z, bins=10, range=(-1, 1))
    assert counts.min() > 0.5 * counts.max()


def test_jacobian_equals_finite_differences():
    mixing = Mixing.random(np.random.default_rng(1), 3, 7)
    z = np.random.default_rng(2).uniform(-1, 1, (50, 3))
    exact, h = mixing.jacobian(z), 1e-6
    for k in range(3):
        e = h * np.eye(3)[k]
        numeric = (mixing(z + e) - mixing(z - e)) / (2 * h)
        kink = np.abs(numeric - exact[..., k]).max(1) > 1e-4  # a rectifier turned within h
        assert kink.mean() < 0.02


def test_mixing_is_injective():
    mixing = Mixing.random(np.random.default_rng(3), 4, 10)
    z = np.random.default_rng(4).uniform(-1, 1, (2000, 4))
    assert np.linalg.matrix_rank(mixing.jacobian(z)).min() == 4
    with pytest.raises(ValueError, match="3 channels cannot carry 4"):
        Mixing.random(np.random.default_rng(0), 4, 3)


def test_truth_is_where_the_jacobian_is_not_zero():
    data = simulate.box(seed=5, observed=2, hidden=3, channels=(6, 8), steps=400)
    jacobian = np.abs(data.jacobian(np.arange(400))).max(0)
    assert data.truth.dims == ("channel", "space")
    np.testing.assert_array_equal((jacobian[:, 3:] > 0).all(1), data.truth.sel(space="position"))
    np.testing.assert_array_equal((jacobian[:, :3] > 0).all(1), data.truth.sel(space="rest"))
    np.testing.assert_allclose(data.variables.to_numpy(), data.latents[:, 3:])


def test_same_seed_same_data_other_seed_other_mixing():
    a, b, c = (simulate.box(seed=s, observed=1, hidden=1, steps=100) for s in (0, 0, 1))
    np.testing.assert_array_equal(a.X, b.X)
    assert not np.allclose(a.mixings[0].layers[0], c.mixings[0].layers[0])


def test_noise_has_the_stated_ratio():
    clean, noisy = (simulate.box(seed=0, steps=20_000, snr=snr) for snr in (None, 4.0))
    ratio = clean.X.var(0) / (noisy.X - clean.X).var(0)
    np.testing.assert_allclose(ratio, 4.0, rtol=0.1)


def test_names():
    assert list(simulate.box(observed=1, steps=10).variables) == ["x"]
    assert list(simulate.box(observed=4, steps=10).variables) == ["c0", "c1", "c2", "c3"]
    with pytest.raises(ValueError, match="observed=0"):
        simulate.box(observed=0)


def test_parts_keep_what_belongs_to_them():
    data = simulate.box(seed=5, observed=2, hidden=3, channels=(6, 8), steps=400)
    whole = data.jacobian(np.arange(400))
    part = data[100:200]
    np.testing.assert_array_equal(part.jacobian(np.arange(100)), whole[100:200])
    np.testing.assert_array_equal(part.jacobian(slice(None)), whole[100:200])
    some = part.take_channels(["channel13", "channel2"])
    assert isinstance(some, BoxRecording)
    np.testing.assert_array_equal(some.jacobian([0, 5]), whole[[100, 105]][:, [13, 2]])
    np.testing.assert_array_equal(some.take_channels("channel2").jacobian([0]), whole[[100]][:, [2]])
    np.testing.assert_array_equal(some.latents[:, 3:], some.variables)
