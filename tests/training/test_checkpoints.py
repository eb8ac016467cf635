"""Checkpoints are told from other files by what stands in them."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import ascribo as asc
from ascribo.model.fitting import prepare
from ascribo.support.sealed_json import write_sealed
from ascribo.training import checkpoints
from ascribo.training.checkpoints import one_fit, read_checkpoint, remember, remembered, write_checkpoint
from ascribo.training.penalty_weight import Constant
from ascribo.training.recording_batches import RecordingSource
from ascribo.training.settings import Settings
from ascribo.training.steps_eager import EagerSteps

SMALL = dict(steps=2, batch_size=32, penalty=0.0, encoder=asc.MLP((4,)), progress=False, random_state=0)
OURS = {"ascribo": "checkpoint"}


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(observed=1, hidden=1, channels=(3, 3), steps=600)


def test_files_of_others_are_not_removed(data, tmp_path):
    model = asc.ContrastiveEmbedding({"rest": asc.Time(1)}, seeds=2, **SMALL)
    save_file({"a": torch.zeros(1)}, tmp_path / "seeds-of-plants.safetensors")
    (tmp_path / "seeds-7.safetensors").write_bytes(b"mine")
    before = sorted(tmp_path.iterdir())
    model.set_params(checkpoint=tmp_path).fit(data)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("changes", [{"random_state": 1}, {"random_state": None}, {"seeds": 1}])
def test_an_interrupted_fit_of_other_seeds_is_not_ignored(data, tmp_path, changes):
    """Its state would never be used, and stay there when this fit is done."""
    given = {**SMALL, "seeds": 2, "checkpoint": tmp_path}
    kept = [int(seed) for seed in np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=2)]
    for seed in kept:
        save_file({"a": torch.zeros(1)}, tmp_path / f"seeds-{seed}.safetensors", metadata=OURS)
    before = sorted(tmp_path.iterdir())
    for _ in range(2):  # what was refused changes nothing for the next
        with pytest.raises(
            ValueError, match=r"interrupted fit of other seeds .* another random_state, or more seeds"
        ):
            asc.ContrastiveEmbedding({"rest": asc.Time(1)}, **{**given, **changes}).fit(data)
    assert sorted(tmp_path.iterdir()) == before


def test_the_file_of_another_program_is_neither_read_nor_removed(data, tmp_path):
    first = np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=2)[0]
    recordings = {"a": data[:300], "b": data[300:]}
    for file, model, given in (
        (f"seeds-{first}.safetensors", asc.ContrastiveEmbedding({"rest": asc.Time(1)}, seeds=2, **SMALL), data),
        ("sessions.safetensors", asc.SharedEmbedding({"x": asc.Follow("x", 1)}, seeds=1, **SMALL), recordings),
    ):
        for content in ({}, {"done": "1", "fingerprint": "abc"}):
            save_file({"a": torch.zeros(1)}, tmp_path / file, metadata=content)
            with pytest.raises(ValueError, match="is not a checkpoint of ascribo: choose another folder"):
                model.set_params(checkpoint=tmp_path).fit(given)
        (tmp_path / file).write_bytes(b"mine")
        with pytest.raises(ValueError, match="cannot be read"):
            model.fit(given)
        assert (tmp_path / file).read_bytes() == b"mine"


def test_a_checkpoint_that_lacks_something_is_refused_and_changes_nothing(data, tmp_path):
    task, settings = prepare(data, {"rest": asc.Time(1)}).problem, Settings(2, 32, 1e-3, Constant(0.0))
    steps, other = (EagerSteps(RecordingSource([task], [seed]), settings) for seed in (4, 5))
    file = tmp_path / "state.safetensors"
    before = {name: value.detach().clone() for name, value in steps.parameters.items()}
    del steps.optimizer.state[steps.parameters["0.bias"]]["exp_avg"]
    write_checkpoint(file, 0, "", steps.parameters, steps.optimizer, {}, {})
    with pytest.raises(ValueError, match=r"lacks adam\.0\.bias\.exp_avg. Delete it"):
        read_checkpoint(file, "", other.parameters, other.optimizer, ("infonce",), 50)
    assert not torch.equal(other.parameters["0.weight"], before["0.weight"])  # still that of its own seed


@pytest.mark.parametrize("how", ["changed", "without checksum", "with a checksum made anew"])
def test_a_damaged_state_is_refused(data, tmp_path, how):
    task, settings = prepare(data, {"rest": asc.Time(1)}).problem, Settings(2, 32, 1e-3, Constant(0.0))
    steps = EagerSteps(RecordingSource([task], [4]), settings)
    file, curves = tmp_path / "state.safetensors", {"infonce": [np.zeros((2, 1), np.float32)]}
    write_checkpoint(file, 2, "", steps.parameters, steps.optimizer, curves, {})
    again = (steps.parameters, steps.optimizer, ("infonce",), 50)
    assert read_checkpoint(file, "", *again)[0] == 2
    with safe_open(file, "pt") as content:
        facts = content.metadata()
    tensors = load_file(file)
    save_file(tensors, file, metadata=OURS)
    with pytest.raises(ValueError, match="belongs to another model or other data"):
        read_checkpoint(file, "", *again)
    if how == "without checksum":
        facts = {key: value for key, value in facts.items() if key != "checksum"}
    elif how == "changed":
        tensors["parameter.0.weight"].view(-1)[0] += 1
    else:  # the curve has another length
        facts |= {"done": "7"}
        facts |= {"checksum": checkpoints._checksum(facts, tensors)}
    save_file(tensors, file, metadata=facts)
    with pytest.raises(ValueError, match=r"is damaged.*Delete it to start anew"):
        read_checkpoint(file, "", *again)


def test_a_state_of_another_format_is_refused_and_stays(data, tmp_path):
    task, settings = prepare(data, {"rest": asc.Time(1)}).problem, Settings(2, 32, 1e-3, Constant(0.0))
    steps = EagerSteps(RecordingSource([task], [4]), settings)
    file, curves = tmp_path / "state.safetensors", {"infonce": [np.zeros((2, 1), np.float32)]}
    write_checkpoint(file, 2, "", steps.parameters, steps.optimizer, curves, {"format": "2"})
    with pytest.raises(ValueError, match=r"format '2', and this version of ascribo reads format 1: go on with"):
        read_checkpoint(file, "", steps.parameters, steps.optimizer, ("infonce",), 50)
    write_sealed(tmp_path / "fit.json", {**OURS, "format": 2, "1 seeds": [3]})
    with pytest.raises(ValueError, match=r"fit\.json was written in format 2.*or delete the file to start anew"):
        remembered(tmp_path)
    assert file.exists() and (tmp_path / "fit.json").exists()


def test_what_was_decided_is_refused_if_it_was_changed(data, tmp_path):
    remember(tmp_path, "1 seeds", [3])
    file, model = tmp_path / "fit.json", asc.ContrastiveEmbedding({"rest": asc.Time(1)}, seeds=1, **SMALL)
    assert remembered(tmp_path) == {**OURS, "format": 1, "1 seeds": [3]}
    file.write_text(file.read_text().replace("3", "4", 1))
    with pytest.raises(ValueError, match=r"does not match its checksum\. Delete it"):
        remembered(tmp_path)
    file.write_text('{"ascribo": "checkpoint", "1 seeds": [3]}')  # which has none
    with pytest.raises(ValueError, match=r"does not match its checksum\. Delete it"):
        remembered(tmp_path)
    write_sealed(file, {**OURS, "1 seeds": "3"})
    with pytest.raises(ValueError, match="does not say which seeds"):
        model.set_params(checkpoint=tmp_path, random_state=None).fit(data)


def test_what_a_killed_process_was_just_writing_is_removed(tmp_path):
    code = """
