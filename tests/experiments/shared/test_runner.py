"""The runner of every experiment, with one that squares numbers."""

import json

import pytest

from ascribo import figures
from ascribo.support.files import FolderInUse, only_writer
from experiments.shared import results, runner
from experiments.shared.results import code
from experiments.shared.rows import CasesFailed
from experiments.shared.runner import combinations, experiment, make_plan, one_by_one

FULL, QUICK = {"values": range(4), "offset": 1}, {"values": (1, 2)}


def square(value, offset):
    return {"value": value, "offset": offset, "square": value**2 + offset}


def cases(plan):
    return combinations(plan, ["offset"], value="values")


def conclude(result):
    return {**result, "sum": sum(row["square"] for row in result["rows"])}


def made(**options):
    usual = {"cases": cases, "rows": one_by_one(square), "conclude": conclude, "protocol": {"words": "squares"}}
    usual["draw"] = lambda result: figures.new_axes(None, (2, 2))
    return experiment("squares", FULL, QUICK, **{**usual, **options})


def test_what_is_run_concluded_and_written(tmp_path):
    result = made()(tmp_path, progress=False, device="cpu")
    assert [row["square"] for row in result["rows"]] == [1, 2, 5, 10] and result["sum"] == 18
    assert sorted(path.name for path in tmp_path.iterdir()) == ["squares.json", "squares.png"]
    assert json.loads((tmp_path / "squares.json").read_text()) == result
    assert result["protocol"] == {
        "values": [0, 1, 2, 3],
        "offset": 1,
        "device": "cpu",
        "words": "squares",
        "jobs": 1,
    }
    assert result["experiment"] == "squares" and result["code"] == code() and "cpu" in result["machine"]


def test_the_short_form_and_other_values(tmp_path):
    run = made(protocol=lambda plan: {"first": plan["values"][0]})
    result = run(tmp_path, quick=True, offset=0, progress=False)
    assert [row["square"] for row in result["rows"]] == [1, 4] and result["protocol"]["first"] == 1
    with pytest.raises(ValueError, match="no 'ofset'; did you mean 'offset'"):
        run(tmp_path, ofset=0)
    assert "`squares.json`" in run.__doc__


def test_rows_of_another_experiment_are_not_run_again(tmp_path):
    asked = []

    def known(wanted, folder):
        asked.append(folder)
        return [{"value": 2, "offset": 1, "square": 77, "more": 0}, {"value": 3, "offset": 2, "square": 99}]

    result = made(known=known)(tmp_path, progress=False)
    assert [row["square"] for row in result["rows"]] == [1, 2, 77, 10] and asked == [tmp_path]
    assert result["rows_of_another_experiment"] == 1
    fresh = made(known=known)(tmp_path, fresh=True, progress=False)
    assert fresh["sum"] == 18 and len(asked) == 1


def test_a_finished_experiment_is_taken_as_it_is(tmp_path, capsys):
    asked = []

    def watched(value, offset):
        asked.append(value)
        return square(value, offset)

    run = made(rows=one_by_one(watched))
    first = run(tmp_path, jobs=1, device="cpu")
    (tmp_path / "squares.png").unlink()
    assert run(tmp_path, jobs=2, device="cpu") == first and asked == [0, 1, 2, 3]  # and its figure is there again
    assert "taken as it was finished" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["squares.json", "squares.png"]
    assert run(tmp_path, device="cpu", offset=5)["sum"] == 34 and len(asked) == 8
    run(tmp_path, device="cpu", fresh=True, offset=5)
    assert len(asked) == 12


@pytest.mark.parametrize("what", ["code", "machine", "a digit"])
def test_a_result_of_other_code_or_machine_or_with_another_digit_is_not_taken(tmp_path, monkeypatch, what):
    first = made()(tmp_path, progress=False, device="cpu")
    if what == "a digit":
        file = tmp_path / "squares.json"
        file.write_text(file.read_text().replace('"sum": 18', '"sum": 19'))
    else:
        monkeypatch.setattr(results, what, lambda: {"sha256": "other"})
    asked = []
    again = made(rows=lambda cases, state, /, **how: asked.append(1) or one_by_one(square)(cases, state, **how))
    assert again(tmp_path, progress=False, device="cpu")["rows"] == first["rows"] and asked == [1]


def test_two_at_once_are_refused(tmp_path):
    with only_writer(tmp_path / ".squares"), pytest.raises(FolderInUse, match="is being written to by process"):
        made()(tmp_path, progress=False)


def test_a_case_that_fails_leaves_the_rows_of_the_others(tmp_path):
    def fails(value, offset):
        if value == 1:
            raise KeyError("no such unit")
        return square(value, offset)

    with pytest.raises(CasesFailed, match=r"1 of 4 cases failed.*\n.*'value': 1.*KeyError: 'no such unit'"):
        made(rows=one_by_one(fails))(tmp_path, progress=False, device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == [".squares"]
    assert made()(tmp_path, progress=False, device="cpu")["rows_of_an_interrupted_run"] == 3


def test_what_measures_a_cpu_runs_nowhere_else(tmp_path):
    run = made(cpu_only=True)
    assert run(tmp_path, progress=False)["protocol"]["device"] == "cpu"
    with pytest.raises(ValueError, match="'cuda': squares measures one CPU thread"):
        run(tmp_path, device="cuda")


def test_what_one_process_computes_is_refused_a_cluster(tmp_path):
    with pytest.raises(ValueError, match="'tcp://a:1': squares is computed by one process; run it without"):
        made(in_one_process=True)(tmp_path, scheduler="tcp://a:1")


def test_plans_are_fit_for_json():
    plan = make_plan({"a": range(2), "b": {"c": (1, None)}, "d": "x"}, {"d": 2.5})
    assert plan == {"a": [0, 1], "b": {"c": [1, None]}, "d": 2.5}
    assert make_plan({"a": range(2)}, a=[5]) == {"a": [5]}
    assert runner.combinations({"xs": [1, 2], "ys": [3]}, x="xs", y="ys") == [{"x": 1, "y": 3}, {"x": 2, "y": 3}]
