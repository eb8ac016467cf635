"""`ascribo watch`: fits that run, and those that are done."""

import threading
import time

import numpy as np
import pytest

import ascribo as asc
from ascribo.cli.main import main
from ascribo.cli.watch import progress_of
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
    table = progress_of(tmp_path)
    assert table is not None and table["seeds"].tolist() == [1] and table["steps"].tolist() == [50]
    assert table["λ"].tolist() == [0.5] and np.isfinite(table["loss"]).all() and table["age"][0] < 60
    assert main(["watch", str(tmp_path), "--once"]) == 0
    assert "steps" in capsys.readouterr().out

    def finish():
        time.sleep(0.3)
        monkeypatch.setattr(loop, "write_checkpoint", whole)
        model.fit(np.random.default_rng(0).normal(size=(400, 4))).save(tmp_path)

    other = threading.Thread(target=finish)
    other.start()
    assert main(["watch", str(tmp_path), "--every", "0.05"]) == 0
    other.join()
    assert "done" in capsys.readouterr().out