import os, sys
from pathlib import Path
import torch
from ascribo.training import checkpoints

def killed(self, content):
    with open(self, "wb") as file:
        file.write(content[: len(content) // 2])
    os._exit(9)

Path.write_bytes = killed
parameters = {"a": torch.zeros(1000)}
file, adam = Path(sys.argv[1]) / "seeds-1.safetensors", torch.optim.Adam(parameters.values())
checkpoints.write_checkpoint(file, 0, "", parameters, adam, {}, {})
"""
    own = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code, tmp_path], env=own, check=False).returncode == 9
    assert len(list(tmp_path.iterdir())) == 1
    with one_fit(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


@pytest.fixture
def soon():
    """Whoever waits for a pipe is woken."""

    def wake(*_):
        raise TimeoutError("it waits for a pipe")

    before = signal.signal(signal.SIGALRM, wake)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_pipe_in_place_of_a_state_is_refused_and_not_waited_for(soon, data, tmp_path, make):
    own = [int(seed) for seed in np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=1)]
    make(tmp_path / "seeds-7.safetensors")  # of others: left alone
    make(state := tmp_path / f"seeds-{own[0]}.safetensors")
    before = sorted(tmp_path.iterdir())
    model = asc.ContrastiveEmbedding({"rest": asc.Time(1)}, seeds=1, checkpoint=tmp_path, **SMALL)
    with pytest.raises(ValueError, match=rf"{state.name} cannot be read .*is not an ordinary file.*Delete it"):
        model.fit(data)
    assert sorted(tmp_path.iterdir()) == before
    checkpoints.discard_checkpoints(before)
    state.unlink()
    model.fit(data)
