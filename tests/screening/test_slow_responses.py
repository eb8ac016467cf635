"""Channels that respond more slowly than a variable changes."""

import numpy as np
import pandas as pd
import pytest
from scipy import signal

from ascribo import Discrete, Follow, Recording, screen
from ascribo.screening.features import earlier, standardise
from ascribo.screening.questions import Variable
from ascribo.screening.slow_responses import slow_question, slower_channels

STEPS, CHANNELS = 4_000, 20
FIRST, LAST = np.zeros(STEPS, int), np.full(STEPS, STEPS - 1)


def slow(values, time):
    """Forgets in `time` steps: columns of variance 1."""
    return standardise(signal.lfilter([1.0], [1.0, -np.exp(-1 / time)], values, axis=0))


@pytest.fixture(scope="module")
def indicator():
    """Half of the channels are slow averages of a function of a; all are slower than a and b."""
    rng = np.random.default_rng(0)
    a, b = slow(rng.standard_normal((STEPS, 1)), 30), slow(rng.standard_normal((STEPS, 1)), 30)
    carries = np.arange(CHANNELS) < CHANNELS // 2
    driven = rng.poisson(np.exp(-2 + 1.2 * a * carries + 1.2 * b * ~carries)).astype(float)
    channels = slow(driven, 80) + 0.1 * rng.standard_normal((STEPS, CHANNELS))
    return channels, a, b, carries


def test_responses_of_a_slow_indicator_are_found_and_it_is_said(indicator):
    channels, a, b, carries = indicator
    recording = Recording(channels, pd.DataFrame({"a": a[:, 0], "b": b[:, 0]}))
    found = screen(recording, {"a": Follow("a", 1), "b": Follow("b", 1)})
    called = found.calls[found.calls["space"] == "a"]["called"].to_numpy()
    assert called[carries].mean() > 0.8 and called[~carries].sum() <= 1
    assert {note.kind for note in found.notes} >= {"slow responses"}


def test_only_slower_and_nearly_white_channels_are_asked_about_averages(indicator):
    channels, a, _, _ = indicator
    quick = standardise(a + 0.5 * np.random.default_rng(1).standard_normal((STEPS, 3)))
    scores = np.concatenate([standardise(channels), quick], axis=1).astype(np.float32)
    variable = Variable(a, False, earlier(FIRST, 3), 3, True)
    assert slower_channels(variable, scores).tolist() == list(range(CHANNELS))
    white = np.random.default_rng(2).standard_normal((STEPS, 2)).astype(np.float32)
    assert slower_channels(variable, np.c_[quick, white].astype(np.float32)).tolist() == [3, 4]
    seldom = Variable(a, False, earlier(FIRST, 3), 3, True, seldom=True)
    assert len(slower_channels(seldom, scores)) == CHANNELS + 3


def test_what_the_step_before_tells_is_taken_from_channels_and_features_alike(indicator):
    channels, a, b, _ = indicator
    made = {name: Variable(each, False, earlier(FIRST, 3), 3, True) for name, each in (("a", a), ("b", b))}
    scores = standardise(channels).astype(np.float32)
    asked = slow_question(made["a"], {"b": made["b"]}, scores, FIRST, LAST)
    np.testing.assert_allclose(asked.channels.std(0), 1, rtol=1e-3)
    rows = np.arange(100, 200)
    now, before = asked._columns(rows).x, asked._columns(rows - 1).x
    np.testing.assert_allclose(asked.parts(rows).x, now - asked.persistence * before, atol=1e-5)


def test_short_events_whose_responses_outlast_them():
    rng = np.random.default_rng(2)
    event = np.zeros(STEPS, int)
    for start in rng.choice(STEPS // 40, 40, replace=False) * 40:
        event[start : start + 8] = 1
    carries = np.arange(CHANNELS) < CHANNELS // 2
    response = slow(event[:, None].astype(float), 5)
    channels = 0.5 * response * carries + slow(rng.standard_normal((STEPS, CHANNELS)), 5)
    called = screen(Recording(channels, pd.DataFrame({"e": event})), {"e": Discrete("e", 1)}).calls["called"]
    assert called[carries].mean() > 0.9 and called[~carries].sum() <= 1


def test_sensors_that_lag_behind_in_much_noise_are_found():
    """What is new in a variable says next to nothing to a sensor that takes ten steps to follow it."""
    power, wrong = [], []
    for seed in range(2):
        rng = np.random.default_rng([4, seed])
        a, b = slow(rng.standard_normal((8_000, 1)), 25), slow(rng.standard_normal((8_000, 1)), 25)
        carries = np.arange(24) < 8
        channels = rng.standard_normal((8_000, 24)) + 0.15 * slow(a, 10) * carries
        found = screen(
            Recording(channels, {"a": a[:, 0], "b": b[:, 0]}), {"a": Follow("a", 1), "b": Follow("b", 1)}
        )
        called = found.calls["called"].to_numpy().reshape(2, 24)
        power.append(called[0, carries].mean())
        wrong.append(called[0, ~carries].sum() + called[1].sum())
    assert np.mean(power) > 0.85  # 0.1 if only channels slower than the variable are asked about its averages
    assert sum(wrong) <= 3
