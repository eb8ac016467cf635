"""Sweeps: the same results everywhere, nothing computed twice, nothing lost with a worker."""

import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import ascribo as asc
from ascribo.cli.main import main
from ascribo.support.sealed_json import write_sealed
from ascribo.sweeps import cells

SPACES = {"position": asc.Follow("x", dim=1), "rest": asc.Time(dim=1)}
GRID = {"penalty": [0.0, 0.1]}


def model(**changes):
    """A model that is fitted in a fraction of a second; on a CPU, where cells do not depend on each other."""
    given = {
        "device": "cpu",
        "seeds": 1,
        "steps": 10,
        "batch_size": 32,
        "penalty": 0.0,
        "encoder": asc.MLP((8,)),
        "random_state": 0,
    }
    return asc.ContrastiveEmbedding(SPACES, **{**given, **changes})


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """A folder of three small recordings as .npz files, and a file that holds none."""
    folder = tmp_path_factory.mktemp("sessions")
    for k in range(3):
        data = asc.simulate.box(k, observed=1, hidden=1, channels=(3, 3), steps=300)
        np.savez(folder / f"rat{k}.npz", X=data.X, x=data.variables["x"].to_numpy())
    (folder / "notes.txt").write_text("not a recording")
    return folder


@pytest.fixture(scope="module")
def serial(recordings, tmp_path_factory):
    """A sweep of three sessions and two settings in this process."""
    return asc.sweep(recordings, model(), tmp_path_factory.mktemp("serial"), grid=GRID, progress=False)


def weights(folder):
    """Digest of the weights of every cell, by its name."""
    return {
        file.parent.name: json.loads(file.read_text())["sha256"] for file in sorted(folder.glob("*/model.json"))
    }


def test_everything_is_read_back_from_the_folder(serial, recordings):
    table = serial.table()
    assert len(table) == 3 * 2 * 2 and set(table["state"]) == {"done"} and table["bits"].notna().all()
    assert set(table["session"]) == {"rat0", "rat1", "rat2"} and set(table["penalty"]) == {0.0, 0.1}
    assert (serial.folder / "results.csv").is_file()
    again = asc.Sweep(serial.folder)
    assert again.table().equals(table) and again.summary()["sessions"].tolist() == [3] * 4
    assert list(again.calls().columns[:2]) == ["session", "penalty"]
    assert "rat1, penalty 0.1" in again.report(sessions=["rat0", "rat1"]).read_text()
    alone = model(penalty=0.1, progress=False).fit(asc.read(recordings / "rat1.npz")).model_.parameters
    found = again.model("rat1", penalty=0.1).model_.parameters
    assert all(np.array_equal(value, alone[name]) for name, value in found.items())
    with pytest.raises(ValueError, match="2 cells of 'rat1'"):
        again.model("rat1")
    with pytest.raises(ValueError, match="no session 'rat9'"):
        again.maps("rat9")


def test_what_is_done_is_not_computed_again(serial, recordings, tmp_path, monkeypatch):
    out, computed, compute = shutil.copytree(serial.folder, tmp_path / "out"), [], cells._compute
    monkeypatch.setattr(cells, "_compute", lambda cell, *rest: computed.append(cell) or compute(cell, *rest))
    files = {f"renamed-{k}": recordings / f"rat{k}.npz" for k in range(3)}
    assert len(asc.sweep(files, model(), out, grid=GRID, progress=False).table()) == 12 and not computed
    more = asc.sweep(files, model(), out, grid={"penalty": [0.0, 0.1, 0.2]}, progress=False)
    assert len(more.cells()) == 9 and len(computed) == 3
    done = out / next(iter(weights(serial.folder))) / "cell.json"
    done.write_text(done.read_text()[:40])  # damaged: as if it were not there
    asc.sweep(files, model(), out, grid=GRID, progress=False)
    assert len(computed) == 4 and weights(out).items() >= weights(serial.folder).items()


def test_a_session_that_fails_does_not_end_the_others(recordings, tmp_path):
    bad = tmp_path / "bad.npz"
    np.savez(bad, X=np.ones((300, 4)), x=np.arange(300.0))
    found = asc.sweep([bad, recordings / "rat0.npz"], model(), tmp_path / "out", progress=False)
    table = found.cells().set_index("session")
    assert table["state"].to_dict() == {"bad": "failed", "rat0": "done"} and "constant" in table["error"]["bad"]
    assert repr(found) == "Sweep(2 cells: 1 failed, 1 done)"


