"""Each method does what it promises where its assumptions hold, and fails where it is said to."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from sklearn.feature_selection import r_regression

from ascribo.data.recording import Recording
from ascribo.simulate.box import wander
from ascribo.simulate.mixed import mixed
from experiments.validation import established_methods

SPACES = {"a": ["a0"], "b": ["b0", "b1"]}


def additive(shapes, seed=0, steps=20_000, channels=40, noise=1.0):
    """Channels that carry "a", "b", both or neither, as sums of these shapes of the variables and white noise."""
    rng = np.random.default_rng(seed)
    z = wander(rng, steps, 3, 0.1)
    truth = np.stack([np.arange(channels) % 2 == 0, np.arange(channels) // 2 % 2 == 0], axis=1)
    weights = rng.uniform(0.5, 1, (3, channels)) * rng.choice([-1, 1], (3, channels))
    weights *= truth[:, [0, 1, 1]].T
    names = [f"channel{k}" for k in range(channels)]
    return Recording(
        pd.DataFrame(shapes(z) @ weights + noise * rng.standard_normal((steps, channels)), columns=names),
        {"a0": z[:, 0], "b0": z[:, 1], "b1": z[:, 2]},
        truth=xr.DataArray(truth, dims=("channel", "space"), coords={"channel": names, "space": ["a", "b"]}),
    )


def all_scores(method, recording, spaces=SPACES, **options):
    return (
        established_methods.score_calls(method(recording, spaces, **options), recording.truth)
        .set_index("space")
        .loc["all"]
    )


def mean_scores(method, recordings, **options):
    """Over several data sets: false calls come in groups, as the channels of a data set share their variables."""
    return pd.DataFrame([all_scores(method, recording, **options) for recording in recordings]).mean()


@pytest.fixture(scope="module")
def linear():
    return [additive(lambda z: z, seed) for seed in range(4)]


@pytest.fixture(scope="module")
def bumps():
    return [additive(lambda z: np.cos(np.pi * z), seed, noise=0.5) for seed in range(4)]


@pytest.mark.parametrize("method", ["tuning_information", "linear_glm", "spline_glm", "cross_validated_glm"])
def test_linear_channels_with_white_noise_suit_all_encoding_methods(linear, method):
    scores = mean_scores(established_methods.METHODS[method], linear)
    assert scores["power"] > 0.95 and scores["fdp"] < 0.1


@pytest.mark.parametrize("method", ["tuning_information", "spline_glm", "cross_validated_glm"])
def test_bumps_are_found_by_bins_and_splines(bumps, method):
    scores = mean_scores(established_methods.METHODS[method], bumps)
    assert scores["power"] > 0.95 and scores["fdp"] < 0.1


def test_bumps_are_not_found_by_linear_regressors(bumps):
    assert mean_scores(established_methods.cross_validated_glm, bumps, knots=None)["power"] < 0.5
    assert (
        mean_scores(established_methods.linear_glm, bumps)["fdp"] > 0.2
    )  # what they miss is slow, and passes for the others


def test_a_decoder_finds_pure_channels_that_are_needed():
    data = mixed(0, {"a": 1, "b": 1}, hidden=0, channels=12, steps=10_000, carry=0, snr=1)
    scores = all_scores(established_methods.permutation_importance, data, data.spaces)
    assert scores["power"] > 0.9 and scores["fdp"] < 0.15


def test_a_decoder_calls_channels_that_only_clean_others():
    # channel1 carries the disturbance alone: no information on a0, but what is needed to clean channel0
    rng = np.random.default_rng(0)
    z = wander(rng, 10_000, 2, 0.1)
    X = np.stack([z[:, 0] + z[:, 1], z[:, 1], wander(rng, 10_000, 1, 0.1)[:, 0]], axis=1)
    calls = established_methods.permutation_importance(Recording(X, {"a0": z[:, 0]}), {"a": ["a0"]}, epochs=5)
    assert calls["called"].to_list() == [True, True, False]


def test_tuning_falls_for_correlated_variables_and_the_regression_does_not():
    alike, apart = (mixed(1, hidden=0, channels=40, correlation=r, snr=4) for r in (0.6, 0))
    assert all_scores(established_methods.tuning_information, alike, alike.spaces)["fdp"] > 0.3
    assert all_scores(established_methods.tuning_information, apart, apart.spaces)["fdp"] < 0.1
    scores = all_scores(established_methods.cross_validated_glm, alike, alike.spaces)
    assert scores["fdp"] < 0.1 and scores["power"] > 0.9


def test_slow_residuals_deceive_the_naive_test_and_not_the_cross_validated_one():
    data = mixed(0, hidden=2, channels=40, snr=4)
    naive, thinned, held_out = (
        all_scores(method, data, data.spaces, **options)
        for method, options in (
            (established_methods.spline_glm, {}),
            (established_methods.spline_glm, {"thin": 100}),
            (established_methods.cross_validated_glm, {}),
        )
    )
    assert naive["fdp"] > 0.3
    assert thinned["fdp"] < 0.15 and held_out["fdp"] < 0.1
    assert min(thinned["power"], held_out["power"]) > 0.8


def test_p_of_the_shift_test_is_uniform_under_the_null():
    rng = np.random.default_rng(0)
    p, naive = [], []
    for _ in range(250):
        z = wander(rng, 2000, 2, 0.2)
        null = Recording(z[:, :1], {"a0": z[:, 1]})
        p.append(established_methods.tuning_information(null, {"a": ["a0"]})["p"][0])
        naive.append(established_methods.linear_glm(null, {"a": ["a0"]})["p"][0])
    assert stats.kstest(p, "uniform").pvalue > 0.01
    assert 0.02 < np.mean(np.array(p) < 0.05) < 0.09
    assert np.mean(np.array(naive) < 0.05) > 0.5  # what the autocorrelation does to a test that ignores it


def test_tuning_information_by_hand():
    rng = np.random.default_rng(0)
    z, X = rng.uniform(-1, 1, (60, 2)), rng.standard_normal((60, 2))
    X[:, 0] += z[:, 0]
    calls = established_methods.tuning_information(
        Recording(X, {"u": z[:, 0], "v": z[:, 1]}), {"a": ["u", "v"]}, most_bins=9
    )
    cell = [pd.qcut(column, 3, labels=False) for column in z.T]
    for c, x in enumerate(X.T):

        def explained(shift, x=x):
            rolled = np.roll(x, shift)
            means = pd.Series(rolled).groupby([cell[0], cell[1]]).transform("mean")
            return means.var() / rolled.var(ddof=1)

        every = np.array([explained(shift) for shift in range(60)])
        assert calls["score"][c] == pytest.approx(-0.5 * np.log2(1 - every[0]), rel=1e-4)
        assert calls["p"][c] == pytest.approx(np.mean(every >= every[0]))


def test_f_test_by_hand(linear):
    linear = linear[0]
    # for one regressor beside the constant, F is that of the correlation
    calls = established_methods.linear_glm(linear, {"a": ["a0"]}, thin=50)
    x, z = linear.X[::50], linear.variables["a0"].to_numpy()[::50]
    expected = [stats.pearsonr(column, z).pvalue for column in x.T]
    np.testing.assert_allclose(calls["p"], expected, rtol=1e-3)
    np.testing.assert_allclose(calls["score"], r_regression(x, z) ** 2, rtol=1e-3, atol=1e-7)


def test_cross_validated_gain_by_hand(linear):
    short = linear[0][:1000].take_channels(["channel1", "channel2"])
    calls = established_methods.cross_validated_glm(short, SPACES, knots=None, blocks=4).set_index(
        ["space", "channel"]
    )
    V = np.column_stack([np.ones(1000), short.variables])
    X = (short.X - short.X.mean(0)) / short.X.std(0)
    gains = []
    for block in np.split(np.arange(1000), 4):
        rest = np.setdiff1d(np.arange(1000), block)
        error = []
        for keep in ([0, 1], [0, 1, 2, 3]):  # without and with the variables of "b"
            beta = np.linalg.lstsq(V[rest][:, keep], X[rest], rcond=None)[0]
            error.append(np.square(X[block] - V[block][:, keep] @ beta).mean(0))
        gains.append(error[0] - error[1])
    p = stats.ttest_1samp(gains, 0, alternative="greater").pvalue
    np.testing.assert_allclose(calls.loc["b", "score"], np.mean(gains, axis=0), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(calls.loc["b", "p"], p, rtol=1e-2)


@pytest.mark.parametrize("method", list(established_methods.METHODS))
def test_tables_have_one_form_and_constant_channels_are_not_called(method):
    data = mixed(0, channels=4, steps=1000, snr=4)
    X = np.column_stack([data.X, np.full(1000, 3.0)])
    recording = Recording(X, data.variables)
    calls = established_methods.METHODS[method](recording, data.spaces, 0.2)
    assert list(calls) == ["channel", "space", "score", "p", "q", "called"]
    assert calls["channel"].to_list() == recording.channel_names * 2
    assert calls["space"].to_list() == ["a"] * 5 + ["b"] * 5
    assert np.isfinite(calls[["score", "p", "q"]]).all(axis=None) and calls["p"].between(0, 1).all()
    for _, of_space in calls.groupby("space"):
        np.testing.assert_allclose(of_space["q"], stats.false_discovery_control(of_space["p"]))
    assert (calls["called"] == (calls["q"] <= 0.2)).all()
    constant = calls[calls["channel"] == "channel4"]
    assert not constant["called"].any() and (constant["score"].abs() < 1e-9).all()


def test_repeated_values_and_variables_that_say_the_same():
    data = mixed(0, channels=6, steps=5000, hidden=0, snr=4)
    table = data.variables.assign(coarse=np.round(data.variables["a0"] * 3), copy=data.variables["b0"] * 2)
    recording = Recording(data.X, table)
    for method in (
        established_methods.tuning_information,
        established_methods.linear_glm,
        established_methods.cross_validated_glm,
    ):
        calls = method(recording, {"a": ["coarse"], "b": ["b0", "copy", "b1"]})
        assert np.isfinite(calls[["score", "p"]]).all(axis=None) and calls["called"].any()


def test_score_calls():
    names = ["u", "v", "w", "x"]
    truth = xr.DataArray(
        [[True, False, True], [True, False, True], [False, False, False], [True, False, False]],
        dims=("channel", "space"),
        coords={"channel": names, "space": ["a", "b", "rest"]},
    )
    order = [3, 1, 0, 2]  # rows are matched by name, not by position
    calls = pd.DataFrame(
        {
            "channel": [names[k] for k in order] * 2,
            "space": ["a"] * 4 + ["b"] * 4,
            "called": [True, True, False, True, False, True, False, False],
        }
    )
    got = established_methods.score_calls(calls, truth).set_index("space")
    assert got.index.to_list() == ["a", "b", "all"]
    assert got.loc["a"].to_list() == pytest.approx([2 / 3, 1 / 3, 2 / 3, 3, 3])
    assert np.isnan(got.loc["b", ["f1", "power"]]).all() and got.loc["b", "fdp"] == 1
    assert got.loc["all"].to_list() == pytest.approx([4 / 7, 0.5, 2 / 3, 4, 3])
    nothing = established_methods.score_calls(calls.assign(called=False), truth).set_index("space").loc["all"]
    assert nothing[["f1", "fdp", "power"]].to_list() == [0, 0, 0]
    with pytest.raises(ValueError, match="no space 'c'"):
        established_methods.score_calls(calls.assign(space="c"), truth)


def test_what_is_refused(linear):
    linear = linear[0]
    with pytest.raises(ValueError, match="did you mean 'a0'"):
        established_methods.linear_glm(linear, {"a": ["a_0"]})
    with pytest.raises(ValueError, match="no spaces"):
        established_methods.linear_glm(linear, {})
    with pytest.raises(ValueError, match="q=2"):
        established_methods.linear_glm(linear, SPACES, q=2)
    with pytest.raises(ValueError, match="thin=0"):
        established_methods.linear_glm(linear, SPACES, thin=0)
    with pytest.raises(ValueError, match="thin less"):
        established_methods.linear_glm(linear, SPACES, thin=10_000)
    with pytest.raises(ValueError, match="blocks=1"):
        established_methods.cross_validated_glm(linear, SPACES, blocks=1)
    with pytest.raises(ValueError, match="most_bins=4 or more"):
        established_methods.tuning_information(linear, SPACES, most_bins=3)
    with pytest.raises(ValueError, match="not all numbers"):
        established_methods.linear_glm(Recording(np.eye(3), {"a0": list("xyz")}), {"a": ["a0"]})
    with pytest.raises(ValueError, match="without gaps"):
        established_methods.linear_glm(Recording(np.eye(3), {"a0": [1, np.nan, 2]}), {"a": ["a0"]})
