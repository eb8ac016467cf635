"""Features stay within epochs."""

import numpy as np
from scipy import signal

from ascribo import Discrete, Follow, Recording, screen
from ascribo.data.segments import segment_bounds
from ascribo.screening.channel_past import channel_history
from ascribo.screening.features import averages, earlier, normal_scores, standardise
from ascribo.screening.questions import FAR, HISTORY, Question, Variable, run_starts
from ascribo.screening.variables import make_variable, split_blocks


def test_no_lag_and_no_average_crosses_an_edge():
    rng = np.random.default_rng(0)
    epochs = np.repeat(np.arange(4), 300)
    first, last = segment_bounds(epochs)

    def parts(rng_other):
        values = {name: rng.normal(size=(1200, 1)) for name in "ab"} if rng_other is None else rng_other
        made = {name: Variable(value, False, earlier(first, 8), 8, True) for name, value in values.items()}
        channels = np.concatenate(list(values.values()), axis=1).astype(np.float32)
        history = channel_history(channels, first, earlier(first, 8))
        asked = Question(made["a"], {"b": made["b"]}, history, channels, first, last, reach=10)
        parts = asked.parts(np.arange(300, 600))
        given, past, _ = parts.widths
        return values, (parts.x[:, :given], parts.x[:, given + past :], parts.y)

    values, before = parts(None)
    # whatever stands in other epochs must not show, but for the principal axes, which are of the whole recording
    order = np.r_[600:900, 300:600, 900:1200, 0:300]
    _, after = parts({name: value[order] for name, value in values.items()})
    for one, two in zip(before, after, strict=True):
        np.testing.assert_allclose(np.abs(one).mean(0), np.abs(two).mean(0), rtol=0.35, atol=0.05)
    np.testing.assert_array_equal(before[2], after[2])


def test_averages_begin_anew_in_each_epoch():
    values = np.r_[np.zeros(5), np.full(5, 7.0)][:, None]
    first = segment_bounds(np.repeat([0, 1], 5))[0]
    np.testing.assert_allclose(averages(values, (4.0,), first)[0, :, 0], values[:, 0], rtol=1e-6)


def test_runs_of_equal_values_end_at_edges():
    labels = np.array([0, 0, 1, 1, 1, 0, 0, 0])[:, None]
    assert run_starts(labels, np.zeros(8, int)).tolist() == [0, 0, 2, 2, 2, 5, 5, 5]
    assert run_starts(labels, np.array([0, 0, 0, 0, 4, 4, 4, 4])).tolist() == [0, 0, 2, 2, 4, 5, 5, 5]


def test_normal_scores_bear_outliers_ties_and_channels_that_never_change():
    rng = np.random.default_rng(0)
    channels = np.stack([rng.standard_cauchy(2000), rng.poisson(0.05, 2000), np.ones(2000)], axis=1)
    scores = normal_scores(channels)
    assert np.abs(scores[:, 0]).max() < 4 and np.isfinite(scores).all()
    assert len(np.unique(scores[:, 1])) == len(np.unique(channels[:, 1])) and not scores[:, 2].any()
    assert standardise(np.full((4, 1), np.nan)).tolist() == [[0.0]] * 4


def test_fine_functions_tell_products_of_any_two_variables():
    values = standardise(np.random.default_rng(0).normal(size=(4000, 3)))
    first = np.zeros(4000, int)
    own = Variable(values, False, earlier(first, 3), 3, True).fine_functions(np.arange(4000), 24)
    design = np.c_[np.ones(4000), own]
    for one, two in ((0, 1), (0, 2), (1, 2)):
        goal = np.sin(1.5 * values[:, one]) * values[:, two]
        left = goal - design @ np.linalg.lstsq(design, goal, rcond=None)[0]
        assert left.var() < 0.1 * goal.var()


def test_the_past_of_a_slow_variable_is_far_only_if_it_moves_on_smoothly():
    rng = np.random.default_rng(0)
    first, known = np.zeros(8_000, int), np.ones(8_000, bool)
    walk = standardise(signal.lfilter([1.0], [1.0, -np.exp(-1 / 300)], rng.standard_normal((8_000, 1)), axis=0))
    smooth = standardise(signal.lfilter([1.0], [1.0, -np.exp(-1 / 30)], walk, axis=0))
    assert make_variable(walk, False, False, first, known).lag == FAR
    assert make_variable(smooth, False, False, first, known).lag > FAR


def test_the_past_of_a_short_recording_lies_near():
    walk = standardise(np.cumsum(np.random.default_rng(0).normal(size=(4_000, 1)), axis=0))
    lags = [make_variable(walk[:n], False, False, np.zeros(n, int), np.ones(n, bool)).lag for n in (1_000, 2_000)]
    assert lags == [3, 6]  # blocks last 16 times as long


