"""Decoders of an attribution that was killed are not fitted again, and it ends with the same bits."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch

import ascribo as asc
from ascribo.cli.main import main
from ascribo.model.saving import save
from ascribo.training import kept_decoders
from ascribo.training.checkpoints import one_fit
from ascribo.training.kept_decoders import decoders_kept, kept_or_fitted


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model of three seeds that knows its recording, with a space that needs decoders."""
    folder = tmp_path_factory.mktemp("kept")
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(4, 4), steps=3000)
    np.savez(folder / "rat.npz", X=data.X, x=data.variables["x"])
    spaces = {"position": asc.Follow("x", 1), "rest": asc.Time(1)}
    small = {
        "steps": 60,
        "batch_size": 64,
        "penalty": 0.0,
        "encoder": asc.MLP((8,)),
        "n_jobs": 1,
        "progress": False,
    }
    model = asc.ContrastiveEmbedding(spaces, seeds=3, random_state=0, **small).fit(data)
    model.model_.usable[:] = True  # so short a fit may be at chance
    return save(model, folder / "run", data={"path": str(folder / "rat.npz"), "how": {}})


@pytest.fixture
def fitted(monkeypatch):
    """How many stacks of decoders were fitted."""
    calls, real = [], kept_decoders.fit_decoders
    monkeypatch.setattr(
        kept_decoders, "fit_decoders", lambda *given, **how: (calls.append(given), real(*given, **how))[1]
    )
    return calls


def kept(run):
    return sorted((run / ".checkpoint").glob("decoders-*.safetensors"))


def test_an_attribution_that_was_killed_goes_on(run, tmp_path, fitted):
    whole, again, state = tmp_path / "whole.csv", tmp_path / "again.csv", run / ".checkpoint"
    assert main(["attribute", str(run), "--out", str(whole), "--quiet"]) == 0
    assert len(fitted) == 3 and not state.exists()
    own = {**os.environ, "PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "ascribo", "attribute", str(run), "--out", str(again), "--quiet"]
    with subprocess.Popen(command, env=own) as process:
        began = time.monotonic()
        while not kept(run) and time.monotonic() - began < 100:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert not again.exists()
    there = len(kept(run))
    assert there in (1, 2), "it was killed too late"
    fitted.clear()
    assert main(["attribute", str(run), "--out", str(again), "--quiet"]) == 0
    assert len(fitted) == 3 - there and not state.exists()
    pd.testing.assert_frame_equal(pd.read_csv(whole), pd.read_csv(again), check_exact=True)
    assert whole.read_bytes() == again.read_bytes()


def stack(seed=0, **how):
    u = torch.linspace(-1, 1, 400)[:, None]
    return kept_or_fitted([u], [torch.cat([u, u**2], 1)], [(0, 0)], [seed], steps=50, progress=False, **how)


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(value, b[name]) for name, value in a.items())


def interrupted(folder, work):
    with pytest.raises(KeyboardInterrupt) as stop, decoders_kept(folder):
        work()
        raise KeyboardInterrupt
    return str(stop.value)


def test_what_differs_is_fitted(tmp_path, fitted):
    folder, first = tmp_path / ".checkpoint", stack()
    assert "decoders that are done are kept in" in interrupted(folder, stack)
    with decoders_kept(folder):
        fitted.clear()
        assert same(stack(), first) and not fitted
        for other in ({"seed": 1}, {"batch": 64}, {"mask": torch.zeros(1, 1)}, {"rows": [np.arange(300)]}):
            assert not same(stack(**other), first)
        assert len(fitted) == 4
    assert not folder.exists()


def test_decoders_that_are_damaged_or_of_others_are_fitted_again(tmp_path, fitted):
    folder, first = tmp_path / ".checkpoint", stack()
    interrupted(folder, stack)
    (file,) = folder.iterdir()
    for content in (file.read_bytes()[:-4] + b"abcd", b"mine"):
        file.write_bytes(content)
        fitted.clear()
        interrupted(folder, lambda: same(stack(), first) or pytest.fail("other numbers"))
        assert len(fitted) == 1


def test_another_fit_removes_them(tmp_path):
    interrupted(tmp_path, stack)
    with one_fit(tmp_path):
        assert [file.name for file in tmp_path.iterdir()] == [".lock"]


def test_a_disk_that_is_full_does_not_end_the_attribution(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with decoders_kept(tmp_path / "a"), pytest.warns(UserWarning, match=r"could not be kept .*No space left"):
        assert same(stack(), stack())


def test_an_interruption_without_any_is_as_ever(tmp_path):
    assert interrupted(tmp_path / "a", lambda: None) == "" and not (tmp_path / "a").exists()
