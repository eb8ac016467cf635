"""Decoders fitted to some of the time and scored on the rest: the held-out loss that each space saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from joblib import effective_n_jobs
from torch import Tensor

from ...support.compute import in_threads, one_thread
from ...training.decoders import WIDTHS, decode, losses
from ...training.kept_decoders import kept_or_fitted
from .decoding_problem import DecodingProblem
from .design import FOLDS

__all__ = ["MOST_TRAINING_STEPS", "HeldOutScores", "score_problems"]

MOST_TRAINING_STEPS = 1000
"""Training steps of the decoders, unless a recording is short or fewer are asked for."""
FEWEST_TRAINING_STEPS = 150
BATCH_SIZE = 512
MOST_NUMBERS = 2**17
"""Numbers that a decoder predicts in a training step, time steps times channels: with more than 256 channels
batches are smaller. What the channels share is then learned from as many numbers as with 256, in half of the time:
batches of 256 instead of 512 time steps of 500 channels changed the held-out loss by 0.3% or less, and no call."""
FEWEST_ROWS = 64
"""Time steps of a batch, whatever the channels."""
MOST_PASSES = 80
"""Times that the decoders see the time steps they learn from, unless the recording is very short: in more of them
they learn its noise."""
WORTH_THREADS = 1e6
"""Numbers to predict, of all models and variants, from which on it is worth to start threads."""
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
        none depends on the others; so it has where there is one problem only.
    n_jobs : threads that share these stacks (None: one for each core if it is worth it).
    """
    steps = MOST_TRAINING_STEPS if steps is None else steps
    if not problems[0].x.is_cuda and (until_flat or len(problems) == 1):
        size = sum(p.x.numel() * len(p.masks) * len(own) for p, own in zip(problems, seeds, strict=True))
        threads = effective_n_jobs(-1 if n_jobs is None and size > WORTH_THREADS else n_jobs or 1)
        return _score_apart(problems, seeds, steps, until_flat, threads, progress)
    groups: dict[tuple[int, int], list[int]] = {}
    for k, problem in enumerate(problems):
        groups.setdefault(_training(problem, steps), []).append(k)
    scores: dict[int, HeldOutScores] = {}
    for (some, batch), members in groups.items():
        given = ([problems[k] for k in members], [seeds[k] for k in members], some, batch, until_flat, progress)
        for k, parameters in zip(members, _fit(*given), strict=True):
            compared = _compared(problems[k])
            scores[k] = _held_out_scores(problems[k], _score(problems[k], parameters, compared), compared)
    return [scores[k] for k in range(len(problems))]


def _score_apart(
    problems: Sequence[DecodingProblem],
    seeds: Sequence[Sequence[int]],
    steps: int,
    until_flat: bool,
    threads: int,
    progress: bool,
) -> list[HeldOutScores]:
    """Scores by a stack of decoders for each problem and model."""
    compared = [_compared(problem) for problem in problems]
    work = [(k, model, seed) for k, own in enumerate(seeds) for model, seed in enumerate(own)]

    def score(task: tuple[int, int, int]) -> _Scored:
        torch.set_num_threads(1)  # each thread has a number of its own
        k, model, seed = task
        problem = replace(problems[k], inputs=problems[k].inputs[model : model + 1])
        how = (*_training(problem, steps), until_flat, progress and task == work[0])
        (parameters,) = _fit([problem], [[seed]], *how)
        return _score(problem, parameters, compared[k])

    with one_thread():
        found = in_threads(score, work, threads)
    scores = []
    for k, problem in enumerate(problems):
        mine = [one for one, task in zip(found, work, strict=True) if task[0] == k]
        parameters = {name: torch.cat([one.parameters[name] for one in mine]) for name in mine[0].parameters}
        by_block, none_is_better = [one.by_block for one in mine], [one.none_is_better for one in mine]
        joined = _Scored(parameters, np.concatenate(by_block), torch.cat(none_is_better))
        scores.append(_held_out_scores(problem, joined, compared[k]))
    return scores


def _training(problem: DecodingProblem, most: int) -> tuple[int, int]:
    """Training steps of the decoders of a problem, and their batch size; problems for which both are alike share a
    stack.

    Steps go up by 50, so that recordings of nearly one length have the same.
    """
    rows = min(len(own) for own in problem.training_rows)
    steps = max(FEWEST_TRAINING_STEPS, 50 * -(-MOST_PASSES * rows // (50 * BATCH_SIZE)))
    return min(most, steps), min(BATCH_SIZE, max(FEWEST_ROWS, MOST_NUMBERS // problem.x.shape[1]), rows)


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
    parameters = kept_or_fitted(
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


class _Compared(NamedTuple):
    """What decoders are compared with. constant : (1, channel), the best prediction that knows nothing. whole :
    (channel,), what could be saved of its loss; infinite for a channel that never changes, of which nothing is
    explained."""

    constant: Tensor
    whole: Tensor


def _compared(problem: DecodingProblem) -> _Compared:
    x, mean = problem.x, problem.x.mean(0, keepdim=True)
    constant = mean if problem.loss == "squared" else mean.clamp_min(1e-12).log()
    whole = losses(constant, x, problem.loss).mean(0)
    if problem.loss == "poisson":  # the least loss possible is not 0
        whole = whole - (x - torch.special.xlogy(x, x)).mean(0)
    return _Compared(constant, torch.where(whole > LEAST_LOSS, whole, torch.inf))


def _score(problem: DecodingProblem, parameters: Mapping[str, Tensor], compared: _Compared) -> _Scored:
    """Held-out losses of the decoders of one problem, parameters (seed, variant, fold, ...)."""
    judge = _Judge(problem, parameters, compared)
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


def _held_out_scores(problem: DecodingProblem, scored: _Scored, compared: _Compared) -> HeldOutScores:
    """The scores, and how to get them at single time steps."""
    judge, x = _Judge(problem, scored.parameters, compared), problem.x

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

    def __init__(self, problem: DecodingProblem, parameters: Mapping[str, Tensor], compared: _Compared):
        self.problem, self.parameters, self.compared = problem, parameters, compared
        self.seeds, self.variants = parameters["0.bias"].shape[:2]
        self.masks = problem.masks_with_waves
        widest = max(problem.x.shape[1], self.masks.shape[1], *WIDTHS)
        fit = NUMBERS_AT_ONCE // (self.seeds * self.variants * widest)
        self.rows_at_once = min(ROWS_AT_ONCE[problem.x.is_cuda], max(64, fit))

    @torch.no_grad()
    def saved(self, rows: Tensor, fold: int) -> tuple[Tensor, Tensor]:
        """Saved loss at rows that one fold holds out, and how much of it is that of a decoder beyond what none, a
        constant, would lose: both (seed, rows, channel, space)."""
        problem, (constant, whole) = self.problem, self.compared
        seen = problem.with_waves(problem.inputs[:, rows])
        x = torch.nn.functional.embedding(rows, problem.x)  # whole rows: faster than x[rows] on a CPU
        own = [
            {name: v[:, variant, fold] for name, v in self.parameters.items()} for variant in range(self.variants)
        ]
        full, *without = [
            losses(decode(one, seen * mask), x, problem.loss) for one, mask in zip(own, self.masks, strict=True)
        ]
        none = losses(constant, x, problem.loss)
        stack = lambda parts: torch.stack([each / whole for each in parts], -1)  # noqa: E731
        return stack([each - full for each in without]), stack([each - none for each in without])
