"""Sessions with different channels in one space."""

import copy
import threading

import numpy as np
import pandas as pd
import pytest
import torch

import ascribo as asc
from ascribo.model.fitting import prepare
from ascribo.model.sessions.fitting import as_member
from ascribo.model.sessions.session_batches import SessionSource
from ascribo.model.sessions.session_pairs import SessionPairs, joint_measures
from ascribo.training import loop as training
from ascribo.training.objective import contrastive_objectives
from ascribo.training.random_numbers import OwnNoise

SPACES = {"position": asc.Follow("x", dim=1), "rest": asc.Time(dim=1)}
SMALL = {"seeds": 2, "steps": 40, "batch_size": 32, "penalty": 0.0, "encoder": asc.MLP((8,)), "device": "cpu",
         "random_state": 0, "progress": False, "early_stop": None}  # fmt: skip


def box(seed, channels, steps=800):
    """A session whose channels have names of their own."""
    data = asc.simulate.box(seed, observed=1, hidden=1, channels=channels, steps=steps)
    names = [f"unit{seed}-{k}" for k in range(sum(channels))]
    truth = data.truth.assign_coords(channel=names)
    return asc.Recording(pd.DataFrame(data.X, columns=names), data.variables, truth=truth)


def rich(seed, steps=600, **drop):
    """A session with an angle, a label and a speed, in channels that carry one each."""
    rng = np.random.default_rng(seed)
    heading = np.cumsum(rng.normal(0, 0.4, steps)) % (2 * np.pi)
    label = np.array(["left", "right", "stay"])[rng.integers(0, 3, steps)]
    speed = np.abs(np.sin(np.arange(steps) / 7 + seed))
    columns = [np.cos(heading), np.sin(heading), label == "left", label == "right", speed, rng.normal(size=steps)]
    X = np.stack(columns, axis=1) @ np.diag(rng.uniform(1, 2, 6)) + 0.05 * rng.normal(size=(steps, 6))
    variables = pd.DataFrame({"heading": heading, "label": label, "speed": speed})
    return asc.Recording(X[:, : 6 - seed % 2], variables.drop(columns=list(drop)))


RICH = {
    "heading": asc.Follow("heading", dim=2, circular=True, temperature="learn"),
    "label": asc.Discrete("label", dim=2),
    "speed": asc.Regress("speed"),
    "rest": asc.Time(dim=1, temperature="learn"),
}


@pytest.fixture(scope="module")
def two():
    """Two sessions with disjoint channels and a shared variable, and the model of both."""
    recordings = {"rat1": box(1, (8, 8), 8000), "rat2": box(2, (6, 10), 6000)}
    shared = asc.SharedEmbedding(
        SPACES, seeds=1, steps=400, batch_size=128, penalty=0.0, encoder=asc.MLP((32, 32)), random_state=0,
        device="cpu", progress=False,
    )  # fmt: skip
    return recordings, shared.fit(recordings)


@pytest.fixture(scope="module")
def mixed():
    """Three sessions with variables of all kinds; the third has neither labels nor speed."""
    recordings = {"a": rich(1), "b": rich(2), "c": rich(3, label=True, speed=True)}
    return recordings, asc.SharedEmbedding(RICH, **SMALL).fit(recordings)


def test_sessions_share_their_space_and_their_maps_are_right(two, fair_unique_variance):
    """Consistency at least 0.95, here even without alignment, and auROC at least 0.98."""
    recordings, shared = two
    table = shared.consistency()
    assert table["space"].unique().tolist() == ["position"] and (table["bins"] >= 10).all()
    assert (table["r2"] >= 0.95).all() and (table["r2_unaligned"] >= 0.95).all()
    maps = shared.attribute(recordings)
    assert list(maps) == ["rat1", "rat2"] and maps["rat1"].method == "unique_variance"
    for name, recording in recordings.items():
        assert maps[name].auroc(recording, "position") >= 0.98
        assert set(maps[name].by_space["channel"].values) == set(recording.channel_names)
    assert not shared.goodness_of_fit_["collapsed"].any()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_sessions_share_a_space_on_a_gpu(two):
    recordings, reference = two
    shared = asc.SharedEmbedding(**{**reference.get_params(deep=False), "device": "cuda"}).fit(recordings)
    assert (shared.consistency()["r2_unaligned"] >= 0.95).all()
    for name, maps in shared.attribute(recordings).items():
        assert maps.auroc(recordings[name], "position") >= 0.98


