"""Many runs on one page: what it counts, what stands out, and how large it is."""

import numpy as np
import pytest

from ascribo.report.summary import Failure, Outcome, summarise_runs, write_summary
from tests.report.conftest import HOSTILE, SCRIPT, visible_text


def outcome(k, bits=1.0, share=0.5, settings="", space="position", answer=True):
    called = np.arange(20) < 20 * share
    scores = 0.01 + 0.2 * called
    return Outcome(
        f"rat{k}", settings, f"a{k}{settings}", space, bits, bits < 0.1, scores, called if answer else None
    )


def test_what_is_counted():
    runs = [outcome(k, 1 + k / 10, 0.25 if k < 4 else 0.5) for k in range(11)]
    runs.append(outcome(99, share=0))
    (space,) = summarise_runs(runs)["spaces"]
    (group,) = space["groups"]
    assert space["answer"].startswith("Channels carry it in 11 of 12 runs (92%). In the middle run 50%")
    assert (group["runs"], group["tested"], group["found"], group["collapsed"]) == (12, 12, 11, 0)
    assert group["score"] == pytest.approx((0.21, 0.21, 0.21)) and group["bits"][1] == pytest.approx(1.45)
    bits, share, scores = group["histograms"]
    assert sum(bar["first"] for bar in bits["bars"]) == sum(bar["first"] for bar in share["bars"]) == 12
    assert sum(bar["first"] for bar in scores["bars"]) == 4 * 5 + 7 * 10
    assert sum(bar["first"] + bar["second"] for bar in scores["bars"]) == 12 * 20


def test_runs_without_an_answer_do_not_count_as_none():
    runs = [outcome(k, answer=k < 3) for k in range(5)]
    (space,) = summarise_runs(runs)["spaces"]
    assert "3 of 3 runs" in space["answer"] and space["answer"].endswith("2 more have no answer.")
    (space,) = summarise_runs([outcome(0, answer=False)])["spaces"]
    assert space["answer"] == "Not tested or not decided in any run: there are scores alone."
    assert space["groups"][0]["share"] is None
    with pytest.raises(ValueError, match="no run is done"):
        summarise_runs([])


def test_what_stands_out_is_found_within_its_settings():
    rng = np.random.default_rng(0)
    runs = [outcome(k, b + rng.normal(0, 0.02), settings=s) for s, b in (("a", 1.0), ("b", 3.0)) for k in range(20)]
    runs[7] = outcome(7, 3.0, settings="a")
    runs[30] = outcome(10, 3.0, share=0.9, settings="b")
    words = summarise_runs(runs)
    assert [(one["session"], one["settings"], one["kind"]) for one in words["apart"]] == [
        ("rat7", "a", "bits"),
        ("rat10", "b", "share"),
    ]
    marked = [row["session"] for row in words["rows"] if any(cell["apart"] for cell in row["cells"])]
    assert sorted(marked) == ["rat10", "rat7"]


def test_failures_are_gathered_by_their_reason(tmp_path):
    failures = [Failure(f"rat{k}", "", "ValueError: no variable 'x'") for k in range(20)]
    failures.append(Failure(SCRIPT, "penalty 1", f"OSError: {SCRIPT}"))
    words = summarise_runs([outcome(0)], failures)
    assert [(one["count"], one["more"]) for one in words["failures"]] == [(20, 8), (1, 0)]
    page = write_summary([outcome(0)], tmp_path / "s.html", failures=failures, waiting=3).read_text()
    assert "<script" not in page and "1 run done, 21 failed, 3 not computed" in visible_text(page)


def test_hostile_names_and_missing_numbers_are_shown(tmp_path):
    runs = [
        Outcome(name, SCRIPT, str(k), space, float("nan"), False, np.full(3, np.nan), None)
        for k, name in enumerate(HOSTILE)
        for space in ("a", SCRIPT)
    ]
    page = write_summary(runs, tmp_path / "s.html").read_text()
    assert "<script" not in page and "nan" not in visible_text(page)


def test_five_hundred_runs_fit_into_a_small_page(tmp_path):
    rng = np.random.default_rng(0)
    spaces = ("position", "heading", "rest")
    runs = [outcome(k, rng.normal(1, 0.2), rng.uniform(), space=name) for k in range(500) for name in spaces]
    page = write_summary(runs, tmp_path / "s.html")
    assert page.stat().st_size < 250_000
    more = [outcome(k, rng.normal(1, 0.2), rng.uniform()) for k in range(5000)]
    assert write_summary(more, tmp_path / "m.html").stat().st_size < 350_000
