"""Screening of real recordings: calls beside a GLM, decoys, walks; the files of reaching and of grid cells."""

import numpy as np
import pytest

import ascribo as asc
from experiments.validation import grid_cells, reaching
from experiments.validation.real_recordings import compare_with_glm, count_decoys, count_walks


@pytest.fixture
def folder(data_dir, monkeypatch):
    monkeypatch.setenv("ASCRIBO_DATA", str(data_dir))


def test_calls_decoys_and_walks_are_counted():
    data = asc.simulate.mixed(spaces={"a": 1, "b": 1}, hidden=1, channels=10, steps=3_000, snr=4, carry=0.3)
    spaces = {"a": asc.Follow("a0", 1), "b": asc.Follow("b0", 1)}
    found = compare_with_glm(data, spaces)["spaces"]["a"]
    truth = int(data.truth.sel(space="a").sum())
    assert found["channels"] == 10 and abs(found["called"] - truth) <= 1 and found["both"] <= found["glm"]
    decoys = count_decoys(data, spaces, [0.3])
    assert decoys["a"]["decoys"] == 10 and decoys["a"]["called"] <= 1
    assert count_walks(data, 1)["called"][0] <= 1


def test_the_recordings_are_as_described(folder):
    hand = reaching.reaches()
    assert hand.X.shape == (15536, 171) and list(hand.variables) == ["x", "y", "vx", "vy"]
    moved = np.gradient(hand.variables["x"], hand.time)
    assert np.corrcoef(moved, hand.variables["vx"])[0, 1] > 0.95
    sessions, shuffled = grid_cells.sessions(), grid_cells.sessions(control=True)
    assert len(sessions) == 5 and sum(each.X.shape[1] for each in sessions.values()) == 13
    for name, each in sessions.items():
        assert (each.X.sum(0) == shuffled[name].X.sum(0)).all() and not (each.X == shuffled[name].X).all()
        assert 90 < np.ptp(each.variables["x"]) < 110
