"""The one training loop, around chunks of steps of a stack of models.

Losses stay on the device until a chunk ends; then λ moves, the progress bar is told, and the state can be written
down. The random draws of a chunk depend on the seeds and the chunk alone, so that an interrupted run goes on to the
same bits.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..networks.infonce_loss import chance
from ..support.progress import bar
from .batch_source import Source
from .checkpoints import read_checkpoint, write_checkpoint
from .data_parallel import agreed, from_first_rank, rank
from .early_stopping import Pace, Watch
from .interruption import Interrupted, stops_cleanly
from .penalty_weight import Constant, shorten
from .settings import Settings
from .steps import STEPS_PER_CHUNK, Steps

__all__ = ["Trained", "run_steps"]

CHECKPOINT_SECONDS = 10.0

Curves = dict[str, list[np.ndarray]]
"""By name, one array (steps, seed[, objective]) for each chunk."""


@dataclass(frozen=True)
class Trained:
    """What comes out: parameters (seed, ...) on the CPU, the curves, (step, seed[, objective]), and for each seed
    why its training ended, in words."""

    parameters: dict[str, Tensor]
    history: dict[str, np.ndarray]
    ended: tuple[str, ...] = ()


def run_steps(
    steps: Steps,
    *,
    progress: bool = True,
    checkpoint: Path | None = None,
    watch: Watch | None = None,
    rounds: tuple[int, int] = (1, 1),
) -> Trained:
    """The loop around the chunks: λ, curves, progress, checkpoints, early stop.

    watch : measures held-out bits. If `settings.watched`, it does so after each chunk: the bits are a curve, and
        end the training. Otherwise they are measured now and then for those who look, and change nothing.
    checkpoint : a file to write the state to every ten seconds, at the end and at Ctrl-C (`Interrupted`), and to go
        on from if it is there.
    rounds : number of this run among those that follow each other in this process, from 1, and how many they are.
    """
    source, settings = steps.source, steps.settings
    fingerprint = "" if checkpoint is None else _fingerprint(source, settings)
    floor = len(source.objectives) * chance(settings.batch_size)
    # what a model that knows nothing would cost: targets of regressions have variance 1
    ceiling = floor + len(source.regressions)
    controller = settings.schedule.begin(len(source.seeds), settings.steps, ceiling)
    curves: Curves = {"infonce": [], "mse": [], "penalty": [], "lambda": []}
    deciding = watch if settings.watched else None
    pace = Pace(settings.steps, deciding is not None)
    if deciding is not None:
        curves["held_out"] = []

    def look(held_out: np.ndarray) -> None:
        if pace.observe(done, held_out):
            steps.total = pace.total
            shorten(controller, pace.total)

    done, written = 0, time.monotonic()
    if checkpoint is not None and checkpoint.exists():
        _, curves = read_checkpoint(
            checkpoint, fingerprint, steps.parameters, steps.optimizer, curves, STEPS_PER_CHUNK
        )
        for k, (infonce, mse, penalty) in enumerate(
            zip(*(curves[n] for n in ("infonce", "mse", "penalty")), strict=True)
        ):
            done += len(infonce)
            controller.observe(infonce.sum(-1) + mse.sum(-1), penalty)
            if deciding is not None:
                look(curves["held_out"][k][-1])
    if done != from_first_rank(done):
        raise ValueError(f"rank {rank()} does not see the state of rank 0 in {checkpoint}: use a shared disk.")

    looks = _Looks(watch, steps, curves, floor)

    def keep() -> None:
        if checkpoint is not None and rank() == 0:
            bits, measured_on = looks.bits()
            speed = (time.monotonic() - began) / max(1, done - before)
            said = {"total": pace.total, "bits": bits, "measured_on": measured_on, "seconds_per_step": speed}
            said |= {"round": rounds[0], "rounds": rounds[1]}
            write_checkpoint(checkpoint, done, fingerprint, steps.parameters, steps.optimizer, curves, said)

    folder = None if checkpoint is None else checkpoint.parent
    work = "fitting" if rounds[1] == 1 else f"fitting, round {rounds[0]} of {rounds[1]}"
    began, before = time.monotonic(), done
    with stops_cleanly(folder) as stop, bar(work, pace.total, progress, 1 + rounds[1] - rounds[0]) as shown:
        shown.advance(done)
        while done < pace.total:
            if controller.settled() and _flat(curves, settings.early_stop):
                pace.why = f"loss and penalty stopped moving at step {done}"
                break
            weights = controller.weights(done, min(STEPS_PER_CHUNK, pace.total - done))
            good = {name: value.detach().clone() for name, value in steps.parameters.items()}
            chunk = steps.run(done, weights)
            if diverged := _diverged(chunk, steps.parameters):
                pace.why = _back_to(good, steps, done, diverged)
                break
            done += len(weights)
            if not weights.any():
                chunk["penalty"][:] = chunk["penalty"][-1]  # it was measured at the last step alone
            for name, value in {**chunk, "lambda": weights}.items():
                curves[name].append(value)
            controller.observe(chunk["infonce"].sum(-1) + chunk["mse"].sum(-1), chunk["penalty"])
            if deciding is not None:
                held_out = from_first_rank(deciding(steps.parameters))
                curves["held_out"].append(np.repeat(held_out[None], len(weights), axis=0))
                look(held_out)
                shown.total = pace.total
            shown.advance(len(weights), looks.note)
            if folder is not None and agreed(stop()):
                keep()
                raise Interrupted.kept_in(folder, f" after {done} of at most {pace.total} steps")
            if done == pace.total or time.monotonic() - written > CHECKPOINT_SECONDS:
                keep()
                written = time.monotonic()
    history = {name: np.concatenate(value) for name, value in curves.items()}
    parameters = {name: value.detach().cpu() for name, value in steps.parameters.items()}
    return Trained(parameters, history, (pace.why,) * len(source.seeds))


class _Looks:
    """What people are shown of a run while it trains: the bits above chance, on held-out time where there is some.

    A measurement is kept for ten seconds, so that looking costs next to nothing.
    """

    def __init__(self, watch: Watch | None, steps: Steps, curves: Curves, floor: float):
        self.watch, self.steps, self.curves, self.floor = watch, steps, curves, floor
        self._measured: tuple[float, float] | None = None  # when, and the bits

    def bits(self) -> tuple[float, str]:
        """Mean bits of the models, and what they were measured on."""
        if self.curves.get("held_out"):
            return float(self.curves["held_out"][-1][-1].mean()), "held-out time"
        if self.watch is None:
            told = (1 - self.curves["mse"][-1]).sum(-1).mean()
            return float((self.floor - self.curves["infonce"][-1].sum(-1).mean()) / np.log(2) + told), "training"
        now = time.monotonic()
        if self._measured is None or now - self._measured[0] > CHECKPOINT_SECONDS:
            self._measured = now, float(self.watch(self.steps.parameters).mean())
        return self._measured[1], "held-out time"

    def note(self) -> str:
        """For the progress bar."""
        loss = (self.curves["infonce"][-1].sum(-1) + self.curves["mse"][-1].sum(-1)).mean()
        return f"loss {loss:.2f}  bits {self.bits()[0]:.2f}  λ {self.curves['lambda'][-1][-1].mean():.2g}"


def _diverged(chunk: dict[str, np.ndarray], parameters: Mapping[str, Tensor]) -> str:
    """What is no longer a finite number after a chunk of steps; empty if all is well."""
    for name, words in (("infonce", "the loss"), ("mse", "the squared error"), ("penalty", "the penalty")):
        if not np.isfinite(chunk[name]).all():
            return words
    finite = torch.stack(
        [value.isfinite().all() for value in parameters.values()]
    ).all()  # the device is asked once
    return "" if finite else "a weight"


def _back_to(good: Mapping[str, Tensor], steps: Steps, done: int, what: str) -> str:
    """Bring back the weights of before the chunk that diverged; why training ended, which is also a warning.

    Weights before the first step are no model: that is an error.
    """
    settings = steps.settings
    rate = f"lower learning_rate ({settings.learning_rate:g}), to a third of it at first"
    advice = f"{rate}, or the penalty" if settings.schedule != Constant(0.0) else rate
    if done == 0:
        raise FloatingPointError(
            f"training diverged: {what} became infinite in the first {STEPS_PER_CHUNK} steps. Please {advice}."
        )
    with torch.no_grad():
        for name, value in steps.parameters.items():
            value.copy_(good[name])
    warnings.warn(
        f"training diverged: {what} became infinite after step {done}. The model is that of step {done}. Better "
        f"{advice}, and fit again.",
        stacklevel=2,
    )
    return f"diverged: {what} became infinite after step {done}, whose weights were kept"


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
