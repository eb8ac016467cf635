"""Cells that train as one stack: each is a run folder of its own all the same, and a bad one fails alone."""

import json
from importlib import import_module

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.sweeps import cells
from ascribo.training import dispatch

SPACES = {"position": asc.Follow("x", dim=1), "rest": asc.Time(dim=1)}
GRID = {"penalty": [0.0, 0.1]}


def model(**changes):
    given = {
        "seeds": 2,
        "steps": 60,
        "batch_size": 32,
        "encoder": asc.MLP((8,)),
        "device": "cpu",
        "random_state": 0,
    }
    return asc.ContrastiveEmbedding(SPACES, **{**given, **changes})


def recording(seed, channels=(3, 3)):
    return asc.simulate.box(seed, observed=1, hidden=1, channels=channels, steps=300)


@pytest.fixture
def trained(monkeypatch):
    """How many models trained in each stack, in stacks as on a GPU."""
    monkeypatch.setattr(dispatch, "_as_graphs", lambda device: True)
    sizes, train = [], dispatch._train_stack
    monkeypatch.setattr(
        dispatch, "_train_stack", lambda problems, *rest: sizes.append(len(problems)) or train(problems, *rest)
    )
    return sizes


def records(found):
    return [json.loads(file.read_text()) for file in sorted(found.folder.glob("*/cell.json"))]


def test_cells_of_one_shape_train_as_one_stack(trained, tmp_path):
    sessions = {"a": recording(0), "b": recording(1), "wide": recording(2, (4, 5))}
    found = asc.sweep(sessions, model(), tmp_path, grid=GRID, stack=10, progress=False)
    assert sorted(trained) == [4, 8]  # two seeds of each: two penalties of the wide one, and all others
    assert repr(found) == "Sweep(6 cells: 6 done)" and not list(tmp_path.glob("*/.*"))
    assert all(len(record["stack"]) == 6 and record["digest"] in record["stack"] for record in records(found))
    for session in sessions:
        for penalty in GRID["penalty"]:
            own = found.model(session, penalty=penalty)
            assert own.history_.sizes["step"] == 60 and own.spent_["steps"] == [60, 60]
            assert own.history_.attrs["lambda"] == [penalty] * 2 and own.penalty == penalty
            assert found.maps(session, penalty=penalty) is not None


def test_a_worker_has_so_many_at_most(trained, tmp_path):
    sessions = {name: recording(k) for k, name in enumerate("abc")}
    asc.sweep(sessions, model(), tmp_path, stack=2, progress=False)
    assert sorted(trained) == [2, 4] or sorted(trained) == [1, 1, 4]


def test_a_bad_session_fails_alone_and_keeps_none_from_training(trained, tmp_path):
    still = asc.Recording(np.ones((300, 6)), {"x": np.arange(300.0)})
    sessions = {"a": recording(0), "still": still, "b": recording(1)}
    found = asc.sweep(sessions, model(), tmp_path, stack=3, progress=False)
    assert trained == [4]
    table = found.cells().set_index("session")
    assert table["state"].to_dict() == {"a": "done", "still": "failed", "b": "done"}
    assert "constant" in table["error"]["still"]


def test_what_was_trained_together_is_not_trained_again(trained, tmp_path, monkeypatch):
    """A worker that is lost after the training leaves the models, and the next one goes on with their maps."""
    sessions = {"a": recording(0), "b": recording(1)}
    with monkeypatch.context() as patch:
        patch.setattr(cells, "_attribute", lambda *_: 1 / 0)
        lost = asc.sweep(sessions, model(), tmp_path, stack=2, progress=False)
    assert repr(lost) == "Sweep(2 cells: 2 failed)" and trained == [4]
    assert repr(asc.sweep(sessions, model(), tmp_path, stack=2, progress=False)) == "Sweep(2 cells: 2 done)"
    assert trained == [4] and [len(record["stack"]) for record in records(lost)] == [2, 2]


def test_on_a_cpu_it_changes_nothing_but_rounding(tmp_path):
    sessions = {"a": recording(0), "b": recording(1)}
    alone = asc.sweep(sessions, model(early_stop=None), tmp_path / "alone", progress=False)
    stacked = asc.sweep(sessions, model(early_stop=None), tmp_path / "stacked", stack=2, progress=False)
    for session in sessions:
        one, other = (found.model(session).model_.parameters for found in (alone, stacked))
        for name, value in one.items():
            np.testing.assert_allclose(other[name], value, rtol=1e-3, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_stacks_on_a_gpu(tmp_path):
    """Cells trained as one stack of CUDA graphs: the calls of cells trained alone, and nothing computed twice."""
    sessions = {name: asc.simulate.box(k, observed=1, hidden=1, steps=3000) for k, name in enumerate("abc")}
    changes = {"device": "cuda", "steps": 500, "batch_size": 512, "encoder": asc.MLP((48, 48))}
    alone = asc.sweep(sessions, model(**changes), tmp_path / "alone", grid=GRID, stack=1, progress=False)
    stacked = asc.sweep(sessions, model(**changes), tmp_path / "stacked", grid=GRID, progress=False)
    assert repr(stacked) == "Sweep(6 cells: 6 done)" and all(len(own["stack"]) == 6 for own in records(stacked))
    one, other = (found.calls().query("space == 'position'") for found in (alone, stacked))
    np.testing.assert_array_equal(one["called"].to_numpy(), other["called"].to_numpy())
    bits = [found.table()["bits"].to_numpy() for found in (alone, stacked)]
    assert (np.abs(bits[0] - bits[1]) < 0.35).all() and (bits[1] > 0.5).all(), bits
    before = {file: file.stat().st_mtime_ns for file in stacked.folder.glob("*/model.json")}
    asc.sweep(sessions, model(**changes), tmp_path / "stacked", grid=GRID, stack=6, progress=False)
    assert before == {file: file.stat().st_mtime_ns for file in stacked.folder.glob("*/model.json")}


@pytest.mark.parametrize(
    ("changes", "gpu", "most"),
    [
        ({"device": "auto"}, True, 16),
        ({"device": "auto"}, False, 1),
        ({"device": "cuda:1"}, False, 16),  # the workers have one
        ({"device": "cpu"}, True, 1),
        ({"device": "cuda", "steps": "auto"}, True, 1),
        ({"device": "cuda", "memory": "1GB"}, True, 1),
    ],
)
def test_workers_with_a_gpu_get_stacks(changes, gpu, most, tmp_path, monkeypatch):
    class Handed(Exception):
        pass

    handed = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(
        import_module("ascribo.sweeps.sweep"),
        "make_stacks",
        lambda cells, most: handed.append(most) or (_ for _ in ()).throw(Handed),
    )
    with pytest.raises(Handed):
        asc.sweep({"a": recording(0), "b": recording(1)}, model(**changes), tmp_path, progress=False)
    assert handed == [most]


@pytest.mark.parametrize(
    ("changes", "stack", "said"),
    [
        ({"steps": "auto"}, 2, "take the same steps; the model has steps='auto'"),
        ({"seeds": "auto"}, 2, "seeds='auto'"),
        ({}, 0, "expected how many cells to train together"),
    ],
)
def test_what_cannot_be_stacked_is_refused_first(changes, stack, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        asc.sweep({"a": recording(0)}, model(**changes), tmp_path / "out", stack=stack)
