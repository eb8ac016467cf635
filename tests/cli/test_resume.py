"""`ascribo resume`: the command that was interrupted is run again, and nothing but a fit ever is."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from ascribo.cli.main import main
from ascribo.support.files import only_writer
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
    assert "has no fit that was interrupted. It is done: see `ascribo info`." in capsys.readouterr().err


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
    (state / "fit.json").write_text(json.dumps({"ascribo": "checkpoint", "command": command}))
    assert "does not say how the fit was started" in fails("resume", tmp_path)


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