def test_recordings_in_memory_and_in_processes(serial, recordings, tmp_path):
    files = asc.sweep(recordings, model(), tmp_path / "files", n_jobs=2, progress=False)
    assert weights(files.folder).items() <= weights(serial.folder).items()
    memory = {"rat1": asc.read(recordings / "rat1.npz")}
    found = asc.sweep(memory, model(), tmp_path / "memory", progress=False).maps("rat1")
    assert found.by_space.equals(serial.maps("rat1", penalty=0.0).by_space)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": model(random_state=None)}, "a sweep needs an integer"),
        ({"grid": {"penalti": [1]}}, "no parameter 'penalti'; did you mean 'penalty'"),
        ({"grid": {"penalty": "auto"}}, "expected a list of values"),
        ({"sessions": 3}, "expected a folder"),
        ({"sessions": "/nowhere/*.nwb"}, "there is none"),
    ],
)
def test_what_cannot_be_swept_is_refused_first(recordings, tmp_path, changes, said):
    given = {"sessions": recordings, "model": model(), "out": tmp_path / "out", **changes}
    with pytest.raises(ValueError, match=said):
        asc.sweep(**given)
    assert not (tmp_path / "out" / "sweep.json").exists()


@pytest.fixture(scope="module")
def many(serial, tmp_path_factory):
    """The folder of a sweep of 30 sessions that are done, two that failed and one that waits, all but copies."""
    folder, plan = tmp_path_factory.mktemp("many"), []
    (source,) = {run for run in serial.cells()["run"][:1]}
    record = json.loads((Path(source) / "cell.json").read_text())
    for k in range(33):
        own = folder / f"{k:020x}"
        plan.append({"session": f"rat{k}", "settings": {"penalty": k % 2}, "digest": own.name})
        if k < 30:
            shutil.copytree(source, own)
            spaces = [{**fit, "bits": 9.0 if k == 17 else 1 + k / 100} for fit in record["spaces"]]
            write_sealed(own / "cell.json", {**record, "digest": own.name, "spaces": spaces})
        elif k < 32:
            own.mkdir()
            cells.write_failure(own, ValueError("it has no <variable> 'x'"))
    write_sealed(folder / "sweep.json", {"format": 2, "cells": plan})
    return folder


def test_many_runs_are_summarised_on_one_page(many):
    page = asc.Sweep(many).report()
    text = page.read_text()
    assert page == many / "compare.html" and page.stat().st_size < 100_000 and "<script" not in text
    assert "30 runs done, 2 failed, 1 not computed" in text
    assert "it has no &lt;variable&gt;" in text and "rat30 (penalty 0)" in text and "rat31 (penalty 1)" in text
    apart = text[text.index('id="apart"') : text.index('id="failures"')]
    assert "rat17" in apart and apart.count("<tr>") == 3 and f"{17:020x}" in apart  # both spaces of the one session
    rows = text[text.index('id="runs"') :]
    assert rows.index("rat0<") < rows.index("rat29<") < rows.index("rat17<")  # those with the fewest bits first
    assert text.count("<svg") == 2 * 2 * 3  # spaces, settings, histograms


def test_a_few_of_many_runs_are_compared(many, tmp_path):
    page = asc.Sweep(many).report(tmp_path / "few.html", sessions=["rat1", "rat2"])
    assert "What agrees" in page.read_text()


