"""The estimator end to end, on small recordings with known truth."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from sklearn.base import clone
from torch import nn

import ascribo as asc
from ascribo import attribution
from ascribo.attribution.unique_variance import score
from ascribo.data.segments import hold_out
from ascribo.training import loop
from ascribo.training import steps as training_steps


def small(**changes):
    settings = dict(
        spaces={"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)},
        seeds=2,
        steps=400,
        batch_size=256,
        encoder=asc.MLP((64, 64)),
        random_state=0,
        progress=False,
    )
    return asc.ContrastiveEmbedding(**{**settings, **changes})


def tiny(**changes):
    """For what does not depend on how well a model fits."""
    return small(**{"seeds": 1, "batch_size": 64, "encoder": asc.MLP((16,)), **changes})


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(seed=1, observed=2, hidden=2, channels=(12, 12), steps=12_000)


@pytest.fixture(scope="module")
def model(data):
    return small().fit(data)


@pytest.fixture(scope="module")
def maps(model, data):
    """The map one gets without asking for anything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score, "MOST_TRAINING_STEPS", 120)
        return model.attribute(data)


def test_finds_the_channels_that_carry_the_variables(model, data, maps):
    methods = ("generative_gradient", "inverted_neuron_gradient")
    scores = {m: model.attribute(data, method=m, samples=2000).auroc(data, "position") for m in methods}
    assert scores["generative_gradient"] == 1.0
    assert scores["inverted_neuron_gradient"] > 0.9
    assert maps.method == "unique_variance" and maps.auroc(data, "position") == 1.0


def test_calls_are_the_truth(maps, data):
    calls = maps.calls(0.01).set_index(["channel", "space"])["called"].to_xarray()
    assert (calls.sel(channel=data.truth.channel, space=data.truth.space) == data.truth).all()


@pytest.mark.parametrize("method", attribution.METHODS)
def test_every_method_has_a_map(method, model, data, quick_unique_variance):
    samples = 20 if "samples" in attribution.METHODS[method].takes else None
    found = model.attribute(data[:1000], method=method, samples=samples)
    assert found.method == method and found.by_space.shape == (24, 2)
    assert np.isfinite(found.by_space).all() and np.isfinite(found.over_time(500, 510)).any()


def test_variables_may_come_beside_the_channels(model, data, quick_unique_variance):
    part = data[:800]
    frame = pd.DataFrame(part.X, columns=part.channel_names)
    together, beside = model.attribute(part), model.attribute(frame, part.variables)
    xr.testing.assert_identical(together.by_space, beside.by_space)
    # without them the space can be scored only as if it followed time, and not tested
    with pytest.warns(UserWarning, match=r"has no x, y \(of space 'position'\): pass the variables"):
        without = model.attribute(frame)
    assert not np.allclose(without.by_space, together.by_space, atol=0.05)
    assert list(without.untested) == ["position", "rest"] and not together.untested
    with pytest.raises(ValueError, match=r"no space can be tested.*no x, y \(of space 'position'\): pass"):
        without.calls()
    assert list(without.to_frame()) == ["channel", "space", "score", "z"]
    assert len(together.calls()) == 48
    with pytest.raises(ValueError, match="beside a Recording"):
        model.attribute(part, part.variables)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "guess"}, "method='guess'"),
        ({"aggregate": "sum"}, "aggregate='sum'"),
        ({"loss": "absolute"}, "loss='absolute'"),
        ({"aggregate": "median"}, "the scores of unique_variance are means"),
        ({"method": "tangent", "loss": "poisson"}, "tangent predicts nothing"),
        ({"loss": "poisson"}, "is for counts"),
        ({"samples": 100}, "samples=100: unique_variance chooses its time steps itself.* Leave samples out"),
        ({"samples": "all"}, "samples='all': unique_variance chooses"),
    ],
)
def test_what_does_not_go_together_is_refused(model, data, wrong, message):
    with pytest.raises(ValueError, match=message):
        model.attribute(data, **wrong)


