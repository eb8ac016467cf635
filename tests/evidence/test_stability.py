"""Agreement of embeddings and maps: against scikit-learn, under maps that must not matter, where it must fail."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import xarray as xr
from sklearn.linear_model import LinearRegression

import ascribo as asc
from ascribo.evidence.stability import consistency, consistency_by_label, map_consistency, split_half

rng = np.random.default_rng(0)


def correlated(steps=2000):
    """Three embeddings with something in common and something of their own."""
    common = rng.normal(size=(steps, 3))
    return [
        common @ rng.normal(size=(3, d)) + s * rng.normal(size=(steps, d)) + 4
        for d, s in ((3, 0.5), (3, 2), (2, 1))
    ]


def test_consistency_is_the_r2_of_a_regression():
    embeddings = correlated()
    table = consistency(embeddings)
    assert len(table) == 6
    for row in table.itertuples():
        source, target = embeddings[row.source], embeddings[row.target]
        predicted = LinearRegression().fit(source, target).predict(source)
        expected = 1 - ((target - predicted) ** 2).sum() / ((target - target.mean(0)) ** 2).sum()
        assert row.r2 == pytest.approx(expected)


def test_by_direction_it_is_the_mean_squared_canonical_correlation():
    first, second, _ = correlated()
    white = [np.linalg.qr(z - z.mean(0))[0] for z in (first, second)]
    expected = np.mean(np.linalg.svd(white[0].T @ white[1], compute_uv=False) ** 2)
    np.testing.assert_allclose(consistency([first, second], "direction")["r2"], expected)


def test_what_an_affine_map_changes():
    first, second, _ = correlated()
    turned = second @ np.linalg.qr(rng.normal(size=(3, 3)))[0] * [10, 1, 0.1] - 7
    for weight in ("variance", "direction"):
        before, after = (consistency([first, z], weight)["r2"] for z in (second, turned))
        assert before[1] == pytest.approx(after[1])  # a source may be mapped as one likes
        same = bool(np.isclose(before[0], after[0], rtol=1e-6))
        assert same is (weight == "direction")  # a target may not, where directions count by their variance


def test_a_direction_that_does_not_vary_is_not_explained():
    z = rng.normal(size=(500, 2))
    flat = np.column_stack([z, np.full(500, 5.0)])
    np.testing.assert_allclose(consistency([flat, flat], "direction")["r2"], 2 / 3)
    np.testing.assert_allclose(consistency([flat, flat])["r2"], 1)
    for weight in ("variance", "direction"):
        assert consistency([z, np.ones((500, 2))], weight)["r2"].isna().tolist() == [True, False]
        assert consistency([z, np.ones((500, 2))], weight)["r2"][1] == 0


def test_an_array_of_seeds_and_names():
    z = rng.normal(size=(3, 100, 2))
    assert list(consistency(z)["source"]) == [0, 0, 1, 1, 2, 2]
    assert list(consistency(dict(zip("abc", z, strict=True)))["target"]) == ["b", "c", "a", "c", "a", "b"]


@pytest.mark.parametrize(
    ("embeddings", "options", "message"),
    [
        ([np.zeros((9, 2)), np.zeros((8, 2))], {}, "consistency_by_label"),
        ([np.zeros((9, 2))], {}, "at least two"),
        ([np.zeros(9), np.zeros(9)], {}, r"shape \(9,\)"),
        ([np.zeros((9, 2)), np.full((9, 2), np.nan)], {}, "finite"),
        ([np.zeros((9, 2))] * 2, {"weight": "equal"}, "'direction'"),
    ],
)
def test_what_cannot_be_compared(embeddings, options, message):
    with pytest.raises(ValueError, match=message):
        consistency(embeddings, **options)


# Sessions


def session(seed, steps, shift=0.0, noise=0.02):
    """A two-dimensional variable and an embedding of it in a basis of its own."""
    own = np.random.default_rng(seed)
    labels = own.uniform(0, 1, size=(steps, 2)) + shift
    z = np.column_stack([np.sin(3 * labels), labels.prod(1)]) @ own.normal(size=(3, 3))
    return z + noise * own.normal(size=z.shape), labels


def test_sessions_are_matched_by_their_variables():
    (first, a), (second, b) = session(1, 5000), session(2, 7000, shift=0.2)
    table = consistency_by_label([first, second], [a, b], bins=8)
    assert table["r2"].min() > 0.98
    wrong = consistency_by_label([first, second], [a, np.random.default_rng(0).permutation(b)], bins=8)
    assert wrong["r2"].max() < 0.4


def test_bins_are_means_over_what_all_visit():
    first = np.array([[0.0], [2.0], [10.0], [20.0], [7.0], [99.0]])
    second = np.array([[5.0], [7.0], [9.0], [4.0]])
    labels = ["a", "a", "b", "c", None, "d"], ["b", "a", "c", "e"]
    table = consistency_by_label(
        {"x": first, "y": second}, dict(zip("xy", labels, strict=True)), bins=None, least=1
    )
    expected = np.corrcoef([1.0, 10.0, 20.0], [7.0, 5.0, 9.0])[0, 1] ** 2  # a, b, c
    np.testing.assert_allclose(table["r2"], expected)
    numbers = consistency_by_label(
        [first[:4], second], [[0.0, 0.1, 0.5, 1.0], [0.5, 0.1, 1.0, -3.0]], bins=3, least=1
    )
    np.testing.assert_allclose(numbers["r2"], np.corrcoef([1.0, 10.0, 20.0], [7.0, 5.0, 9.0])[0, 1] ** 2)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([np.arange(50)], {}, "1 arrays of labels for 2"),
        ([np.arange(50), np.arange(49)], {}, "its labels 49"),
        ([np.arange(50), np.arange(100).reshape(50, 2)], {}, r"\[1, 2\] variables"),
        ([np.arange(50), np.arange(50) + 100], {}, "expected them to overlap"),
        ([np.arange(50), np.arange(50)], {"bins": 3}, "3 bins have 5 time steps or more"),
        ([["a"] * 50, ["b"] * 50], {}, "bins=None"),
        ({"a": np.arange(50), "b": np.arange(50)}, {}, "same names"),
    ],
)
def test_sessions_that_cannot_be_matched(labels, options, message):
    with pytest.raises(ValueError, match=message):
        consistency_by_label([np.zeros((50, 2)), np.zeros((50, 2))], labels, **options)


# Maps


def scores(values, channels, spaces=("place",)):
    return xr.DataArray(
        np.reshape(values, (len(channels), -1)), coords=[list(channels), list(spaces)], dims=["channel", "space"]
    )


def test_channels_of_maps_are_matched_by_name():
    values = np.array([0.1, 0.3, 0.2, 0.9])
    table = map_consistency([scores(values, "abcd"), scores([2.0, 0.2, 0.5, 0.1, 0.6], "dxcab")])
    expected = np.array([0.1, 0.6, 0.5, 2.0])  # a, b, c, d; x is not in both
    assert table["spearman"].tolist() == [pytest.approx(scipy.stats.spearmanr(values, expected).statistic)]
    assert table["pearson"].tolist() == [pytest.approx(scipy.stats.pearsonr(values, expected).statistic)]


def test_maps_by_space_and_pair():
    first = scores(rng.normal(size=(5, 2)), "abcde", ("place", "rest"))
    nothing = first.copy()
    nothing.loc[{"space": "rest"}] = np.nan
    maps = {
        "early": asc.attribution.AttributionMaps(first, first, "generative_gradient"),
        "late": asc.attribution.AttributionMaps(nothing, nothing, "generative_gradient", {"rest": "collapsed"}),
        "mirrored": -first,
    }
    table = map_consistency(maps).set_index(["space", "first", "second"])
    assert len(table) == 6
    assert table.loc[("place", "early", "late"), "spearman"] == pytest.approx(1)
    assert table.loc[("place", "late", "mirrored"), "pearson"] == pytest.approx(-1)
    assert table.loc["rest"].isna().all(axis=1).tolist() == [True, False, True]
    with pytest.raises(ValueError, match="share 2 channels and 1 spaces"):
        map_consistency([first, scores([1.0, 2.0], "ab")])


# Halves


def model(**changes):
    spaces = {"position": asc.Follow(["x"], dim=1), "rest": asc.Time(dim=1)}
    settings = {
        "seeds": 2,
        "steps": 250,
        "encoder": asc.MLP((64, 32)),
        "batch_size": 128,
        "penalty": 0.1,
        "learning_rate": 5e-3,
        "random_state": 0,
    }
    return asc.ContrastiveEmbedding(spaces, progress=False, **{**settings, **changes})


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(0, observed=1, hidden=1, channels=(6, 6), steps=4000)


def test_split_half(data, tmp_path, monkeypatch, fair_unique_variance):
    seen = []
    fit = asc.ContrastiveEmbedding.fit

    def spy(self, X, y=None):
        seen.append((X, self.random_state, self.checkpoint))
        return fit(self, X, y)

    monkeypatch.setattr(asc.ContrastiveEmbedding, "fit", spy)
    unfitted = model(checkpoint=tmp_path)
    found = split_half(unfitted, data, blocks=5, samples=500)
    # the halves: all of the recording once, in blocks that do not touch
    (first, state, folder), (second, other_state, other_folder) = seen
    assert state != other_state and folder != other_folder
    assert np.array_equal(np.sort(np.concatenate([first.time, second.time])), data.time)
    assert first.epochs.max() == second.epochs.max() == 4
    assert all(np.ptp(first.time[first.epochs == k]) == 399 for k in range(5))
    assert np.array_equal(first.X, data.X[first.time.astype(int)])
    assert np.array_equal(second.variables["x"], data.variables["x"][second.time.astype(int)])
    # and their agreement
    assert list(found.embeddings["space"]) == ["position", "rest", "whole"]
    assert found.embeddings["consistency"].min() > 0.9
    z = [half.transform(data)[:, :1] for half in found.models]
    expected = consistency(z)["r2"].mean()
    assert found.embeddings["variance_weighted"][0] == pytest.approx(expected, abs=1e-6)
    assert list(found.maps["space"]) == ["position", "rest"] and found.maps["pearson"].min() > 0.8
    assert not hasattr(unfitted, "model_")


def test_halves_of_nothing_do_not_agree(data):
    noise = asc.Recording(np.random.default_rng(0).normal(size=(2000, 12)), data.variables[:2000])
    found = split_half(model(steps=60), noise, blocks=1, samples=200)
    assert found.embeddings["consistency"].max() < 0.5
    assert found.maps.shape == (2, 3)


def test_epochs_stay_apart_in_halves():
    from ascribo.evidence.stability import _halves

    recording = asc.Recording(rng.normal(size=(120, 2)), epochs=np.arange(120) // 40)
    first, second = _halves(recording, 1)
    assert first.epochs.tolist() == [0] * 40 + [1] * 20 and second.epochs.tolist() == [0] * 20 + [1] * 40
    with pytest.raises(ValueError, match="use fewer blocks"):
        _halves(recording, 4)
    with pytest.raises(ValueError, match="blocks=0"):
        _halves(recording, 0)
    assert pd.Series(first.time).is_monotonic_increasing
