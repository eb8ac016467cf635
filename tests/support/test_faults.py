"""A disk that fails at any moment: the last good state loads, and the error says what happened.

Every write goes through `write_atomically`. The fixture makes the n-th call to the disk fail: half of the bytes are
written, then there is no space (ENOSPC); the disk has an error (EIO) while bytes are written, brought to the disk,
or while the file or its folder gets its new name.
"""

import errno
import os
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
    """Fails at call number `at`, counted over all calls that touch the disk; `happened` tells whether it came."""

    def __init__(self, patch: pytest.MonkeyPatch):
        self.calls, self.at, self.code = 0, None, errno.EIO
        for owner, name in ((Path, "write_bytes"), (Path, "write_text"), (checkpoints, "save_file")):
            patch.setattr(owner, name, self._short(getattr(owner, name)))
        for name in ("fsync", "replace"):
            patch.setattr(os, name, self._failing(getattr(os, name)))

    def arm(self, at: int | None, code: int) -> None:
        self.calls, self.at, self.code = 0, at, code

    @property
    def happened(self) -> bool:
        return self.at is not None and self.calls > self.at

    def _now(self) -> bool:
        self.calls += 1
        return self.at is not None and self.calls - 1 == self.at

    def _error(self) -> OSError:
        return OSError(self.code, os.strerror(self.code))

    def _failing(self, function):
        def call(*given):
            if self._now():
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
    return asc.ContrastiveEmbedding(spaces, random_state=seed, progress=False, **small, **changes)


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


def test_the_command_line_says_it_in_one_sentence(faults, tmp_path, capsys):
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
    faults.arm(0, errno.ENOSPC)
    assert main([*words, "--jobs", "1", "--quiet", "--out", str(tmp_path / "run")]) == 1
    said = capsys.readouterr().err
    assert "No space left on device" in said and "Traceback" not in said and "should not have" not in said


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
