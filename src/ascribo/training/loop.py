"""The one training loop, around chunks of steps of a stack of models.

Losses stay on the device until a chunk ends; then λ moves, the progress bar is told, and the state can be written
down. The random draws of a chunk depend on the seeds and the chunk alone, so that an interrupted run goes on to the
same bits.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from ..networks.losses import chance
from ..support.progress import bar
from .batch_source import Source
from .checkpoints import read_checkpoint, write_checkpoint
from .settings import Settings
from .steps import STEPS_PER_CHUNK, Steps

__all__ = ["Trained", "run_steps"]

CHECKPOINT_SECONDS = 10.0

Curves = dict[str, list[np.ndarray]]
"""By name, one array (steps, seed[, objective]) for each chunk."""


@dataclass(frozen=True)
class Trained:
    """What comes out: parameters (seed, ...) on the CPU, and the curves, (step, seed[, objective])."""

    parameters: dict[str, Tensor]
    history: dict[str, np.ndarray]


def run_steps(steps: Steps, *, progress: bool = True, checkpoint: Path | None = None) -> Trained:
    """The loop around the chunks: λ, curves, progress, checkpoints, early stop.

    checkpoint : a file to write the state to every ten seconds, and to go on from if it is there.
    """
    source, settings = steps.source, steps.settings
    fingerprint = "" if checkpoint is None else _fingerprint(source, settings)
    floor = len(source.objectives) * chance(settings.batch_size)
    # what a model that knows nothing would cost: targets of regressions have variance 1
    ceiling = floor + len(source.regressions)
    controller = settings.schedule.begin(len(source.seeds), settings.steps, ceiling)
    curves: Curves = {"infonce": [], "mse": [], "penalty": [], "lambda": []}
    done, written = 0, time.monotonic()
    if checkpoint is not None and checkpoint.exists():
        done, curves = read_checkpoint(checkpoint, fingerprint, steps.parameters, steps.optimizer, STEPS_PER_CHUNK)
        for infonce, mse, penalty in zip(curves["infonce"], curves["mse"], curves["penalty"], strict=True):
            controller.observe(infonce.sum(-1) + mse.sum(-1), penalty)
    with bar("fitting", settings.steps, progress) as shown:
        shown.advance(done)
        while done < settings.steps and not (controller.settled() and _flat(curves, settings.early_stop)):
            weights = controller.weights(done, min(STEPS_PER_CHUNK, settings.steps - done))
            chunk = steps.run(done, weights)
            done += len(weights)
            if not weights.any():
                chunk["penalty"][:] = chunk["penalty"][-1]  # it was measured at the last step alone
            for name, value in {**chunk, "lambda": weights}.items():
                curves[name].append(value)
            if not (np.isfinite(chunk["infonce"]).all() and np.isfinite(chunk["mse"]).all()):
                raise FloatingPointError(
                    f"the loss became infinite by step {done}: lower learning_rate "
                    f"({settings.learning_rate:g}) or the penalty."
                )
            controller.observe(chunk["infonce"].sum(-1) + chunk["mse"].sum(-1), chunk["penalty"])
            contrast = chunk["infonce"].sum(-1).mean()
            total = contrast + chunk["mse"].sum(-1).mean()
            shown.advance(len(weights), f"loss {total:.2f}  bits {(floor - contrast) / np.log(2):.2f}")
            if checkpoint is not None and time.monotonic() - written > CHECKPOINT_SECONDS:
                write_checkpoint(checkpoint, done, fingerprint, steps.parameters, steps.optimizer, curves)
                written = time.monotonic()
    history = {name: np.concatenate(value) for name, value in curves.items()}
    return Trained({name: value.detach().cpu() for name, value in steps.parameters.items()}, history)


def _fingerprint(source: Source, settings: Settings) -> str:
    """What a checkpoint belongs to: the same models on the same data, trained in the same way."""
    return hashlib.sha256(f"{settings!r} {source.digest()}".encode()).hexdigest()


def _flat(curves: Curves, tolerance: float | None, window: int = 8) -> bool:
    """True when loss, penalty and λ moved by less than `tolerance` of their range over two windows of chunks."""
    if tolerance is None or len(curves["infonce"]) < 3 * window:
        return False
    loss = [a.sum(-1).mean() + b.sum(-1).mean() for a, b in zip(curves["infonce"], curves["mse"], strict=True)]
    for curve in (loss, *([value.mean() for value in curves[name]] for name in ("penalty", "lambda"))):
        before, after = np.mean(curve[-2 * window : -window]), np.mean(curve[-window:])
        if abs(after - before) > tolerance * np.ptp(curve):
            return False
    return True
