"""`ascribo resume`: the command that was interrupted is run again; only fits, analyses and sweeps are, and nowhere
else."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import ascribo as asc
from ascribo.cli.main import main
from ascribo.support import spread
from ascribo.support.files import only_writer
from ascribo.support.sealed_json import write_sealed
from ascribo.training import loop

QUICK = ["--seeds", "1", "--steps", "60", "--batch-size", "64", "--jobs", "1"]
SPACES = ["--follow", "position=x,y", "--time", "rest:1"]


def stopped(patch):
    """As if Ctrl-C were pressed in the first chunk of steps."""

    class Told:
        def __enter__(self):
            return lambda: True

        def __exit__(self, *_):
            return None

    patch.setattr(loop, "stops_cleanly", lambda folder: Told())


def test_a_fit_goes_on_from_any_folder(run, table, tmp_path, monkeypatch, capsys):
    (tmp_path / "here").mkdir()
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path / "here")
        stopped(patch)
        assert main(["fit", str(table), "--channels", "channel*", *SPACES, *QUICK, "--out", "run"]) == 130
    said = capsys.readouterr().err
    assert "stopped after 50 of at most 60 steps; the state is kept in run/.checkpoint" in said
    assert "(ascribo resume run)" in said
    out = tmp_path / "here/run"
    assert main(["resume", str(out)]) == 0
    digests = [json.loads((each / "model.json").read_text())["sha256"] for each in (out, run)]
    assert digests[0] == digests[1] and not (out / ".checkpoint").exists() and not (out / ".lock").exists()
    capsys.readouterr()
    assert main(["resume", str(out)]) == 2
    assert (
        "has no fit, analysis or sweep that was interrupted. It is done: see `ascribo info`."
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "command",
    [
        {"argv": ["demo"], "folder": "."},
        {"argv": "fit", "folder": "."},
        {"argv": ["fit", 3], "folder": "."},
        {"argv": ["fit"]},
        ["fit"],
    ],
)
def test_nothing_but_a_fit_is_run(command, tmp_path, fails):
    state = tmp_path / ".checkpoint"
    state.mkdir()
    write_sealed(state / "fit.json", {"ascribo": "checkpoint", "command": command})
    assert "does not say how the fit was started" in fails("resume", tmp_path)


def interrupted(table, out, monkeypatch, *more):
    """A fit by the command line whose state is kept after 50 steps."""
    with monkeypatch.context() as patch:
        stopped(patch)
        given = ["fit", str(table), "--channels", "channel*", *SPACES, *QUICK, *more, "--quiet", "--out", str(out)]
        assert main(given) == 130


def test_a_run_that_was_moved_goes_on_where_it_is(run, table, tmp_path, monkeypatch, capsys):
    one, two = tmp_path / "m1", tmp_path / "m2"
    interrupted(table, one, monkeypatch)
    one.rename(two)
    assert main(["resume", str(two)]) == 0
    assert f"{two} was started as {one}; it goes on in {two}" in capsys.readouterr().err
    assert not one.exists() and not (two / ".checkpoint").exists()
    digests = [json.loads((each / "model.json").read_text())["sha256"] for each in (two, run)]
    assert digests[0] == digests[1]


def kept(folder, argv, place):
    state = folder / ".checkpoint"
    state.mkdir(parents=True)
    command = {"argv": [str(word) for word in argv], "folder": str(place)}
    write_sealed(state / "fit.json", {"ascribo": "checkpoint", "command": command})
    return folder


@pytest.mark.parametrize("order", ["last", "before", "twice"])
def test_a_made_up_command_does_not_write_elsewhere(table, tmp_path, order):
    elsewhere, evil = tmp_path / "elsewhere", tmp_path / "evil"
    out, what = ["--out", elsewhere], ["--channels", "channel*", *SPACES, *QUICK]
    words = {
        "last": [table, *what, *out],
        "before": [*what, *out, "--", table],
        "twice": ["--out", evil, table, *what, "--ou", elsewhere],
    }
    kept(evil, ["fit", *words[order]], tmp_path)
    assert main(["resume", str(evil), "--quiet"]) == 0
    assert not elsewhere.exists() and (evil / "model.json").exists()


def test_a_command_that_unpacks_elsewhere_is_refused(table, tmp_path, fails):
    words = ["fit", table, *SPACES, *QUICK, "--out", "run", "--unpack", tmp_path / "elsewhere"]
    said = fails("resume", kept(tmp_path / "run", words, tmp_path))
    assert "unpacks to" in said and "outside of" in said and "Run it again as it was typed: cd" in said
    (tmp_path / "sweep.toml").write_text('sessions = "."\n[spaces]\n[read]\nunpack = "elsewhere"')
    said = fails("resume", kept(tmp_path / "swept", ["sweep", "sweep.toml"], tmp_path))
    assert "the sweep unpacks to elsewhere" in said and not (tmp_path / "elsewhere").exists()


def test_a_link_that_leads_out_of_the_folder_is_refused(table, tmp_path, fails):
    words = ["fit", table, *SPACES, *QUICK, "--out", "run"]
    run = kept(tmp_path / "run", words, tmp_path)
    (run / ".checkpoint").rename(tmp_path / "elsewhere")
    (run / ".checkpoint").symlink_to(tmp_path / "elsewhere")
    assert "is a link that leads out of" in fails("resume", run)
    assert sorted(file.name for file in (tmp_path / "elsewhere").iterdir()) == ["fit.json"]


def test_the_command_is_that_of_the_state(table, tmp_path, monkeypatch, capsys):
    """A command of which no state is left, since it was killed too soon, does not stand for the next one."""
    out = kept(tmp_path / "run", ["fit", table, *SPACES, *QUICK, "--steps", "70", "--out", "run"], tmp_path)
    interrupted(table, out, monkeypatch)
    assert main(["resume", str(out)]) == 0
    assert "--steps 70" not in capsys.readouterr().err and (out / "model.json").exists()


def test_another_random_state_is_refused_and_the_fit_goes_on(run, table, tmp_path, monkeypatch, fails, capsys):
    out = tmp_path / "run"
    interrupted(table, out, monkeypatch)
    given = ["fit", table, "--channels", "channel*", *SPACES, *QUICK, "--out", out]
    said = fails(*given, "--random-state", "1")
    assert "interrupted fit of other seeds" in said and "another random_state" in said
    assert main(["resume", str(out)]) == 0 and "--random-state" not in capsys.readouterr().err
    digests = [json.loads((each / "model.json").read_text())["sha256"] for each in (out, run)]
    assert digests[0] == digests[1] and not (out / ".checkpoint").exists()


CONFIG = """
sessions = "sessions"
out = "swept"
[spaces]
time = ["rest:1"]
[settings]
seeds = 1
steps = 10
batch_size = 32
"""


@pytest.fixture
def swept(tmp_path):
    """A sweep of two sessions, of which one cannot be read yet, and its configuration."""
    (tmp_path / "sessions").mkdir()
    for k in (0, 1):
        data = asc.simulate.box(k, observed=1, hidden=1, channels=(3, 3), steps=300)
        np.savez(tmp_path / f"sessions/rat{k}.npz", X=data.X)
    (tmp_path / "sessions/rat1.npz").rename(tmp_path / "rat1.npz")
    (tmp_path / "sessions/rat1.npz").write_bytes(b"not yet copied")
    (tmp_path / "sweep.toml").write_text(CONFIG)
    return tmp_path / "swept", tmp_path / "sweep.toml"


def test_a_sweep_with_cells_that_failed_goes_on(swept, tmp_path, capsys, fails):
    out, config = swept
    assert main(["sweep", str(config), "--quiet"]) == 1
    assert f"ascribo resume {out}" in capsys.readouterr().out
    (tmp_path / "rat1.npz").rename(tmp_path / "sessions/rat1.npz")
    before = {file: file.stat().st_mtime_ns for file in out.glob("*/model.json")}
    assert len(before) == 1 and main(["resume", str(out), "--quiet"]) == 0
    assert "cells:  2 of 2 done" in capsys.readouterr().out
    assert all(file.stat().st_mtime_ns == when for file, when in before.items()), "it was computed again"
    assert not (out / ".checkpoint").exists()
    assert "no fit, analysis or sweep that was interrupted. Its sweep is over" in fails("resume", out)


def test_a_sweep_that_lost_its_scheduler_goes_on(swept, capsys, monkeypatch, fails):
    out, config = swept
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'ascribo[cluster]'")
    monkeypatch.setattr(spread, "CONNECT_SECONDS", 1)
    nobody = "tcp://127.0.0.1:9"
    for command in (["sweep", config, "--scheduler", nobody], ["resume", out]):
        assert f"no Dask scheduler answers at {nobody}" in fails(*command)
        assert (out / ".checkpoint/fit.json").exists()


def test_a_sweep_that_was_moved_goes_on_where_it_is(swept, tmp_path, capsys):
    out, config = swept
    assert main(["sweep", str(config), "--quiet"]) == 1
    (tmp_path / "rat1.npz").rename(tmp_path / "sessions/rat1.npz")
    out.rename(tmp_path / "moved")
    assert main(["resume", str(tmp_path / "moved"), "--quiet"]) == 0
    assert not out.exists() and len(list((tmp_path / "moved").glob("*/cell.json"))) == 2


def test_a_sweep_that_is_refused_leaves_no_command(swept, fails):
    out, config = swept
    config.write_text(config.read_text().replace("sessions = ", 'sessions = "nowhere/*.npz" #'))
    assert "there is none" in fails("sweep", config)
    assert not (out / ".checkpoint").exists()


def test_two_fits_do_not_write_to_one_folder(table, tmp_path, fails):
    out = tmp_path / "run"
    with only_writer(out):
        said = fails("fit", table, "--channels", "channel*", *SPACES, *QUICK, "--out", out)
    assert "is being written to by process" in said and not out.joinpath("model.json").exists()


def test_ctrl_c_keeps_the_state(table, tmp_path):
    """In a terminal: the signal goes to a real process, which ends by itself and says how to go on."""
    out = tmp_path / "run"
    command = ["fit", table, "--channels", "channel*", *SPACES, *QUICK, "--steps", "100000", "--out", out]
    process = subprocess.Popen([sys.executable, "-m", "ascribo", *command], stderr=subprocess.PIPE, text=True)
    began = time.monotonic()
    while not (out / ".checkpoint/.lock").exists() and time.monotonic() - began < 60:
        time.sleep(0.1)
    time.sleep(1)
    os.kill(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and f"(ascribo resume {out})" in said and "Traceback" not in said
    assert list((out / ".checkpoint").glob("seeds-*.safetensors"))