def test_aggregates_over_time(model, data):
    found = {
        a: model.attribute(data, method="neuron_gradient", samples=200, aggregate=a).by_space
        for a in ("mean", "median", "maximum")
    }
    assert (found["maximum"] > found["mean"]).all() and (found["maximum"] > found["median"]).all()
    assert not np.allclose(found["mean"], found["median"], rtol=1e-3)


def test_short_recordings_have_no_unique_variance_and_say_why(model, data):
    with pytest.raises(ValueError, match=r"time steps have all their variables .* needs at least 80"):
        model.attribute(data[:70])
    assert np.isfinite(model.attribute(data[:70], method="generative_gradient").by_space).all()


def test_embedding_identifies_the_latents(model, data):
    z = model.transform(data)
    hidden, observed = data.latents[:, :2], data.latents[:, 2:]
    assert asc.metrics.linear_r2(z[:, :2], observed) > 0.95
    assert asc.metrics.linear_r2(z[:, 2:], hidden) > 0.9
    assert asc.metrics.linear_r2(z[:, :2], hidden) < 0.1


def test_goodness_of_fit_is_held_out_and_above_chance(model):
    table = model.goodness_of_fit_.set_index("space")
    assert list(model.goodness_of_fit_)[:4] == ["space", "bits", "infonce", "chance"]
    np.testing.assert_allclose(table.bits, (table.chance - table.infonce) / np.log(2), rtol=1e-6)
    np.testing.assert_allclose(table.chance, np.log(256))
    assert (table.bits > 1).all() and not table.collapsed.any()


def test_score_falls_when_variables_are_shuffled(model, data):
    shuffled = data.variables.sample(frac=1, random_state=0).reset_index(drop=True)
    assert model.score(data.X, data.variables) > model.score(data.X, shuffled) + 1


def test_shuffled_labels_collapse_and_their_map_is_refused(data, quick_unique_variance):
    shuffled = data.variables.sample(frac=1, random_state=0).reset_index(drop=True)
    model = small(steps=200, seeds=1, batch_size=128).fit(data.X, shuffled)
    table = model.goodness_of_fit_.set_index("space")
    assert table.collapsed["position"] and not table.collapsed["rest"]
    assert table.bits["position"] < 0.02 < 1 < table.bits["rest"]
    with pytest.warns(UserWarning, match="'position' has no map"):
        maps = model.attribute(data, method="generative_gradient")
    assert "chance" in maps.refused["position"]
    assert np.isnan(maps.by_space.sel(space="position")).all()
    assert np.isfinite(maps.by_space.sel(space="rest")).all()
    # variables are tested as they are, whatever the embedding knows of them
    maps = model.attribute(data.X, shuffled)
    assert not maps.refused and np.isfinite(maps.by_space).all()
    calls = maps.calls().groupby("space")["called"].sum()
    assert calls["position"] == 0 < calls["rest"]
    alone = tiny(spaces={"position": asc.Follow(["x", "y"], 2)}, steps=50).fit(data.X, shuffled)
    assert not alone.attribute(data.X, shuffled).calls()["called"].any()
    with pytest.raises(ValueError, match=r"all spaces .* collapsed"):
        alone.attribute(data.X, method="generative_gradient")


def test_variables_that_say_nothing_are_refused(model, data):
    for nothing, message in ((np.nan, "is missing everywhere"), (0.0, "has one value")):
        with pytest.raises(ValueError, match=f"'position': variable 'x' {message}"):
            model.attribute(data.X, data.variables * nothing)


# how much is spent