def test_dask_with_a_worker_that_is_killed(serial, recordings, tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'ascribo[cluster]'")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        killed = []

        def kill():
            while not list(tmp_path.glob("out/*/.lock")):
                time.sleep(0.02)
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        files = [recordings / "rat0.npz", recordings / "rat1.npz"]
        found = asc.sweep(files, model(), tmp_path / "out", grid=GRID, scheduler=client, progress=False)
        killer.join()
    assert killed and repr(found) == "Sweep(4 cells: 4 done)"
    assert weights(found.folder).items() <= weights(serial.folder).items()
    assert found.table()["called"].equals(serial.table()["called"][:8])


CONFIG = """
sessions = "{sessions}"
out = "swept"

[spaces]
follow = ["position=x"]
time = ["rest:1"]

[settings]
seeds = 1
steps = 10
batch_size = 32
penalty = 0.0

[grid]
batch_size = [16, 32]
"""


def test_the_command_line(recordings, tmp_path, capsys):
    config = tmp_path / "sweep.toml"
    config.write_text(CONFIG.format(sessions=f"{recordings}/rat[01].npz"))
    assert main(["sweep", str(config), "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "cells:  4 of 4 done" in said and "compare.html" in said
    assert main(["sweep", str(config)]) == 0
    assert "4 cells, 4 of them done before" in capsys.readouterr().err
    assert not (tmp_path / "swept/.checkpoint").exists() and not (tmp_path / "swept/.lock").exists()
    run = next((tmp_path / "swept").glob("*/model.json")).parent
    assert main(["report", str(run), "--quiet"]) == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[spaces]", "[space]", "unknown part 'space'; did you mean 'spaces'"),
        ('"rest:1"', '"rest"', "[spaces] time: 'rest' is not of the form"),
        ("time =", "tim =", "[spaces] tim: no such kind"),
        ("seeds = 1", "seed = 1", "[settings] seed: no such parameter; did you mean 'seeds'"),
        ("sessions =", "sessions", "is not a TOML file"),
    ],
)
def test_a_file_with_a_mistake(recordings, tmp_path, capsys, old, new, said):
    config = tmp_path / "sweep.toml"
    config.write_text(CONFIG.format(sessions=recordings).replace(old, new))
    assert main(["sweep", str(config), "--quiet"]) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "swept").exists()


@pytest.fixture
def copy(serial, tmp_path):
    """A copy of the sweep, its first cell, and a function that changes a file and makes its checksum anew."""
    shutil.copytree(serial.folder, tmp_path / "copy")
    cell = next(iter(sorted((tmp_path / "copy").glob("*/cell.json"))))

    def change(file, **changes):
        write_sealed(file, {**json.loads(file.read_text()), **changes})

    return tmp_path / "copy", cell, change


@pytest.mark.parametrize(
    "odd",
    [
        *({"channels": value} for value in ("x", [1], {"a": "b"}, None, 1.5)),
        *({"seconds": value} for value in ("x", [], None)),
        *({"called": value} for value in ([], {"rest": "x"}, {"rest": None})),
        *({"spaces": [{"space": "rest", "bits": value}]} for value in ("x", [])),
        {"spaces": [{"space": 3}]},
        {"time_steps": {}},
        {"ascribo": []},
        {"notes": 3},
        {"stack": [[]]},
    ],
)
def test_an_odd_record_with_a_good_checksum_counts_as_none(copy, odd):
    folder, cell, change = copy
    change(cell, **odd)
    found = asc.Sweep(folder)
    assert found.cells()["state"].value_counts().to_dict() == {"done": 5, "waiting": 1}
    assert len(found.table()) == 11 and len(found.summary()) == 4 and repr(found)


def test_a_record_that_was_changed_counts_as_none(copy):
    folder, cell, change = copy
    assert cells.read_record(cell.parent) is not None
    cell.write_text(cell.read_text().replace('"channels": 6', '"channels": 7'))
    assert cells.read_record(cell.parent) is None
    without = {key: value for key, value in json.loads(cell.read_text()).items() if key != "checksum"}
    cell.write_text(json.dumps({**without, "format": 1}))  # which had none
    assert cells.read_record(cell.parent) is None
    change(cell, channels=6, format=2)
    assert cells.read_record(cell.parent)["channels"] == 6
    for odd in ({"spaces": None}, {"spaces": []}, {"spaces": [1]}, {"called": []}, {"format": "2"}, {"format": 1}):
        change(cell, **odd)
        assert cells.read_record(cell.parent) is None
    assert (asc.Sweep(folder).table()["state"] == "waiting").sum() == 1


def test_a_plan_that_was_changed_is_refused(copy):
    folder, _, change = copy
    plan = folder / "sweep.json"
    plan.write_text(plan.read_text().replace("rat0", "rat9", 1))
    with pytest.raises(ValueError, match="does not match its checksum"):
        asc.Sweep(folder)
    change(plan)
    known = json.loads(plan.read_text())["cells"]
    assert len(asc.Sweep(folder).cells()) == 6
    for odd in (
        [{**known[0], "digest": "../../elsewhere"}],
        [{**known[0], "settings": 3}],
        [1],
        [],
        None,
        {"a": 1},
    ):
        change(plan, cells=odd)
        with pytest.raises(ValueError, match=r"sweep\.json is damaged"):
            asc.Sweep(folder)
