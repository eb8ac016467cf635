"""Decoders fitted to some of the time and scored on the rest: the held-out loss that each space saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from joblib import effective_n_jobs
from torch import Tensor

from ...support.compute import in_processes, one_thread
from ...training.decoders import WIDTHS, decode, fit_decoders, losses
from .decoding_problem import DecodingProblem
from .design import FOLDS

__all__ = ["MOST_TRAINING_STEPS", "HeldOutScores", "score_problems"]

MOST_TRAINING_STEPS = 1000
"""Training steps of the decoders, unless a recording is short or fewer are asked for."""
FEWEST_TRAINING_STEPS = 150
BATCH_SIZE = 512
MOST_PASSES = 80
"""Times that the decoders see the time steps they learn from, unless the recording is very short: in more of them
they learn its noise."""
WORTH_PROCESSES = 1e6
"""Numbers to predict, of all models and variants, from which on it is worth to start processes."""
LEAST_LOSS = 1e-8
"""Variance (or deviance) of a channel below which there is nothing to explain."""
ROWS_AT_ONCE = {False: 8192, True: 65_536}
"""Time steps that are scored together, on a CPU and on a GPU."""
NUMBERS_AT_ONCE = 2**25
"""Numbers of a layer that are held at once, at most: with many channels and seeds fewer time steps are scored
together."""


@dataclass(frozen=True)
class HeldOutScores:
    """Held-out loss that each space saves, as a share of the channel's variance (or Poisson deviance).

    by_block : (seed, space, channel, block), means over blocks of time.
    at : rows (n,) of the problem -> the same at each of them, (seed, n, channel, space).
    """

    problem: DecodingProblem
    by_block: np.ndarray
    at: Callable[[np.ndarray], np.ndarray]


def score_problems(
    problems: Sequence[DecodingProblem],
    seeds: Sequence[Sequence[int]],
    *,
    steps: int | None = None,
    until_flat: bool = False,
    n_jobs: int | None = 1,
    progress: bool = True,
) -> list[HeldOutScores]:
    """Fit the decoders of problems of one shape (channels, inputs, loss) as one stack, or a few, and score them.

    seeds : for each problem the seeds of its models' decoders. Every model, variant and fold has its own decoder.
    steps : of training, at most; None for `MOST_TRAINING_STEPS`. Short recordings have fewer.
    until_flat : decoders that have stopped learning stop. On a CPU each model then has a stack of its own, so that
        none depends on the others, and n_jobs processes share these (None: one for each core if it is worth it).
    """
    steps = MOST_TRAINING_STEPS if steps is None else steps
    if until_flat and not problems[0].x.is_cuda:
        return _score_apart(problems, seeds, steps, n_jobs, progress)
    groups: dict[tuple[int, int], list[int]] = {}
    for k, problem in enumerate(problems):
        groups.setdefault(_training(problem, steps), []).append(k)
    scores: dict[int, HeldOutScores] = {}
    for (some, batch), members in groups.items():
        given = ([problems[k] for k in members], [seeds[k] for k in members], some, batch, until_flat, progress)
        for k, parameters in zip(members, _fit(*given), strict=True):
            scores[k] = _held_out_scores(problems[k], _score(problems[k], parameters))
    return [scores[k] for k in range(len(problems))]


def _score_apart(
    problems: Sequence[DecodingProblem],
    seeds: Sequence[Sequence[int]],
    steps: int,
    n_jobs: int | None,
    progress: bool,
) -> list[HeldOutScores]:
    """Scores by a stack of decoders for each problem and model."""
    work = [
        (replace(problem, inputs=problem.inputs[k : k + 1]), seed, steps)
        for problem, own in zip(problems, seeds, strict=True)
        for k, seed in enumerate(own)
    ]
    size = sum(one.x.numel() * len(one.masks) for one, *_ in work)
    processes = effective_n_jobs(-1 if n_jobs is None and size > WORTH_PROCESSES else n_jobs or 1)
    if min(processes, len(work)) > 1:
        tasks = [(*one, progress and k == 0) for k, one in enumerate(work)]
        found = in_processes(_score_one, tasks, min(processes, len(work)))
    else:
        found = [_score_one(*one, progress) for one in work]
    scores, start = [], 0
    for problem, own in zip(problems, seeds, strict=True):
        mine = found[start : start + len(own)]
        parameters = {name: torch.cat([one.parameters[name] for one in mine]) for name in mine[0].parameters}
        by_block, none_is_better = [one.by_block for one in mine], [one.none_is_better for one in mine]
        joined = _Scored(parameters, np.concatenate(by_block), torch.cat(none_is_better))
        scores.append(_held_out_scores(problem, joined))
        start += len(own)
    return scores


def _score_one(problem: DecodingProblem, seed: int, steps: int, progress: bool) -> _Scored:
    """Fit and score the decoders of one model."""
    with one_thread():
        (parameters,) = _fit([problem], [[seed]], *_training(problem, steps), True, progress)
        return _score(problem, parameters)


def _training(problem: DecodingProblem, most: int) -> tuple[int, int]:
    """Training steps of the decoders of a problem, and their batch size; problems for which both are alike share a
    stack.

    Steps go up by 50, so that recordings of nearly one length have the same.
    """
    rows = min(len(own) for own in problem.training_rows)
    steps = max(FEWEST_TRAINING_STEPS, 50 * -(-MOST_PASSES * rows // (50 * BATCH_SIZE)))
    return min(most, steps), min(BATCH_SIZE, rows)


def _fit(
    problems: Sequence[DecodingProblem],
    seeds: Sequence[Sequence[int]],
    steps: int,
    batch: int,
    until_flat: bool,
    progress: bool,
) -> list[dict[str, Tensor]]:
    """Decoders that are trained alike, as one stack: for each problem their parameters (seed, variant, fold,
    ...)."""
    inputs, which, rows, masks, drawn = [], [], [], [], []
    for number, (problem, own) in enumerate(zip(problems, seeds, strict=True)):
        for model, seed in enumerate(own):
            for mask in problem.masks_with_waves:
                for training_rows in problem.training_rows:
                    which.append((len(inputs), number))
                    rows.append(training_rows)
                    masks.append(mask)
                    drawn.append(seed)  # variants are compared: same initial values, same batches
            inputs.append(problem.with_waves(problem.inputs[model]))
    parameters = fit_decoders(
        inputs,
        [problem.x for problem in problems],
        which,
        drawn,
        rows=rows,
        mask=torch.stack(masks),
        loss=problems[0].loss,
        steps=steps,
        batch=batch,
        until_flat=until_flat,
        progress=progress,
        name="unique variance",
    )
    parts, start = [], 0
    for problem, own in zip(problems, seeds, strict=True):
        size = len(own) * len(problem.masks) * FOLDS
        parts.append(
            {k: v[start : start + size].unflatten(0, (len(own), -1, FOLDS)) for k, v in parameters.items()}
        )
        start += size
    return parts


class _Scored(NamedTuple):
    """Decoders of a problem, (seed, variant, fold, ...), and their scores: see `HeldOutScores`. none_is_better :
    (seed, channel, space), where a decoder that did not see the space was worse than a constant."""

    parameters: Mapping[str, Tensor]
    by_block: np.ndarray
    none_is_better: Tensor


def _score(problem: DecodingProblem, parameters: Mapping[str, Tensor]) -> _Scored:
    """Held-out losses of the decoders of one problem, parameters (seed, variant, fold, ...)."""
    judge = _Judge(problem, parameters)
    x, blocks = problem.x, int(problem.block[-1]) + 1
    shape = (judge.seeds, blocks, x.shape[1], len(problem.spaces))
    total = torch.zeros(shape, dtype=torch.float64, device=x.device)
    worse = torch.zeros_like(total)
    for fold in range(FOLDS):
        for part in torch.from_numpy(np.flatnonzero(problem.fold == fold)).split(judge.rows_at_once):
            where = torch.from_numpy(problem.block[part.numpy()]).to(x.device)
            saved, beyond = judge.saved(part.to(x.device), fold)
            total.index_add_(1, where, saved.double())
            worse.index_add_(1, where, beyond.double())
    # A decoder that never saw a space may be worse than none: what it loses by that is not the space's.
    none_is_better = worse.sum(1) > 0
    total -= worse * none_is_better[:, None]
    mean = total / torch.from_numpy(np.bincount(problem.block)).to(x.device)[:, None, None]
    return _Scored(parameters, mean.permute(0, 3, 2, 1).cpu().numpy(), none_is_better)


def _held_out_scores(problem: DecodingProblem, scored: _Scored) -> HeldOutScores:
    """The scores, and how to get them at single time steps."""
    judge, x = _Judge(problem, scored.parameters), problem.x

    def at(rows: np.ndarray) -> np.ndarray:
        out = np.empty((judge.seeds, len(rows), x.shape[1], len(problem.spaces)), dtype=np.float32)
        for fold in range(FOLDS):
            places = np.flatnonzero(problem.fold[rows] == fold)
            for part in np.array_split(places, max(1, -(-len(places) // judge.rows_at_once))):
                saved, beyond = judge.saved(torch.from_numpy(rows[part]).to(x.device), fold)
                out[:, part] = (saved - beyond * scored.none_is_better[:, None]).cpu().numpy()
        return out

    return HeldOutScores(problem, scored.by_block, at)


class _Judge:
    """Losses of the decoders of one problem on time that was held out from them."""

    def __init__(self, problem: DecodingProblem, parameters: Mapping[str, Tensor]):
        self.problem, self.parameters = problem, parameters
        self.seeds, self.variants = parameters["0.bias"].shape[:2]
        x, self.masks = problem.x, problem.masks_with_waves
        self.constant = _constant(x, problem.loss)
        whole = losses(self.constant, x, problem.loss).mean(0) - _least(x, problem.loss).mean(0)
        # of a channel that never changes nothing is explained
        self.whole = torch.where(whole > LEAST_LOSS, whole, torch.inf)
        widest = max(x.shape[1], self.masks.shape[1], *WIDTHS)
        fit = NUMBERS_AT_ONCE // (self.seeds * self.variants * widest)
        self.rows_at_once = min(ROWS_AT_ONCE[x.is_cuda], max(64, fit))

    def loss(self, inputs: Tensor, rows: Tensor, variant: int, fold: int) -> Tensor:
        """Loss at rows of what one variant predicts from inputs (seed, rows, dim): (seed, rows, channel)."""
        one = {name: value[:, variant, fold] for name, value in self.parameters.items()}
        seen = self.problem.with_waves(inputs) * self.masks[variant]
        return losses(decode(one, seen), self.problem.x[rows], self.problem.loss)

    @torch.no_grad()
    def saved(self, rows: Tensor, fold: int) -> tuple[Tensor, Tensor]:
        """Saved loss at rows that one fold holds out, and how much of it is that of a decoder beyond what none, a
        constant, would lose: both (seed, rows, channel, space)."""
        u = self.problem.inputs[:, rows]
        full, *without = [self.loss(u, rows, variant, fold) for variant in range(self.variants)]
        none = losses(self.constant, self.problem.x[rows], self.problem.loss)
        stack = lambda parts: torch.stack([each / self.whole for each in parts], -1)  # noqa: E731
        return stack([each - full for each in without]), stack([each - none for each in without])


def _constant(x: Tensor, loss: str) -> Tensor:
    """The best prediction that knows nothing: (1, channel)."""
    mean = x.mean(0, keepdim=True)
    return mean if loss == "squared" else mean.clamp_min(1e-12).log()


def _least(x: Tensor, loss: str) -> Tensor:
    """The least loss possible: (time, channel)."""
    return torch.zeros_like(x) if loss == "squared" else x - torch.special.xlogy(x, x)
