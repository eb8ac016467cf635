"""Rows of a grid: kept as soon as they are there, and never mixed with those of other code."""

import json

import pytest

from experiments.shared import rows


def count(calls):
    """A task that writes down its calls, and fails on the cell that is told to."""

    def task(value, fail=False):
        calls.append(value)
        if fail and len(calls) < 3:
            raise RuntimeError("killed")
        return {"square": value**2}

    return task


def test_an_interrupted_grid_does_only_what_is_left(tmp_path):
    calls, cells = [], [{"value": 1}, {"value": 2, "fail": True}, {"value": 3}]
    with pytest.raises(RuntimeError, match="killed"):
        rows.run_grid(count(calls), cells, tmp_path / "state", progress=False)
    assert calls == [1, 2] and len(list((tmp_path / "state").iterdir())) == 1
    made, resumed = rows.run_grid(count(calls), cells, tmp_path / "state", progress=False)
    assert resumed == 1
    assert calls == [1, 2, 2, 3] and made == [{"square": 1}, {"square": 4}, {"square": 9}]
    rows.run_grid(count(calls), cells, tmp_path / "state", fresh=True, progress=False)
    assert calls[4:] == [1, 2, 3]


def test_rows_of_another_protocol_or_of_other_code_are_not_used(tmp_path, monkeypatch):
    calls = []
    run = lambda cell: rows.run_grid(count(calls), [cell], tmp_path, progress=False)  # noqa: E731
    run({"value": 1})
    run({"value": 1, "fail": False})
    assert calls == [1, 1]
    monkeypatch.setattr(rows, "_code", lambda: "other")
    run({"value": 1})
    assert calls == [1, 1, 1]


def test_progress_goes_to_standard_error(tmp_path, capsys):
    rows.run_grid(count([]), [{"value": 3}], tmp_path, describe=lambda row: f"got {row['square']}")
    said = capsys.readouterr()
    assert "got 9" in said.err and said.out == ""


def test_summary():
    got = rows.summary([0.9, 1.0, 0.8, 1.0])
    assert got["mean"] == pytest.approx(0.925) and got["min"] == 0.8
    assert 0.8 <= got["ci95"][0] < 0.9 and 0.95 < got["ci95"][1] <= 1.0


def test_the_machine_has_no_name(monkeypatch):
    import platform

    assert platform.node() not in json.dumps(rows.machine()) or not platform.node()
