"""The test of known variables, once more on the recordings of results."""

import copy

import numpy as np
import pandas as pd
import pytest

from experiments.regcl.known_variables import SOURCES, ask, ask_simple_methods, put_into
from experiments.validation import calibration

BOX = {"dim": 4, "data_seed": 0, "length": 3_000, "snr": 3.0, "steps": 10, "batch": 64}


@pytest.fixture(scope="module")
def of_box():
    return ask({**BOX, "mode": "hybrid contrastive", "penalty": "auto"}, SOURCES["samples"])


def test_channels_that_carry_position_are_found(of_box):
    assert set(of_box["space"]) == {"position"}  # the space of the rest has no variables
    assert 0 < of_box["carries"].sum() < len(of_box)
    called = of_box["q"].to_numpy() <= 0.05
    assert called[of_box["carries"]].mean() > 0.8
    assert called[~of_box["carries"]].mean() < 0.2


def test_rows_of_box_data_have_their_numbers_replaced_and_nothing_else(of_box):
    old = {**BOX, "channels": {"unique_variance": 0.5, "tangent": 0.7}, "entries": {}}
    row = copy.deepcopy(old)
    put_into(row, of_box)
    assert row["channels"]["unique_variance"] > 0.9
    row["channels"]["unique_variance"] = 0.5
    assert row == old  # which has no calls: none were added
    row = {**copy.deepcopy(old), "calls": {"carried": -1}}
    put_into(row, of_box)
    assert row["calls"]["carried"] == 25
    assert row["calls"]["0.05"]["called"] == int((of_box["q"] <= 0.05).sum())


def test_rows_of_calibration_have_the_calls_of_spaces_with_variables_replaced():
    case = {**calibration.MIXED, "number": 3, "data_seed": 0, "length": 2_000}
    calls = ask(case, SOURCES["calibration"])
    row = {**case, "spaces": {"a": {}, "b": {}, "rest": {"carried": 7}}}
    put_into(row, calls)
    assert row["spaces"]["rest"] == {"carried": 7}
    assert row["channels"] == case["channels"]
    for name in ("a", "b"):
        own = calls[calls["space"] == name]
        found = row["spaces"][name]
        assert found["carried"] == own["carries"].sum()
        assert found["channels"] == len(own)
        assert found["0.2"]["called"] >= found["0.05"]["called"] > 0


def test_wrong_calls_are_counted():
    table = {"space": "a", "q": [0.01, 0.1, 0.01, 0.5], "score": 0.0, "carries": [True, True, False, False]}
    row = {"spaces": {"a": {}}}
    put_into(row, pd.DataFrame(table).assign(channel=np.arange(4)))
    assert row["spaces"]["a"] == {
        **{"carried": 2, "channels": 4},
        **{"0.05": {"called": 2, "wrong": 1}, "0.2": {"called": 3, "wrong": 1}},
    }


def test_simple_methods_stand_beside_it():
    case = {**BOX, "length": 10_000, "mode": "hybrid contrastive", "penalty": "auto"}
    rows = {row.pop("method"): row for row in ask_simple_methods(case, SOURCES["samples"])}
    assert set(rows) == {"glm", "changes", "history"}
    for row in rows.values():
        assert (row["dim"], row["snr"], row["length"]) == (4, 3.0, 10_000)
        assert row["auroc"] > 0.9 and row["power"] > 0.5
    assert rows["glm"]["fdp"] == 0 and rows["history"]["power"] > 0.9