def test_consistency_sees_what_is_not_shared(two):
    """Sessions that were fitted apart agree up to a map, but not without one."""
    recordings, _ = two
    apart = {n: asc.ContrastiveEmbedding(SPACES, **{**SMALL, "seeds": 1, "steps": 300, "batch_size": 128,
             "random_state": k}).fit(r) for k, (n, r) in enumerate(recordings.items())}  # fmt: skip
    broken = copy.copy(two[1])
    broken.sessions_ = apart
    table = broken.consistency(recordings)
    assert (table["r2"] > 0.9).all() and (table["r2_unaligned"] < 0.9).all()
    flipped = {"rat1": recordings["rat1"], "rat2": asc.Recording(
        pd.DataFrame(recordings["rat2"].X, columns=recordings["rat2"].channel_names),
        recordings["rat2"].variables.sample(frac=1, random_state=0).reset_index(drop=True))}  # fmt: skip
    assert (two[1].consistency(flipped)["r2"] < 0.5).all()


def test_a_session_is_added_and_nothing_else_moves(two):
    recordings, fitted = two
    shared = copy.deepcopy(fitted)
    third = box(3, (5, 7), 6000)
    before = {name: shared.transform(recording, session=name) for name, recording in recordings.items()}
    shared.add_session("rat3", third, steps=300)
    assert (
        shared.history_.sizes["step"] == 400 and np.isnan(shared.history_["infonce"].sel(session="rat3")[-1]).all()
    )
    for name in recordings:
        for own, old in ((shared.sessions_[name].model_, fitted.sessions_[name].model_),):
            for key, value in old.parameters.items():
                assert torch.equal(own.parameters[key], value)
            for key, value in old.decoder.items():
                assert torch.equal(own.decoder[key], value)
            assert torch.equal(own.alignment.basis, old.alignment.basis)
        np.testing.assert_array_equal(shared.transform(recordings[name], session=name), before[name])
    table = shared.consistency()
    new = table[(table["source"] == "rat3") | (table["target"] == "rat3")]
    assert len(new) == 4 and (new["r2_unaligned"] >= 0.95).all()
    gradient = shared.attribute(third, session="rat3", method="generative_gradient")
    assert gradient.auroc(third, "position") >= 0.98
    assert shared.overlap_["session"].tolist() == ["rat1", "rat2", "rat3", "rat3", "rat1", "rat2"]
    with pytest.raises(ValueError, match="a session 'rat1' already"):
        shared.add_session("rat1", third)


def test_what_comes_back_has_the_shapes_it_says(mixed):
    recordings, shared = mixed
    z = shared.transform(recordings)
    assert z["a"].shape == (600, 6) and np.isfinite(z["a"]).all()
    assert np.isnan(z["c"][:, 2:5]).all() and np.isfinite(z["c"][:, [0, 1, 5]]).all()
    assert np.isfinite(shared.transform(recordings["b"], session="b", seed=1)).all()
    fit = shared.goodness_of_fit_
    assert fit.groupby("session")["space"].count().to_dict() == {"a": 4, "b": 4, "c": 2}
    history = shared.history_
    assert dict(history.sizes) == {"session": 3, "step": 40, "seed": 2, "space": 3, "regression": 1}
    assert np.isnan(history["infonce"].sel(session="c", space="label")).all()
    assert np.isfinite(history["infonce"].sel(session="a")).all()
    table = shared.consistency(held_out=False)
    assert table.groupby("space").size().to_dict() == {"heading": 6, "label": 2, "speed": 2}
    maps = shared.attribute(recordings["c"], session="c", method="inverted_neuron_gradient")
    assert maps.by_space["space"].values.tolist() == ["heading", "rest"]


