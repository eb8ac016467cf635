"""Channels depend on what the truth says, and on nothing else."""

import numpy as np
import pytest

from ascribo.simulate.box import wander
from ascribo.simulate.mixed import mixed


@pytest.fixture(scope="module")
def data():
    return mixed(seed=3, spaces={"a": 1, "b": 2, "c": 1}, hidden=2, steps=3000)


def latents_of(data, space):
    """Columns of the latents: hidden first, then the variables in order."""
    hidden = data.latents.shape[1] - data.variables.shape[1]
    if space == "rest":
        return np.arange(hidden)
    return hidden + np.array([data.variables.columns.get_loc(name) for name in data.spaces[space]])


def test_a_channel_changes_with_the_spaces_it_carries_and_with_no_other(data):
    rng = np.random.default_rng(0)
    before = data.drive(data.latents)
    for space in data.truth["space"].values:
        z = data.latents.copy()
        z[:, latents_of(data, space)] = rng.uniform(-1, 1, (len(z), len(latents_of(data, space))))
        change = np.abs(data.drive(z) - before).max(0)
        carried = data.truth.sel(space=space).values
        assert 5 < carried.sum() < 45
        assert (change[~carried] == 0).all() and (change[carried] > 0.3).all()


def test_every_latent_of_a_carried_space_counts(data):
    for space in data.truth["space"].values:
        for k in latents_of(data, space):
            z = data.latents.copy()
            z[:, k] = -z[:, k]
            moved = np.abs(data.drive(z) - data.drive(data.latents)).max(0) > 1e-3
            np.testing.assert_array_equal(moved, data.truth.sel(space=space))