def test_short_recordings_have_more_blocks_where_what_is_new_is_soon_over():
    def blocks(steps, lag, innovation=True):
        first = np.zeros(steps, int)
        variable = Variable(np.arange(steps)[:, None] * 1.0, False, earlier(first, lag), lag, innovation)
        return [len(rows) for rows in split_blocks(variable, np.ones(steps, bool), first, "a", [])]

    assert len(blocks(1_000, 3)) == 60 and min(blocks(1_000, 3)) >= 16
    assert len(blocks(1_000, 8)) == 25 and min(blocks(1_000, 8)) >= 5 * 8
    assert len(blocks(400, 1)) == 16
    for usual in (blocks(500, 45), blocks(1_000, 45), blocks(10_000, 3), blocks(1_000, 3, innovation=False)):
        assert len(usual) == 20


def test_the_past_of_what_changes_abruptly_is_conditioned_on_step_by_step():
    rng = np.random.default_rng(0)
    steps = 9_000
    first, last = np.zeros(steps, int), np.full(steps, steps - 1)
    walk = np.cumsum(rng.standard_normal((steps, 1)), axis=0)
    pulses = (rng.random((steps, 1)) < 0.02).astype(float)
    states = np.repeat(rng.integers(0, 2, steps // 50), 50)[:, None].astype(float)
    given = {"walk": walk, "white": rng.standard_normal((steps, 1)), "pulses": pulses, "states": states}
    known = np.ones(steps, dtype=bool)
    made = {name: make_variable(standardise(each), False, False, first, known) for name, each in given.items()}
    assert [name for name, each in made.items() if each.abrupt] == ["white", "pulses", "states"]
    rows = np.arange(100, 300)
    question = Question(
        made["walk"], {"pulses": made["pulses"]}, None, np.zeros((steps, 1), np.float32), first, last
    )
    (values, now, changes) = question._history_of(made["pulses"], rows)
    own = made["pulses"].columns[:, 0]
    np.testing.assert_array_equal(values[:, HISTORY.index((7, 7))], own[rows - 7])
    np.testing.assert_array_equal(now[:, 0], np.abs(own[rows] - own[rows - 1]))
    np.testing.assert_array_equal(changes[:, HISTORY.index((9, 9))], np.abs(own[rows - 9] - own[rows - 10]))
    far = own[rows[:, None] - np.arange(37, 49)]
    np.testing.assert_allclose(values[:, HISTORY.index((37, 48))], far.mean(1), rtol=1e-5)
    assert question._history_of(made["walk"], rows) == []


def test_channels_with_the_history_of_a_stimulus_are_not_called_for_what_follows_it():
    """Receptive fields of a white stimulus; an eye that follows it, eight steps late."""
    steps, channels, wrong, power = 8_000, 24, [], []
    kernel = lambda centre, width: np.exp(-0.5 * ((np.arange(25) - centre) / width) ** 2)  # noqa: E731
    for seed in range(2):
        rng = np.random.default_rng([9, seed])
        stimulus = rng.standard_normal(steps)
        eye = standardise(np.convolve(stimulus, kernel(8, 2))[:steps, None])
        eye = standardise(eye + signal.lfilter([1.0], [1.0, -0.9], 0.43 * rng.standard_normal((steps, 1)), axis=0))
        X = rng.standard_normal((steps, channels))
        for k in range(channels // 2):
            X[:, k] += 0.4 * standardise(np.convolve(stimulus, kernel(1 + k, 2))[:steps, None])[:, 0]
        X[:, -4:] += 0.4 * eye
        spaces = {"stimulus": Follow("stimulus", 1), "eye": Follow("eye", 1)}
        calls = screen(Recording(X, {"stimulus": stimulus, "eye": eye[:, 0]}), spaces).calls
        called = calls.query("space == 'eye'")["called"].to_numpy()
        wrong.append(called[:-4].sum() / max(1, called.sum()))
        power.append(called[-4:].mean())
    assert (
        np.mean(wrong) < 0.15 and np.mean(power) == 1
    )  # half of the calls were wrong without each step of the past


def test_the_direction_of_running_to_and_fro_is_found_beside_the_position():
    rng = np.random.default_rng(3)
    steps = 8_000
    speed = np.exp(0.4 * standardise(signal.lfilter([1.0], [1.0, -0.97], rng.standard_normal((steps, 1)), axis=0)))
    phase = np.cumsum(speed[:, 0] / 100)
    place, away = np.abs(phase % 2 - 1), (phase % 2 < 1).astype(int)
    carries = np.arange(30) < 8
    fields = np.cos(3 * place[:, None] + np.arange(30))
    rate = np.exp(-1.5 + 0.6 * away[:, None] * carries + 0.5 * fields * ~carries)
    spaces = {"place": Follow("place", 1), "speed": Follow("speed", 1), "direction": Discrete("direction", 1)}
    table = {"place": place, "speed": speed[:, 0], "direction": away}
    found = screen(Recording(rng.poisson(rate), table), spaces)
    called = found.calls.query("space == 'direction'")["called"].to_numpy()
    assert called[carries].mean() > 0.8 and called[~carries].sum() <= 1
    assert [note.kind for note in found.notes if note.space == "direction" and note.kind == "a change"]