def test_all_sessions_have_one_basis_temperature_and_scale(mixed):
    """Shared blocks have the same coordinates in every session."""
    _, shared = mixed
    models = [part.model_ for part in shared.sessions_.values()]
    first = models[0].alignment
    for model in models[1:]:
        assert torch.equal(model.alignment.block(slice(0, 2)).basis, first.block(slice(0, 2)).basis)
        assert torch.equal(model.parameters["log_temperature"], models[0].parameters["log_temperature"])
    np.testing.assert_array_equal(models[0].regressions["speed"], models[1].regressions["speed"])
    # what follows time alone is each session's own
    assert not torch.equal(models[1].alignment.block(slice(5, 6)).basis, first.block(slice(5, 6)).basis)
    assert models[0].parameters["log_temperature"].abs().max() > 0
    assert not np.array_equal(models[0].mean, models[1].mean)


def test_arrays_are_attributed_with_their_variables(mixed, quick_unique_variance):
    recordings, shared = mixed
    one = recordings["a"]
    given = shared.attribute(one.X, "a", one.variables, method="unique_variance")
    whole = shared.attribute(one, "a", method="unique_variance")
    np.testing.assert_allclose(given.by_space, whole.by_space)
    with pytest.warns(UserWarning, match=r"pass the variables \(y="):
        shared.attribute(one.X, "a")


def test_saved_and_loaded_it_is_the_same_and_can_grow(mixed, tmp_path):
    recordings, shared = mixed
    shared.save(tmp_path / "model")
    loaded = asc.load(tmp_path / "model")
    assert isinstance(loaded, asc.SharedEmbedding) and loaded.get_params()["steps"] == 40
    for name, z in shared.transform(recordings).items():
        np.testing.assert_array_equal(loaded.transform(recordings[name], session=name), z)
    pd.testing.assert_frame_equal(loaded.consistency(), shared.consistency())
    pd.testing.assert_frame_equal(loaded.goodness_of_fit_, shared.goodness_of_fit_)
    pd.testing.assert_frame_equal(loaded.overlap_, shared.overlap_)
    fresh = rich(4)
    grown = [copy.deepcopy(shared).add_session("d", fresh, steps=10), loaded.add_session("d", fresh, steps=10)]
    one, two = (model.sessions_["d"].model_ for model in grown)
    for name, value in one.parameters.items():
        assert torch.equal(two.parameters[name], value)
    # each session is a run of its own
    alone = asc.load(tmp_path / "model" / "session-1")
    np.testing.assert_array_equal(alone.transform(recordings["b"]), shared.transform(recordings["b"], session="b"))
    shared.sessions_["a"].save(tmp_path / "model" / "session-1")
    with pytest.raises(ValueError, match="half-written"):
        asc.load(tmp_path / "model")


def source(recordings, spaces=SPACES, seeds=(1, 2)):
    prepared = [prepare(r, spaces, encoder=asc.MLP((8,))) for r in recordings]
    measures = joint_measures(spaces, [r.variables for r in recordings])
    pairs = SessionPairs(spaces, [as_member(p) for p in prepared], measures)
    problems = [p.problem for p in prepared]
    return SessionSource(problems, spaces, contrastive_objectives(spaces, "whole"), pairs, seeds)


def initial(source):
    return {name: value.requires_grad_() for name, value in source.initial().items()}


def one_loss(source, parameters):
    """A loss and its gradients, with the penalty, on the first batch."""
    noise = OwnNoise.on("cpu", [(0,), (1,), (0,), (1,)])
    noise.restart(0)
    loss = source.loss(parameters, source.draw(0, 1, 32)[0], torch.full((4,), 0.1), noise)
    gradients = torch.autograd.grad(loss.total, list(parameters.values()))
    return loss, dict(zip(parameters, gradients, strict=True))


def test_a_session_does_not_know_how_wide_the_others_are():
    """Twenty silent channels more in the second session change nothing for the first."""
    narrow, second = box(1, (4, 4)), box(2, (4, 4))
    silent = np.random.default_rng(0).normal(size=(len(second), 20))
    wide = asc.Recording(np.concatenate([second.X, silent], 1), second.variables)
    one, two = source([narrow, second]), source([narrow, wide])
    first, other = initial(one), initial(two)
    with torch.no_grad():
        for name, value in first.items():
            other[name][(..., slice(8)) if name == "1.0.weight" else ...] = value
        other["1.0.weight"][..., 8:] = 0
    (before, slopes), (after, others) = one_loss(one, first), one_loss(two, other)
    assert torch.equal(before.infonce, after.infonce) and torch.equal(before.penalty[:2], after.penalty[:2])
    for name, slope in slopes.items():
        if name.startswith("0."):
            assert torch.equal(others[name], slope) and slope.abs().max() > 0
    assert others["1.0.weight"][..., 8:].abs().max() > 0  # and they do not take part by being left out


