"""One loop for a stack of models: all seeds share each forward pass, each has its own parameters and batches.

Batches are drawn a chunk of steps at a time; losses stay on the device until the chunk ends, when λ moves, the
progress bar is told, and the state can be written down. The draws of a chunk depend on the seed and the chunk
alone, so an interrupted run goes on to the same bits.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed, effective_n_jobs
from torch import Tensor, nn

from .embedder import Embedder
from .losses import chance
from .objective import Loss, Objective, RegularizedLoss
from .pairs import Pairs, segment_bounds
from .penalty import Schedule
from .progress import bar
from .spaces import Space
from .store import read_checkpoint, write_checkpoint

__all__ = ["Problem", "Settings", "Trained", "one_thread", "train", "train_in_processes"]

CHUNK = 50
CHECKPOINT_SECONDS = 10.0

Curves = dict[str, list[np.ndarray]]
"""By name, one array (steps, seed[, objective]) for each chunk."""


@dataclass(frozen=True)
class Problem:
    """What to train on what.

    X : (time, channel) float32, standardised. segments : (time,), windows stay inside them.
    targets : name -> (time, dim) for the Regress spaces.
    """

    module: nn.Module
    spaces: Mapping[str, Space]
    objectives: Sequence[Objective]
    X: Tensor
    segments: np.ndarray
    pairs: Pairs
    targets: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Settings:
    """How to train; every field is a parameter of `ContrastiveEmbedding`."""

    steps: int
    batch_size: int
    learning_rate: float
    schedule: Schedule
    exact_penalty: bool = False
    early_stop: float | None = None
    device: str = "cpu"


@dataclass(frozen=True)
class Trained:
    """What comes out: parameters (seed, ...) on the CPU, and the curves, (step, seed[, objective])."""

    parameters: dict[str, Tensor]
    history: dict[str, np.ndarray]


@contextmanager
def one_thread() -> Iterator[None]:
    """One CPU thread inside the block: small products lose more to barriers than they gain from threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(
    problem: Problem,
    seeds: Sequence[int],
    settings: Settings,
    *,
    progress: bool = True,
    checkpoint: Path | None = None,
) -> Trained:
    """Train one model per seed.

    checkpoint : a file to write the state to every ten seconds, and to go on from if it is there.
    """
    device, batch = torch.device(settings.device), settings.batch_size
    embedder = Embedder(problem.module, problem.spaces)
    X = problem.X.to(device)
    targets = {name: torch.from_numpy(value).to(device) for name, value in problem.targets.items()}
    edges = tuple(torch.from_numpy(edge).to(device) for edge in segment_bounds(problem.segments))
    loss = RegularizedLoss(
        embedder, problem.spaces, problem.objectives, problem.pairs, targets, settings.exact_penalty
    )
    initial = embedder.initial(problem.module, seeds)
    parameters = {name: value.to(device).requires_grad_() for name, value in initial.items()}
    rate = torch.tensor(settings.learning_rate, device=device)
    optimizer = torch.optim.Adam(parameters.values(), lr=rate, fused=True)
    floor = len(problem.objectives) * chance(batch)
    controller = settings.schedule.begin(len(seeds), settings.steps, floor)
    noise = torch.Generator(device)
    curves: Curves = {"infonce": [], "mse": [], "penalty": [], "lambda": []}
    done, written = 0, time.monotonic()
    fingerprint = _fingerprint(problem, seeds, settings)
    if checkpoint is not None and checkpoint.exists():
        done, curves = read_checkpoint(checkpoint, fingerprint, parameters, optimizer, CHUNK)
        for infonce, penalty in zip(curves["infonce"], curves["penalty"], strict=True):
            controller.observe(infonce.sum(-1), penalty)

    with bar("fitting", settings.steps, progress) as shown:
        shown.advance(done)
        while done < settings.steps and not _flat(curves, settings.early_stop):
            steps = min(CHUNK, settings.steps - done)
            draws = [problem.pairs.draw(np.random.default_rng([s, done]), steps, batch) for s in seeds]
            index = torch.from_numpy(np.stack(draws, axis=1)).to(device)
            noise.manual_seed(int(np.random.SeedSequence([*seeds, done]).generate_state(1)[0]))
            planned = controller.weights(done, steps)
            weights = torch.from_numpy(planned).to(device, torch.float32)
            kept: list[Loss] = []
            for k in range(steps):
                rate.fill_(settings.learning_rate * _decay(done + k, settings.steps))
                # While λ = 0 the penalty is only measured, once a chunk, for the record.
                penalised = bool(planned.any()) or k == steps - 1
                x = embedder.gather(X, index[k], *edges)
                step = loss(parameters, x, index[k], weights[k], noise if penalised else None)
                optimizer.zero_grad()
                step.total.backward()
                optimizer.step()
                kept.append(step)
            done += steps
            _append(curves, kept, planned)
            if not all(np.isfinite(curves[name][-1]).all() for name in ("infonce", "mse")):
                raise FloatingPointError(
                    f"the loss became infinite by step {done}: lower learning_rate "
                    f"({settings.learning_rate:g}) or the penalty."
                )
            controller.observe(curves["infonce"][-1].sum(-1), curves["penalty"][-1])
            contrast = curves["infonce"][-1].sum(-1).mean()
            total = contrast + curves["mse"][-1].sum(-1).mean()
            shown.advance(steps, f"loss {total:.2f}  bits {(floor - contrast) / np.log(2):.2f}")
            if checkpoint is not None and time.monotonic() - written > CHECKPOINT_SECONDS:
                write_checkpoint(checkpoint, done, fingerprint, parameters, optimizer, curves)
                written = time.monotonic()
    history = {name: np.concatenate(value) for name, value in curves.items()}
    return Trained({name: value.detach().cpu() for name, value in parameters.items()}, history)


