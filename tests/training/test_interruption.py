"""Fits that were interrupted or killed go on to the same bits, whatever the number of processes."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
import torch

import ascribo as asc
from ascribo.support.files import only_writer
from ascribo.training import checkpoints, loop
from ascribo.training.interruption import Interrupted, stops_cleanly

SMALL = dict(steps=200, batch_size=32, penalty=0.0, encoder=asc.MLP((8,)), progress=False, device="cpu")
SPACES = {"rest": asc.Time(1)}


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(observed=1, hidden=1, channels=(3, 3), steps=600)


def stop_after(monkeypatch, chunks):
    """As if Ctrl-C were pressed in the given chunk of steps."""
    told = iter([*[False] * (chunks - 1), True])
    monkeypatch.setattr(loop, "stops_cleanly", lambda folder: _answers(told))


class _answers:
    def __init__(self, told):
        self.told = told

    def __enter__(self):
        return lambda: next(self.told)

    def __exit__(self, *_):
        return None


@pytest.mark.parametrize("random_state, jobs", [(0, (1, 2)), (None, (2, 1))])
def test_an_interrupted_fit_goes_on_with_other_processes_and_without_a_seed(
    data, tmp_path, monkeypatch, random_state, jobs
):
    given = {**SMALL, "seeds": 2, "checkpoint": tmp_path / "state", "random_state": random_state}
    with monkeypatch.context() as patch:
        patch.setattr(np.random.mtrand, "_rand", np.random.RandomState(7))  # what random_state=None draws from
        whole = asc.ContrastiveEmbedding(SPACES, **{**given, "checkpoint": None}, n_jobs=jobs[0]).fit(data)
    with monkeypatch.context() as patch:
        patch.setattr(np.random.mtrand, "_rand", np.random.RandomState(7))
        if jobs[0] == 1:
            stop_after(patch, 2)
            with pytest.raises(Interrupted, match="stopped after 100 of at most 200 steps; the state is kept in"):
                asc.ContrastiveEmbedding(SPACES, **given, n_jobs=1).fit(data)
        else:  # in processes of its own, which learn of it by a file
            patch.setattr(checkpoints, "STOP", "other")
            (tmp_path / "state").mkdir()
            (tmp_path / "state/.stop").touch()
            with pytest.raises(Interrupted, match="the same fit goes on from there"):
                asc.ContrastiveEmbedding(SPACES, **given, n_jobs=2).fit(data)
            assert len(list((tmp_path / "state").glob("seeds-*.safetensors"))) == 2
    resumed = asc.ContrastiveEmbedding(SPACES, **given, n_jobs=jobs[1]).fit(data)
    np.testing.assert_array_equal(resumed.transform(data), whole.transform(data))
    assert not list((tmp_path / "state").iterdir()), "nothing is left of a fit that is done"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_an_interrupted_fit_on_a_gpu_ends_with_the_same_bits(tmp_path, monkeypatch):
    """Parameters, Adam's state and random draws come back into a graph that is captured anew."""
    data = asc.simulate.box(observed=2, hidden=1, channels=(8, 8), steps=2000)
    spaces = {"position": asc.Follow(["x", "y"], 2), "rest": asc.Time(2)}
    given = {**SMALL, "device": "cuda", "seeds": 2, "random_state": 0, "penalty": 0.1, "batch_size": 128}
    whole = asc.ContrastiveEmbedding(spaces, **given).fit(data)
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(Interrupted, match="stopped after 100 of at most 200 steps"):
            asc.ContrastiveEmbedding(spaces, **given, checkpoint=tmp_path).fit(data)
    resumed = asc.ContrastiveEmbedding(spaces, **given, checkpoint=tmp_path).fit(data)
    for name, value in whole.model_.parameters.items():
        np.testing.assert_array_equal(resumed.model_.parameters[name], value)
    calls = [model.attribute(data).calls() for model in (whole, resumed)]
    pd.testing.assert_frame_equal(*calls)


def test_a_state_is_kept_when_training_is_done(data, tmp_path, monkeypatch):
    """A fit that is killed while its decoders are trained need not train its encoders again."""
    given = {**SMALL, "steps": 100, "seeds": 1, "random_state": 0, "checkpoint": tmp_path}
    with monkeypatch.context() as patch:
        patch.setattr("ascribo.model.estimator.finish", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            asc.ContrastiveEmbedding(SPACES, **given).fit(data)
        monkeypatch.setattr("ascribo.training.steps.Steps.run", None)  # not a single step is taken
        with pytest.raises(KeyboardInterrupt):
            asc.ContrastiveEmbedding(SPACES, **given).fit(data)


def test_the_first_interrupt_is_noted_and_the_second_ends_the_work(tmp_path):
    with pytest.raises(KeyboardInterrupt), stops_cleanly(tmp_path) as stop:
        assert not stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop() and (tmp_path / ".stop").exists(), "workers learn of it by the file"
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
        raise AssertionError("the second was not heard")
    assert not (tmp_path / ".stop").exists()
    with pytest.raises(KeyboardInterrupt), stops_cleanly(None) as stop:
        os.kill(os.getpid(), signal.SIGINT)
    seen = []
    thread = threading.Thread(target=lambda: [seen.append(stop()) for stop in _entered(stops_cleanly(tmp_path))])
    thread.start()
    thread.join()
    assert seen == [False]


def _entered(context):
    with context as value:
        yield value


def test_one_fit_at_a_time_writes_to_a_folder(data, tmp_path):
    model = asc.ContrastiveEmbedding(SPACES, **{**SMALL, "steps": 2}, checkpoint=tmp_path, random_state=0)
    with only_writer(tmp_path), pytest.raises(ValueError, match="is being written to by process"):
        model.fit(data)
    code = f"""
import os, signal
from ascribo.support.files import only_writer
with only_writer({str(tmp_path)!r}):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    assert (tmp_path / ".lock").exists()
    model.fit(data)  # the lock of a process that is dead does not count
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError(5, "Input/output error")])
def test_a_full_disk_does_not_end_the_training(data, tmp_path, monkeypatch, error):
    given = {**SMALL, "steps": 100, "seeds": 1, "random_state": 0}
    whole = asc.ContrastiveEmbedding(SPACES, **given).fit(data)

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(checkpoints, "save", fail)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    with pytest.warns(UserWarning, match=f"could not be written to .* {error.strerror}.*; training goes on"):
        kept = asc.ContrastiveEmbedding(SPACES, **given, checkpoint=tmp_path).fit(data)
    np.testing.assert_array_equal(kept.transform(data), whole.transform(data))
    assert not list(tmp_path.iterdir())


def test_files_of_others_and_damage_are_named(tmp_path):
    file = tmp_path / checkpoints.DECISIONS
    for content, said in (
        ("{}", "is not a file of ascribo"),
        ("[" * 100_000, "cannot be read"),
        ("x", "cannot be"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=said):
            checkpoints.remember(tmp_path, "seeds", [1])
        assert file.read_text() == content
