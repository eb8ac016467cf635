"""Models on disk: the same bits back, never half, never code."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from torch import nn

import ascribo as asc
from ascribo.model import run_folder
from ascribo.support import stored_parameters as records
from ascribo.support.files import only_writer
from ascribo.support.sealed_json import seal


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
        samples = 20 if "samples" in asc.attribution.METHODS[method].takes else None
        one, other = (m.attribute(data, method=method, samples=samples) for m in (model, back))
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


def change(folder, **facts):
    """Change what a model.json says, with the checksum that goes with it."""
    known = {**json.loads((folder / "model.json").read_text()), **facts}
    (folder / "model.json").write_text(json.dumps(seal(known)))
    return known


def test_a_run_cannot_name_code_or_files_elsewhere(model, tmp_path):
    model.save(tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "model.json").read_text())
    evil = {"type": "os.system", "command": "true"}
    change(tmp_path / "run", parameters={**facts["parameters"], "encoder": evil})
    with pytest.raises(ValueError, match="unknown"):
        asc.load(tmp_path / "run")
    (tmp_path / "secret.safetensors").write_bytes(b"")
    change(tmp_path / "run", tensors="../secret.safetensors")
    with pytest.raises(ValueError, match="half-written"):
        asc.load(tmp_path / "run")


def test_a_change_of_model_json_is_seen(model, tmp_path):
    model.save(tmp_path)
    text = (tmp_path / "model.json").read_text()
    assert '"channel0"' in text
    (tmp_path / "model.json").write_text(text.replace('"channel0"', '"channel00"'))
    with pytest.raises(ValueError, match="does not match its checksum"):
        asc.load(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps(json.loads(text)))  # other white space is the same model
    asc.load(tmp_path)


@pytest.mark.parametrize("older", [2, 3])
def test_a_folder_cannot_be_made_an_older_one_that_has_no_checksum(model, data, tmp_path, older):
    model.save(tmp_path / "run")
    tiny_sessions(data).save(tmp_path / "both")
    for folder in (tmp_path / "run", tmp_path / "both", tmp_path / "both/session-1"):
        text = (folder / "model.json").read_text()
        facts = {**json.loads(text.replace('"channel0"', '"channel00"')), "format": older}
        facts = seal(facts) if older == 3 else {key: value for key, value in facts.items() if key != "checksum"}
        (folder / "model.json").write_text(json.dumps(facts))
        with pytest.raises(ValueError, match=rf"that says format {older}, and model-.* format 4"):
            asc.load(folder.parent if folder.name == "session-1" else folder)
        (folder / "model.json").write_text(text)
    asc.load(tmp_path / "run"), asc.load(tmp_path / "both")


@pytest.mark.parametrize(
    "key, value",
    [
        *[
            ("spaces", 3),
            ("channels", None),
            ("alignment_reference", "x"),
            ("parameters", []),
            ("random_state", [1]),
        ],
        *[
            ("objectives", {"a": 1}),
            ("goodness_of_fit", 1),
            ("tensors", 5),
            ("format", [1]),
            ("treatment", {"a": 1}),
        ],
    ],
)
def test_odd_values_are_damage_and_say_so(model, tmp_path, key, value):
    model.save(tmp_path)
    change(tmp_path, **{key: value})
    with pytest.raises(ValueError, match=r"damaged|format|unknown|cannot be loaded|expected"):
        asc.load(tmp_path)


def test_missing_keys_and_deep_lists_are_damage(model, tmp_path):
    model.save(tmp_path)
    facts = json.loads((tmp_path / "model.json").read_text())
    for key in facts:
        rest = {k: v for k, v in facts.items() if k not in (key, "checksum")}
        (tmp_path / "model.json").write_text(json.dumps(rest if key == "checksum" else seal(rest)))
        if key in ("ascribo", "data", "kind", "spent"):  # nothing depends on them
            continue
        with pytest.raises(ValueError, match="damaged"):
            asc.load(tmp_path)
    (tmp_path / "model.json").write_text('{"format": 3, "tensors": ' + "[" * 50_000 + "]" * 50_000 + "}")
    with pytest.raises(ValueError, match="damaged"):
        asc.load(tmp_path)


def test_numbers_that_are_none_are_refused(model, tmp_path):
    model.save(tmp_path)
    facts, tensors = run_folder.read_run(tmp_path)
    tensors["mean"][0] = float("nan")
    run_folder.write_run(tmp_path, facts, tensors)
    with pytest.raises(ValueError, match="holds NaN or infinity in mean"):
        asc.load(tmp_path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
@pytest.mark.parametrize("name", ["model.json", "tensors"])
def test_a_link_to_an_endless_file_is_not_read(model, tmp_path, name):
    model.save(tmp_path)
    file = tmp_path / "model.json" if name == "model.json" else next(tmp_path.glob("*.safetensors"))
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="not an ordinary file"):
        asc.load(tmp_path)


@pytest.fixture
def no_tensors_are_read(monkeypatch):
    read = Path.read_bytes
    monkeypatch.setattr(
        Path, "read_bytes", lambda file: read(file) if file.suffix == ".json" else pytest.fail(f"{file} was read")
    )


@pytest.mark.skipif(sys.platform != "linux", reason="needs files with holes")
def test_a_file_of_tensors_that_is_longer_than_it_says_is_not_read(model, tmp_path, no_tensors_are_read):
    folder = model.save(tmp_path / "run")
    (file,) = folder.glob("*.safetensors")
    size = file.stat().st_size
    os.truncate(file, 300 * 2**30)
    with pytest.raises(ValueError, match=rf"has 322,122,547,200 bytes; expected {size:,} at most"):
        asc.load(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="needs files with holes")
@pytest.mark.parametrize(
    ("header", "said"),
    [
        ('{"a": {"dtype": "F32", "shape": [5], "data_offsets": [0, %d]}}', r"its tensors would take [\d.]+ GB"),
        ('{"a": {"dtype": "F32", "shape": [5], "data_offsets": [0, NaN]}, "b": %d}', "header cannot be read"),
        ("[%d]", "header cannot be read"),
        ("{%d", "header cannot be read"),
    ],
)
def test_what_a_file_of_tensors_says_of_its_size_has_limits(model, tmp_path, no_tensors_are_read, header, said):
    folder = model.save(tmp_path / "run")
    (file,) = folder.glob("*.safetensors")
    text = (header % 2**45).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(file, 2**42)
    with pytest.raises(ValueError, match=said) as refused:
        asc.load(folder)
    assert file.name in str(refused.value)


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


def test_tensors_hold_no_pickle(model, tmp_path):
    model.save(tmp_path)
    from safetensors.torch import load_file

    tensors = load_file(next(tmp_path.glob("*.safetensors")))
    assert all(isinstance(value, torch.Tensor) for value in tensors.values())


# What is a user's own


def tiny(spaces=None, **changes):
    """An estimator that is fitted in no time."""
    options = dict(seeds=1, steps=2, batch_size=64, penalty=0.0, encoder=asc.MLP((4,)), progress=False)
    return asc.ContrastiveEmbedding(spaces or {"rest": asc.Time(1)}, **{**options, **changes})


def tiny_sessions(data, spaces=None):
    """Two halves of a recording as two sessions."""
    options = tiny(spaces or {"x": asc.Follow("x", 1)}, batch_size=32).get_params(deep=False)
    del options["n_jobs"], options["memory"]  # those are of one recording
    return asc.SharedEmbedding(**options).fit({"a": data[:700], "b": data[700:]})


LABORATORY = """
from dataclasses import dataclass
import torch
from torch import nn
import ascribo as asc
from ascribo.spaces.similarities import SquaredL2

