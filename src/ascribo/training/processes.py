"""Seeds spread over processes of one thread each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed, effective_n_jobs

from ..support.compute import one_thread
from .checkpoints import checkpoint_file
from .loop import Trained, train
from .problem import Problem
from .settings import Settings

__all__ = ["train_in_processes"]


def train_in_processes(
    problem: Problem,
    seeds: Sequence[int],
    settings: Settings,
    *,
    n_jobs: int,
    progress: bool,
    checkpoint: Path | None,
) -> Trained:
    """`train`, the seeds spread over processes of one thread each.

    checkpoint : a folder for one file per process (`checkpoint_file`); they are left there at the end.
    """
    shares = [part.tolist() for part in np.array_split(seeds, min(effective_n_jobs(n_jobs), len(seeds)))]
    files = [None if checkpoint is None else checkpoint_file(checkpoint, part) for part in shares]

    def run(share: int) -> Trained:
        with one_thread():  # only the first process shows its bar: they advance side by side
            shown = progress and share == 0
            return train(problem, shares[share], settings, progress=shown, checkpoint=files[share])

    if len(shares) == 1:
        done = [run(0)]
    else:
        work = (delayed(run)(share) for share in range(len(shares)))
        done: list[Trained] = list(Parallel(n_jobs=len(shares))(work))  # type: ignore[arg-type]
    longest = max(len(part.history["lambda"]) for part in done)
    history = {
        name: np.concatenate([_padded(part.history[name], longest) for part in done], axis=1)
        for name in done[0].history
    }
    parameters = {name: torch.cat([part.parameters[name] for part in done]) for name in done[0].parameters}
    return Trained(parameters, history)


def _padded(curve: np.ndarray, length: int) -> np.ndarray:
    """A curve that stopped early, filled up with NaN."""
    out = np.full((length, *curve.shape[1:]), np.nan)
    out[: len(curve)] = curve
    return out