def test_spending_follows_the_question(data, tmp_path, quick_unique_variance):
    """Training stops when held-out bits have stopped rising, and two seeds that agree are enough."""
    spaces = {"position": asc.Follow(["x", "y"], 2)}
    given = dict(batch_size=128, encoder=asc.MLP((32,)), random_state=0, learning_rate=5e-3, progress=False)
    model = asc.ContrastiveEmbedding(spaces, **given).fit(data[:3000])
    spent = model.spent_
    assert spent["seeds"] == model.model_.seeds == 2 and "2 seeds agree" in spent["why_seeds"]
    assert max(spent["steps"]) < 1500 and all("stopped rising at step" in why for why in spent["why_steps"])
    held_out = model.history_["held_out"].values
    assert held_out.shape[1] == 2 and np.nanmax(held_out) > 1 and held_out[0, 0] < np.nanmax(held_out)
    for seed, done in enumerate(spent["steps"]):  # the learning rate fell, and λ was found and kept
        weights = model.history_["lambda"].values[:done, seed]
        assert weights[0] == 0 < weights[-1] == weights[-done // 5]
    # the same whatever the number of processes, and loaded again
    other = asc.ContrastiveEmbedding(spaces, n_jobs=2, **given).fit(data[:3000])
    np.testing.assert_array_equal(other.transform(data[:500]), model.transform(data[:500]))
    assert other.spent_ == spent and asc.load(model.save(tmp_path / "run")).spent_ == spent
    calls = [each.attribute(data[:3000]).calls() for each in (model, other)]
    pd.testing.assert_frame_equal(*calls)


def test_seeds_are_added_while_they_disagree(data):
    """Of a space that nothing drives every seed has an embedding of its own."""
    rng = np.random.default_rng(0)
    noise = asc.Recording(rng.normal(size=(1500, 4)), {"x": np.cumsum(rng.normal(size=1500))})
    # on a GPU a stack draws its batches together, so that those of a seed depend on how many there are
    given = dict(
        steps=20, batch_size=64, encoder=asc.MLP((8,)), random_state=0, progress=False, penalty=0.0, device="cpu"
    )
    model = asc.ContrastiveEmbedding({"x": asc.Follow("x", 1)}, **given).fit(noise)
    assert model.spent_["seeds"] == 4 and "2 seeds disagree" in model.spent_["why_seeds"]
    assert model.spent_["steps"] == [20] * 4 and model.spent_["why_steps"] == ["all 20 steps were taken"] * 4
    fixed = asc.ContrastiveEmbedding({"x": asc.Follow("x", 1)}, seeds=4, **given).fit(noise)
    np.testing.assert_allclose(fixed.transform(noise), model.transform(noise), rtol=1e-4, atol=1e-5)
    for wrong in ({"seeds": "some"}, {"steps": 0}, {"steps": "many"}):
        with pytest.raises(ValueError, match="expected an integer of at least 1, or 'auto'"):
            asc.ContrastiveEmbedding({"x": asc.Follow("x", 1)}, **{**given, **wrong}).fit(noise)


def test_same_random_state_same_bits(data, quick_unique_variance):
    part = data[:1000]
    a, b, c = (tiny(steps=60, seeds=2, random_state=s).fit(part) for s in (3, 3, 4))
    np.testing.assert_array_equal(a.transform(part), b.transform(part))
    for method in ("unique_variance", "generative_gradient"):
        one, other = (m.attribute(part, method=method).by_space for m in (a, b))
        xr.testing.assert_identical(one, other)
    assert not np.allclose(a.transform(part), c.transform(part))


def test_fit_leaves_global_random_state_and_threads_alone(data):
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    before, threads = np.random.get_state()[1].copy(), torch.get_num_threads()  # noqa: NPY002
    small(steps=5).fit(data[:1000])
    assert torch.rand(1) == expected and torch.get_num_threads() == threads
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_seeds_in_processes_give_what_one_process_gives(data):
    part = data[:2000]
    one, two = (small(steps=60, penalty=0.1, n_jobs=n).fit(part) for n in (1, 2))
    # the same draws in another stack: only rounding differs, which Adam's first steps enlarge
    np.testing.assert_allclose(one.transform(part, seed=1), two.transform(part, seed=1), atol=0.03)
    assert one.history_.sizes == two.history_.sizes


def test_transform_of_one_seed_and_of_all(model, data):
    each = [model.transform(data, seed=k) for k in range(2)]
    assert each[0].shape == (12_000, 4) and not np.allclose(each[0], each[1])
    assert asc.metrics.linear_r2(model.transform(data), each[0]) > 0.95
    with pytest.raises(ValueError, match="seeds 0 to 1"):
        model.transform(data, seed=2)


def test_inputs_of_every_kind_give_the_same(model, data):
    expected = model.transform(data)
    frame = pd.DataFrame(data.X, columns=data.channel_names)
    array = xr.DataArray(data.X, dims=("time", "channel"), coords={"channel": data.channel_names})
    for X in (frame, array):
        np.testing.assert_allclose(model.transform(X), expected, rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn says that names are missing
        np.testing.assert_allclose(model.transform(data.X), expected, rtol=1e-5)


def test_an_embedding_comes_back_as_what_came_in(model, data):
    part = data[:300]
    expected = model.transform(part)
    assert isinstance(expected, np.ndarray)
    names = list(model.get_feature_names_out())
    frame = pd.DataFrame(part.X, columns=part.channel_names, index=np.arange(300) * 2)
    out = model.transform(frame)
    assert isinstance(out, pd.DataFrame) and list(out) == names and out.index.equals(frame.index)
    stamps = {"time": np.arange(300) / 10, "channel": part.channel_names, "lap": ("time", np.arange(300) // 50)}
    array = xr.DataArray(part.X.T, dims=("channel", "time"), coords=stamps)
    out = model.transform(array)
    assert out.dims == ("time", "dimension") and list(out["dimension"].values) == names
    np.testing.assert_array_equal(out["lap"], array["lap"])
    np.testing.assert_array_equal(out["time"], array["time"])
    assert out["space"].sel(dimension="rest0").item() == "rest"
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    other = clone(model).set_output(transform="pandas")
    other.__dict__.update({k: v for k, v in vars(model).items() if k.endswith("_")})
    assert isinstance(other.transform(array), pd.DataFrame)


def test_a_recording_treated_otherwise_is_refused(data):
    time = asc.Recording(data.X[:400], data.variables[:400], time=np.arange(400) / 10)
    treated = time.treat(smooth=0.2, transform="zscore")
    model = small(steps=5, batch_size=64, penalty=0.0).fit(treated)
    assert model.treatment == treated.treatment
    assert model.transform(treated[50:90]).shape == (40, 4)
    assert model.transform(time.treat(model.treatment)).shape == (400, 4)
    with pytest.raises(ValueError, match=r"smoothed over 0\.3 s, instead of smoothed over 0\.2 s, z-score"):
        model.transform(time.treat(smooth=0.3))
    with pytest.raises(ValueError, match="with means and spreads of its own, instead of"):
        model.attribute(time[:300].treat(smooth=0.2, transform="zscore"))


def test_channels_in_another_order_are_refused(model, data):
    turned = data.take_channels(data.channel_names[::-1])
    with pytest.raises(ValueError, match="in the same order"):
        model.attribute(turned)


def test_maps_have_names_and_time(model, maps, data):
    assert maps.by_dimension is None and maps.blocks.dims == ("seed", "space", "channel", "block")
    assert list(maps.by_space.channel.values) == data.channel_names
    maps = model.attribute(data, method="generative_gradient", samples=1000)
    assert maps.by_dimension.dims == ("channel", "dimension") and maps.by_dimension.shape == (24, 4)
    assert list(maps.by_space.channel.values) == data.channel_names
    assert list(maps.by_space.space.values) == ["position", "rest"]
    local = maps.over_time(100, 110)
    assert local.shape == (10, 24, 2) and (local > 0).all()


def test_history_keeps_lambda_and_both_curves(model):
    history = model.history_
    assert history["infonce"].dims == ("step", "seed", "space") and history.sizes["step"] == 400
    assert history["lambda"][0, 0] == 0 and (history["lambda"][-1] > 0).all()
    assert history.attrs["lambda"] == pytest.approx(history["lambda"].values[-1])
    assert (history["infonce"][-50:].mean("step") < history["infonce"][:50].mean("step")).all()
    assert (history["penalty"][-1] < history["penalty"].max("step")).all()


@pytest.fixture
def short_chunks(monkeypatch):
    """Chunks of 10 training steps instead of 50: early stop looks at 24 of them."""
    for module in (loop, training_steps):
        monkeypatch.setattr(module, "STEPS_PER_CHUNK", 10)


def test_early_stop_ends_a_flat_run(data, short_chunks):
    model = tiny(steps=1000, early_stop=0.5, penalty=0.1, encoder=asc.MLP((8,))).fit(data[:500])
    assert 240 <= model.history_.sizes["step"] < 1000


def test_early_stop_can_be_turned_off(data, short_chunks):
    stops, goes_on = (
        tiny(steps=260, early_stop=e, penalty=0.1, encoder=asc.MLP((8,)), batch_size=16).fit(data[:500])
        for e in (10.0, None)
    )
    assert (stops.history_.sizes["step"], goes_on.history_.sizes["step"]) == (240, 260)


def test_convolution_sees_its_window_and_no_other_epoch(data, quick_unique_variance):
    epochs = np.repeat([0, 1, 2], 300)
    recording = asc.Recording(data.X[:900], data.variables[:900], epochs=epochs)
    model = tiny(encoder=asc.Convolution(window=5, widths=(16, 16)), steps=30).fit(recording)
    z = model.transform(recording)
    assert z.shape == (900, 4)
    changed = recording.X.copy()
    changed[300:600] += 1
    moved = model.transform(asc.Recording(changed, epochs=epochs))
    same = (moved == z).all(1)
    assert same[:300].all() and same[600:].all() and not same[300:600].any()
    changed = recording.X.copy()
    changed[150] += 1
    moved = model.transform(asc.Recording(changed, epochs=epochs))
    # window 5 centred on the step: steps 148 to 152 see step 150
    assert np.flatnonzero((moved != z).any(1)).tolist() == [148, 149, 150, 151, 152]
    for method in ("unique_variance", "generative_gradient", "inverted_neuron_gradient", "integrated_gradients"):
        samples = 10 if "samples" in attribution.METHODS[method].takes else None
        assert model.attribute(recording, method=method, samples=samples).by_space.shape == (24, 2)
    with pytest.raises(ValueError, match="sees a window"):
        model.attribute(recording, method="tangent")


def test_own_module_as_encoder(data):
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(24, 16), nn.Linear(16, 4)

        def forward(self, x):
            return self.b(torch.relu(self.a(x)))

    mine = Mine()
    before = mine.a.weight.clone()
    part = data[:1000]
    model = tiny(encoder=mine, steps=20).fit(part)
    assert model.transform(part).shape == (1000, 4)
    assert torch.equal(before, mine.a.weight), "the user's module must not be changed"
    with pytest.raises(ValueError, match=r"expected \(2, 4\)"):
        small(encoder=nn.Linear(24, 3)).fit(data)
    with pytest.raises(ValueError, match="buffers"):
        small(encoder=nn.Sequential(nn.Linear(24, 4), nn.BatchNorm1d(4))).fit(data)


def test_every_kind_of_space_at_once(data, quick_unique_variance):
    rng = np.random.default_rng(0)
    variables = data.variables.assign(
        heading=np.arctan2(data.variables.y, data.variables.x),
        side=np.where(data.variables.x > 0, "left", "right"),
    )
    variables.loc[rng.choice(12_000, 500, replace=False), "heading"] = np.nan
    model = small(
        spaces={
            "position": asc.Follow(["x", "y"], 2),
            "heading": asc.Follow("heading", 2, circular=True, similarity="dot", temperature="learn"),
            "side": asc.Discrete("side", 2, similarity=asc.Lp(1.5), temperature=0.5),
            "speed": asc.Regress(["x"]),
            "rest": asc.Time(2, offsets=(1, 2)),
        },
        hybrid="separate",
        seeds=1,
        steps=250,
        batch_size=128,
    ).fit(data.X, variables)
    table = model.goodness_of_fit_.set_index("space")
    assert table.left_out.tolist() == [0, 500, 0, 0, 0]
    assert (table.bits > 0.3).all()
    z = model.transform(data.X, seed=0)
    np.testing.assert_allclose(np.linalg.norm(z[:, 2:4], axis=1), 1, rtol=1e-4)
    maps = model.attribute(data.X, method="generative_gradient")
    assert not maps.refused and np.isfinite(maps.by_space).all() and maps.by_dimension.shape == (24, 9)
    maps = model.attribute(data.X[:1000], variables[:1000])
    assert (
        not maps.refused
        and np.isfinite(maps.by_space).all()
        and list(maps.by_space.space.values) == [*model.spaces]
    )


def test_whole_and_separate_differ(data):
    part = data[:1000]
    whole, separate = (tiny(hybrid=h, steps=30).fit(part) for h in ("whole", "separate"))
    assert not np.allclose(whole.transform(part), separate.transform(part))


def test_exact_penalty_is_what_the_projection_estimates(data):
    part = data[:2000]
    exact, projected = (
        small(exact_penalty=e, penalty=0.1, steps=100, batch_size=64).fit(part) for e in (True, False)
    )
    a, b = (m.history_["penalty"][-50:].mean().item() for m in (exact, projected))
    assert a == pytest.approx(b, rel=0.2)


def test_a_killed_fit_goes_on_to_the_same_bits(data, tmp_path, monkeypatch):
    from ascribo.training import loop as training

    part = data[:1000]
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    whole = tiny(steps=200).fit(part)
    folder = tmp_path / "state"
    real, calls = training.write_checkpoint, []

    def killed(*arguments):
        real(*arguments)
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "write_checkpoint", killed)
    with pytest.raises(KeyboardInterrupt):
        tiny(steps=200, checkpoint=folder).fit(part)
    assert len(list(folder.iterdir())) == 1
    resumed = tiny(steps=200, checkpoint=folder).fit(part)
    assert len(calls) == 4, "the first hundred steps were not done again"
    np.testing.assert_array_equal(resumed.transform(part), whole.transform(part))
    assert not list(folder.iterdir())
    calls.clear()
    monkeypatch.setattr(training, "write_checkpoint", killed)
    with pytest.raises(KeyboardInterrupt):
        tiny(steps=200, checkpoint=folder).fit(part)
    shuffled = part.variables.sample(frac=1, random_state=0).reset_index(drop=True)
    for other, changes in (
        (part, {"learning_rate": 2e-3}),
        (part, {"encoder": asc.MLP((16,), limit="tanh")}),
        (asc.Recording(pd.DataFrame(part.X, columns=part.channel_names), shuffled), {}),
    ):
        with pytest.raises(ValueError, match="belongs to another model"):
            tiny(steps=200, checkpoint=folder, **changes).fit(other)


def test_drop_constant_channels(data):
    X = data.X[:2000].copy()
    X[:, 3] = 7
    model = small(drop_constant=True, steps=5).fit(X, data.variables[:2000])
    assert model.n_features_in_ == 24 and len(model.kept_channels_) == 23
    assert model.transform(X).shape == (2000, 4)
    assert "channel3" not in model.attribute(X, method="generative_gradient").by_space.channel.values


def test_steps_that_do_not_tell_of_their_neighbours(quick_unique_variance):
    """Stimuli drawn anew at every step: the decoder must not look at the neighbours."""
    rng = np.random.default_rng(0)
    stimulus = rng.integers(0, 4, 4000)
    tuning = np.where(np.arange(20) < 10, rng.normal(size=(4, 20)), 0)
    X = tuning[stimulus] + 0.3 * rng.normal(size=(4000, 20))
    model = small(spaces={"stimulus": asc.Discrete("y", 2)}, steps=300, seeds=1).fit(X, stimulus)
    assert model.goodness_of_fit_.bits[0] > 1.5
    truth = np.arange(20) < 10
    assert model.attribute(X, method="generative_gradient").auroc(truth, "stimulus") > 0.95
    calls = model.attribute(X, stimulus).calls(0.01)
    assert calls["called"].tolist() == truth.tolist()


def test_a_regression_keeps_its_fit_under_the_penalty_it_finds(data):
    settings = {"spaces": {"p": asc.Regress(["x", "y"])}, "seeds": 1, "batch_size": 128, "steps": 400}
    free, auto = (small(**settings, penalty=p).fit(data[:4000]) for p in (0, "auto"))
    assert 0 < max(auto.history_.attrs["lambda"]) < 5
    error = [1 - 2.0 ** (-2 * m.goodness_of_fit_.bits[0] / 2) for m in (free, auto)]  # R² of each dimension
    assert error[1] > 0.9 * error[0]


def test_a_regression_is_scored_in_the_units_of_its_training(data):
    model = small(spaces={"p": asc.Regress(["x"])}, penalty=0, steps=300, batch_size=128).fit(data)
    high = np.flatnonzero(data.variables.x > 0.5)[:600]
    X, y = data.X[high], data.variables.iloc[high][["x"]]
    mean, spread = model.model_.regressions["p"]
    predicted = np.mean([model.transform(X, seed=k) for k in range(2)], axis=0)
    expected = (y.to_numpy() - mean) / spread
    assert asc.metrics.linear_r2(predicted, expected) > 0.5
    assert np.abs(predicted - expected).mean() < 0.3  # re-standardised targets would be off by about 1.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bits = model.score(X, y)
    assert bits == pytest.approx(0.5 * np.log2(expected.var() / np.square(predicted - expected).mean()), abs=0.5)


def test_a_batch_is_no_larger_than_the_recording(data):
    part = data[:200]
    large, whole = (tiny(batch_size=b, steps=20, penalty=0.0).fit(part) for b in (10_000, 200))
    assert (large.batch_size, large.batch_size_, whole.batch_size_) == (10_000, 200, 200)
    np.testing.assert_array_equal(large.transform(part), whole.transform(part))
    np.testing.assert_allclose(large.goodness_of_fit_.chance, np.log(20))  # a tenth is held out
    assert tiny(batch_size=50, steps=2, penalty=0.0).fit(part).batch_size_ == 50


def test_a_fit_says_that_its_batches_are_smaller(data, capsys):
    part = data[:200]
    tiny(batch_size=200, steps=2, penalty=0.0, progress=True).fit(part)
    assert "batches" not in capsys.readouterr().err
    tiny(batch_size=512, steps=2, penalty=0.0, progress=True).fit(part)
    assert "batches of 200 time steps, all there are (batch_size=512)\n" in capsys.readouterr().err
    tiny(batch_size=512, steps=2, penalty=0.0, progress=False).fit(part)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("fraction", [0.001, 0.009])
def test_a_few_held_out_steps_are_not_judged_by(data, fraction):
    """Of 2 or 18 time steps no space could be told from chance: they are not held out at all."""
    part = data[:2000]
    with pytest.warns(UserWarning, match=r"too few to judge by: expected at least 20.* larger validation_fraction"):
        model = tiny(validation_fraction=fraction, steps=100, penalty=0.0).fit(part)
    assert not model.goodness_of_fit_.held_out.any() and not model.goodness_of_fit_.collapsed.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = tiny(validation_fraction=0.01, steps=2, penalty=0.0).fit(part)
    assert model.goodness_of_fit_.held_out.all()


def test_embeddings_of_all_seeds_are_those_of_each(model, data):
    rows = np.array([5, 0, 700])
    z = model.embed_seeds(data, rows)
    assert z.shape == (2, 3, 4)
    for k in range(2):
        np.testing.assert_allclose(z[k], model.transform(data, seed=k)[rows], rtol=1e-5, atol=1e-6)
    assert model.embed_seeds(data[:50]).shape == (2, 50, 4)
    with pytest.raises(ValueError, match="in the same order"):
        model.embed_seeds(data.take_channels(data.channel_names[::-1]))


def test_short_recordings_are_judged_on_held_out_time_too(data):
    part = data[:1000]
    shuffled = part.variables.sample(frac=1, random_state=0).reset_index(drop=True)
    model = small(steps=150, batch_size=256, seeds=1, penalty=0).fit(part.X, shuffled)
    table = model.goodness_of_fit_.set_index("space")
    assert table.held_out.all() and table.collapsed["position"]
    np.testing.assert_allclose(table.chance, np.log(100))


def test_long_offsets_find_their_pairs_in_held_out_blocks(data):
    model = small(spaces={"rest": asc.Time(2, offsets=(30,))}, steps=10).fit(data[:2000])
    assert model.goodness_of_fit_.held_out.all()


def test_what_cannot_be_held_out_is_said(data):
    y = data.variables[:2000].copy()
    _, testing = hold_out(np.zeros(2000, int), 0.1)
    y.loc[testing >= 0] = np.nan
    with pytest.warns(UserWarning, match="nothing could be held out"):
        model = tiny(steps=100).fit(data.X[:2000], y)
    assert not model.goodness_of_fit_.held_out.any()


@pytest.mark.parametrize("steps", [100, 150, 200, 350])
def test_auto_finds_a_penalty_in_short_runs(data, steps):
    model = tiny(steps=steps).fit(data[:1000])
    assert min(model.history_.attrs["lambda"]) > 0


def test_auto_says_when_it_found_none(data):
    with pytest.warns(UserWarning, match="found no λ in 50 steps"):
        tiny(steps=50).fit(data[:1000])


def test_early_stop_waits_for_the_penalty(data, short_chunks):
    late = asc.Ramp(0.1, warmup=0.5, ramp=0.1)
    model = tiny(
        steps=500,
        early_stop=10.0,
        penalty=late,
        encoder=asc.MLP((8,)),
        batch_size=16,
        validation_fraction=0,
    ).fit(data[:500])
    assert model.history_.sizes["step"] == 300 and model.history_.attrs["lambda"][0] == pytest.approx(0.1, rel=0.03)


@pytest.mark.parametrize("samples", [0, -1, 2.5, "some"])
def test_samples_are_counted_from_one(model, data, samples):
    with pytest.raises(ValueError, match="at least 1"):
        model.attribute(data, method="generative_gradient", samples=samples)


def test_samples_are_some_time_steps_or_all(model, data, monkeypatch):
    part = data[:300]
    every, default, few = (
        model.attribute(part, method="neuron_gradient", samples=samples).by_space for samples in ("all", None, 30)
    )
    xr.testing.assert_identical(every, default)  # 300 are fewer than 20,000
    assert not np.allclose(every, few, rtol=1e-4)
    monkeypatch.setattr("ascribo.model.estimator.SAMPLES", 30)
    xr.testing.assert_identical(model.attribute(part, method="neuron_gradient").by_space, few)


def test_random_layers_are_refused(data):
    with pytest.raises(ValueError, match="dropout"):
        small(encoder=nn.Sequential(nn.Linear(24, 4), nn.Dropout())).fit(data)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_fits_on_a_gpu(data):
    model = small(device="cuda").fit(data)
    assert model.attribute(data).auroc(data, "position") == 1.0