@dataclass(frozen=True)
class MLP:
    "Called like one of ascribo's and not the same: its outputs are ten times as large."
    widths: tuple = (4,)
    limit: str = "hard"
    scale: float = 5.0

    def build(self, channels, dim):
        return nn.Sequential(nn.Linear(channels, dim), Ten())

class Ten(nn.Module):
    def forward(self, h):
        return 10 * h

@dataclass(frozen=True)
class Halved(SquaredL2):
    factor: float = 0.5

@dataclass(frozen=True)
class Late(asc.Ramp):
    pass
"""


@pytest.fixture
def laboratory(tmp_path, monkeypatch):
    """A module of the user's, imported; its classes are not registered."""
    monkeypatch.setattr(records, "REGISTERED", dict(records.REGISTERED))
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "my_laboratory.py").write_text(LABORATORY)
    monkeypatch.syspath_prepend(tmp_path / "code")
    yield importlib.import_module("my_laboratory")
    sys.modules.pop("my_laboratory", None)


def test_what_is_not_registered_is_refused_before_anything_is_written(data, tmp_path, laboratory):
    folder = tmp_path / "run"
    for changes, where in (
        ({"encoder": laboratory.MLP()}, "encoder"),
        ({"penalty": laboratory.Late(0.1)}, "penalty"),
        ({"spaces": {"rest": asc.Time(1, similarity=laboratory.Halved())}}, r"spaces\['rest'\]\.similarity"),
    ):
        fitted = tiny(**changes).fit(data)
        with pytest.raises(ValueError, match=rf"{where} cannot be saved: .*my_laboratory.*ascribo\.storable"):
            fitted.save(folder)
    shared = tiny_sessions(data, {"x": asc.Follow("x", 1, similarity=laboratory.Halved())})
    with pytest.raises(ValueError, match="similarity cannot be saved"):
        shared.save(folder)
    assert not folder.exists()


