"""Calibration in a tiny form: rows, rates worked by hand, and what is published."""

import json

import pytest

from experiments.validation import calibration

SMALL = {"length": 1_500, "channels": 8}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        few = {
            "box": {**calibration.PLAIN, **SMALL, "dim": 3},
            "mixed": {**calibration.MIXED, **SMALL, "snr": None, "counts": True},
        }
        patch.setattr(calibration, "CONDITIONS", few)
        out = tmp_path_factory.mktemp("calibration")
        result = calibration.run(
            out, conditions=list(few), data_seeds=[0], steps=40, batch=64, progress=False, device="cpu"
        )
    return out, result


def test_a_row_counts_calls_against_the_truth(done):
    _, result = done
    box, mixed = result["rows"]
    assert set(box["spaces"]) == {"position", "rest"} and set(mixed["spaces"]) == {"a", "b", "rest"}
    assert box["spaces"]["position"]["carried"] == 4 and box["spaces"]["rest"]["carried"] == 8
    # hardly trained, and yet: channels that carry the variables are called, and no others
    assert box["spaces"]["position"]["0.05"] == {"called": 4, "wrong": 0}
    assert box["spaces"]["rest"]["0.05"]["called"] >= 7 and box["spaces"]["rest"]["0.05"]["wrong"] == 0
    carried = [mixed["spaces"][name]["carried"] for name in ("a", "b")]
    called = [mixed["spaces"][name]["0.05"] for name in ("a", "b")]
    assert [each["wrong"] for each in called] == [0, 0]
    assert sum(each["called"] for each in called) >= sum(carried) - 1
    for row in result["rows"]:
        assert all(space["0.05"]["called"] <= space["0.2"]["called"] for space in row["spaces"].values())
    assert all(each["kept"] and each["power"] >= 0.7 for each in result["conditions"])


def test_what_is_published_can_be_read_and_shown(done):
    out, result = done
    assert json.loads((out / "calibration.json").read_text())["conditions"] == result["conditions"]
    assert (out / "calibration.png").stat().st_size > 0
    names = {each["condition"] for each in result["conditions"]}
    assert names == {"box", "mixed", "all"}
    assert all(len(table) == 3 for table in calibration.tables(result).values())


def row(wrong, called, carried=5, collapsed=()):
    levels = {level: {"called": called, "wrong": wrong} for level in ("0.05", "0.2")}
    return {"spaces": {"a": {"carried": carried, "channels": 10, **levels}}, "collapsed": list(collapsed)}


def test_the_rate_is_the_mean_over_recordings_and_says_when_the_promise_is_broken():
    good = calibration._condition("x", [row(0, 5), row(1, 5), row(0, 0)], 0.2)
    assert good["fdr"] == pytest.approx(0.2 / 3, abs=1e-4) and good["wrong"] == 1 and good["called"] == 10
    assert good["power"] == pytest.approx(9 / 15, abs=1e-4) and good["kept"]
    bad = calibration._condition("x", [row(3, 6), row(2, 6)], 0.05)
    assert bad["fdr"] == pytest.approx(5 / 12, abs=1e-4) and not bad["kept"]


def test_refused_spaces_and_those_everybody_carries_are_left_out():
    rows = [row(5, 5, collapsed=["a"]), row(0, 10, carried=10), row(1, 4)]
    found = calibration._condition("x", rows, 0.05)
    assert found["fdr"] == pytest.approx(0.25) and found["refused"] == 1
    assert found["power"] == pytest.approx((10 + 3) / 15, abs=1e-4)
