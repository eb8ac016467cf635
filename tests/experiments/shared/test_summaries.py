"""Means and their intervals, against values worked by hand."""

import numpy as np
import pytest

from experiments.shared.summaries import summarise, summary


def test_summary():
    got = summary([0.9, 1.0, 0.8, 1.0])
    assert got["mean"] == pytest.approx(0.925) and got["min"] == 0.8 and got["n"] == 4
    # all 256 ways to draw four of the four values
    every = np.array(np.meshgrid(*[[0.9, 1.0, 0.8, 1.0]] * 4)).reshape(4, -1).mean(0)
    assert got["ci95"] == pytest.approx(np.quantile(every, [0.025, 0.975]), abs=1e-9)


def test_means_by_group():
    rows = [{"dim": d, "channels": {"a": v}} for d, v in ((4, 0.5), (4, 0.7), (9, 1.0))]
    four, nine = summarise(rows, "channels", ("dim",))
    assert four["dim"] == 4 and four["mean"] == pytest.approx(0.6) and four["min"] == 0.5 and four["n"] == 2
    assert four["kind"] == "channels" and nine["method"] == "a" and nine["ci95"] == [1.0, 1.0]
    assert summarise(rows, "channels", ("dim",), ["b"]) == []
