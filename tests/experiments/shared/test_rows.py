"""Rows of cases: kept as soon as they are there, and never mixed with those of other code."""

import importlib
import os
import sys

import pytest

from experiments.shared import rows


def process(value):
    """A task that says where it was done."""
    return {"value": value, "process": os.getpid()}


def count(calls):
    """A task that writes down its calls, and fails on the case that is told to."""

    def task(value, fail=False):
        calls.append(value)
        if fail and len(calls) < 3:
            raise RuntimeError("killed")
        return {"square": value**2}

    return task


def test_an_interrupted_run_does_only_what_is_left(tmp_path):
    calls, cases = [], [{"value": 1}, {"value": 2, "fail": True}, {"value": 3}]
    with pytest.raises(
        rows.CasesFailed, match=r"1 of 3 cases failed.*\n.*'value': 2, .*: RuntimeError: killed"
    ) as said:
        rows.compute_rows(count(calls), cases, tmp_path / "state", progress=False)
    assert "in task" in next(iter(said.value.reasons.values()))  # where it was raised
    assert calls == [1, 2, 3] and len(list((tmp_path / "state").iterdir())) == 2
    made, resumed = rows.compute_rows(count(calls), cases, tmp_path / "state", progress=False)
    assert resumed == 2
    assert calls == [1, 2, 3, 2] and made == [{"square": 1}, {"square": 4}, {"square": 9}]
    rows.compute_rows(count(calls), cases, tmp_path / "state", fresh=True, progress=False)
    assert calls[4:] == [1, 2, 3]


@pytest.mark.parametrize("damage", [lambda text: text.replace("9", "8"), lambda text: text[:20], lambda _: "[]"])
def test_a_damaged_row_is_computed_again(tmp_path, damage):
    calls = []
    rows.compute_rows(count(calls), [{"value": 3}], tmp_path, progress=False)
    (file,) = tmp_path.iterdir()
    file.write_text(damage(file.read_text()))
    made, resumed = rows.compute_rows(count(calls), [{"value": 3}], tmp_path, progress=False)
    assert made == [{"square": 9}] and resumed == 0 and calls == [3, 3]


def test_rows_are_the_same_whether_they_were_kept_or_not(tmp_path):
    task = lambda value: {2: value, 10: (1, 2)}  # noqa: E731
    fresh = rows.compute_rows(task, [{"value": 0}], tmp_path, progress=False)
    assert rows.compute_rows(task, [{"value": 0}], tmp_path, progress=False) == (fresh[0], 1)


def test_cases_whose_workers_were_lost_are_named(tmp_path, monkeypatch):
    def lost(function, tasks, **_):
        yield "0", function(*tasks["0"])
        raise rows.WorkersLost(["1"])

    monkeypatch.setattr(rows, "spread", lost)
    with pytest.raises(rows.CasesFailed, match=r"\{'value': 7\}: 1 of the tasks lost their worker"):
        rows.compute_rows(count([]), [{"value": 6}, {"value": 7}], tmp_path, progress=False)
    assert len(list(tmp_path.iterdir())) == 1


def test_rows_of_another_protocol_or_of_other_code_are_not_used(tmp_path, monkeypatch):
    calls = []
    run = lambda case: rows.compute_rows(count(calls), [case], tmp_path, progress=False)  # noqa: E731
    run({"value": 1})
    run({"value": 1, "fail": False})
    assert calls == [1, 1]
    monkeypatch.setattr(rows, "code", lambda: {"sha256": "other"})
    run({"value": 1})
    assert calls == [1, 1, 1]


def test_cases_are_spread_over_processes_and_keep_their_order(tmp_path):
    cases = [{"value": k} for k in range(3)]
    made, resumed = rows.compute_rows(process, cases, tmp_path, jobs=2, progress=False)
    assert [row["value"] for row in made] == [0, 1, 2] and resumed == 0
    assert os.getpid() not in {row["process"] for row in made}


def test_workers_of_a_cluster_compute_the_rows(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'ascribo[cluster]'")
    (tmp_path / "work_of_a_test.py").write_text(
        "import os\n\n\ndef process(value):\n    return {'value': value, 'process': os.getpid()}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    task = importlib.import_module("work_of_a_test").process
    cases, state = [{"value": k} for k in range(4)], tmp_path / "state"
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(sys.path.insert, 0, str(tmp_path))
        made, _ = rows.compute_rows(task, cases, state, scheduler=cluster.scheduler_address, progress=False)
    assert [row["value"] for row in made] == [0, 1, 2, 3]
    assert os.getpid() not in {row["process"] for row in made}
    assert rows.compute_rows(task, cases, state, progress=False) == (made, 4)  # they are kept as any others


def test_progress_goes_to_standard_error(tmp_path, capsys):
    rows.compute_rows(count([]), [{"value": 3}], tmp_path, describe=lambda row: f"got {row['square']}")
    said = capsys.readouterr()
    assert "got 9" in said.err and said.out == ""
