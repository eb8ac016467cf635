"""A disk that fails at any moment: the last good state loads, and the error says what happened.

Every write goes through `write_atomically`. The fixture makes the n-th call to the disk fail: half of the bytes are
written, then there is no space (ENOSPC); the disk has an error (EIO) while bytes are written, brought to the disk,
or while the file or its folder gets its new name; or while a file is read. Models, states of fits and the records
of sweeps are tried.
"""

import errno
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch

import ascribo as asc
from ascribo.cli.main import main
from ascribo.model.run_folder import read_run
from ascribo.support.files import write_atomically
from ascribo.training import checkpoints, loop


class Faults:
    """Fails at call number `at`, counted over all calls that write to the disk (or, if they are armed, over those
    that read); `happened` tells whether it came."""

    def __init__(self, patch: pytest.MonkeyPatch):
        self.calls, self.at, self.code, self.reads = 0, None, errno.EIO, False
        for name in ("write_bytes", "write_text"):
            patch.setattr(Path, name, self._short(getattr(Path, name)))
        patch.setattr(os, "fsync", self._failing(lambda handle: None))  # no power is lost here, and it takes long
        patch.setattr(os, "replace", self._failing(os.replace))
        for owner, name in ((Path, "read_bytes"), (checkpoints, "load_file"), (checkpoints, "safe_open")):
            patch.setattr(owner, name, self._failing(getattr(owner, name), reads=True))

    def arm(self, at: int | None, code: int = errno.EIO, *, reads: bool = False) -> None:
        self.calls, self.at, self.code, self.reads = 0, at, code, reads

    @property
    def happened(self) -> bool:
        return self.at is not None and self.calls > self.at

    def _now(self, reads: bool = False) -> bool:
        if reads != self.reads:
            return False
        self.calls += 1
        return self.at is not None and self.calls - 1 == self.at

    def _error(self) -> OSError:
        return OSError(self.code, os.strerror(self.code))

    def _failing(self, function, reads=False):
        def call(*given):
            if self._now(reads):
                raise self._error()
            return function(*given)

        return call

    def _short(self, function):
        def call(*given, **named):
            now = self._now()
            result = function(*given, **named)
            if now:
                path = next(one for one in given if isinstance(one, Path))
                os.truncate(path, path.stat().st_size // 2)
                raise self._error()
            return result

        return call


@pytest.fixture
def faults(monkeypatch):
    return Faults(monkeypatch)


@pytest.fixture(scope="module")
def models():
    """Two models of one shape with other weights, and their recording."""
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=300)
    return data, [make(seed).fit(data) for seed in (0, 1)]


def make(seed=0, **changes):
    spaces = {"position": asc.Follow("x", dim=1), "rest": asc.Time(dim=1)}
    small = {"seeds": 1, "steps": 100, "batch_size": 16, "penalty": 0.0, "encoder": asc.MLP((4,)), "n_jobs": 1}
    return asc.ContrastiveEmbedding(spaces, random_state=seed, progress=False, **{**small, **changes})


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_folder_holds_the_old_model_or_the_new_one(models, faults, tmp_path, code):
    _, (old, new) = models
    digests = [read_run(model.save(tmp_path / f"peace{k}"))[0]["sha256"] for k, model in enumerate((old, new))]
    seen, at = set(), 0
    while True:
        folder = tmp_path / f"run{at}"
        faults.arm(None, code)
        old.save(folder)
        faults.arm(at, code)
        try:
            new.save(folder)
        except OSError as error:
            assert error.errno == code and "could not be written" in str(error) and os.strerror(code) in str(error)
        if not faults.happened:
            break
        facts, _ = read_run(folder)  # whole, by its checksums
        seen.add(facts["sha256"])
        assert asc.load(folder).n_features_in_ == 6
        assert not [file.name for file in folder.iterdir() if file.name.startswith(".")]
        at += 1
    assert at == 8 and seen == set(digests)  # four calls for each of two files
    assert read_run(folder)[0]["sha256"] == digests[1]


def test_a_fit_goes_on_and_ends_with_the_same_bits(models, faults, tmp_path, monkeypatch, code=errno.ENOSPC):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    data, (peace, _) = models
    at = 0
    while True:
        faults.arm(at, code)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = make(checkpoint=tmp_path / f"state{at}").fit(data)
        assert all(np.array_equal(v, model.model_.parameters[k]) for k, v in peace.model_.parameters.items())
        if not faults.happened:
            break
        assert any(
            "could not be written" in str(one.message) and "training goes on" in str(one.message) for one in said
        )
        at += 1
    assert at >= 8