def test_the_recording_is_made_of_its_latents(data):
    np.testing.assert_allclose(data.X, data.drive(data.latents), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(data.variables, data.latents[:, 2:])
    assert list(data.variables) == ["a0", "b0", "b1", "c0"] and list(data.truth["space"]) == ["a", "b", "c", "rest"]
    assert np.abs(data.latents).max() <= 1


def test_parts_keep_what_belongs_to_them(data):
    part = data[100:200].take_channels(["channel7", "channel2"])
    np.testing.assert_allclose(part.X, part.drive(part.latents), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(part.truth, data.truth[[7, 2]])
    np.testing.assert_array_equal(part.effects, data.effects[[7, 2]])
    assert part.effects["channel"].values.tolist() == list(part.tunings) == ["channel7", "channel2"]
    assert len(data.effects) == len(data.tunings) == data.X.shape[1]


def test_effects_vary_but_do_not_vanish():
    data = mixed(seed=1, channels=300, steps=10)
    carried, effects = data.truth.values, data.effects.values
    assert (effects[~carried] == 0).all()
    least = np.broadcast_to(0.25 / carried.sum(1, keepdims=True), carried.shape)
    assert (effects >= least)[carried].all()
    assert effects.sum(1).min() > 0.9 and effects.sum(1).max() > 1.2  # additive channels have 1, interactions add
    several = carried & (carried.sum(1, keepdims=True) > 1)
    low, high = np.quantile(effects[several], [0.1, 0.9])
    assert low < 0.3 and high > 0.7


def test_how_much_is_carried():
    truth = mixed(channels=600, steps=2, carry=0.3).truth.values
    none = 0.7**3
    np.testing.assert_allclose(truth.mean(0), 0.3 + none / 3, atol=0.05)
    assert truth.any(1).all()
    assert (mixed(channels=100, steps=2, carry=0).truth.sum("space") == 1).all()
    assert mixed(channels=20, steps=2, carry=1).truth.values.all()
    alone = mixed(channels=100, steps=2, hidden=0, carry=0.4).truth
    assert not alone.sel(space="rest").any() and alone.any("space").all()


@pytest.mark.parametrize("correlation", [0.3, 0.8])
def test_correlation_is_realised_for_variables_and_not_for_hidden_latents(correlation):
    data = mixed(seed=0, steps=400_000, channels=1, correlation=correlation)
    r = np.corrcoef(data.latents.T)
    assert np.abs(r[2:, 2:][~np.eye(3, dtype=bool)] - correlation).max() < 0.05
    assert np.abs(r[:2, 2:]).max() < 0.06
    assert data.correlation == pytest.approx((r[2, 3] + r[2, 4]) / 2)
    for column in data.variables.to_numpy().T:  # uniform in the box
        share, _ = np.histogram(column, bins=10, range=(-1, 1))
        np.testing.assert_allclose(share / share.sum(), 0.1, atol=0.02)


def test_correlated_variables_are_as_slow_as_the_walk():
    def autocorrelation(x, lag):
        return np.corrcoef(x[:-lag], x[lag:])[0, 1]

    walk = wander(np.random.default_rng(0), 400_000, 1, 0.1)[:, 0]
    other = mixed(steps=400_000, channels=1, correlation=0.5).variables["a0"].to_numpy()
    for lag in (10, 40, 80, 160):
        assert autocorrelation(other, lag) == pytest.approx(autocorrelation(walk, lag), abs=0.05)


def test_noise_has_the_stated_ratio():
    clean, noisy = (mixed(seed=2, snr=snr) for snr in (None, 2.0))
    noise = noisy.X - clean.X
    np.testing.assert_allclose(clean.X.var(0) / noise.var(0), 2.0, rtol=0.1)
    assert np.abs([np.corrcoef(n[1:], n[:-1])[0, 1] for n in noise.T]).max() < 0.05


def test_counts_are_poisson_given_the_latents():
    data = mixed(seed=4, channels=30, counts=True)
    assert (data.X == np.round(data.X)).all() and data.X.min() == 0
    modulation = np.exp(data.drive(data.latents))
    base = data.X.mean(0) / modulation.mean(0)
    assert base.min() > 0.25 and base.max() < 3.5 and base.max() / base.min() > 3
    rate = base * modulation
    dispersion = ((data.X - rate) ** 2 / rate).mean(0)
    np.testing.assert_allclose(dispersion, 1, atol=0.1)


def test_same_seed_same_data():
    a, b, c = (mixed(seed=s, steps=200, snr=1) for s in (0, 0, 1))
    np.testing.assert_array_equal(a.X, b.X)
    assert (a.truth != c.truth).any() and not np.allclose(a.variables, c.variables)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"spaces": {}}, "spaces={}"),
        ({"spaces": {"rest": 1}}, "called 'rest'"),
        ({"spaces": {"a": 0}}, "at least 1"),
        ({"spaces": {"a": 11, "a1": 1}}, "one name"),
        ({"hidden": -1}, "hidden=-1"),
        ({"carry": 1.5}, "carry=1.5"),
        ({"correlation": -0.2}, "correlation=-0.2"),
        ({"correlation": 1.0}, "correlation=1.0"),
        ({"snr": 0}, "snr=0"),
        ({"snr": 1.0, "counts": True}, "Poisson"),
    ],
)
def test_what_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        mixed(**given)


def test_labels_are_text_that_lasts_and_that_channels_are_functions_of():
    data = mixed(seed=1, labels=4, steps=20_000, hidden=0, spaces={"a": 1})
    label = data.variables["label"]
    assert data.spaces == {"a": ["a0"], "label": ["label"]} and sorted(label.unique()) == [
        f"label{k}" for k in range(4)
    ]
    assert 30 < 20_000 / (label != label.shift()).sum() < 55  # time steps that a label lasts
    alone = data.truth.sel(space="label").values & ~data.truth.sel(space="a").values
    assert alone.sum() >= 3
    for values in data.X[:, alone].T:  # one value for each label
        assert len(np.unique(values)) == 4 == len(set(zip(label, values, strict=True)))


def test_labels_come_in_twos_at_least():
    with pytest.raises(ValueError, match="at least 2"):
        mixed(labels=1)
