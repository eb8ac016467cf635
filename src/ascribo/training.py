"""One loop for a stack of models: seeds share forward passes, each has its own parameters and batches.

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
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from joblib import Parallel, delayed, effective_n_jobs
from torch import Tensor, nn

from .adam import Adam, gradient_of
from .channels import Channels
from .embedder import Embedder
from .losses import chance
from .objective import Loss, Objective, RegularizedLoss
from .pairs import Pairs, segment_bounds
from .penalty import Schedule
from .progress import bar
from .spaces import Space
from .store import read_checkpoint, write_checkpoint

__all__ = [
    "EagerSteps",
    "Problem",
    "Settings",
    "Steps",
    "Trained",
    "device_of",
    "one_thread",
    "run_steps",
    "train",
    "train_in_processes",
]

CHUNK = 50
DECODER_STEPS = 1500
CHECKPOINT_SECONDS = 10.0
TOGETHER = 2048
"""References whose step is computed at once on a CPU: more gain nothing, and their activations leave the cache."""

Curves = dict[str, list[np.ndarray]]
"""By name, one array (steps, seed[, objective]) for each chunk."""


@dataclass(frozen=True)
class Problem:
    """What to train on what.

    X : (time, channel) float32, standardised (`Channels` if it is large).
    segments : (time,), windows stay inside them.
    targets : name -> (time, dim) for the Regress spaces.
    """

    module: nn.Module
    spaces: Mapping[str, Space]
    objectives: Sequence[Objective]
    X: Tensor | Channels
    segments: np.ndarray
    pairs: Pairs
    targets: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Settings:
    """How to train; every field but `held` is a parameter of `ContrastiveEmbedding`.

    held : the learning rate stays as it is instead of falling.
    """

    steps: int
    batch_size: int
    learning_rate: float
    schedule: Schedule
    exact_penalty: bool = False
    early_stop: float | None = None
    device: str = "cpu"
    held: bool = False

    def rate(self, step: int) -> float:
        """The learning rate: whole for half of the steps, then falling to 5% along a cosine, unless it is held.

        >>> from ascribo.penalty import Constant
        >>> [round(float(Settings(100, 512, 1.0, Constant(0.0)).rate(k)), 3) for k in (0, 50, 75, 100)]
        [1.0, 1.0, 0.525, 0.05]
        """
        late = 0.0 if self.held else max(0.0, 2 * step / self.steps - 1)
        return self.learning_rate * (0.05 + 0.95 * 0.5 * (1 + np.cos(np.pi * late)))

    @property
    def decoder_steps(self) -> int:
        """Training steps of the decoders that come after: no more than the encoders have, but for a few."""
        return min(DECODER_STEPS, max(50, self.steps))


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


class HasTargets(Protocol):
    """A loss, of which the loop only needs to know how many regressions are in it."""

    targets: Any


def device_of(name: str) -> torch.device:
    """The device behind `device=`: "auto" is a GPU where there is one. Refuses what cannot be used here.

    >>> device_of("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={name!r} cannot be used here ({error}): use 'auto' or 'cpu'.") from error
    return device