def test_a_state_cut_short_leaves_the_one_before(tmp_path, faults, models, monkeypatch):
    """The second checkpoint fails, and the process is gone: the fit goes on from the first one."""
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    data, (peace, _) = models
    written = []

    def stop_after_two(path, *given):
        written.append(path)
        faults.arm(0 if len(written) == 2 else None, errno.ENOSPC)
        checkpoints.write_checkpoint(path, *given)
        if len(written) == 2:
            raise SystemExit("killed")

    with monkeypatch.context() as patch:
        patch.setattr(loop, "write_checkpoint", stop_after_two)
        with pytest.warns(UserWarning, match="No space left"), pytest.raises(SystemExit):
            make(checkpoint=tmp_path).fit(data)
    with safetensors.torch.safe_open(written[0], "pt") as kept:
        assert kept.metadata()["done"] == "50"
    again = make(checkpoint=tmp_path).fit(data)
    assert all(np.array_equal(v, again.model_.parameters[k]) for k, v in peace.model_.parameters.items())


def test_a_state_that_cannot_be_read_is_said_and_stays(tmp_path, faults, models, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    data, (peace, _) = models
    write = checkpoints.write_checkpoint

    def stop(*given):
        write(*given)
        raise SystemExit("killed")

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(loop, "write_checkpoint", stop)
        make(checkpoint=tmp_path / "state").fit(data)
    (file,) = (tmp_path / "state").glob("seeds-*")
    kept, at, refused = file.read_bytes(), 0, 0
    while True:
        checkpoints.remember(tmp_path / "state", "1 seeds", [1])  # what was decided is read, too
        faults.arm(at, reads=True)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                again = make(checkpoint=tmp_path / "state").fit(data)
                assert all(
                    np.array_equal(v, again.model_.parameters[k]) for k, v in peace.model_.parameters.items()
                )
            except ValueError as error:
                assert "cannot be read" in str(error) and "Input/output error" in str(error)
                faults.arm(None)
                assert file.read_bytes() == kept, "it can be tried again"
                refused, at = refused + 1, at + 1
                continue
        if not faults.happened:
            break
        faults.arm(None)
        file.write_bytes(kept)
        at += 1
    # its tensors and its facts are read; then it is done, and what was decided is tidied up
    assert refused == 2 and at >= 4 and not said


GRID = {"penalty": [0.0, 0.1]}


@pytest.fixture(scope="module")
def swept(tmp_path_factory, quick_unique_variance):
    """A file, and the sweep of it in peace."""
    folder = tmp_path_factory.mktemp("swept")
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=300)
    np.savez(folder / "rat.npz", X=data.X, x=data.variables["x"])
    return folder / "rat.npz", asc.sweep(folder / "rat.npz", make(steps=50), folder / "out", progress=False)


def sweep(file, out, **more):
    return asc.sweep(file, make(steps=50), out, progress=False, **more)


def outcome(found):
    """What must not differ: weights and records of all cells, but for seconds, and notes of what happened."""
    records = [json.loads((Path(run) / "cell.json").read_text()) for run in sorted(found.cells()["run"])]
    weights = [read_run(run)[0]["sha256"] for run in sorted(found.cells()["run"])]
    return weights, [{k: v for k, v in one.items() if k not in ("seconds", "notes", "checksum")} for one in records]


def test_a_sweep_goes_on_after_a_disk_that_failed(faults, swept, tmp_path):
    """Fingerprints, plan, model, map, record and table: each write fails, in each of its four calls."""
    (file, peace), at, said = swept, 0, []
    while True:
        out, code = tmp_path / f"out{at}", (errno.ENOSPC, errno.EIO)[at % 2]
        faults.arm(at, code)
        try:
            found = sweep(file, out)
            notes = [note for done in out.glob("*/cell.json") for note in json.loads(done.read_text())["notes"]]
            failed = [json.loads(one.read_text())["error"] for one in out.glob("*/failed.json")]
            assert found.cells()["state"][0] == "done" or failed
            said.append(" ".join([*notes, *failed]))  # a record may be whole, though the disk failed after that
        except OSError as error:
            said.append(str(error))
        if not faults.happened:
            break
        told = "could not be written" in said[-1] or "could not be kept" in said[-1]  # decoders that are done
        assert told and os.strerror(code) in said[-1], said[-1]
        faults.arm(None)
        assert outcome(sweep(file, out)) == outcome(peace)
        assert not [path.name for path in out.rglob(".*") if path.name != ".fingerprints.json"]
        at += 1
    names = (".fingerprints.json", "sweep.json", "model-", "model.json", "map.nc", "cell.json", "results.csv")
    assert all(any(name in one for one in said) for name in names) and at >= 4 * len(names) - 2


