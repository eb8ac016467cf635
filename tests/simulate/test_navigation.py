"""Simulated cells carry what the truth says, the same every time, and leave no trace where none was asked for."""

import sys

import numpy as np
import pytest

pytest.importorskip("ratinabox")

from ascribo.simulate.navigation import CARRIES, navigation

SMALL = {"duration": 60, "place": 6, "grid": 6, "head_direction": 5, "speed": 2, "mixed": 7, "progress": False}


@pytest.fixture(scope="module")
def data():
    return navigation(3, **SMALL)


def test_channels_variables_and_types(data):
    assert data.X.shape == (600, 26) and list(data.variables) == ["x", "y", "head_direction", "speed"]
    assert data.types.tolist() == [
        *["place"] * 6,
        *["grid"] * 6,
        *["head_direction"] * 5,
        *["speed"] * 2,
        *["grid x head_direction"] * 3,
        *["place x speed"] * 2,
        *["head_direction x speed"] * 2,
    ]
    assert data.channel_names[0] == "place0" and len(set(data.channel_names)) == 26
    np.testing.assert_allclose(np.diff(data.time), 0.1)
    v = data.variables
    assert v[["x", "y"]].min().min() >= 0 and v[["x", "y"]].max().max() <= 1
    assert v["head_direction"].abs().max() <= np.pi and v["speed"].min() >= 0
    for kind, own in zip(data.types, data.truth.values, strict=True):
        assert [s for s, held in zip(data.truth["space"].values, own, strict=True) if held] == list(CARRIES[kind])


def explained(data, names, channels):
    """Share of the variance of channels that bins of some variables explain."""
    parts = [np.floor(data.variables[n] / data.variables[n].max() * 5).astype(int).to_numpy() for n in names]
    label = np.unique(np.stack(parts, 1), axis=0, return_inverse=True)[1].ravel()
    X = data.X[:, channels].astype(float)
    sums = np.zeros((label.max() + 1, X.shape[1]))
    np.add.at(sums, label, X)
    means = sums / np.bincount(label)[:, None]
    return ((means[label] - X.mean(0)) ** 2).mean(0) / X.var(0)


def test_cells_are_functions_of_what_they_carry(data):
    """Rates at two times with the same variables are the same: cells know nothing else."""
    long = navigation(3, **{**SMALL, "duration": 240})
    v, X = long.variables.to_numpy(), long.X
    place = long.types == "place"
    near = np.linalg.norm(v[:, None, :2] - v[None, 2000:2200, :2], axis=2)
    for column, row in zip(*np.nonzero(near[:1000] < 0.003), strict=True):
        np.testing.assert_allclose(X[column, place], X[2000 + row, place], atol=0.05)
    speed = long.types == "speed"
    np.testing.assert_allclose(X[:, speed][:, 0], v[:, 3] / 0.16, rtol=1e-5)
    np.testing.assert_array_equal(X[:, speed][:, 0], X[:, speed][:, 1])
    towards = long.types == "head_direction"
    assert explained(long, ["head_direction"], np.flatnonzero(towards)).min() > 0.6


def test_the_path_is_a_path(data):
    v = data.variables
    steps = np.hypot(v["x"].diff(), v["y"].diff())[1:]
    np.testing.assert_allclose(steps, 0.1 * v["speed"][1:], atol=1e-6)  # a step is the speed


def test_the_path_does_not_depend_on_the_cells_nor_on_the_callers_random_numbers():
    np.random.seed(7)  # noqa: NPY002
    first = navigation(3, **{**SMALL, "grid": 0, "mixed": 0})
    after = np.random.random()  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    assert np.random.random() == after  # noqa: NPY002
    second = navigation(3, **SMALL)
    np.testing.assert_array_equal(first.variables, second.variables)
    assert not np.array_equal(first.variables, navigation(4, **SMALL).variables)


def test_same_seed_same_data(data):
    again = navigation(3, **SMALL)
    np.testing.assert_array_equal(again.X, data.X)


def test_noise_and_spikes(data):
    loud = navigation(3, **SMALL, noise=3.0)
    extra = loud.X - data.X
    np.testing.assert_allclose(extra.std(0) / data.X.std(0), 3, rtol=0.15)
    assert np.abs([np.corrcoef(n[1:], n[:-1])[0, 1] for n in extra.T]).max() < 0.2
    np.testing.assert_allclose(loud.rates, data.rates)
    counts = navigation(3, **SMALL, spikes=True)
    assert (counts.X == np.round(counts.X)).all() and counts.X.min() == 0 and counts.X.max() > 1
    expected = np.maximum(counts.rates, 0) * 0.1
    assert counts.rates.max() == pytest.approx(20 * data.rates.max(), rel=1e-4)
    assert ((counts.X - expected) ** 2).sum() / expected.sum() == pytest.approx(1, abs=0.1)


def test_a_cache_is_read_and_only_written_where_it_is_asked_for(tmp_path, data, monkeypatch):
    first = navigation(3, **SMALL, cache=tmp_path)
    assert [p.suffix for p in tmp_path.iterdir()] == [".npz"]
    monkeypatch.setitem(sys.modules, "ratinabox.Agent", None)  # a second simulation would fail
    second = navigation(3, **SMALL, cache=tmp_path)
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.X, data.X)
    noisy = navigation(3, **SMALL, cache=tmp_path, noise=1.0)  # of the same rates
    np.testing.assert_array_equal(noisy.rates, data.rates)
    assert len(list(tmp_path.iterdir())) == 1


def test_without_ratinabox_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ratinabox.Agent", None)
    with pytest.raises(ImportError, match=r"ascribo\[neuro\]"):
        navigation(0, **SMALL)


def test_parts_keep_what_belongs_to_them(data):
    part = data[100:150].take_channels(["speed1", "grid2"])
    np.testing.assert_array_equal(part.rates, data.rates[100:150][:, [18, 8]])
    assert part.types.tolist() == ["speed", "grid"] and part.truth.sel(space="speed").values.tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    "change, said",
    [
        ({"place": -1}, "numbers of cells"),
        (dict.fromkeys(["place", "grid", "head_direction", "speed", "mixed"], 0), "at least one cell"),
        ({"duration": 0.1}, "two time steps"),
        ({"dt": 0}, "expected seconds"),
        ({"noise": -1}, "standard deviations"),
        ({"noise": 1.0, "spikes": True}, "Poisson"),
        ({"peak": 0}, "rate in Hz"),
    ],
)
def test_what_is_refused(change, said):
    with pytest.raises(ValueError, match=said):
        navigation(0, **{**SMALL, **change})
