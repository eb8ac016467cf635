"""Unique variance on data made by hand: zero where nothing is carried, however leaky the embedding."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from ascribo.attribution.unique_variance.innovation import innovation_lag
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.special import xlogy
from torch import nn

import ascribo as asc
from ascribo.attribution import AttributionMaps
from ascribo.attribution.unique_variance import decoding_problem as problem_module
from ascribo.attribution.unique_variance import design, score
from ascribo.attribution.unique_variance.decoding_problem import DecodingProblem, make_problem
from ascribo.attribution.unique_variance.fourier_features import wave_heights, wave_numbers
from ascribo.attribution.unique_variance.maps import maps_from_scores
from ascribo.attribution.unique_variance.score import HeldOutScores, score_problems
from ascribo.attribution.unique_variance.whitening import white
from ascribo.networks.encoders import Limit
from ascribo.networks.model_stack import Embedder

STEPS = 6000
LAG = 1
REACH = 1
"""The rest learns from neighbours one step away."""
DECAY = 0.9
SPACES = {
    "a": asc.Follow("a", 1),
    "heading": asc.Follow("angle", 2, circular=True, period=360),
    "side": asc.Discrete("side", 1),
    "rest": asc.Time(1),
}
CARRIED = {
    "a": ["a"],
    "b": ["rest"],
    "east": ["heading"],
    "label": ["side"],
    "sum": ["a", "rest"],
    "north and label": ["heading", "side"],
    "product": ["a", "side"],
    "noise": [],
}


def walk(rng, steps, decay=DECAY):
    """A slow Gaussian process with variance 1."""
    jumps = rng.normal(size=steps)
    jumps[1:] *= np.sqrt(1 - decay**2)
    return lfilter([1.0], [1.0, -decay], jumps)


def linear_encoder(weights, limit=None):
    """Architecture and parameters of encoders that are the matrices `weights` (seed, dim, channel)."""
    weights = torch.as_tensor(weights, dtype=torch.float32)
    limit = limit or Limit("none")
    module = nn.Sequential(nn.Linear(weights.shape[2], weights.shape[1]), limit)
    return module, {"0.weight": weights, "0.bias": torch.zeros(weights.shape[:2])}


@pytest.fixture(scope="module")
def scene():
    """A walk a, an angle and a label that are known, a walk b that is hidden; channels of each and of several.

    The block of the rest holds b, and as much of everything else: the worst leak there can be.
    """
    rng = np.random.default_rng(0)
    a, b = walk(rng, STEPS), walk(rng, STEPS)
    angle = np.cumsum(0.4 * rng.normal(size=STEPS))
    jumps = np.where(rng.random(STEPS) < 0.1, rng.integers(1, 3, STEPS), 0)
    label = np.cumsum(jumps) % 3
    tuning = np.array([-1.2, 1.2, 0.6])[label]
    east, north = 1.4 * np.cos(angle), 1.4 * np.sin(angle)
    clean = np.stack([a, b, east, tuning, a + b, north + tuning, a * (1 + label) / 2, 0 * a], axis=1)
    X = clean + 0.5 * rng.normal(size=clean.shape)
    variables = pd.DataFrame({"a": a, "angle": np.rad2deg(angle) % 360, "side": np.array(["l", "m", "r"])[label]})
    variables.loc[rng.choice(STEPS, 150, replace=False), "a"] = np.nan
    variables.loc[rng.choice(STEPS, 150, replace=False), "side"] = None
    X = torch.from_numpy((X - X.mean(0)) / X.std(0)).float()
    weights = np.zeros((1, 5, 8))
    weights[0, [0, 1, 2, 3], [0, 2, 5, 3]] = 1
    weights[0, 4, :4] = 1
    module, parameters = linear_encoder(weights)
    epochs = np.repeat([0, 1, 2], STEPS // 3)
    problem = make_problem(Embedder(module, SPACES), parameters, SPACES, X, epochs, variables, lag=LAG)
    (scores,) = score_problems([problem], [[0]], steps=150, progress=False)
    maps = maps_from_scores(
        scores,
        weight=np.ones((1, 4)),
        refused={},
        untested={},
        channels=list(CARRIED),
        time=np.arange(STEPS) / 10,
        epochs=epochs,
    )
    truth = xr.DataArray(
        [[space in own for space in SPACES] for own in CARRIED.values()],
        dims=("channel", "space"),
        coords={"channel": list(CARRIED), "space": list(SPACES)},
    )
    return SimpleNamespace(
        X=X, variables=variables, epochs=epochs, problem=problem, scores=scores, maps=maps, truth=truth
    )


def gain(problem, space):
    """What a linear regression on the inputs of the decoders gains by a space: R² with it - R² without."""
    x = problem.x.double().numpy()
    if space in problem.redraws:
        masks = problem.masks[[0, 0]].bool()
        masks[1, problem.redraws[space][0]] = False
    else:
        masks = problem.masks[list(problem.comparisons[space])].bool()
    errors = []
    for mask in masks:
        u = problem.inputs[0][:, mask].double().numpy()
        fit = np.linalg.lstsq(u, x - x.mean(0), rcond=None)[0]
        errors.append(((x - x.mean(0) - u @ fit) ** 2).mean(0) / x.var(0))
    return errors[1] - errors[0]


def test_what_is_not_carried_scores_nothing_and_what_is_carried_is_called(scene):
    scores = scene.maps.by_space.values
    assert scores[~scene.truth.values].max() < 0.005 < 0.015 < scores[scene.truth.values].min()
    calls = scene.maps.calls(0.01).set_index(["channel", "space"])["called"].to_xarray()
    assert (calls.sel(channel=scene.truth.channel, space=scene.truth.space) == scene.truth).all()


def test_the_whole_value_of_a_variable_would_find_the_leak(scene):
    """Why innovations: given the leaky block, the present value tells of a channel that does not carry it."""
    known = scene.variables["a"].notna().to_numpy()
    a = scene.variables["a"].to_numpy()[known]
    x = scene.X.numpy()[known].astype(float)
    leaky = x[:, :4].sum(1)
    left = [np.linalg.lstsq(u, x[:, 1], rcond=None)[1][0] / len(a) for u in (leaky[:, None], np.c_[leaky, a])]
    assert left[0] - left[1] > 0.05
    assert abs(scene.maps.by_space.sel(channel="b", space="a")) < 0.005


def test_scores_are_shares_of_the_variance(scene):
    """What is new of a walk after some steps is known exactly; of the rest a linear regression knows the best."""
    found = scene.maps.by_space
    assert found.sel(channel="a", space="a") == pytest.approx((1 - DECAY ** (2 * LAG)) / 1.25, abs=0.02)
    assert found.sel(channel="sum", space="a") == pytest.approx((1 - DECAY ** (2 * LAG)) / 2.25, abs=0.02)
    linear = [name for name in CARRIED if name != "product"]  # which no linear regression can do
    for space in SPACES:
        expected = xr.DataArray(gain(scene.problem, space), dims="channel", coords={"channel": list(CARRIED)})
        np.testing.assert_allclose(found.sel(channel=linear, space=space), expected.sel(channel=linear), atol=0.03)


def test_only_time_steps_that_have_everything_are_tested(scene):
    missing = scene.variables.isna().any(axis=1).to_numpy()
    steps = scene.problem.index
    assert not (missing[steps] | missing[steps - LAG] | missing[steps - LAG - REACH]).any()
    back = LAG + REACH + 1
    ahead = 1 + REACH
    inside = [t for t in range(back, STEPS - ahead) if scene.epochs[t - back] == scene.epochs[t + ahead]]
    assert steps.tolist() == [t for t in inside if not missing[[t, t - LAG, t - LAG - REACH]].any()]


def test_inputs_are_white_and_labels_and_angles_are_numbers(scene):
    u = scene.problem.inputs[0].double().numpy()
    # past: 5 embedding + 1 + 2 + 3 values; innovation, present and past change: the same 6 values; the rest: 1.
    # One label in three follows from the others.
    assert u.shape[1] == 5 + 4 * (1 + 2 + 3) + 1
    np.testing.assert_allclose(u.mean(0), 0, atol=1e-4)
    variance = u.var(0)
    assert (
        np.isclose(variance, 1, atol=1e-3).sum() == u.shape[1] - 4 and np.isclose(variance, 0, atol=1e-6).sum() == 4
    )
    first, whole, without = scene.problem.masks.bool()
    assert scene.problem.spaces == tuple(SPACES) and scene.problem.comparisons == {"rest": (1, 2)}
    assert not (first & whole).any() and (first | whole).all()
    assert (whole & ~without).nonzero().tolist() == [[u.shape[1] - 1]]
    columns = {space: range(where.start, where.stop) for space, (where, _) in scene.problem.redraws.items()}
    assert {space: len(own) for space, own in columns.items()} == {"a": 1, "heading": 2, "side": 3}
    assert len({k for own in columns.values() for k in own}) == 6 and all(
        first[list(c)].all() for c in columns.values()
    )
    for where, draws in scene.problem.redraws.values():
        assert draws.shape == (design.REDRAWS, len(u), where.stop - where.start)
        assert not torch.equal(draws[0], draws[1])


# over time


def test_over_time_averages_to_the_map(scene):
    local = scene.maps.over_time()
    assert local.dims == ("time", "channel", "space") and local.sizes["time"] == STEPS
    tested = np.isin(np.arange(STEPS), scene.problem.index)
    assert np.isnan(local.values[~tested]).all() and np.isfinite(local.values[tested]).all()
    np.testing.assert_allclose(local.mean("time"), scene.maps.by_space, atol=4e-4)  # blocks differ by a step
    part = scene.maps.over_time(1000, 1300, 7)
    np.testing.assert_allclose(part.time, np.arange(1000, 1300, 7) / 10)
    np.testing.assert_allclose(part, local.isel(time=slice(1000, 1300, 7)), atol=1e-4)


def test_where_and_by_epoch_are_parts_of_over_time(scene):
    local = scene.maps.over_time()
    chosen = scene.variables["side"].to_numpy() == "m"
    part = scene.maps.where(chosen)
    np.testing.assert_allclose(part.by_space, local.isel(time=chosen).mean("time"), atol=2e-3)
    assert abs(part.by_space - scene.maps.by_space).max() > 0.01
    assert len(part.calls()) == 32 and part.blocks.sizes["block"] < scene.maps.blocks.sizes["block"]
    epochs = scene.maps.by_epoch()
    assert epochs.dims == ("epoch", "channel", "space") and epochs.epoch.values.tolist() == [0, 1, 2]
    for label in range(3):
        np.testing.assert_allclose(epochs[label], local.isel(time=scene.epochs == label).mean("time"), atol=2e-3)
    share = np.bincount(scene.epochs[scene.problem.index]) / len(scene.problem.index)
    np.testing.assert_allclose((epochs.values * share[:, None, None]).sum(0), scene.maps.by_space, atol=1e-3)


def test_where_hardly_anything_is_tested_there_is_no_map(scene):
    few = np.zeros(STEPS, dtype=bool)
    few[scene.problem.index[:4]] = True
    with pytest.raises(ValueError, match="4 of these 4 time steps"):
        scene.maps.where(few)


# counts


def test_counts_are_predicted_under_a_poisson_loss():
    rng = np.random.default_rng(3)
    a, b = walk(rng, 5000), walk(rng, 5000)
    rates = np.exp(np.stack([0.8 * a, 0.8 * b, 0.6 * (a + b), 0 * a], axis=1))
    counts = torch.from_numpy(rng.poisson(rates)).float()
    X = (counts - counts.mean(0)) / counts.std(0)
    spaces = {"a": asc.Follow("a", 1), "rest": asc.Time(1)}
    module, parameters = linear_encoder([[[1.0, 0, 0, 0], [1.0, 1, 0, 0]]], Limit("tanh", 2.0))
    given = (Embedder(module, spaces), parameters, spaces, X, np.zeros(5000, int), pd.DataFrame({"a": a}))
    problem = make_problem(*given, counts=counts, lag=3)
    assert problem.loss == "poisson" and torch.equal(problem.x, counts[problem.index])
    (scores,) = score_problems([problem], [[0]], steps=150, progress=False)
    maps = maps_from_scores(
        scores,
        weight=np.ones((1, 2)),
        refused={},
        untested={},
        channels=list("abcn"),
        time=np.arange(5000),
        epochs=given[4],
    )
    assert maps.by_space.attrs["loss"] == "poisson"
    truth = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=bool)
    assert maps.by_space.values[~truth].max() < 0.005 < 0.02 < maps.by_space.values[truth].min()
    assert (maps.calls(0.01)["called"].to_numpy().reshape(2, 4).T == truth).all()
    # the unit is the deviance that a constant rate leaves, and a space explains no more of it than the rates do
    x = counts.numpy()
    least, rate, constant = ((r - xlogy(x, r)).mean(0) for r in (x, rates, x.mean(0)))
    most = (constant - rate) / (constant - least)
    assert (maps.by_space.max("space").values < most + 0.01).all() and (most[:3] > 0.2).all()


# what the decoders get to see


class Spy(Embedder):
    """Writes down which time steps are embedded."""

    def embed(self, parameters, X, epochs, steps=None):
        self.seen.append(steps)
        return super().embed(parameters, X, epochs, steps)


def spies():
    out = {}
    for window, encoder in ((1, asc.MLP((4,))), (3, asc.Convolution(3, (2, 2))), (4, asc.Convolution(4, (2, 2)))):
        module = encoder.build(2, 2)
        spaces = {"a": asc.Follow("a", 1), "rest": asc.Time(1)}
        embedder = Spy(module, spaces)
        out[window] = (embedder, embedder.initial(module, [0]), spaces)
    return out


SPIES = spies()


@given(
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=6),
    lag=st.integers(1, 12),
    window=st.sampled_from([1, 3, 4]),
    missing=st.sampled_from([0.0, 0.1]),
)
@settings(max_examples=60, deadline=None)
def test_nothing_crosses_the_edge_of_an_epoch(lengths, lag, window, missing):
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    rng = np.random.default_rng(lag)
    a = np.where(rng.random(len(epochs)) < missing, np.nan, rng.normal(size=len(epochs)))
    a[0] = 0.0
    X = torch.from_numpy(rng.normal(size=(len(epochs), 2))).float()
    embedder, parameters, spaces = SPIES[window]
    embedder.seen = []
    half = window // 2
    last = np.cumsum(lengths)[epochs]
    first = last - np.asarray(lengths)[epochs]
    at = np.arange(len(epochs))
    inside = (at - lag - half - REACH - 1 >= first) & (at + half + REACH + 1 < last)
    present = ~np.isnan(a)
    inside[inside] &= present[at[inside]] & present[at[inside] - lag] & present[at[inside] - lag - half - REACH]
    make = lambda: make_problem(embedder, parameters, spaces, X, epochs, pd.DataFrame({"a": a}), lag=lag)  # noqa: E731
    if inside.sum() < 80:
        with pytest.raises(ValueError, match=rf"^{inside.sum()} time steps .* at least 80"):
            make()
        return
    problem = make()
    assert problem.index.tolist() == np.flatnonzero(inside).tolist()
    assert len(embedder.seen) == 4
    for seen in embedder.seen:
        assert (epochs[seen] == epochs[problem.index]).all()


@pytest.mark.parametrize("window", [1, 3, 4])
def test_a_step_is_not_predicted_from_itself(window, monkeypatch):
    """The past embedding ends at the lag, that of the neighbours leaves the step out, for windows too."""
    for module in (design, problem_module):
        monkeypatch.setattr(module, "white", lambda part: part.float())
    rng = np.random.default_rng(0)
    smooth = np.stack([walk(rng, 400, 0.99) for _ in range(2)], axis=1)
    embedder, parameters, spaces = SPIES[window]
    variables = pd.DataFrame({"a": rng.normal(size=400)})
    embedder.seen = []
    inputs = []
    for change in (0.0, 1.0):
        X = torch.from_numpy(smooth).float()
        X[200] += change
        problem = make_problem(embedder, parameters, spaces, X, np.zeros(400, int), variables, lag=6)
        inputs.append(problem.inputs[0].numpy())
    moved = inputs[0] != inputs[1]
    past, around = problem.index[moved[:, :2].any(1)], problem.index[moved[:, -1]]
    # a window reaches window // 2 steps back and (window - 1) // 2 ahead: one of 4 leaves one more step out
    half, ahead = window // 2, (window - 1) // 2
    sees = lambda centre: range(200 - centre - ahead, 200 - centre + half + 1)  # noqa: E731
    before = 6 + half + REACH
    assert set(past) == {*sees(-before), *sees(-before - 1)} and past.min() >= 206 + REACH
    near = 1 + half + REACH
    assert set(around) == {*sees(-near), *sees(near)} and 200 not in around


def test_folds_keep_their_distance(scene):
    problem = scene.problem
    rows = np.arange(len(problem.index))
    assert set(problem.fold) == {0, 1} and (np.diff(problem.block) >= 0).all()
    for fold, training in enumerate(problem.training_rows):
        held_out = rows[problem.fold == fold]
        assert len(training) > 0.4 * len(rows)
        nearest = np.abs(training[:, None] - held_out[None]).min(1)
        assert nearest.min() > LAG + 2


def test_long_recordings_are_thinned_evenly(monkeypatch):
    monkeypatch.setattr(design, "MOST_TIME_STEPS", 500)
    embedder, parameters, spaces = SPIES[1]
    embedder.seen = []
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.normal(size=(3000, 2))).float()
    problem = make_problem(
        embedder, parameters, spaces, X, np.zeros(3000, int), pd.DataFrame({"a": X[:, 0]}), lag=1
    )
    assert len(problem.index) == 500 and problem.index[0] == 3 and problem.index[-1] == 2997
    assert np.diff(problem.index).max() <= 7


def test_a_space_without_its_variables_is_tested_as_if_it_followed_time(scene):
    module, parameters = linear_encoder(np.eye(8)[None, :5])
    problem = make_problem(
        Embedder(module, SPACES), parameters, SPACES, scene.X, scene.epochs, scene.variables[["angle"]], lag=1
    )
    assert problem.spaces == tuple(SPACES) and list(problem.redraws) == ["heading"]
    assert problem.comparisons == {"a": (1, 2), "side": (1, 3), "rest": (1, 4)}
    nothing = make_problem(Embedder(module, SPACES), parameters, SPACES, scene.X, scene.epochs, pd.DataFrame())
    assert nothing.inputs.shape[-1] == 5 and not nothing.redraws and list(nothing.comparisons) == list(SPACES)


def test_a_change_of_basis_within_a_block_turns_the_inputs_only():
    """White inputs of two encoders that differ by a linear map have the same inner products."""
    rng = np.random.default_rng(0)
    X = torch.from_numpy(np.stack([walk(rng, 800) for _ in range(5)], axis=1)).float()
    spaces = {"a": asc.Follow("a", 2), "rest": asc.Time(3)}
    weights = torch.randn(1, 5, 5, generator=torch.Generator().manual_seed(0))
    turn = torch.block_diag(torch.tensor([[2.0, 1.0], [0.0, 0.3]]), torch.randn(3, 3))
    module, parameters = linear_encoder(torch.cat([weights, turn @ weights]))
    variables = pd.DataFrame({"a": X[:, 0].numpy()})
    problem = make_problem(Embedder(module, spaces), parameters, spaces, X, np.zeros(800, int), variables, lag=2)
    for columns in (slice(0, 5), slice(9, 12)):  # all of the past embedding; the rest around the step
        u = problem.inputs[..., columns].double()
        gram = u @ u.mT
        torch.testing.assert_close(gram[0], gram[1], rtol=0, atol=0.02)
        assert (u[0] - u[1]).abs().max() > 0.1


# variables that move together


def test_shared_innovations_are_not_called_twice():
    """Two variables that move together: a channel of one of them owes nothing to the other."""
    rng = np.random.default_rng(2)
    common = walk(rng, 5000)
    a, c = (0.8 * common + 0.6 * walk(rng, 5000) for _ in range(2))
    assert np.corrcoef(np.diff(a), np.diff(c))[0, 1] > 0.5
    clean = np.stack([a, c, a + c, 0 * a], axis=1)
    X = torch.from_numpy(clean + 0.5 * rng.normal(size=clean.shape)).float()
    spaces = {"a": asc.Follow("a", 1), "c": asc.Regress("c")}
    module, parameters = linear_encoder([[[1.0, 1, 0, 0], [1.0, -1, 0, 0]]])
    variables = pd.DataFrame({"a": a, "c": c})
    problem = make_problem(Embedder(module, spaces), parameters, spaces, X, np.zeros(5000, int), variables, lag=2)
    assert not problem.comparisons and len(problem.masks) == 2  # innovations, and levels
    (scores,) = score_problems([problem], [[0]], steps=150, progress=False)
    scores = scores.by_block[0].mean(-1)
    truth = np.array([[1, 0, 1, 0], [0, 1, 1, 0]], dtype=bool)
    assert np.abs(scores[~truth]).max() < 0.005 < 0.03 < scores[truth].min()
    expected = np.stack([gain(problem, space) for space in spaces])
    np.testing.assert_allclose(scores[truth], expected[truth], atol=0.02)


# stacks and maps


def small_problem(steps=400, channels=3, seed=0):
    rng = np.random.default_rng(seed)
    X = torch.from_numpy(np.stack([walk(rng, steps) for _ in range(channels)], axis=1)).float()
    spaces = {"a": asc.Follow("a", 1), "rest": asc.Time(1)}
    module, parameters = linear_encoder(rng.normal(size=(2, 2, channels)))
    variables = pd.DataFrame({"a": X[:, 0].numpy()})
    return make_problem(Embedder(module, spaces), parameters, spaces, X, np.zeros(steps, int), variables, lag=2)


def test_problems_do_not_depend_on_their_company():
    problems = [small_problem(1100, seed=k) for k in range(2)]
    both = score_problems(problems, [[3, 4], [5, 6]], steps=15, progress=False)
    for problem, own, scores in zip(problems, ([3, 4], [5, 6]), both, strict=True):
        (alone,) = score_problems([problem], [own], steps=15, progress=False)
        np.testing.assert_allclose(scores.by_block, alone.by_block, rtol=1e-2, atol=1e-3)
    assert np.abs(both[0].by_block - both[1].by_block).max() > 0.01
    (same,) = score_problems(problems[:1], [[3, 3]], steps=15, progress=False)
    assert (
        np.abs(same.by_block[0] - both[0].by_block[0]).max()
        < 1e-3
        < np.abs(same.by_block[1] - both[0].by_block[1]).max()
    )


def test_short_recordings_are_learned_from_for_fewer_steps(monkeypatch):
    """80 passes at most, 150 steps at least; recordings of other lengths do not change that."""
    trained = []
    real = score.fit_decoders
    monkeypatch.setattr(
        score,
        "fit_decoders",
        lambda *a, **given: (
            trained.append((len(a[2]), given["steps"], given["batch"])) or real(*a, **{**given, "steps": 10})
        ),
    )
    tiny, short, middle, long = (small_problem(n, seed=n) for n in (150, 300, 2500, 20_000))
    rows = [min(len(own) for own in problem.training_rows) for problem in (tiny, short, middle)]
    plans = [score._training(problem, 1000) for problem in (tiny, short, middle, long)]
    assert plans[:2] == [(150, rows[0]), (150, rows[1])] and plans[3] == (1000, 512)
    assert plans[2] == (50 * np.ceil(80 * rows[2] / 512 / 50), 512) and 150 < plans[2][0] < 300
    together = score_problems([short, middle, short, tiny], [[0, 1], [2, 3], [0, 1], [0, 1]], progress=False)
    # two models, three variants, two folds; the tiny one has smaller batches, and keeps them to itself
    assert trained == [(24, *plans[1]), (12, *plans[2]), (12, *plans[0])]
    for k, (problem, own) in enumerate([(short, [0, 1]), (middle, [2, 3])]):
        (alone,) = score_problems([problem], [own], progress=False)
        np.testing.assert_allclose(together[k].by_block, alone.by_block, atol=1e-5)
        assert together[k].problem is problem
    np.testing.assert_allclose(together[0].by_block, together[2].by_block, atol=1e-5)


def test_a_channel_that_never_changes_is_not_called():
    for loss in ("squared", "poisson"):
        problem = small_problem()
        counts = torch.poisson(problem.x.exp(), generator=torch.Generator().manual_seed(0))
        x = (problem.x if loss == "squared" else counts).clone()
        x[:, 1] = 0
        (scores,) = score_problems([replace(problem, x=x, loss=loss)], [[0, 1]], steps=20, progress=False)
        assert (scores.by_block[:, :, 1] == 0).all() and (scores.by_block[:, :, [0, 2]] != 0).all()


def by_hand(weight, refused=None, untested=None):
    """Maps of made-up scores: 2 seeds, 2 spaces, 3 channels, 8 blocks of 10 steps; every other step was tested."""
    rng = np.random.default_rng(0)
    local = rng.normal(0.4, 0.4, (2, 80, 3, 2))
    steps, block = 2 * np.arange(80), np.arange(80) // 10
    problem = DecodingProblem(
        *(steps, torch.zeros(80, 3), torch.zeros(2, 80, 1), torch.zeros(3, 1), ("a", "b")),
        *({}, {"a": (0, 1), "b": (0, 2)}, block % 2, block, [], "squared"),
    )
    by_block = local.reshape(2, 8, 10, 3, 2).mean(2).transpose(0, 3, 2, 1)
    maps = maps_from_scores(
        HeldOutScores(problem, by_block, lambda rows: local[:, rows]),
        weight=np.asarray(weight, dtype=float),
        refused=refused or {},
        untested=untested or {},
        channels=["left", "middle", "right"],
        time=np.arange(160.0),
        epochs=np.repeat([0, 1], 80),
    )
    return local, maps


def test_maps_are_means_over_the_seeds_that_count():
    local, maps = by_hand([[1, 1], [1, 0]])
    expected = np.stack([local[..., 0].mean((0, 1)), local[0, ..., 1].mean(0)], axis=1)
    np.testing.assert_allclose(maps.by_space, expected)
    table = maps.calls().set_index(["channel", "space"])["score"].to_xarray()
    np.testing.assert_allclose(table.sel(channel=maps.by_space.channel), expected)
    np.testing.assert_allclose(maps.over_time(0, 160, 2).mean("time"), expected)
    assert np.isnan(maps.over_time(1, 160, 2)).all()
    np.testing.assert_allclose(maps.by_epoch().mean("epoch"), expected)
    np.testing.assert_allclose(maps.where(np.arange(160) < 80).by_space, maps.by_epoch()[0])


def test_a_refused_space_has_no_numbers():
    _, maps = by_hand([[1, 0], [1, 0]], {"b": "collapsed"})
    for scores in (maps.by_space, maps.over_time(0, 160, 2), maps.by_epoch()):
        assert np.isnan(scores.sel(space="b")).all() and np.isfinite(scores.sel(space="a")).all()
    table = maps.calls().set_index("space")
    assert table.loc["b", ["score", "ci_low", "ci_high", "p", "q"]].isna().all(axis=None)
    assert not table.loc["b", "called"].any() and table.loc["a", "called"].all()


def test_shares_are_never_above_one():
    """A decoder that never saw the rest extrapolates, and is worse than none: that is not the rest's."""
    problem = small_problem(1200)
    drift = torch.linspace(-2, 2, len(problem.x))[:, None]
    inputs = problem.inputs.clone()
    inputs[..., -1] = drift[:, 0]  # the rest knows of all that the channels do
    inputs[..., :-1] += 3 * drift  # the others drift out of where they were learned, and know nothing
    inputs[..., :-1] += 5 * torch.randn(inputs[..., :-1].shape, generator=torch.Generator().manual_seed(0))
    x = drift + 0.1 * problem.x
    fold = (np.arange(len(x)) > len(x) // 2).astype(int)
    rows = [np.flatnonzero(fold != k) for k in range(2)]
    torn = replace(problem, inputs=inputs, x=x - x.mean(0), fold=fold, training_rows=rows)
    (scores,) = score_problems([torn], [[0, 1]], steps=150, progress=False)
    assert scores.by_block.mean(-1).max() <= 1 + 1e-6
    assert scores.at(np.arange(len(x))).mean(1).max() <= 1 + 1e-6 and scores.level.max() <= 1
    maps = maps_from_scores(
        scores,
        weight=np.ones((2, 2)),
        refused={},
        untested={},
        channels=list("abc"),
        time=np.arange(1200),
        epochs=np.zeros(1200, int),
    )
    table = maps.calls()
    assert table[["score", "level", "ci_low", "ci_high"]].to_numpy().max() <= 1


def test_levels_are_shares_of_the_whole_variance(scene):
    """A channel that is a variable is told by its level, of which little is new at any moment."""
    level = scene.maps.level
    assert level.sel(channel="a", space="a") == pytest.approx(1 / 1.25, abs=0.05)
    assert level.sel(channel="sum", space="a") == pytest.approx(1 / 2.25, abs=0.06)
    assert level.sel(channel="east", space="heading") == pytest.approx(0.98 / 1.23, abs=0.05)
    other = level.where(~scene.truth).drop_sel(space="rest")
    assert other.max() < 0.03
    assert abs(level - scene.maps.by_space).sel(space="rest").max() == 0
    table = scene.maps.calls().set_index(["channel", "space"])
    assert table.loc[("a", "a"), "level"] == level.sel(channel="a", space="a")
    assert list(table.columns) == ["score", "level", "p", "q", "ci_low", "ci_high", "called", "note"]


def test_an_embedding_at_chance_is_no_reason_to_refuse_variables():
    """Only a space that is judged by its embedding needs one that knows something."""
    problem = small_problem(600)
    (scores,) = score_problems([problem], [[0, 1]], steps=20, progress=False)
    maps = maps_from_scores(
        scores,
        weight=np.zeros((2, 2)),
        refused={"a": "at chance", "rest": "at chance"},
        untested={},
        channels=list("abc"),
        time=np.arange(600),
        epochs=np.zeros(600, int),
    )
    assert maps.refused == {"rest": "at chance"}
    assert np.isfinite(maps.by_space.sel(space="a")).all() and np.isnan(maps.by_space.sel(space="rest")).all()
    table = maps.calls().set_index("space")
    assert table.loc["a", "p"].notna().all() and (table.loc["a", "note"] == "").all()
    assert not table.loc["rest", "called"].any() and (table.loc["rest", "note"] == "at chance").all()


def test_short_waves_are_low():
    """So that what is smooth is learned first: a channel's noise must not be fitted by the shortest waves."""
    heights, numbers = wave_heights(), wave_numbers(1).abs()[0]
    assert heights.max() == pytest.approx(2**0.5) and (heights[numbers <= 1] == heights.max()).all()
    short = numbers > 1
    torch.testing.assert_close(heights[short] * numbers[short], torch.full_like(heights[short], 2**0.5))


def test_unique_variance_to_files(tmp_path):
    _, maps = by_hand([[1, 1], [1, 1]], {"b": "collapsed"})
    assert maps.by_dimension is None
    path = maps.to_netcdf(tmp_path / "map.nc")
    back = xr.load_dataset(path)
    assert set(back) == {"by_space", "blocks"} and AttributionMaps.load(path).refused == {"b": "collapsed"}
    xr.testing.assert_allclose(back["by_space"], maps.by_space)
    xr.testing.assert_allclose(back["blocks"], maps.blocks)
    table = pd.read_csv(maps.to_csv(tmp_path / "map.csv"))
    assert list(table) == ["channel", "space", "score", "z", "p", "q", "ci_low", "ci_high", "called"]
    assert len(table) == 6 and table.loc[table["space"] == "b", "score"].isna().all()
    own = table[table["space"] == "a"]
    assert ((own["ci_low"] < own["score"]) & (own["score"] < own["ci_high"])).all()


# spaces that move at different speeds, and know of each other


def rat(seed=0, steps=8000):
    """A place that a speed and a heading lead through a square, all three known; and cells of each, none of two."""
    rng = np.random.default_rng(seed)
    speed = 0.08 * np.exp(0.6 * walk(rng, steps, 0.85))
    heading = np.cumsum(0.35 * rng.normal(size=steps))
    ahead = np.cumsum(speed[:, None] * np.stack([np.cos(heading), np.sin(heading)], 1), axis=0)
    place = 1 - np.abs(ahead % 4 - 2)  # from -1 to 1, reflected at the walls
    centres = rng.uniform(-0.8, 0.8, (4, 2))
    fields = [np.exp(-((place - centre) ** 2).sum(1) / 0.15) for centre in centres]
    stripes = [np.cos(6 * place @ rng.normal(size=2) + k) for k in range(4)]
    towards = [np.exp(1.5 * np.cos(heading - k)) for k in range(4)]
    clean = np.stack([*fields, *stripes, *towards, speed, speed], axis=1)
    clean = (clean - clean.mean(0)) / clean.std(0)
    X = torch.from_numpy(clean + 0.1 * rng.normal(size=clean.shape)).float()
    variables = pd.DataFrame({"x": place[:, 0], "y": place[:, 1], "heading": heading % (2 * np.pi), "speed": speed})
    truth = np.array([[1, 0, 0]] * 8 + [[0, 1, 0]] * 4 + [[0, 0, 1]] * 2, dtype=bool)
    return X, variables, truth


RAT = {
    "place": asc.Follow(["x", "y"], 2),
    "heading": asc.Follow("heading", 2, circular=True),
    "speed": asc.Follow("speed", 1),
}


@pytest.fixture(scope="module")
def rat_problem():
    X, variables, truth = rat()
    weights = np.random.default_rng(0).normal(size=(1, 5, X.shape[1]))  # mixes up everything
    module, parameters = linear_encoder(weights / 4, Limit("tanh", 5.0))
    problem = make_problem(Embedder(module, RAT), parameters, RAT, X, np.zeros(len(X), int), variables)
    return problem, variables, truth


def test_each_space_has_innovations_over_its_own_lag(rat_problem):
    problem, variables, _ = rat_problem
    lags = {
        "place": innovation_lag(variables[["x", "y"]].to_numpy(), np.zeros(len(variables), int)),
        "speed": innovation_lag(variables[["speed"]].to_numpy(), np.zeros(len(variables), int)),
    }
    assert lags["speed"] == 1 and lags["place"] > 3
    for space, names in (("place", ["x", "y"]), ("speed", ["speed"])):
        value = variables[names].to_numpy()
        expected = white(torch.from_numpy(value[problem.index] - value[problem.index - lags[space]])[None])
        torch.testing.assert_close(problem.inputs[0][:, problem.redraws[space][0]], expected[0], rtol=0, atol=1e-3)
    assert problem.index[0] == lags["place"] + 1  # the embedding is that of before the longest


def test_a_path_is_not_its_speed(rat_problem):
    """A step is a speed in a direction: over one lag for all, the three would tell of each other's cells."""
    problem, _, truth = rat_problem
    (scores,) = score_problems([problem], [[0]], steps=300, progress=False)
    maps = maps_from_scores(
        scores,
        weight=np.ones((1, 3)),
        refused={},
        untested={},
        channels=[f"cell{k}" for k in range(14)],
        time=np.arange(8000),
        epochs=np.zeros(8000, int),
    )
    scores = maps.by_space.values
    assert np.abs(scores[~truth]).max() < 0.004 < 0.03 < scores[truth].min()
    called = maps.calls(0.01).pivot(index="channel", columns="space", values="called")
    called = called.loc[[f"cell{k}" for k in range(14)], list(RAT)].to_numpy(bool)
    assert called[truth].all() and called[~truth].sum() <= 1


def test_waves_are_those_of_what_would_be_present(rat_problem):
    """With another innovation, the waves are those of the place that it leads to; and they see stripes."""
    problem, variables, _ = rat_problem
    value = variables[["x", "y"]].to_numpy()[problem.index]
    place = white(torch.from_numpy(value)[None])[0].double()
    waves = wave_heights() * (place @ wave_numbers(2)).cos()
    wide = problem.with_waves(problem.inputs[0]).double()
    dim = problem.inputs.shape[-1]
    torch.testing.assert_close(wide[:, dim : dim + 32], waves, rtol=0, atol=5e-3)
    where, draws = problem.redraws["place"]
    other = problem.inputs[0].clone()
    other[:, where] = draws[0]
    moved = problem.with_waves(other)[:, dim : dim + 32].double()
    assert (moved - waves).abs().mean() > 0.05
    assert problem.masks_with_waves.shape == (2, dim + 2 * problem.phases.shape[1])
    assert problem.masks_with_waves[:, dim:].all() and torch.equal(problem.masks_with_waves[:, :dim], problem.masks)


def test_large_numbers_have_their_innovations():
    """Positions in metres from the equator: in float32 a step of 5 cm is lost beside them."""
    rng = np.random.default_rng(0)
    x = np.cumsum(0.05 * rng.normal(size=600))
    X = torch.from_numpy(rng.normal(size=(600, 4))).float()
    spaces = {"x": asc.Follow("x", 1)}
    module, parameters = linear_encoder([[[1.0, 0, 0, 0]]])
    embedder = Embedder(module, spaces)
    near, far = (
        make_problem(embedder, parameters, spaces, X, np.zeros(600, int), pd.DataFrame({"x": x + offset}), lag=2)
        for offset in (0.0, 4e6)
    )
    np.testing.assert_allclose(far.inputs, near.inputs, atol=1e-3)
