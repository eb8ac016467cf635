"""How near are the losses of a fit over two processes to those of one process?

    python scripts/two_processes.py

100 steps with the default encoder, in float64 and in float32: two processes of torchrun (gloo) beside one process.
To compare with, one process whose initial weights are changed in their last digit. What differs must be rounding.

The exit status is 0 only if the losses differ by less than 1e-5, and by less than ten times as much as those.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

STEPS, CHUNK = 100, 50
LAST_DIGIT = {torch.float64: 1.1e-16, torch.float32: 6e-8}
MOST = 1e-5
"""How far apart the losses may be."""
TWO, CHANGED = "two processes", "one, its last digits changed"


class Noise:
    """The noise of training in another precision."""

    def __init__(self, noise: Any, dtype: torch.dtype):
        self.restart, self.normal = noise.restart, lambda shape: noise.normal(shape).to(dtype)


class Fit:
    """A small fit, of which the losses are asked."""

    def __init__(self):
        import ascribo as asc
        from ascribo.model.fitting import prepare
        from ascribo.training.settings import Settings

        data = asc.simulate.box(0, observed=2, hidden=1, channels=(4, 4), steps=1500)
        spaces = {"position": asc.Follow(["x", "y"], dim=2), "speed": asc.Regress("x"), "rest": asc.Time(dim=1)}
        model = asc.ContrastiveEmbedding(spaces, steps=STEPS, batch_size=64, penalty=0.1, device="cpu")
        self.settings = Settings.from_parameters(model, time_steps=len(data))
        self.problem = prepare(data, spaces).problem

    def losses(
        self, batches: Callable[..., Any], dtype: torch.dtype, change: float = 0.0, seed: int = 0
    ) -> np.ndarray:
        """All losses of each step, (step, loss). change : of the initial weights, as a share of them."""
        from ascribo.training.steps_eager import EagerSteps

        source = batches([self.problem], [0])
        source.X, source._targets = source.X.to(dtype), {k: v.to(dtype) for k, v in source._targets.items()}
        random, initial = torch.Generator().manual_seed(seed), source.initial()
        factors = {k: 1 + change * torch.randn(v.shape, generator=random, dtype=dtype) for k, v in initial.items()}
        source.initial = lambda: {k: v.to(dtype) * factors[k] for k, v in initial.items()}
        steps: Any = EagerSteps(source, self.settings)
        steps.noise, steps.curves = Noise(steps.noise, dtype), {k: v.to(dtype) for k, v in steps.curves.items()}
        chunks = [steps.run(start, np.full((CHUNK, 1), 0.1)) for start in range(0, STEPS, CHUNK)]
        return np.concatenate([np.concatenate([c[k].reshape(CHUNK, -1) for k in c], 1) for c in chunks])


def as_a_process(out: Path) -> None:
    """What each process of torchrun does; the first writes the figures."""
    from ascribo.training.data_parallel import SharedBatches
    from ascribo.training.recording_batches import RecordingSource

    torch.set_num_threads(1)
    fit, found = Fit(), {}
    for dtype, digit in LAST_DIGIT.items():
        two = fit.losses(SharedBatches, dtype)
        if os.environ["RANK"] != "0":
            continue
        one = fit.losses(RecordingSource, dtype)
        changed = [fit.losses(RecordingSource, dtype, digit, seed) for seed in range(3)]
        apart = {TWO: np.abs(two - one), CHANGED: np.abs(np.stack(changed) - one)}
        found[str(dtype).removeprefix("torch.")] = {name: float(value.max()) for name, value in apart.items()}
    if found:
        out.write_text(json.dumps({"steps": STEPS, "processes": int(os.environ["WORLD_SIZE"]), **found}))


def main() -> int:
    """Start two processes, and look at what they found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    given = parser.parse_args()
    if "TORCHELASTIC_RUN_ID" in os.environ:
        as_a_process(given.out)
        return 0
    from keep_figures import keep_figures

    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "found.json"
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__]
        surroundings = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([*launch, "--out", str(out)], env=surroundings, check=True)
        found = json.loads(out.read_text())
    keep_figures(given.out, found)
    both = [found["float64"], found["float32"]]
    return int(any(own[TWO] >= min(MOST, 10 * own[CHANGED]) for own in both))


if __name__ == "__main__":
    sys.exit(main())