def test_sessions_meet_only_where_they_should():
    """The loss of a session's time objective has no gradient in another session; that of a shared space has."""
    for spaces, meets in (({"rest": asc.Time(dim=1)}, False), ({"position": asc.Follow("x", dim=1)}, True)):
        both = {**spaces} if meets else {**SPACES}
        made = source([box(1, (4, 4)), box(2, (3, 4))], both)
        parameters, batch = initial(made), made.draw(0, 1, 32)[0]
        inputs = [made.inputs(session, index) for session, index in enumerate(batch.index)]
        parts = [made.embed(parameters, session, x, None)[0] for session, x in enumerate(inputs)]
        if meets:
            value = made.across("position", parts, batch.valid["position"], batch.step)[0].sum()
        else:
            value = made.alone("rest", 0, parts[0]).sum()
        other = [p for name, p in parameters.items() if name.startswith("1.")]
        found = torch.autograd.grad(value, other, allow_unused=True)
        assert any(g is not None and g.abs().max() > 0 for g in found) == meets


def test_an_interrupted_fit_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    recordings = {"a": box(1, (3, 3)), "b": box(2, (3, 4))}
    options = {**SMALL, "steps": 150, "seeds": 1}
    whole = asc.SharedEmbedding(SPACES, **options).fit(recordings)
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    draw = SessionSource.draw

    def killed(self, start, steps, batch):
        if start == 100:
            raise KeyboardInterrupt
        return draw(self, start, steps, batch)

    again = asc.SharedEmbedding(SPACES, **options, checkpoint=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(SessionSource, "draw", killed)
        with pytest.raises(KeyboardInterrupt):
            again.fit(recordings)
    assert (tmp_path / "sessions.safetensors").exists()
    again.fit(recordings)
    assert not list(tmp_path.iterdir())
    for name in recordings:
        old, new = whole.sessions_[name].model_, again.sessions_[name].model_
        for key, value in old.parameters.items():
            assert torch.equal(new.parameters[key], value)


def test_sessions_in_files_are_read_ahead_to_the_bits_of_those_in_memory(tmp_path, monkeypatch):
    """One session in a file, one in memory, and a third one in a file that is added."""
    recordings = {f"rat{k}": box(k, (4 + k, 5), 700) for k in range(3)}
    mapped = {}
    for name, recording in recordings.items():
        np.save(tmp_path / f"{name}.npy", recording.X)
        mapped[name] = copy.copy(recording)
        mapped[name].X = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    read = []
    reading = SessionSource.inputs
    monkeypatch.setattr(
        SessionSource, "inputs", lambda *a: read.append(threading.current_thread().name) or reading(*a)
    )
    found = []
    for first, later, large in ((recordings, recordings, 2**27), (mapped, mapped, 2**10)):
        monkeypatch.setattr("ascribo.data.standardised_channels.LARGE_BYTES", large)
        read.clear()
        shared = asc.SharedEmbedding(SPACES, **SMALL).fit({"rat0": first["rat0"], "rat1": recordings["rat1"]})
        shared.add_session("rat2", later["rat2"])
        found.append(list(shared.transform({**recordings, "rat2": later["rat2"]}).values()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert "MainThread" not in read  # of those in files


def test_the_default_spaces_are_what_all_sessions_share():
    recordings = {"a": rich(1, label=True), "b": rich(2, label=True, speed=True)}
    shared = asc.SharedEmbedding(**{**SMALL, "steps": 5}).fit(recordings)
    assert shared.spaces_["variables"].variables == ("heading",) and list(shared.spaces_) == ["variables", "rest"]


def test_a_fit_says_that_its_batches_are_smaller(two, capsys):
    part = {name: recording[: 200 + 50 * k] for k, (name, recording) in enumerate(two[0].items())}
    asc.SharedEmbedding(two[1].spaces, seeds=1, steps=2, batch_size=512, penalty=0.0).fit(part)
    said = "batches of 200 time steps, all there are in the shortest session (batch_size=512)\n"
    assert said in capsys.readouterr().err


def test_errors_say_what_to_do(two):
    recordings, shared = two
    a, b = box(1, (3, 3)), box(2, (3, 3))
    new = asc.SharedEmbedding(SPACES, **SMALL)
    with pytest.raises(ValueError, match="did you mean 'rat1'"):
        shared.transform(recordings["rat1"], session="rat_1")
    with pytest.raises(ValueError, match=r"which session is this\?.*rat1"):
        shared.attribute(recordings["rat1"])
    with pytest.raises(ValueError, match="variables of 'rat3'"):
        shared.attribute(recordings, y={"rat3": a.variables})
    for steps in (0, 1.7, True):
        with pytest.raises(ValueError, match=f"steps={steps}: expected an integer"):
            shared.add_session("rat3", a, steps=steps)
    with pytest.raises(ValueError, match="a dict names its sessions itself"):
        shared.transform(recordings, session="rat1")
    with pytest.raises(ValueError, match="same channels in the same order"):
        shared.transform(recordings["rat2"].take_channels(recordings["rat2"].channel_names[::-1]), session="rat2")
    with pytest.raises(ValueError, match="use ContrastiveEmbedding"):
        new.fit({"a": a})
    with pytest.raises(ValueError, match="a dict of names and recordings"):
        new.fit([a, b])
    with pytest.raises(ValueError, match="expected a name"):
        new.fit({1: a, 2: b})
    with pytest.raises(ValueError, match="no session has 'y'"):
        asc.SharedEmbedding({"p": asc.Follow("y", 1)}, **SMALL).fit({"a": a, "b": b})
    with pytest.raises(ValueError, match=r"session 'a' shares no variable .*about time alone"):
        asc.SharedEmbedding({"rest": asc.Time(1)}, **SMALL).fit({"a": a, "b": b})
    with pytest.raises(ValueError, match="session 'c' shares no variable"):
        new.fit({"a": a, "b": b, "c": rich(1)})
    with pytest.raises(ValueError, match="no variable is in all sessions"):
        asc.SharedEmbedding(**SMALL).fit({"a": a, "b": rich(1)})
    with pytest.raises(ValueError, match=r"session 'b': .*never change"):
        flat = b.X.copy()
        flat[:, 0] = 1
        new.fit({"a": a, "b": asc.Recording(flat, b.variables)})
    with pytest.raises(ValueError, match=r"no time step of session 'a' has a counterpart.*units"):
        new.fit({"a": a, "b": asc.Recording(b.X, b.variables + 100)})
    with pytest.warns(UserWarning, match="of session 'b' has a counterpart"):
        asc.SharedEmbedding(SPACES, **{**SMALL, "steps": 1}).fit(
            {"a": a, "b": asc.Recording(b.X, b.variables * 50)}
        )
    with pytest.raises(ValueError, match="steps=0"):
        asc.SharedEmbedding(SPACES, **{**SMALL, "steps": 0}).fit({"a": a, "b": b})


def test_steps_are_found_for_all_sessions_together(monkeypatch):
    """They stop when the held-out bits of the sessions have stopped rising, long before the 3,000 there may be."""
    for name, value in {"LEAST_GAIN": 0.3, "PATIENCE": 50, "FEWEST_STEPS": 50}.items():  # so that it is soon
        monkeypatch.setattr(f"ascribo.training.early_stopping.{name}", value)
    recordings = {"rat1": box(1, (6, 6)), "rat2": box(2, (4, 5))}
    shared = asc.SharedEmbedding(SPACES, **{**SMALL, "seeds": 1, "steps": "auto"}).fit(recordings)
    spent = [part.spent_ for part in shared.sessions_.values()]
    assert spent[0]["steps"] == spent[1]["steps"] and 100 <= max(spent[0]["steps"]) <= 800
    assert all("stopped rising" in why for own in spent for why in own["why_steps"])
    assert np.isfinite(shared.history_["held_out"]).all()
