"""Peak memory of one piece of work, in a process of its own: `python -m benchmarks.memory step 20000`.

    step BATCH    two training steps of one model (hybrid, penalty on) on 100,000 time steps
    loss BATCH    the InfoNCE alone, forward and backward, in 6 dimensions

Prints one line of JSON. The N x N array that neither may hold would take 4·BATCH² bytes.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import torch

import ascribo as asc
from ascribo.networks.infonce_loss import infonce
from benchmarks.clock import clock
from benchmarks.cpu import SPACES, train_steps
from benchmarks.problems import problem_of

STATUS = Path("/proc/self/status")
MEGABYTE = 1e6


def resident() -> tuple[float, float]:
    """Memory held now and the most ever held by this process, in megabytes.

    getrusage is the second choice: on Linux its maximum is inherited from the parent, and elsewhere what is
    held now is not known, so the maximum so far stands for it.
    """
    if STATUS.exists():
        lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        now, most = (int(lines[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))
        return now / MEGABYTE, most / MEGABYTE
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return most / MEGABYTE, most / MEGABYTE


def step(batch: int, steps: int = 2):
    """Training steps, by the loop that every fit uses."""
    problem = problem_of(asc.simulate.box(observed=3, hidden=3), SPACES)
    return lambda: train_steps(problem, seeds=1, steps=steps, batch=batch), steps


def loss(batch: int):
    """The streamed InfoNCE of one batch and its gradient."""
    torch.manual_seed(0)
    z = torch.randn(3, 1, batch, 6).requires_grad_()
    return lambda: infonce(*z).sum().backward(), 1


def main(what: str, batch: str) -> None:
    """Do the work and print what it took."""
    torch.set_num_threads(1)
    work, number = {"step": step, "loss": loss}[what](int(batch))
    before, _ = resident()
    time = clock(work, number)
    _, most = resident()
    square = 4 * int(batch) ** 2 / MEGABYTE
    print(json.dumps({"growth_mb": most - before, "peak_mb": most, "square_mb": square, **time}))


if __name__ == "__main__":
    main(*sys.argv[1:])
