"""The short way round, the same to the last bit as the formulas it stands for."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ascribo.support.circle import short_way, wrap

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
