"""One fit over two processes of torchrun (gloo): the losses of one process, and nothing lost with a process."""

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
    # a hard limit turns differences in the last digit into large ones, in one process too
    spaces, encoder=asc.MLP((32, 32), limit="tanh"), steps=steps, batch_size=64, penalty=0.1, early_stop=None,
    device="cpu", random_state=0, seeds=2, n_jobs=1, checkpoint=checkpoint, progress=False,
)
model.fit(data)
if os.environ.get("RANK", "0") == "0":
    np.savez(out, **{name: model.history_[name].values for name in ("infonce", "mse", "penalty")})
"""


def command(script: Path, *words: object) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(script), *map(str, words)]


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
    for name in alone:
        assert alone[name].shape[0] == 100
        apart = np.abs(alone[name] - together[name]).max()
        assert apart < 1e-5 * max(1.0, np.abs(alone[name]).max()), f"{name}: {apart}"
    assert not np.array_equal(alone["infonce"], together["infonce"])  # it was not one process after all


@torchrun
def test_a_killed_rank_ends_the_fit_with_a_message_and_the_state_is_kept(script, surroundings, tmp_path):
    state = tmp_path / "state"
    words = command(script, tmp_path / "out.npz", 2000, state)
    running = subprocess.Popen(words, env=surroundings, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 200
    while not list(state.glob("seeds-*.safetensors")) and time.monotonic() < until:
        time.sleep(0.05)
    ranks = {_variables(pid).get("RANK"): pid for pid in _children(running.pid)}
    os.kill(ranks["1"], signal.SIGKILL)
    _, said = running.communicate(timeout=120)
    assert running.returncode != 0
    assert "rank 0 of 2: another process of this fit has ended" in said and "start the same command again" in said
    assert list(state.glob("seeds-*.safetensors")) and not (tmp_path / "out.npz").exists()
    from safetensors import safe_open

    with safe_open(next(iter(state.glob("seeds-*.safetensors"))), "pt") as kept:
        assert int(kept.metadata()["done"]) >= 50


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