def test_what_is_registered_comes_back_where_its_module_was_imported(data, tmp_path, laboratory, monkeypatch):
    for cls in (laboratory.MLP, laboratory.Halved, laboratory.Late):
        asc.storable(cls)
    spaces = {"rest": asc.Time(1, similarity=laboratory.Halved(0.25))}
    fitted = tiny(spaces, encoder=laboratory.MLP(), penalty=laboratory.Late(0.1)).fit(data)
    fitted.save(tmp_path / "run")
    back = asc.load(tmp_path / "run")
    assert type(back.encoder) is laboratory.MLP and back.spaces == spaces and back.penalty == fitted.penalty
    np.testing.assert_array_equal(back.transform(data), fitted.transform(data))
    for name in [name for name in records.REGISTERED if name.startswith("my_laboratory:")]:  # in a new process
        del records.REGISTERED[name]
    monkeypatch.delitem(sys.modules, "my_laboratory")
    with pytest.raises(ValueError, match="import my_laboratory, where the class is registered"):
        asc.load(tmp_path / "run")
    assert "my_laboratory" not in sys.modules


# What comes back of the parameters


def test_devices_and_seeds_come_back_as_something_that_works(data, tmp_path):
    fitted = tiny(device=torch.device("cpu"), random_state=np.int64(3)).fit(data)
    fitted.save(tmp_path)
    back = asc.load(tmp_path)
    assert back.device == "cpu" and back.random_state == 3 and type(back.random_state) is int
    np.testing.assert_array_equal(back.transform(data), fitted.transform(data))
    np.testing.assert_array_equal(back.fit(data).transform(data), fitted.transform(data))


def test_a_random_state_that_has_moved_on_comes_back_as_none(data, tmp_path):
    tiny(random_state=np.random.RandomState(0)).fit(data).save(tmp_path)
    assert asc.load(tmp_path).random_state is None


# Files


def test_a_folder_that_another_process_writes_to_is_refused(model, tmp_path):
    code = (
        "import sys; from ascribo.support.files import only_writer; lock = only_writer(sys.argv[1]);"
        "lock.__enter__(); print('held', flush=True); sys.stdin.read()"
    )
    own = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": own}
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "run"], **given) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match=rf"is being written to by process {other.pid} on"):
            model.save(tmp_path / "run")
        assert not (tmp_path / "run/model.json").exists()
        other.stdin.close()
    with only_writer(tmp_path / "run"):
        model.save(tmp_path / "run")
    assert sorted(file.suffix for file in (tmp_path / "run").iterdir()) == [".json", ".safetensors"]


def test_files_of_others_are_left_alone(data, tmp_path):
    strange = {name: b"mine" for name in ("model-final.safetensors", "model-0123456789ab.safetensors", "a.json")}
    for name, content in strange.items():
        (tmp_path / name).write_bytes(content)
    for seed in (0, 1):
        tiny(random_state=seed).fit(data).save(tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in strange} == strange
    assert len(list(tmp_path.iterdir())) == len(strange) + 2


@pytest.mark.parametrize("content", ['{"layers": 3}', '{"tensors": "a.bin", "format": 2}', "[1]", "not JSON", ""])
def test_a_folder_with_a_model_json_of_others_is_refused(model, tmp_path, content):
    (tmp_path / "model.json").write_text(content)
    with pytest.raises(ValueError, match=r"model\.json that ascribo did not write"):
        model.save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"] and (
        tmp_path / "model.json"
    ).read_text() == content


def test_sessions_are_not_saved_over_the_files_of_others(data, tmp_path):
    shared = tiny_sessions(data)
    (tmp_path / "session-1").mkdir()
    (tmp_path / "session-1" / "model.json").write_text("mine")
    with pytest.raises(ValueError, match=r"session-1: it holds a model\.json that ascribo did not write"):
        shared.save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["session-1"]


def test_sessions_of_a_larger_model_do_not_stay_behind(data, tmp_path):
    shared = tiny_sessions(data)
    shared.save(tmp_path)
    for k, extra in ((2, "notes.txt"), (3, None)):
        shutil.copytree(tmp_path / "session-1", tmp_path / f"session-{k}")
        if extra:
            (tmp_path / f"session-{k}" / extra).write_text("mine")
    shared.save(tmp_path)
    left = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.glob("session-[23]/**/*"))
    assert left == ["session-2/notes.txt"] and not (tmp_path / "session-3").exists()
    assert list(asc.load(tmp_path).sessions_) == list(shared.sessions_)


def test_an_older_format_is_named(model, tmp_path):
    model.save(tmp_path)
    facts = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**facts, "format": 1}))
    with pytest.raises(ValueError, match=r"written in format 1 by ascribo .* fit and save the model again"):
        asc.load(tmp_path)
    model.save(tmp_path)  # a model of ours, if an old one
    assert asc.load(tmp_path).seeds == 2 and len(list(tmp_path.iterdir())) == 2


def test_every_file_is_read_once(data, tmp_path, monkeypatch):
    tiny_sessions(data).save(tmp_path / "both")
    tiny().fit(data).save(tmp_path / "one")
    opened, read = [], Path.open

    def counted(path, *given, **options):
        opened.append(path)
        return read(path, *given, **options)

    monkeypatch.setattr(Path, "open", counted)
    for name, files in (("one", 2), ("both", 6)):
        opened.clear()
        asc.load(tmp_path / name)
        assert len(opened) == len(set(opened)) == files
