"""Screening finds the channels that carry known variables, keeps its rate, and says where it cannot answer."""

import numpy as np
import pandas as pd
import pytest

import ascribo as asc
from experiments.validation.situations import as_recording
from experiments.validation.situations_blind import BLIND
from experiments.validation.situations_data import SITUATIONS, walk

SPACES = {"a": asc.Follow("a0", 1), "b": asc.Follow("b0", 1)}


def rates(name, seeds):
    """Mean false discovery proportion and power over recordings of a situation, and the kinds of notes."""
    out, kinds = [], []
    for seed in seeds:
        data = {**SITUATIONS, **BLIND}[name](np.random.default_rng(seed))
        recording, spaces, _ = as_recording(data)
        found = asc.screen(recording, spaces)
        called = np.concatenate([found.calls.loc[found.calls.space == s, "called"] for s in data.truth])
        truth = np.concatenate(list(data.truth.values()))
        out.append(((called & ~truth).sum() / max(1, called.sum()), (called & truth).sum() / max(1, truth.sum())))
        kinds.append({(note.space, note.kind) for note in found.notes})
    return *np.mean(out, axis=0), kinds


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("b is sin 2πa plus a little", 0.9),
        ("heavy-tailed noise (t, 1.5)", 0.9),
        ("channels drift", 0.9),
        ("interactions only", 0.9),
        ("periodic variables", 0.9),
        ("1,000 steps", 0.75),
        ("three variables, interactions of two", 0.9),
    ],
)
def test_rate_and_power(name, least):
    wrong, power, _ = rates(name, (0,))
    assert wrong <= 0.08 and power >= least


def test_variables_measured_with_error_are_smoothed_and_it_is_said():
    wrong, power, kinds = rates("tracker noise 30%, correlation 0.7", (0,))
    assert wrong <= 0.1 and power >= 0.9
    assert all({("a", "measured with error"), ("b", "measured with error")} <= each for each in kinds)


def test_channels_that_run_ahead_are_found_and_it_is_said():
    wrong, power, kinds = rates("channels lead or lag by up to 10", (0,))
    assert wrong <= 0.1 and power >= 0.9 and ("a", "channels ahead") in kinds[0]


def test_spaces_that_say_the_same_are_both_called_and_it_is_said():
    wrong, power, kinds = rates("a zone label of a beside a", (0,))
    assert wrong <= 0.1 and power >= 0.9
    assert {("a", "redundant"), ("b", "redundant")} & kinds[0]


def test_p_values_are_right_in_short_recordings_too():
    """After fits of a hundred features to 1,000 time steps, p of channels that carry nothing is uniform, or
    somewhat large: white channels are asked two questions, and p is twice the smaller of both."""
    p = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame({name: walk(rng, 1_000)[:, 0] for name in ("a0", "b0")})
        found = asc.screen(asc.Recording(rng.normal(size=(1_000, 40)), table), SPACES)
        p.append(found.calls["p"].to_numpy())
    low, middle = np.mean(np.concatenate(p) < 0.05), np.mean(np.concatenate(p) < 0.5)
    assert 0.01 < low < 0.07 and 0.3 < middle < 0.6


def test_null_channels_of_a_label_beside_the_variable_it_is_a_function_of():
    """Products with the channels' past are innovations only if what their own past says is taken out."""
    p = []
    for seed in range(3):
        data = SITUATIONS["a zone label of a beside a"](np.random.default_rng([3, seed]))
        recording, spaces, _ = as_recording(data)
        found = asc.screen(recording, spaces).calls
        p.append(found.loc[found["space"] == "b", "p"].to_numpy()[~data.truth["b"]])
    assert np.mean(np.concatenate(p) < 0.05) < 0.15


def test_two_noisy_trackers_of_one_thing_are_said():
    rng = np.random.default_rng(0)
    a = walk(rng, 3_000)
    table = pd.DataFrame({name: a[:, 0] + 0.15 * rng.normal(size=3_000) for name in ("a0", "b0")})
    found = asc.screen(asc.Recording(a + rng.normal(size=(3_000, 12)), table), SPACES)
    assert {"redundant", "one thing twice"} & {note.kind for note in found.notes}


