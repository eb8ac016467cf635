"""Models on disk: the same bits back, never half, never code."""

import json
import os

import numpy as np
import pytest
import torch
import xarray as xr
from torch import nn

import ascribo as asc
from ascribo.model import store


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(observed=2, hidden=1, channels=(5, 5), steps=1500)


@pytest.fixture(scope="module")
def model(data):
    spaces = {
        "position": asc.Follow(["x", "y"], 2, similarity=asc.Lp(3), temperature="learn"),
        "speed": asc.Regress("x"),
        "rest": asc.Time(1, offsets=(1, 2)),
    }
    return asc.ContrastiveEmbedding(
        spaces, seeds=2, steps=60, batch_size=64, encoder=asc.MLP((16,)), penalty=asc.Ramp(0.1), random_state=1,
        progress=False,
    ).fit(data)  # fmt: skip


def test_everything_comes_back(model, data, tmp_path, quick_unique_variance):
    model.save(tmp_path / "run")
    back = asc.load(tmp_path / "run")
    np.testing.assert_array_equal(back.transform(data), model.transform(data))
    for method in asc.attribution.METHODS:
        one, other = (m.attribute(data, method=method, samples=20) for m in (model, back))
        xr.testing.assert_identical(one.by_space, other.by_space)
    assert back.score(data) == model.score(data)
    assert back.spaces == model.spaces and back.penalty == model.penalty and back.encoder == model.encoder
    xr.testing.assert_identical(back.history_, model.history_)
    assert back.goodness_of_fit_.equals(model.goodness_of_fit_.astype(back.goodness_of_fit_.dtypes))
    assert list(back.get_feature_names_out()) == list(model.get_feature_names_out())
    assert sorted(p.suffix for p in (tmp_path / "run").iterdir()) == [".json", ".safetensors"]


def test_saving_twice_leaves_one_model(model, data, tmp_path):
    model.save(tmp_path)
    other = asc.ContrastiveEmbedding(seeds=1, steps=2, batch_size=64, random_state=0, progress=False).fit(data)
    other.save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    np.testing.assert_array_equal(asc.load(tmp_path).transform(data), other.transform(data))


def test_an_interrupted_save_keeps_the_old_model(model, data, tmp_path, monkeypatch):
    model.save(tmp_path)
    replace = os.replace

    def fails(source, target):
        if str(target).endswith("model.json"):
            raise OSError("disk full")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails)
    other = asc.ContrastiveEmbedding(seeds=1, steps=2, batch_size=64, progress=False).fit(data)
    with pytest.raises(OSError, match="disk full"):
        other.save(tmp_path)
    monkeypatch.undo()
    np.testing.assert_array_equal(asc.load(tmp_path).transform(data), model.transform(data))
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")], "no temporary files are left"


def test_damaged_folders_are_refused_with_a_reason(model, tmp_path):
    with pytest.raises(ValueError, match="no such folder"):
        asc.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no model\.json"):
        asc.load(tmp_path)
    model.save(tmp_path)
    tensors = next(tmp_path.glob("*.safetensors"))
    data = tensors.read_bytes()
    tensors.write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="damaged"):
        asc.load(tmp_path)
    tensors.unlink()
    with pytest.raises(ValueError, match="half-written"):
        asc.load(tmp_path)
    (tmp_path / "model.json").write_text('{"format": 1, "tens')
    with pytest.raises(ValueError, match="damaged"):
        asc.load(tmp_path)
    (tmp_path / "model.json").write_text('{"format": 99, "tensors": "x"}')
    with pytest.raises(ValueError, match="format 99"):
        asc.load(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="it is a file"):
        model.save(tmp_path / "file")


def test_a_run_cannot_name_code_or_files_elsewhere(model, tmp_path):
    model.save(tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "model.json").read_text())
    facts["parameters"]["encoder"] = {"type": "os.system", "command": "true"}
    (tmp_path / "run" / "model.json").write_text(json.dumps(facts))
    with pytest.raises(ValueError, match="unknown"):
        asc.load(tmp_path / "run")
    facts["tensors"] = "../secret.safetensors"
    (tmp_path / "secret.safetensors").write_bytes(b"")
    (tmp_path / "run" / "model.json").write_text(json.dumps(facts))
    with pytest.raises(ValueError, match="half-written"):
        asc.load(tmp_path / "run")


def test_own_encoder_is_asked_for(data, tmp_path):
    mine = nn.Linear(10, 4)
    model = asc.ContrastiveEmbedding(
        {"rest": asc.Time(4)}, encoder=mine, seeds=1, steps=5, batch_size=64, progress=False
    ).fit(data)
    model.save(tmp_path)
    with pytest.raises(ValueError, match="encoder of your own"):
        asc.load(tmp_path)
    with pytest.raises(ValueError, match="do not fit"):
        asc.load(tmp_path, encoder=nn.Sequential(nn.Linear(10, 4)))
    back = asc.load(tmp_path, encoder=nn.Linear(10, 4))
    np.testing.assert_array_equal(back.transform(data), model.transform(data))


def test_atomic_write_leaves_nothing_on_failure(tmp_path):
    def fails(path):
        path.write_text("half")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        store.write_atomically(tmp_path / "a.txt", fails)
    assert not list(tmp_path.iterdir())


def test_tensors_hold_no_pickle(model, tmp_path):
    model.save(tmp_path)
    from safetensors.torch import load_file

    tensors = load_file(next(tmp_path.glob("*.safetensors")))
    assert all(isinstance(value, torch.Tensor) for value in tensors.values())
