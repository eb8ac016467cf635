"""The short way round, the same to the last bit as the formulas it stands for."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import ascribo as asc
from ascribo.support.circle import check_period, short_way, wrap

periods = st.sampled_from([1.0, 2 * np.pi, 24.0, 360.0])
floats = st.floats(-1e6, 1e6)


@given(floats, periods)
def test_the_short_way_is_at_most_half_a_turn_and_whole_turns_away(change, period):
    short = short_way(np.array([change]), period)[0]
    assert abs(short) <= period / 2 * (1 + 1e-6) + 1e-9
    turns = (change - short) / period
    assert turns == pytest.approx(round(turns), abs=1e-6)


@given(floats, periods, st.sampled_from([0.0, -0.5, 3.0]))
def test_wrapped_values_lie_within_a_turn(value, period, start):
    low = start * period
    wrapped = wrap(np.array([value]), period, low)[0]
    assert low <= wrapped < low + period
    turns = (value - wrapped) / period
    assert turns == pytest.approx(round(turns), abs=1e-6)


def test_what_is_not_circular_stays_as_it_is():
    values, period = np.array([[370.0, 370.0], [-1e-20, -0.0]]), np.array([360.0, 0.0])
    np.testing.assert_array_equal(wrap(values, period), [[10.0, 370.0], [0.0, -0.0]])
    np.testing.assert_array_equal(short_way(values, period), [[10.0, 370.0], [-1e-20, -0.0]])
    tensor = short_way(torch.from_numpy(values), torch.from_numpy(period))
    np.testing.assert_array_equal(tensor.numpy(), short_way(values, period))


def test_the_same_bits_as_before():
    """Each formula as it stood where the helper is used now."""
    rng = np.random.default_rng(0)
    change, period = rng.normal(0, 30, (10_000, 3)), np.array([2 * np.pi, 0.0, 24.0])
    full = np.where(period > 0, period, 1.0)
    decoding = np.where(period > 0, change - full * np.round(change / full), change)
    follow = change - period * np.round(change / np.where(period > 0, period, np.inf))
    for old in (decoding, follow):
        np.testing.assert_array_equal(short_way(change, period).view(np.int64), old.view(np.int64))
    tensor, turn = torch.from_numpy(change).float(), torch.from_numpy(full).float()
    old = torch.where(torch.from_numpy(period) > 0, tensor - turn * (tensor / turn).round(), tensor)
    assert torch.equal(short_way(tensor, torch.from_numpy(period).float()), old)
    one, half = change[:, 0], np.pi
    np.testing.assert_array_equal(wrap(one, 2 * half, -half), np.mod(one + half, 2 * half) - half)
    np.testing.assert_array_equal(wrap(one, 24.0), np.mod(one, 24.0))


rng = np.random.default_rng(0)
HEADING = np.mod(np.cumsum(rng.normal(0, 0.2, 5000)), 2 * np.pi)
DEGREES = np.rad2deg(HEADING)
CENTRED = wrap(HEADING, 2 * np.pi, -np.pi)


@pytest.mark.parametrize(
    ("values", "period"),
    [
        (HEADING, 2 * np.pi),
        (CENTRED, 2 * np.pi),
        (HEADING, 6.2832),
        (DEGREES, 360),
        (np.rad2deg(CENTRED), 360),
        (np.unwrap(HEADING), 2 * np.pi),
        (np.unwrap(DEGREES, period=360), 360),
        (np.unwrap(HEADING) * 20, 40 * np.pi),
        (HEADING + rng.normal(0, 0.5, 5000), 2 * np.pi),
        (rng.uniform(0, 24, 500), 24),
        (rng.uniform(0, 1, 500), 1),
        (np.where(rng.random(5000) < 0.3, np.nan, HEADING), 2 * np.pi),
        (np.r_[np.unwrap(HEADING), np.unwrap(HEADING)[::-1] + 1000], 2 * np.pi),
        (np.array([1.0, np.nan]), 2 * np.pi),
        (np.rad2deg(0.3 + 0.1 * np.sin(np.arange(500) / 20)), 360),
    ],
)
def test_periods_that_fit(values, period):
    check_period("a", values, period)


@pytest.mark.parametrize(
    ("values", "period", "message"),
    [
        (DEGREES, 2 * np.pi, r"looks like degrees.*period=360, or .*np\.deg2rad"),
        (np.rad2deg(CENTRED), 2 * np.pi, "looks like degrees"),
        (np.linspace(0, 359, 5000), 2 * np.pi, "looks like degrees"),
        (np.round(DEGREES), 2 * np.pi, "looks like degrees"),
        (HEADING, 360, r"looks like radians.*np\.rad2deg"),
        (CENTRED, 360, "looks like radians"),
        (rng.uniform(0, 24, 500), 1, "24 times the period of 1, in jumps"),
        (rng.uniform(0, 100, 500), 2 * np.pi, "16 times the period of 6.28319, in jumps"),
    ],
)
def test_periods_in_another_unit(values, period, message):
    with pytest.raises(ValueError, match=message):
        check_period("a", values, period)


def test_a_fit_with_the_wrong_period_is_refused():
    X = np.stack([np.cos(HEADING), np.sin(HEADING)], 1)
    small = {"seeds": 1, "steps": 3, "batch_size": 32, "progress": False}
    for space, table in [
        (asc.Follow("heading", 2, circular=True), {"heading": DEGREES}),
        (asc.Regress("heading", circular=True), {"heading": DEGREES}),
        (asc.Follow(["speed", "heading"], 2, circular=["heading"]), {"speed": DEGREES, "heading": DEGREES}),
        (asc.Follow("heading", 2, circular=True, period=360), {"heading": HEADING}),
    ]:
        with pytest.raises(ValueError, match="space 'a': variable 'heading' runs from"):
            asc.ContrastiveEmbedding({"a": space}, **small).fit(X, table)
    for wrong in ({"period": 360}, {}):
        table = {"heading": HEADING if wrong else DEGREES}
        with pytest.raises(ValueError, match="variable 'heading' runs from"):
            asc.decode_variables(X, table, circular=["heading"], **wrong)
    with pytest.raises(ValueError, match="variable 'heading' runs from"):
        asc.cells.head_direction_score(asc.Recording(X, {"heading": DEGREES}), "heading", shuffles=0)