def test_a_hidden_latent_that_moves_with_a_variable_is_said():
    _, _, kinds = rates("hidden latent moves with a (0.5)", (0, 1))
    assert all(("a", "hidden company") in each and ("b", "hidden company") not in each for each in kinds)


def test_a_variable_without_innovation_is_asked_by_its_level():
    data = SITUATIONS["an angle at constant speed"](np.random.default_rng(0))
    recording, spaces, _ = as_recording(data)
    found = asc.screen(recording, spaces)
    asked = found.calls.groupby("space")["question"].first()
    assert asked["a"] == "level" and asked["b"] == "innovation"
    assert "no innovation" in {note.kind for note in found.notes if note.space == "a"}


def small(steps=3_000, seed=0):
    """Channels 0 to 4 carry a, 5 to 9 carry b, 10 to 14 nothing; all but the last, which never changes."""
    rng = np.random.default_rng(seed)
    paths = np.zeros((steps, 2))
    for t, push in enumerate(rng.normal(size=(steps, 2))):
        paths[t] = 0.98 * paths[t - 1] + 0.2 * push
    X = np.repeat(np.concatenate([paths, np.zeros((steps, 1))], axis=1), 5, axis=1) + rng.normal(size=(steps, 15))
    X[:, 14] = 3.0
    return X, pd.DataFrame(paths, columns=["a0", "b0"])


def called(found, space):
    own = found.calls[found.calls["space"] == space]
    return np.flatnonzero(own["called"]).tolist()


def test_missing_values_are_left_out():
    X, table = small()
    table.loc[500:700, "a0"] = np.nan
    X[500:701] = 50.0 * np.random.default_rng(3).normal(size=(201, 15))
    found = asc.screen(asc.Recording(X, table), SPACES)
    found_for_a = set(called(found, "a"))
    assert set(range(5)) <= found_for_a and len(found_for_a) <= 6  # one in six may be false
    assert np.isfinite(found.calls["p"]).all()


