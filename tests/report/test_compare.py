"""Runs beside each other: what they share by name, and what agrees."""

import html

import numpy as np
import pytest

from ascribo.report import Run, write_comparison
from ascribo.report.compare import compare_runs
from tests.report.conftest import made_up_maps, visible_text


def test_what_agrees_is_counted(model, carries, tmp_path):
    other = carries.copy()
    other[0] = np.arange(12) < 4  # two of the six are not found in the second run
    runs = {
        name: Run(model, made_up_maps(model, c, seed))
        for seed, (name, c) in enumerate([("a", carries), ("b", other)])
    }
    words = compare_runs(runs)
    position, side, rest = words["spaces"]
    assert (position["all"], position["some"], position["none"]) == (4, 2, 6) and position[
        "overlap"
    ] == pytest.approx(4 / 6)
    assert position["answer"] == "Of 6 shared channels called in any run, 4 (67%) are called in both."
    assert {row["channel"] for row in position["rows"][:4]} == {f"channel{k}" for k in range(4)}
    assert side["all"] == 4 and rest["all"] == 12 and rest["none"] == 0
    said = html.unescape(visible_text(write_comparison(runs, tmp_path / "c.html").read_text()))
    assert "Of 6 shared channels called in any run, 4 (67%) are called in both." in said


def test_runs_of_different_animals_share_spaces_alone(model, carries, tmp_path):
    one, two = made_up_maps(model, carries), made_up_maps(model, carries)
    two.by_space["channel"] = two.blocks["channel"] = [f"other{k}" for k in range(12)]
    words = compare_runs({"rat": Run(model, one), "<script>": Run(model, two)})
    assert words["shared"] == 0 and "share no channel" in words["spaces"][0]["answer"]
    assert [one["called"] for one in words["spaces"][0]["each"]] == [6, 6]
    page = write_comparison({"rat": Run(model, one), "<script>": Run(model, two)}, tmp_path / "c.html").read_text()
    assert "<script" not in page


def test_one_run_is_not_compared(model, maps):
    with pytest.raises(ValueError, match="at least two"):
        compare_runs({"one": Run(model, maps)})


def test_a_page_without_a_script_allows_none(model, carries, tmp_path):
    runs = {name: Run(model, made_up_maps(model, carries)) for name in "ab"}
    page = write_comparison(runs, tmp_path / "c.html").read_text()
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\"" in page
    assert "<script" not in page


def test_a_run_that_could_not_decide_does_not_count_as_no(model, carries):
    known, unknown = made_up_maps(model, carries), made_up_maps(model, carries)
    unknown.undecided["position"] = "it is too slow."
    words = compare_runs({"a": Run(model, known), "b": Run(model, unknown)})
    position, side, _ = words["spaces"]
    assert position["answer"] == "Not tested or not decided in b: calls cannot be compared."
    assert [one["called"] for one in position["each"]] == [6, None] and position["overlap"] is None
    assert sum(row["runs"][0]["called"] for row in position["rows"]) == 6  # what is known is shown
    assert side["all"] == 4