def _append(curves: Curves, kept: Sequence[Loss], weights: np.ndarray) -> None:
    """Add a chunk to the curves; the one place where values come back from the device."""
    for name in ("infonce", "mse", "penalty"):
        curves[name].append(torch.stack([getattr(step, name) for step in kept]).cpu().numpy())
    if not weights.any():
        curves["penalty"][-1][:] = curves["penalty"][-1][-1]  # it was measured at the last step alone
    curves["lambda"].append(weights)


def _fingerprint(problem: Problem, seeds: Sequence[int], settings: Settings) -> str:
    """What a checkpoint belongs to: the same model on the same data."""
    X = problem.X
    text = repr((dict(problem.spaces), list(problem.objectives), list(seeds), settings, tuple(X.shape)))
    sample = X[:: max(1, len(X) // 997)].cpu().numpy().tobytes() + problem.segments.tobytes()
    return hashlib.sha256(text.encode() + sample).hexdigest()


def _decay(step: int, steps: int) -> float:
    """The learning rate is whole for half of the steps, then falls to 5% along a cosine."""
    late = max(0.0, 2 * step / steps - 1)
    return 0.05 + 0.95 * 0.5 * (1 + np.cos(np.pi * late))


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


def train_in_processes(
    problem: Problem,
    seeds: Sequence[int],
    settings: Settings,
    *,
    n_jobs: int,
    progress: bool,
    checkpoint: Path | None,
) -> Trained:
    """`train`, the seeds spread over processes of one thread each; `checkpoint` is a folder."""
    shares = [part.tolist() for part in np.array_split(seeds, min(effective_n_jobs(n_jobs), len(seeds)))]
    files = [None if checkpoint is None else checkpoint / f"seeds-{part[0]}.safetensors" for part in shares]

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
    for file in files:
        if file is not None:
            file.unlink(missing_ok=True)
    return Trained(parameters, history)


def _padded(curve: np.ndarray, length: int) -> np.ndarray:
    """A curve that stopped early, filled up with NaN."""
    out = np.full((length, *curve.shape[1:]), np.nan)
    out[: len(curve)] = curve
    return out
