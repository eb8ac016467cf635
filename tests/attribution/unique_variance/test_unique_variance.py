"""Unique variance on data made by hand: nothing where nothing is carried, however leaky the embedding."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
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
from ascribo.attribution.unique_variance.maps import maps_of_recording
from ascribo.attribution.unique_variance.score import HeldOutScores, score_problems
from ascribo.networks.encoders import Limit
from ascribo.networks.model_stack import Embedder
from ascribo.screening import screen_spaces
from ascribo.spaces.base import reported
from ascribo.training import kept_decoders

STEPS = 6000
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


def make_maps(problem, spaces, recording, weight=None, refused=None, untested=None, steps=150, seeds=(0,)):
    """Scores of a problem, and the maps of a recording with them."""
    known = {name: space for name, space in spaces.items() if set(space.variables) <= set(recording.variables)}
    known = {name: space for name, space in known.items() if space.variables}
    (scores,) = score_problems([problem], [list(seeds)], steps=steps, progress=False)
    return scores, maps_of_recording(
        *(recording, reported(spaces), screen_spaces(recording, known) if known else [], scores),
        weight=np.ones((len(seeds), len(spaces))) if weight is None else weight,
        refused=refused or {},
        untested=untested or {},
        again=lambda only: screen_spaces(recording, known, only=only),
    )


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
    problem = make_problem(Embedder(module, SPACES), parameters, SPACES, X, epochs, variables)
    table = pd.DataFrame(X.numpy(), columns=list(CARRIED))
    recording = asc.Recording(table, variables, epochs=epochs, time=np.arange(STEPS) / 10)
    _, maps = make_maps(problem, SPACES, recording)
    truth = xr.DataArray(
        [[space in own for space in SPACES] for own in CARRIED.values()],
        dims=("channel", "space"),
        coords={"channel": list(CARRIED), "space": list(SPACES)},
    )
    return SimpleNamespace(
        X=X, variables=variables, epochs=epochs, problem=problem, maps=maps, truth=truth, recording=recording
    )


def test_who_carries_what(scene):
    """Nothing leaks from the block of the rest, which holds as much of everything else."""
    calls = scene.maps.calls(0.01).set_index(["channel", "space"])["called"].to_xarray()
    assert (calls.sel(channel=scene.truth.channel, space=scene.truth.space) == scene.truth).all()
    scores = scene.maps.by_space.values
    assert scores[~scene.truth.values].max() < 0.01 < scores[scene.truth.values].min()


def test_known_variables_have_the_test_of_screen(scene):
    found = asc.screen(scene.recording, SPACES).calls
    calls = scene.maps.calls().query("space != 'rest'").reset_index(drop=True)
    pd.testing.assert_frame_equal(calls[["channel", "space", "called"]], found[["channel", "space", "called"]])
    for column in ("score", "p", "q", "ci_low", "ci_high"):
        np.testing.assert_allclose(calls[column], found[column], atol=1e-9)


def test_what_the_rest_explains_is_the_gain_of_a_regression(scene):
    x, u, masks = scene.problem.x.double().numpy(), scene.problem.inputs[0].double().numpy(), scene.problem.masks
    errors = []
    for mask in masks.bool().numpy():
        fit = np.linalg.lstsq(u[:, mask], x - x.mean(0), rcond=None)[0]
        errors.append(((x - x.mean(0) - u[:, mask] @ fit) ** 2).mean(0) / x.var(0))
    linear = [k for k, name in enumerate(CARRIED) if name != "product"]  # which no linear regression can do
    found = scene.maps.by_space.sel(space="rest").values
    np.testing.assert_allclose(found[linear], (errors[1] - errors[0])[linear], atol=0.03)


def test_only_time_steps_that_have_everything_are_compared(scene):
    missing, steps, near = scene.variables.isna().any(axis=1).to_numpy(), scene.problem.index, 1 + REACH
    inside = [t for t in range(near, STEPS - near) if scene.epochs[t - near] == scene.epochs[t + near]]
    assert steps.tolist() == [t for t in inside if not missing[t]]


def test_inputs_are_white_and_labels_and_angles_are_numbers(scene):
    u = scene.problem.inputs[0].double().numpy()
    assert u.shape[1] == (1 + 2 + 3) + 1  # one label in three follows from the others
    np.testing.assert_allclose(u.mean(0), 0, atol=1e-4)
    assert np.isclose(u.var(0), 1, atol=1e-3).sum() == 6 and np.isclose(u.var(0), 0, atol=1e-6).sum() == 1
    assert scene.problem.spaces == ("rest",)
    assert scene.problem.masks.tolist() == [[1] * 7, [1] * 6 + [0]]


# over time


def test_over_time_averages_to_the_map(scene):
    local = scene.maps.over_time()
    assert local.dims == ("time", "channel", "space") and local.sizes["time"] == STEPS
    tested = np.isin(np.arange(STEPS), scene.problem.index)
    rest = local.sel(space="rest").values
    assert np.isnan(rest[~tested]).all() and np.isfinite(rest[tested]).all()
    missing = scene.variables.isna().any(axis=1).to_numpy()
    known = local.drop_sel(space="rest").values
    assert np.isnan(known[missing]).all() and np.isfinite(known[~missing]).any(1).mean() > 0.9
    np.testing.assert_allclose(local.mean("time"), scene.maps.by_space, atol=4e-4)  # blocks differ by a step
    part = scene.maps.over_time(1000, 1300, 7)
    np.testing.assert_allclose(part.time, np.arange(1000, 1300, 7) / 10)
    np.testing.assert_allclose(part, local.isel(time=slice(1000, 1300, 7)), atol=1e-3)


def test_where_is_a_map_of_its_own_and_by_epoch_a_part_of_the_whole(scene):
    chosen = scene.variables["side"].to_numpy() == "m"
    part = scene.maps.where(chosen)
    assert part.by_space.sel(channel="product", space="a") > scene.maps.by_space.sel(channel="sum", space="a") / 2
    assert (part.by_space.sel(channel="label", space="side") < 0.02) or part.undecided  # one label tells nothing
    assert len(part.calls()) == 32 and part.blocks.sizes["block"] < scene.maps.blocks.sizes["block"]
    local, epochs = scene.maps.over_time(), scene.maps.by_epoch()
    assert epochs.dims == ("epoch", "channel", "space") and epochs.epoch.values.tolist() == [0, 1, 2]
    for label in range(3):
        np.testing.assert_allclose(epochs[label], local.isel(time=scene.epochs == label).mean("time"), atol=1e-3)


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
    problem = make_problem(*given, counts=counts)
    assert problem.loss == "poisson" and torch.equal(problem.x, counts[problem.index])
    recording = asc.Recording(pd.DataFrame(counts.numpy(), columns=list("abcn")), given[5])
    _, maps = make_maps(problem, spaces, recording)
    assert maps.by_space.attrs["loss"] == "poisson"
    truth = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=bool)
    assert maps.by_space.values[~truth].max() < 0.01 < 0.02 < maps.by_space.values[truth].min()
    assert (maps.calls(0.01)["called"].to_numpy().reshape(2, 4).T == truth).all()
    # the unit is the deviance that a constant rate leaves, and a space explains no more of it than the rates do
    x = counts.numpy()
    least, rate, constant = ((r - xlogy(x, r)).mean(0) for r in (x, rates, x.mean(0)))
    most = (constant - rate) / (constant - least)
    assert (maps.by_space.sel(space="rest").values < most + 0.01).all() and (most[:3] > 0.2).all()


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
    window=st.sampled_from([1, 3, 4]),
    missing=st.sampled_from([0.0, 0.1]),
)
@settings(max_examples=60, deadline=None)
def test_nothing_crosses_the_edge_of_an_epoch(lengths, window, missing):
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    rng = np.random.default_rng(sum(lengths))
    a = np.where(rng.random(len(epochs)) < missing, np.nan, rng.normal(size=len(epochs)))
    a[0] = 0.0
    X = torch.from_numpy(rng.normal(size=(len(epochs), 2))).float()
    embedder, parameters, spaces = SPIES[window]
    embedder.seen = []
    near = window // 2 + REACH + 1
    last = np.cumsum(lengths)[epochs]
    first = last - np.asarray(lengths)[epochs]
    at = np.arange(len(epochs))
    inside = (at - near >= first) & (at + near < last) & ~np.isnan(a)
    make = lambda: make_problem(embedder, parameters, spaces, X, epochs, pd.DataFrame({"a": a}))  # noqa: E731
    if inside.sum() < 80:
        with pytest.raises(ValueError, match=rf"^{inside.sum()} time steps .* at least 80"):
            make()
        return
    problem = make()
    assert problem.index.tolist() == np.flatnonzero(inside).tolist()
    for neighbours in (problem.index - near, problem.index + near):
        assert (epochs[neighbours] == epochs[problem.index]).all()
    (seen,) = embedder.seen  # each neighbour once
    assert sorted(seen.tolist()) == sorted({*(problem.index - near), *(problem.index + near)})


@pytest.mark.parametrize("window", [1, 3, 4])
def test_a_step_is_not_predicted_from_itself(window, monkeypatch):
    """The embedding of the neighbours leaves the step out, for windows too."""
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
        problem = make_problem(embedder, parameters, spaces, X, np.zeros(400, int), variables)
        inputs.append(problem.inputs[0].numpy())
    moved = inputs[0] != inputs[1]
    around = problem.index[moved[:, -1]]
    assert not moved[:, :-1].any()
    # a window reaches window // 2 steps back and (window - 1) // 2 ahead: one of 4 leaves one more step out
    half, ahead = window // 2, (window - 1) // 2
    sees = lambda centre: range(200 - centre - ahead, 200 - centre + half + 1)  # noqa: E731
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
        assert nearest.min() > 2 * REACH


def test_long_recordings_are_thinned_evenly(monkeypatch):
    monkeypatch.setattr(design, "MOST_TIME_STEPS", 500)
    embedder, parameters, spaces = SPIES[1]
    embedder.seen = []
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.normal(size=(3000, 2))).float()
    problem = make_problem(embedder, parameters, spaces, X, np.zeros(3000, int), pd.DataFrame({"a": X[:, 0]}))
    assert len(problem.index) == 500 and problem.index[0] == 2 and problem.index[-1] == 2997
    assert np.diff(problem.index).max() <= 7


def test_a_space_without_its_variables_is_compared_as_if_it_followed_time(scene):
    module, parameters = linear_encoder(np.eye(8)[None, :5])
    given = (Embedder(module, SPACES), parameters, SPACES, scene.X, scene.epochs)
    problem = make_problem(*given, scene.variables[["angle"]])
    assert problem.spaces == ("a", "side", "rest") and len(problem.masks) == 4
    nothing = make_problem(*given, pd.DataFrame())
    assert nothing.inputs.shape[-1] == 5 and nothing.spaces == tuple(SPACES)


def test_a_change_of_basis_within_a_block_turns_the_inputs_only():
    """White inputs of two encoders that differ by a linear map have the same inner products."""
    rng = np.random.default_rng(0)
    X = torch.from_numpy(np.stack([walk(rng, 800) for _ in range(5)], axis=1)).float()
    spaces = {"a": asc.Follow("a", 2), "rest": asc.Time(3)}
    weights = torch.randn(1, 5, 5, generator=torch.Generator().manual_seed(0))
    turn = torch.block_diag(torch.tensor([[2.0, 1.0], [0.0, 0.3]]), torch.randn(3, 3))
    module, parameters = linear_encoder(torch.cat([weights, turn @ weights]))
    variables = pd.DataFrame({"a": X[:, 0].numpy()})
    problem = make_problem(Embedder(module, spaces), parameters, spaces, X, np.zeros(800, int), variables)
    u = problem.inputs[..., 1:].double()
    gram = u @ u.mT
    torch.testing.assert_close(gram[0], gram[1], rtol=0, atol=0.02)
    assert (u[0] - u[1]).abs().max() > 0.1


# stacks and maps


def small_problem(steps=400, channels=3, seed=0):
    rng = np.random.default_rng(seed)
    X = torch.from_numpy(np.stack([walk(rng, steps) for _ in range(channels)], axis=1)).float()
    spaces = {"a": asc.Follow("a", 1), "rest": asc.Time(1)}
    module, parameters = linear_encoder(rng.normal(size=(2, 2, channels)))
    variables = pd.DataFrame({"a": X[:, 0].numpy()})
    return make_problem(Embedder(module, spaces), parameters, spaces, X, np.zeros(steps, int), variables)


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
    real = kept_decoders.fit_decoders
    monkeypatch.setattr(
        kept_decoders,
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
    # two models, two variants, two folds; the tiny one has smaller batches, and keeps them to itself
    assert trained == [(16, *plans[1]), (8, *plans[2]), (8, *plans[0])]
    for k, (problem, own) in enumerate([(short, [0, 1]), (middle, [2, 3])]):
        (alone,) = score_problems([problem], [own], progress=False)
        np.testing.assert_allclose(together[k].by_block, alone.by_block, atol=1e-5)
        assert together[k].problem is problem
    np.testing.assert_allclose(together[0].by_block, together[2].by_block, atol=1e-5)


@pytest.mark.parametrize("until_flat", [True, False])
def test_threads_change_nothing(until_flat):
    problem, how = small_problem(600), {"steps": 20, "until_flat": until_flat, "progress": False}
    torch.manual_seed(7)
    alone, together = (score_problems([problem], [[3, 4]], n_jobs=jobs, **how)[0] for jobs in (1, 2))
    np.testing.assert_array_equal(alone.by_block, together.by_block)
    np.testing.assert_array_equal(alone.at(np.arange(50)), together.at(np.arange(50)))
    drawn = torch.rand(1)
    torch.manual_seed(7)
    assert drawn == torch.rand(1)  # torch's own generator is left as it was


def test_batches_of_many_channels_are_smaller():
    problem = small_problem(20_000)
    for channels, batch in ((256, 512), (500, 262), (10_000, 64)):
        many = replace(problem, x=problem.x[:, :1].expand(-1, channels))
        assert score._training(many, 1000) == (1000, batch)


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
        *(block % 2, block, [], "squared"),
    )
    by_block = local.reshape(2, 8, 10, 3, 2).mean(2).transpose(0, 3, 2, 1)
    table = pd.DataFrame(np.zeros((160, 3)), columns=["left", "middle", "right"])
    recording = asc.Recording(table, epochs=np.repeat([0, 1], 80))
    maps = maps_of_recording(
        *(recording, ["a", "b"], [], HeldOutScores(problem, by_block, lambda rows: local[:, rows])),
        weight=np.asarray(weight, dtype=float),
        refused=refused or {},
        untested=untested or {},
        again=lambda only: [],
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
    spaces = {"a": asc.Follow("a", 1), "rest": asc.Time(1)}
    recording = asc.Recording(pd.DataFrame(x.numpy(), columns=list("abc")), pd.DataFrame({"a": x[:, 0]}))
    scores, maps = make_maps(torn, spaces, recording, seeds=(0, 1))
    assert scores.by_block.mean(-1).max() <= 1 + 1e-6
    assert scores.at(np.arange(len(x))).mean(1).max() <= 1 + 1e-6
    assert maps.calls()[["score", "level", "ci_low", "ci_high"]].max(axis=None) <= 1


def test_levels_are_shares_of_the_whole_variance(scene):
    """A channel that is a variable is told by its level, of which little is new at any moment."""
    level = scene.maps.level
    assert level.sel(channel="a", space="a") == pytest.approx(1 / 1.25, abs=0.05)
    assert level.sel(channel="sum", space="a") == pytest.approx(1 / 2.25, abs=0.06)
    assert level.sel(channel="east", space="heading") == pytest.approx(0.98 / 1.23, abs=0.1)  # of ranks
    other = level.where(~scene.truth).drop_sel(space="rest")
    assert other.max() < 0.03
    assert abs(level - scene.maps.by_space).sel(space="rest").max() == 0
    table = scene.maps.calls().set_index(["channel", "space"])
    assert table.loc[("a", "a"), "level"] == level.sel(channel="a", space="a")
    assert list(table.columns) == ["score", "level", "note", "p", "q", "ci_low", "ci_high", "called"]


def test_an_embedding_at_chance_is_no_reason_to_refuse_variables():
    """Only a space that is judged by its embedding needs one that knows something."""
    problem = small_problem(600)
    spaces = {"a": asc.Follow("a", 1), "rest": asc.Time(1)}
    x = np.random.default_rng(0).normal(size=(600, 3))
    recording = asc.Recording(pd.DataFrame(x, columns=list("abc")), pd.DataFrame({"a": x[:, 0]}))
    why = {"a": "at chance", "rest": "at chance"}
    _, maps = make_maps(problem, spaces, recording, np.zeros((2, 2)), why, steps=20, seeds=(0, 1))
    assert maps.refused == {"rest": "at chance"}
    assert np.isfinite(maps.by_space.sel(space="a")).all() and np.isnan(maps.by_space.sel(space="rest")).all()
    table = maps.calls().set_index("space")
    assert table.loc["a", "p"].notna().all()
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
    assert set(back) == {"by_space", "blocks", "level"} and AttributionMaps.load(path).refused == {"b": "collapsed"}
    xr.testing.assert_allclose(back["by_space"], maps.by_space)
    xr.testing.assert_allclose(back["blocks"], maps.blocks)
    table = pd.read_csv(maps.to_csv(tmp_path / "map.csv"))
    assert list(table) == ["channel", "space", "score", "z", "p", "q", "ci_low", "ci_high", "called"]
    assert len(table) == 6 and table.loc[table["space"] == "b", "score"].isna().all()
    own = table[table["space"] == "a"]
    assert ((own["ci_low"] < own["score"]) & (own["score"] < own["ci_high"])).all()