def test_a_plan_is_the_old_one_or_the_new_one(faults, swept, tmp_path):
    (file, peace), sizes = swept, []
    for at in range(4):
        out = shutil.copytree(peace.folder, tmp_path / f"out{at}")
        faults.arm(at, (errno.ENOSPC, errno.EIO)[at % 2])
        with pytest.raises(OSError, match=r"sweep\.json could not be written"):
            sweep(file, out, grid=GRID)
        faults.arm(None)
        found = asc.Sweep(out)
        sizes.append(len(found.cells()))
        assert found.cells()["state"][0] == "done" and not list(out.glob(".sweep.json*"))
    assert sizes == [1, 1, 1, 2]  # the last call brings the folder to the disk, when the new plan is in its place


def test_a_sweep_whose_files_cannot_be_read_is_computed_or_refused(faults, swept, tmp_path):
    (file, peace), at = swept, 0
    out = shutil.copytree(peace.folder, tmp_path / "out")
    while True:
        faults.arm(at, reads=True)
        try:
            found = sweep(file, out)
            error = found.cells()["error"][0]
            assert error is None or "Input/output error" in error
            assert len(found.calls()) == 12 and found.model("rat").n_features_in_ == 6
        except (OSError, ValueError) as error:
            assert "Input/output error" in str(error)
        if not faults.happened:
            break
        faults.arm(None)
        assert outcome(sweep(file, out)) == outcome(peace)
        at += 1
    assert at >= 6


def test_the_command_line_says_it_in_one_sentence(faults, tmp_path, capsys, monkeypatch):
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=300)
    np.savez(tmp_path / "a.npz", X=data.X, x=data.variables["x"])
    words = [
        "fit",
        str(tmp_path / "a.npz"),
        "--follow",
        "a=x:1",
        "--seeds",
        "1",
        "--steps",
        "50",
        "--batch-size",
        "16",
    ]
    (tmp_path / "sweep.toml").write_text('sessions = "a.npz"\n[spaces]\nfollow = ["a=x:1"]')
    for command in ([*words, "--jobs", "1", "--out", "run"], ["sweep", "sweep.toml", "--out", "run"]):
        monkeypatch.chdir(tmp_path)
        faults.arm(0, errno.ENOSPC)
        assert main([*command, "--quiet"]) == 1
        said = capsys.readouterr().err
        assert "No space left on device" in said and "Traceback" not in said and "should not have" not in said
        assert "run/.checkpoint/fit.json could not be written" in said


def test_a_full_disk_is_named_with_its_place(tmp_path, monkeypatch, capsys):
    """Also where the error is none of ours."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "a"))

    monkeypatch.setattr("ascribo.cli.commands.info", full)
    assert main(["info", "run"]) == 1 and f"error: {tmp_path / 'a'}: No space left" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_maps_that_find_no_room_are_an_error_and_no_crash(tmp_path):
    """HDF5 has ended the whole process when it could not write the last of a file."""
    code = f"""
import resource, signal, sys
import ascribo as asc

data = asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=300)
model = asc.ContrastiveEmbedding({{"rest": asc.Time(1)}}, seeds=1, steps=5, penalty=0.0, progress=False).fit(data)
model.model_.usable[:] = True  # five steps may leave it at chance
maps = model.attribute(data, method="neuron_gradient")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for room in (0, 100, 3000, 8000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    try:
        maps.to_netcdf({str(tmp_path / "map.nc")!r})
    except OSError as error:
        print("refused:", error)
"""
    own = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=own, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.count("refused:") == 4, (done.returncode, done.stdout, done.stderr)
    assert not list(tmp_path.iterdir())


def test_an_error_without_a_number_is_left_as_it_is(tmp_path):
    def fails(path):
        raise OSError("the encoder of the file is gone")

    with pytest.raises(OSError, match=r"^the encoder of the file is gone$"):
        write_atomically(tmp_path / "a", fails)
