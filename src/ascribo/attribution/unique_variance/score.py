"""Decoders fitted to some of the time and scored on the rest: the held-out loss that each space saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...training.decoders import WIDTHS, decode, fit_decoders, losses
from .decoding_problem import FOLDS, DecodingProblem

__all__ = ["MOST_TRAINING_STEPS", "HeldOutScores", "score_problems"]

MOST_TRAINING_STEPS = 1000
"""Training steps of the decoders, unless a recording is short or fewer are asked for."""
FEWEST_TRAINING_STEPS = 150
BATCH_SIZE = 512
MOST_PASSES = 80
"""Times that the decoders see the time steps they learn from, unless the recording is very short: in more of them
they learn its noise."""
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
    progress: bool = True,
) -> list[HeldOutScores]:
    """Fit the decoders of problems of one shape (channels, inputs, loss) as one stack, or a few, and score them.

    seeds : for each problem the seeds of its models' decoders. Every model, variant and fold has its own decoder.
    steps : of training, at most; None for `MOST_TRAINING_STEPS`. Short recordings have fewer.
    """
    steps = MOST_TRAINING_STEPS if steps is None else steps
    groups: dict[tuple[int, int], list[int]] = {}
    for k, problem in enumerate(problems):
        groups.setdefault(_training(problem, steps), []).append(k)
    scores: dict[int, HeldOutScores] = {}
    for plan, members in groups.items():
        found = _score_together([problems[k] for k in members], [seeds[k] for k in members], *plan, progress)
        scores |= dict(zip(members, found, strict=True))
    return [scores[k] for k in range(len(problems))]


def _training(problem: DecodingProblem, most: int) -> tuple[int, int]:
    """Training steps of the decoders of a problem, and their batch size; problems for which both are alike share a
    stack.

    Steps go up by 50, so that recordings of nearly one length have the same.
    """
    rows = min(len(own) for own in problem.training_rows)
    steps = max(FEWEST_TRAINING_STEPS, 50 * -(-MOST_PASSES * rows // (50 * BATCH_SIZE)))
    return min(most, steps), min(BATCH_SIZE, rows)


def _score_together(
    problems: Sequence[DecodingProblem], seeds: Sequence[Sequence[int]], steps: int, batch: int, progress: bool
) -> list[HeldOutScores]:
    """Scores by one stack of decoders that are trained alike."""
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
        progress=progress,
        name="unique variance",
    )
    scores, start = [], 0
    for problem, own in zip(problems, seeds, strict=True):
        size = len(own) * len(problem.masks) * FOLDS
        mine = {k: v[start : start + size].unflatten(0, (len(own), -1, FOLDS)) for k, v in parameters.items()}
        scores.append(_score(problem, mine))
        start += size
    return scores


def _score(problem: DecodingProblem, parameters: Mapping[str, Tensor]) -> HeldOutScores:
    """Held-out losses of the decoders of one problem, parameters (seed, variant, fold, ...)."""
    x, masks = problem.x, problem.masks_with_waves
    seeds, variants = parameters["0.bias"].shape[:2]
    whole = losses(_constant(x, problem.loss), x, problem.loss).mean(0) - _least(x, problem.loss).mean(0)
    whole = torch.where(
        whole > LEAST_LOSS, whole, torch.inf
    )  # of a channel that never changes nothing is explained
    widest = max(x.shape[1], masks.shape[1], *WIDTHS)
    chunk = min(ROWS_AT_ONCE[x.is_cuda], max(64, NUMBERS_AT_ONCE // (seeds * variants * widest)))

    @torch.no_grad()
    def saved_in_fold(rows: Tensor, fold: int) -> Tensor:
        """Saved loss at rows that one fold holds out: (seed, rows, channel, space)."""
        one = {name: value[:, :, fold] for name, value in parameters.items()}
        flat = {name: value.flatten(0, 1) for name, value in one.items()}
        u = problem.inputs[:, rows]
        seen = (problem.with_waves(u)[:, None] * masks[:, None]).flatten(0, 1)
        found = losses(decode(flat, seen), x[rows], problem.loss).unflatten(0, (seeds, variants))
        saved = {n: found[:, without] - found[:, full] for n, (full, without) in problem.comparisons.items()}
        first = {name: value[:, 0] for name, value in one.items()}
        for name, (where, redraws) in problem.redraws.items():
            total = torch.zeros_like(found[:, 0])
            for other in redraws[:, rows]:
                v = u.clone()
                v[..., where] = other
                lost = losses(decode(first, problem.with_waves(v) * masks[0]), x[rows], problem.loss)
                total += lost - found[:, 0]
            saved[name] = total / (2 * len(redraws))
        return torch.stack([saved[name] / whole for name in problem.spaces], -1)

    def at(rows: np.ndarray) -> np.ndarray:
        out = np.empty((seeds, len(rows), x.shape[1], len(problem.spaces)), dtype=np.float32)
        for fold in range(FOLDS):
            places = np.flatnonzero(problem.fold[rows] == fold)
            for part in np.array_split(places, max(1, -(-len(places) // chunk))):
                out[:, part] = saved_in_fold(torch.from_numpy(rows[part]).to(x.device), fold).cpu().numpy()
        return out

    blocks = int(problem.block[-1]) + 1
    total = torch.zeros(seeds, blocks, x.shape[1], len(problem.spaces), dtype=torch.float64, device=x.device)
    for fold in range(FOLDS):
        for part in torch.from_numpy(np.flatnonzero(problem.fold == fold)).split(chunk):
            where = torch.from_numpy(problem.block[part.numpy()]).to(x.device)
            total.index_add_(1, where, saved_in_fold(part.to(x.device), fold).double())
    mean = total / torch.from_numpy(np.bincount(problem.block)).to(x.device)[:, None, None]
    return HeldOutScores(problem, mean.permute(0, 3, 2, 1).cpu().numpy(), at)


def _constant(x: Tensor, loss: str) -> Tensor:
    """The best prediction that knows nothing: (1, channel)."""
    mean = x.mean(0, keepdim=True)
    return mean if loss == "squared" else mean.clamp_min(1e-12).log()


def _least(x: Tensor, loss: str) -> Tensor:
    """The least loss possible: (time, channel)."""
    return torch.zeros_like(x) if loss == "squared" else x - torch.special.xlogy(x, x)