class Steps(Protocol):
    """Something that trains a stack of models a chunk of steps at a time."""

    parameters: dict[str, Tensor]
    optimizer: Adam

    @property
    def loss(self) -> HasTargets:
        """The loss."""
        ...

    def run(self, start: int, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Do the steps start, start + 1, ... with λ weights (steps, model); returns the curves of the chunk:
        infonce (steps, model, objective), mse (steps, model, regression), penalty (steps, model)."""
        ...


class EagerSteps:
    """Steps one operation after the other, pairs drawn on the host: the way of the CPU.

    problem : what all models train on, or one problem per model. These have the same module, spaces, objectives,
        X and segments (the same objects) and the same rows of pairs, but pairs and targets of their own.
    """

    def __init__(self, problem: Problem | Sequence[Problem], seeds: Sequence[int], settings: Settings):
        problems = [problem] if isinstance(problem, Problem) else list(problem)
        first = problems[0]
        if len(problems) > 1:
            _check_shared(problems, len(seeds))
        self.pairs = [p.pairs for p in problems] if len(problems) > 1 else [first.pairs] * len(seeds)
        self.seeds, self.settings = seeds, settings
        device = torch.device(settings.device)
        self.embedder = Embedder(first.module, first.spaces)
        self.X = first.X.to(device)
        self.edges = [torch.from_numpy(edge).to(device) for edge in segment_bounds(first.segments)]
        # Targets of different problems lie end to end, and the indices of each model count from its own.
        self.apart = len(problems) > 1 and bool(first.targets)
        targets = {
            name: torch.from_numpy(np.concatenate([p.targets[name] for p in problems])).to(device)
            for name in first.targets
        }
        self.loss = RegularizedLoss(
            self.embedder, first.spaces, first.objectives, first.pairs.rows, targets, settings.exact_penalty
        )
        initial = self.embedder.initial(first.module, seeds)
        self.parameters = {name: value.to(device).requires_grad_() for name, value in initial.items()}
        self.rate = torch.tensor(settings.learning_rate, device=device)
        self.optimizer = Adam(self.parameters.values(), self.rate)
        self.noises = [torch.Generator(device) for _ in seeds]
        some = max(1, TOGETHER // settings.batch_size)
        self.parts = [slice(start, start + some) for start in range(0, len(seeds), some)]

    def run(self, start: int, weights: np.ndarray) -> dict[str, np.ndarray]:
        """See `Steps`."""
        steps, batch = len(weights), self.settings.batch_size
        each = zip(self.pairs, self.seeds, strict=True)
        draws = [pairs.draw(np.random.default_rng([seed, start]), steps, batch) for pairs, seed in each]
        index = torch.from_numpy(np.stack(draws, axis=1)).to(self.X.device)
        if self.apart:
            index += len(self.X) * torch.arange(len(self.seeds), device=index.device)[:, None, None]
        for noise, seed in zip(self.noises, self.seeds, strict=True):  # a seed does not depend on its company
            noise.manual_seed(chunk_seed([seed], start))
        lambdas = torch.from_numpy(weights).to(self.X.device, torch.float32)
        names, kept = ("infonce", "mse", "penalty"), []
        for k in range(steps):
            self.rate.fill_(self.settings.rate(start + k))
            # While λ = 0 the penalty is only measured, at the end of a chunk, for the record.
            penalised = bool(weights.any()) or k == steps - 1
            done = [self._gradient(own, index[k, own], lambdas[k, own], penalised) for own in self.parts]
            losses, gradients = zip(*done, strict=True)
            self.optimizer.step([torch.cat(parts) for parts in zip(*gradients, strict=True)])
            kept.append([torch.cat([getattr(loss, name) for loss in losses]) for name in names])
        return {name: torch.stack(k).cpu().numpy() for name, k in zip(names, zip(*kept, strict=True), strict=True)}

    def _gradient(
        self, own: slice, index: Tensor, weight: Tensor, penalised: bool
    ) -> tuple[Loss, tuple[Tensor, ...]]:
        """Loss of some of the models, and its gradient for each parameter."""
        directions = partial(self._directions, self.noises[own]) if penalised else None
        parameters = {name: value.detach()[own].requires_grad_() for name, value in self.parameters.items()}
        loss = self.loss(parameters, self._gather, index, weight, directions)
        return loss, gradient_of(loss.total, parameters)

    def _gather(self, index: Tensor) -> Tensor:
        return self.embedder.gather(self.X, index % len(self.X) if self.apart else index, *self.edges)

    def _directions(self, noises: Sequence[torch.Generator], like: Tensor) -> Tensor:
        shape = like.shape[1:]
        return torch.stack([torch.randn(shape, generator=noise, device=like.device) for noise in noises])


def _check_shared(problems: Sequence[Problem], models: int) -> None:
    first = problems[0]
    if len(problems) != models:
        raise ValueError(
            f"{len(problems)} problems for {models} seeds: expected one problem, or one for each seed."
        )
    if any(p.X is not first.X or p.segments is not first.segments for p in problems):
        raise ValueError("the problems of a stack must share X and segments as the same objects; these do not.")
    if any(p.pairs.rows != first.pairs.rows for p in problems):
        raise ValueError("the problems of a stack must have the same spaces with the same missing parts.")


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
    if torch.device(settings.device).type == "cuda":
        from .engine.graphs import GraphSteps  # needs nothing more, but is of no use elsewhere

        steps: Steps = GraphSteps([problem], [0] * len(seeds), seeds, settings)
    else:
        steps = EagerSteps(problem, seeds, settings)
    fingerprint = "" if checkpoint is None else problem_digest(problem, seeds, settings)
    return run_steps(steps, problem.objectives, len(seeds), settings, fingerprint, progress, checkpoint)


def run_steps(
    steps: Steps,
    objectives: Sequence[Objective],
    models: int,
    settings: Settings,
    fingerprint: str,
    progress: bool,
    checkpoint: Path | None,
) -> Trained:
    """The loop around the chunks: λ, curves, progress, checkpoints, early stop."""
    floor = len(objectives) * chance(settings.batch_size)
    # what a model that knows nothing would cost: targets of regressions have variance 1
    ceiling = floor + len(steps.loss.targets)
    controller = settings.schedule.begin(models, settings.steps, ceiling)
    curves: Curves = {"infonce": [], "mse": [], "penalty": [], "lambda": []}
    done, written = 0, time.monotonic()
    if checkpoint is not None and checkpoint.exists():
        done, curves = read_checkpoint(checkpoint, fingerprint, steps.parameters, steps.optimizer, CHUNK)
        for infonce, mse, penalty in zip(curves["infonce"], curves["mse"], curves["penalty"], strict=True):
            controller.observe(infonce.sum(-1) + mse.sum(-1), penalty)
    with bar("fitting", settings.steps, progress) as shown:
        shown.advance(done)
        while done < settings.steps and not (controller.settled() and _flat(curves, settings.early_stop)):
            weights = controller.weights(done, min(CHUNK, settings.steps - done))
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


def problem_digest(problem: Problem, seeds: Sequence[int], settings: Settings) -> str:
    """What a checkpoint belongs to: the same model on the same data."""
    parts = (dict(problem.spaces), list(problem.objectives), list(seeds), settings, problem.module)
    digest = hashlib.sha256(repr(parts).encode())
    X = problem.X
    data = [X.raw, X.mean.numpy(), X.scale.numpy()] if isinstance(X, Channels) else [X.numpy()]
    arrays = [*data, problem.segments, *problem.targets.values(), *problem.pairs.uniform]
    for positive in problem.pairs.positive.values():
        arrays += [value for value in vars(positive).values() if isinstance(value, np.ndarray)]
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)  # not .tobytes(): that is a copy
    return digest.hexdigest()


def chunk_seed(seeds: Sequence[int], start: int) -> int:
    """The seed of a chunk's random directions: a matter of the models and the step alone."""
    return int(np.random.SeedSequence([*seeds, start]).generate_state(1)[0])


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
    """`train`, the seeds spread over processes of one thread each.

    checkpoint : a folder for one file per process, "seeds-*.safetensors"; they are left there at the end.
    """
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
    return Trained(parameters, history)


def _padded(curve: np.ndarray, length: int) -> np.ndarray:
    """A curve that stopped early, filled up with NaN."""
    out = np.full((length, *curve.shape[1:]), np.nan)
    out[: len(curve)] = curve
    return out