def test_the_time_within_a_trial_can_be_asked_about():
    """It is the clock of the epochs, which is conditioned on otherwise."""
    rng = np.random.default_rng(0)
    ramp = (np.arange(6000) % 100) / 100
    X = rng.normal(size=(6000, 8))
    X[:, :4] += np.exp(-np.square((ramp[:, None] - [0.2, 0.4, 0.6, 0.8]) / 0.1))
    recording = asc.Recording(X, pd.DataFrame({"a0": ramp}), epochs=np.arange(6000) // 100)
    found = asc.screen(recording, {"a": asc.Follow("a0", 1)})
    assert set(range(4)) <= set(called(found, "a")) and "time in trial" in {note.kind for note in found.notes}


def test_values_missing_here_and_there_are_not_taken_for_measurement_error():
    X, table = small()
    table.loc[np.random.default_rng(3).random(len(table)) < 0.05, "a0"] = np.nan
    found = asc.screen(asc.Recording(X, table), SPACES)
    assert "measured with error" not in {note.kind for note in found.notes}
    assert set(range(5)) <= set(called(found, "a"))


def test_what_cannot_be_asked_is_refused_with_a_note():
    X, table = small()
    for bad in (table.assign(a0=np.nan), table.assign(a0=0.0)):
        found = asc.screen(asc.Recording(X, bad), {"a": asc.Follow("a0", 1)})
        assert not found.calls["called"].any() and found.calls["p"].isna().all()
        assert [note.kind for note in found.notes] == ["no variation"]
    found = asc.screen(asc.Recording(X[:100], table[:100]), SPACES)
    assert not found.calls["called"].any() and {"too short"} == {note.kind for note in found.notes}
    rare = pd.DataFrame({"label": np.repeat(["x", "y", "x"], 1000)})
    found = asc.screen(asc.Recording(X, rare), {"label": asc.Discrete("label", 1)})
    assert not found.calls["called"].any()
    assert "changes too seldom" in {note.kind for note in found.notes}


def test_random_labels_and_random_walks_that_nothing_carries_are_not_called():
    X, _ = small(5_000)
    rng = np.random.default_rng(9)
    table = pd.DataFrame({"label": rng.integers(0, 300, 5_000), "walk": np.cumsum(rng.normal(size=5_000))})
    found = asc.screen(asc.Recording(X, table), {"l": asc.Discrete("label", 2), "w": asc.Follow("walk", 1)})
    assert found.calls["called"].sum() <= 1
    assert "many labels" in {note.kind for note in found.notes}


def test_epochs_scores_order_and_repetition():
    X, table = small()
    recording = asc.Recording(X, table, epochs=np.repeat(np.arange(30), 100))
    found, again = asc.screen(recording, SPACES), asc.screen(recording, SPACES)
    pd.testing.assert_frame_equal(found.calls, again.calls)
    assert set(range(5)) <= set(called(found, "a")) and set(range(5, 10)) <= set(called(found, "b"))
    assert len(called(found, "a")) <= 6 and 14 not in called(found, "a")
    table = found.calls
    named = ["channel", "space", "score", "level", "question", "p", "q", "ci_low", "ci_high", "called"]
    assert list(table) == named
    assert (table.ci_low <= table.score).all() and (table.score <= table.ci_high).all()
    assert table.score.max() < 1 and table.score[[*range(5), *range(20, 25)]].min() > 0.01  # of those that carry


def test_nuisance_spaces_are_accounted_for_and_not_reported():
    X, table = small()
    spaces = {"a": SPACES["a"], "b": asc.Follow("b0", 1, nuisance=True), "rest": asc.Time(2)}
    assert set(asc.screen(asc.Recording(X, table), spaces).calls["space"]) == {"a"}


def test_errors_say_what_is_wrong():
    X, table = small(600)
    with pytest.raises(ValueError, match="no variable is called"):
        asc.screen(asc.Recording(X, table), {"a": asc.Follow("a", 1)})
    with pytest.raises(ValueError, match="false discovery rate"):
        asc.screen(asc.Recording(X, table), SPACES, q=2)
    with pytest.raises(ValueError, match="no space with variables"):
        asc.screen(asc.Recording(X, table), {"rest": asc.Time(2)})


@pytest.mark.parametrize(
    "kind", [lambda: asc.Follow("h", 2, circular=True), lambda: asc.Regress("h", circular=True)]
)
def test_degrees_with_a_period_of_radians_are_refused(kind):
    X, table = small(600)
    degrees = table.assign(h=np.linspace(0, 1080, len(table)) % 360)
    with pytest.raises(ValueError, match=r"space 'compass': variable 'h' .* looks like degrees.*period=360"):
        asc.screen(asc.Recording(X, degrees), {"compass": kind()})


def test_a_response_to_every_onset_is_no_response_to_the_label():
    name = "every stimulus evokes the same response, whatever its label"
    rate, power, _ = rates(name, range(2))
    assert rate < 0.08 and power > 0.6
    # with trials as epochs the onset is their start, and a slow variable must not be called for it
    wrong, called = 0, 0
    for seed in range(2):
        data = BLIND[name](np.random.default_rng(seed))
        variables = {"b": data.variables["b"][:, 0]}
        recording = asc.Recording(data.channels, variables, epochs=np.arange(len(data.channels)) // 50)
        calls = asc.screen(recording, {"b": asc.Follow("b", 1)}).calls["called"].to_numpy(bool)
        wrong, called = wrong + (calls & ~data.truth["b"]).sum(), called + calls.sum()
    assert called > 20 and wrong < 0.1 * called


def test_labels_may_be_unknown_in_the_space_s_own_numbers():
    class Marked(asc.Discrete):  # a kind whose `values` are NaN where they are unknown, as the page on kinds says
        def values(self, variables):
            return np.where(self.known(variables)[:, None], super().values(variables), np.nan)

    rng = np.random.default_rng(3)
    label = np.repeat(rng.integers(0, 3, 200), 10).astype(float)
    X = rng.normal(size=(2000, 6)) + 2 * np.eye(6)[0] * (label == 1)[:, None]
    label[np.arange(2000) % 50 < 4] = np.nan
    recording = asc.Recording(X, pd.DataFrame({"label": label}))
    kinds = asc.Discrete, Marked
    plain, marked = (asc.screen(recording, {"label": kind("label", dim=1)}).calls for kind in kinds)
    pd.testing.assert_frame_equal(plain, marked)
    assert plain["called"].tolist() == [True] + [False] * 5


def test_calls_of_short_recordings_keep_their_level():
    """Slow variables and hidden latents, 1,000 time steps: what is new goes on over the edges of short blocks."""
    p = []
    for seed in range(16):
        data = asc.simulate.box(700 + seed, observed=2, hidden=4, steps=1_000, snr=3.0)
        found = asc.screen(data, {"position": asc.Follow(["x", "y"], 2)}).calls
        p += found["p"][~data.truth.sel(space="position").values].tolist()
    assert np.mean(np.array(p) <= 0.05) < 0.07  # it was 0.095


def test_events_that_are_rare_are_asked_about_as_labels():
    """As numbers they lay 13 standard deviations off: many p were far too small, and slow responses were lost."""
    p, found, numbers, labels = [], [], [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        event = (rng.random(5000) < 0.006).astype(int)
        X = rng.normal(size=(5000, 24))
        trace = np.convolve(event, np.exp(-np.arange(60) / 10))[:5000]
        X[:, :4] += 3 * event[:, None]
        X[:, 4:8] += 2 * trace[:, None]
        as_number, as_label = asc.Recording(X, {"event": event.astype(float)}), asc.Recording(X, {"event": event})
        screening = asc.screen(as_number, {"event": asc.Follow("event", 1)})
        numbers.append(screening.calls)
        labels.append(asc.screen(as_label, {"event": asc.Discrete("event", dim=1)}).calls)
        p += screening.calls["p"][8:].tolist()
        found.append(screening.calls["called"][:8].mean())
        assert np.isfinite(screening.calls["score"]).all()
        assert {note.kind for note in screening.notes} <= {
            "slow responses"
        }  # nothing in the past tells the next event
    assert np.mean(np.array(p) <= 0.05) < 0.1 and np.mean(np.array(p) <= 0.002) < 0.03
    assert np.mean(found) > 0.9
    for number, label in zip(numbers, labels, strict=True):
        pd.testing.assert_frame_equal(number, label)


def test_a_variable_that_is_cut_off_is_said_beside_the_others():
    rng = np.random.default_rng(0)
    data = asc.simulate.box(0, observed=2, hidden=1, steps=2_000)
    spaces = {name: asc.Follow(name, 1) for name in "xy"}
    assert "another cut off" not in {note.kind for note in asc.screen(data, spaces).notes}
    x = data.variables["x"].to_numpy()
    table = data.variables.assign(x=np.minimum(x, np.quantile(x, 0.85)))
    cut = asc.Recording(data.X + 1e-9 * rng.normal(size=data.X.shape), table)
    notes = [note for note in asc.screen(cut, spaces).notes if note.kind == "another cut off"]
    assert [note.space for note in notes] == ["y"]
    assert "'x' seems to be cut off at its largest or smallest value, in 15% of time steps" in notes[0].text


def test_cells_with_a_spike_or_two_are_not_called_and_it_is_said():
    """Turning the signs of blocks says nothing of a channel that is active in one block."""
    called, rng = [], np.random.default_rng(5)
    for _ in range(6):
        walk = np.cumsum(rng.standard_normal(4000))
        X = np.concatenate([rng.poisson(0.3, (4000, 20)), np.zeros((4000, 60))], axis=1)
        X[rng.integers(0, 4000, 60), np.arange(20, 80)] = 1
        X[rng.integers(0, 4000, 30), np.arange(20, 50)] += 1
        found = asc.screen(asc.Recording(X, {"walk": walk}), {"walk": asc.Follow("walk", dim=1)})
        assert [note for note in found.notes if note.kind == "too quiet" and "60 of 80 channels" in note.text]
        assert found.calls["p"][20:].min() >= 0.25
        called.append(found.calls["p"] <= 0.001)
    assert np.mean(called) < 0.01
