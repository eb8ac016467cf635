"""`ascribo watch`: fits that run, and those that are done."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import ascribo as asc
from ascribo.cli.main import main
from ascribo.cli.watch import read_progress
from ascribo.training import loop


def test_a_finished_fit_is_shown_as_such(run, capsys):
    assert main(["watch", str(run), "--quiet"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("done\n") and "bits above chance" in said


def test_nothing_there_is_said(tmp_path, fails):
    assert "neither a fitted model nor the state" in fails("watch", tmp_path / "none", "--once")


def test_a_running_fit_is_followed(tmp_path, monkeypatch, capsys):
    class Stop(Exception):
        pass

    def stop(*given):
        whole(*given)
        raise Stop

    whole = loop.write_checkpoint
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(loop, "write_checkpoint", stop)
    model = asc.ContrastiveEmbedding(
        {"rest": asc.Time(1)}, seeds=2, steps=300, batch_size=32, penalty=0.5, encoder=asc.MLP((8,)), n_jobs=1,
        checkpoint=tmp_path / ".checkpoint", progress=False, random_state=0,
    )  # fmt: skip
    with pytest.raises(Stop):
        model.fit(np.random.default_rng(0).normal(size=(400, 4)))
    table = read_progress(tmp_path)
    assert table is not None and table["seeds"].tolist() == [1] and table["steps"].tolist() == [50]
    assert table["λ"].tolist() == [0.5] and np.isfinite(table["loss"]).all() and table["age"][0] < 60
    # the steps are fixed, and yet there are bits on held-out time, and the time left of both seeds
    assert table["of"].tolist() == [300] and table["measured on"].tolist() == ["held-out time"]
    assert -1 < table["bits"][0] < 1  # noise tells nothing
    facts = safe_open(next((tmp_path / ".checkpoint").glob("seeds-*")), "np").metadata()
    speed = float(facts["seconds_per_step"])
    assert 1e-5 < speed < 10 and table["left"][0] == pytest.approx(550 * speed - table["age"][0], abs=0.1)
    assert main(["watch", str(tmp_path), "--once"]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("steps", "300", "held-out time", "left"))

    def finish():
        time.sleep(0.3)
        monkeypatch.setattr(loop, "write_checkpoint", whole)
        model.fit(np.random.default_rng(0).normal(size=(400, 4))).save(tmp_path)

    other = threading.Thread(target=finish)
    other.start()
    assert main(["watch", str(tmp_path), "--every", "0.05"]) == 0
    other.join()
    assert "done" in capsys.readouterr().out


def test_to_look_changes_no_number(tmp_path, monkeypatch):
    """Held-out bits that are measured for those who look leave the training as it is."""
    X = np.random.default_rng(0).normal(size=(400, 4))
    fits = []
    for seconds in (0.0, 1e9):
        monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", seconds)
        model = asc.ContrastiveEmbedding(
            {"rest": asc.Time(1)}, seeds=1, steps=200, batch_size=32, encoder=asc.MLP((8,)), n_jobs=1,
            checkpoint=tmp_path / str(seconds), progress=False, random_state=0,
        )  # fmt: skip
        fits.append(model.fit(X))
    looked, not_looked = (fit.model_.parameters for fit in fits)
    assert looked.keys() == not_looked.keys()
    assert all(np.array_equal(looked[name], not_looked[name]) for name in looked)
    assert "held_out" not in fits[0].history_  # no curve: the bits decide nothing


def test_files_of_an_older_version_are_shown(tmp_path):
    curve = np.zeros((3, 1), dtype=np.float32)
    tensors = {"curve.infonce": curve[..., None], "curve.mse": curve[..., None], "curve.lambda": curve}
    (tmp_path / ".checkpoint").mkdir()
    save_file(
        tensors, tmp_path / ".checkpoint" / "seeds-0.safetensors", metadata={"ascribo": "checkpoint", "done": "3"}
    )
    table = read_progress(tmp_path)
    assert table is not None and table["steps"].tolist() == [3]
    assert table[["of", "bits", "left"]].isna().to_numpy().all()
    assert main(["watch", str(tmp_path), "--once"]) == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
def test_a_pipe_in_place_of_a_state_is_not_waited_for(tmp_path):
    (tmp_path / ".checkpoint").mkdir()
    os.mkfifo(tmp_path / ".checkpoint/seeds-1.safetensors")
    (tmp_path / ".checkpoint/seeds-2.safetensors").symlink_to("/dev/zero")
    command = [sys.executable, "-m", "ascribo", "watch", tmp_path, "--once", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "neither a fitted model nor the state" in done.stderr
