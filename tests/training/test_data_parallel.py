"""One fit over two processes of torchrun (gloo): the losses of one process, and nothing lost with a process."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from ascribo.training import data_parallel

torchrun = pytest.mark.skipif(
    not torch.distributed.is_available() or sys.platform != "linux", reason="torch has no gloo here"
)

SCRIPT = Path(__file__).parents[2] / "scripts/two_processes.py"

FIT = """
import sys, json, os, torch
import numpy as np
import ascribo as asc
from ascribo.training import loop

loop.CHECKPOINT_SECONDS = 0.0
torch.set_num_threads(1)
out, steps, checkpoint = sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None
data = asc.simulate.box(0, observed=2, hidden=1, channels=(4, 4), steps=1500)
spaces = {"position": asc.Follow(["x", "y"], dim=2), "speed": asc.Regress("x"), "rest": asc.Time(dim=1)}
model = asc.ContrastiveEmbedding(
    spaces, encoder=asc.MLP((32, 32)), steps=steps, batch_size=64, penalty=0.1, early_stop=None,
    device="cpu", random_state=0, seeds=2, n_jobs=1, checkpoint=checkpoint, progress=False,
)
model.fit(data)
if os.environ.get("RANK", "0") == "0":
    curves = {name: model.history_[name].values for name in ("infonce", "mse", "penalty")}
    np.savez(out, embedding=model.transform(data), **curves)
"""


def command(script: Path, *words: object) -> list[str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return [*launch, str(script), *map(str, words)]


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("torchrun") / "fit.py"
    path.write_text(FIT)
    return path


@pytest.fixture(scope="module")
def surroundings():
    """Of the processes: what is imported here is imported there, and torchrun's own variables are new."""
    own = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    return {**own, "PYTHONPATH": ":".join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}


@torchrun
def test_losses_are_those_of_one_process(script, surroundings, tmp_path):
    one, two = tmp_path / "one.npz", tmp_path / "two.npz"
    subprocess.run([sys.executable, script, one, "100"], env=surroundings, check=True, timeout=300)
    done = subprocess.run(
        command(script, two, 100), env=surroundings, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    alone, together = np.load(one), np.load(two)
    for name in ("infonce", "mse", "penalty"):
        assert alone[name].shape[0] == 100
        apart = np.abs(alone[name] - together[name]).max()
        assert apart < 1e-5 * max(1.0, np.abs(alone[name]).max()), f"{name}: {apart}"
    assert not np.array_equal(alone["infonce"], together["infonce"])  # it was not one process after all


@torchrun
def test_with_the_default_encoder_what_differs_is_rounding(surroundings, tmp_path):
    """Sums of a batch are added in another order, and no more than that is seen in 100 steps: two ranks are as near
    to one process as that is to itself with its initial weights changed in the last digit."""
    out = tmp_path / "figures.json"
    words = [sys.executable, SCRIPT, "--out", out]
    done = subprocess.run(words, env=surroundings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["steps"] == 100 and found["processes"] == 2 and found["code"]["sha256"]
    assert 0 < found["float64"]["two processes"] < 1e-9
    assert 0 < found["float32"]["two processes"] < 1e-5
    for precision in ("float64", "float32"):
        assert found[precision]["two processes"] < 10 * found[precision]["one, its last digits changed"]


@torchrun
def test_a_killed_rank_ends_the_fit_with_a_message_and_the_same_command_goes_on(script, surroundings, tmp_path):
    state, out = tmp_path / "state", tmp_path / "out.npz"
    words = command(script, out, 300, state)
    running = subprocess.Popen(words, env=surroundings, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 200
    while not list(state.glob("seeds-*.safetensors")) and time.monotonic() < until:
        time.sleep(0.05)
    ranks = {_variables(pid).get("RANK"): pid for pid in _children(running.pid)}
    os.kill(ranks["1"], signal.SIGKILL)
    _, said = running.communicate(timeout=120)
    assert running.returncode != 0
    # torchrun may end the other rank before that has noticed: then its own report is what is said
    noticed = (
        "rank 0 of 2: another process of this fit has ended" in said and "start the same command again" in said
    )
    assert noticed or "Signal 9 (SIGKILL)" in said
    assert list(state.glob("seeds-*.safetensors")) and not out.exists()
    from safetensors import safe_open

    with safe_open(next(iter(state.glob("seeds-*.safetensors"))), "pt") as kept:
        assert int(kept.metadata()["done"]) >= 50

    again = subprocess.run(words, env=surroundings, capture_output=True, text=True, timeout=300, check=False)
    assert again.returncode == 0, again.stderr
    assert not list(state.glob("seeds-*.safetensors"))  # nothing is left to resume
    peace = tmp_path / "peace.npz"
    subprocess.run(command(script, peace, 300), env=surroundings, capture_output=True, timeout=300, check=True)
    interrupted, uninterrupted = np.load(out), np.load(peace)
    for name in uninterrupted:
        assert np.array_equal(interrupted[name], uninterrupted[name]), name


NCCL = """
# On one GPU a group of one process: what is sent by NCCL, and its gradients, change no digit of the losses.
import os
import numpy as np, torch, torch.distributed as dist
import ascribo as asc
from ascribo.model.fitting import prepare
from ascribo.training.data_parallel import SharedBatches
from ascribo.training.recording_batches import RecordingSource
from ascribo.training.settings import Settings
from ascribo.training.steps_eager import EagerSteps

data = asc.simulate.box(0, observed=2, hidden=1, channels=(4, 4), steps=1500)
spaces = {"position": asc.Follow(["x", "y"], dim=2), "speed": asc.Regress("x"), "rest": asc.Time(dim=1)}
model = asc.ContrastiveEmbedding(spaces, steps=100, batch_size=64, penalty=0.1, device="cuda")
settings, problem = Settings.from_parameters(model, time_steps=len(data)), prepare(data, spaces).problem
found, sent = [], []
for batches in (SharedBatches, RecordingSource):
    steps = EagerSteps(batches([problem], [0], device="cuda"), settings)
    gathered = dist.all_gather
    dist.all_gather = lambda parts, part: sent.append(part.device.type) or gathered(parts, part)
    chunk = steps.run(0, np.full((50, 1), 0.1))
    dist.all_gather = gathered
    found.append(np.concatenate([chunk[k].reshape(50, -1) for k in chunk], 1))
backends = str(dist.get_backend_config())
assert set(sent) == {"cuda"} and "cuda:nccl" in backends, (sent[:1], backends)
assert np.abs(found[0] - found[1]).max() < 1e-5, np.abs(found[0] - found[1]).max()
"""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_group_on_a_gpu_sends_by_nccl(surroundings, tmp_path):
    script = tmp_path / "nccl.py"
    script.write_text(NCCL)
    words = [*command(script)[:-2], "1", str(script)]
    done = subprocess.run(words, env=surroundings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match="2 processes on this machine, and 1 GPU: each needs one of its own"):
        data_parallel.SharedBatches([], [], device="cuda")


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _variables(pid: int) -> dict[str, str]:
    words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def test_without_torchrun_there_is_one_process(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")  # of another program
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert data_parallel.ranks() == 1 and data_parallel.rank() == 0
    assert data_parallel.agreed(True) and not data_parallel.agreed(False)
    assert data_parallel.from_first_rank([3]) == [3]


def test_a_batch_that_cannot_be_shared_is_refused(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ValueError, match="batch_size=64 cannot be shared by 3 processes: use a multiple of 3"):
        data_parallel.SharedBatches.draw_index(None, 0, 1, 64)  # type: ignore[arg-type]
