"""Channels that respond late are found, and do not make other variables look carried."""

import numpy as np
import pytest

import ascribo as asc
from ascribo.screening.late_responses import late_lags
from ascribo.screening.variables import make_variable
from experiments.validation.situations import as_recording
from experiments.validation.situations_data import ornstein
from experiments.validation.situations_late import LATE

STEPS = 4_000


@pytest.mark.parametrize(
    "name",
    [
        "channels respond 10 steps late",
        "responses rise and decay, best after 5 steps",
        "channels respond to a 6 steps late, and b follows a by 6",
        "spikes (0.2 a bin), 5 bins late",
    ],
)
def test_late_channels_are_called_for_what_they_carry(name):
    wrong, right = [], []
    for seed in range(2):
        data = LATE[name](np.random.default_rng([5, seed]))
        recording, spaces, _ = as_recording(data)
        found = asc.screen(recording, spaces)
        called = np.concatenate([found.calls.loc[found.calls["space"] == each, "called"] for each in data.truth])
        truth = np.concatenate(list(data.truth.values()))
        wrong.append((called & ~truth).sum() / max(1, called.sum()))
        right.append(called[truth].mean())
        assert "late responses" in {note.kind for note in found.notes}
    assert np.mean(wrong) <= 0.07 and np.mean(right) >= 0.9


def _variable(values):
    first = np.zeros(len(values), dtype=int)
    return make_variable(values, False, False, first, np.ones(len(values), dtype=bool)), first


def test_lags_are_those_of_the_channels():
    rng = np.random.default_rng(0)
    values = ornstein(rng, 15, STEPS)
    variable, first = _variable(values)
    channels = [np.roll(values[:, 0], lag) + 0.5 * rng.normal(size=STEPS) for lag in (6, 6, 12, 0)]
    lags, number = late_lags(variable, np.stack(channels, axis=1), first, np.arange(STEPS))
    assert lags == (6, 12) and number == 3


def test_channels_that_each_tell_too_little_are_late_together():
    rng = np.random.default_rng(3)
    values = ornstein(rng, 30, STEPS)
    variable, first = _variable(values)
    noise = 6 * rng.normal(size=(STEPS, 24))
    for lag, found in ((6, True), (0, False)):
        lags, number = late_lags(variable, np.roll(values, lag, axis=0) + noise, first, np.arange(STEPS))
        assert (len(lags) == 1 and abs(lags[0] - lag) <= 2 and number >= 12) if found else lags == ()
        alone = [
            late_lags(variable, np.roll(values, lag, axis=0) + noise[:, [k]], first, np.arange(STEPS))[0]
            for k in range(24)
        ]
        assert sum(map(bool, alone)) <= 6  # what each tells alone is not enough


def test_channels_of_the_present_of_the_velocity_or_of_nothing_are_not_late():
    rng = np.random.default_rng(1)
    smooth = np.convolve(ornstein(rng, 15, STEPS + 20)[:, 0], np.hanning(21), "valid")[:, None]
    for values in (ornstein(rng, 15, STEPS), smooth / smooth.std()):
        variable, first = _variable(values)
        channels = values + rng.normal(size=(STEPS, 8)) * np.r_[np.full(5, 0.5), np.full(3, 50.0)]
        assert late_lags(variable, channels, first, np.arange(STEPS)) == ((), 0)


def test_a_rhythm_that_channels_share_with_a_variable_does_not_make_them_late():
    rng = np.random.default_rng(2)
    phase = 2 * np.pi * np.arange(STEPS) / 200
    values = np.sin(phase)[:, None] + 0.5 * ornstein(rng, 30, STEPS)
    variable, first = _variable(values)
    carried = values + 0.5 * rng.normal(size=(STEPS, 12))
    rhythm = np.sin(phase - 1)[:, None] + 0.5 * rng.normal(size=(STEPS, 2))
    assert late_lags(variable, np.concatenate([carried, rhythm], 1), first, np.arange(STEPS)) == ((), 0)
