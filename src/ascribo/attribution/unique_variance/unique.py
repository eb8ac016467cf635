"""Unique variance: what of a channel can only be predicted with a space, on time that was held out.

Decoders predict the channels from everything; then a space is taken away, and the loss that this costs on held-out
time is what that space alone explains. Two kinds of spaces are asked two questions.

*Variables are known* (`Follow`, `Discrete`, `Regress`): how much does their *news*, the change since some steps
ago, tell of the channel, given the other variables now, all variables then, and the embedding then? If the blocks
of latents move on independently of each other given the past, which is what makes them identifiable (001,
definition 1), then the news of one block says nothing about a channel of the others, however much of the block has
leaked into the embedding of the others. (The whole value of the variable would find every leak.) The news is taken
away by drawing it anew from other times with a like past (`resample`): a decoder that has learned to look at it
loses if the channel carries it, and on average neither loses nor gains if it does not, whatever else it has
learned. Half of the loss is the variance that the news explains.

*Spaces that follow time alone*: how much do they add to all known variables? Here the decoder is compared with one
that never saw the space. The embedding is taken from the neighbours of a step, so that the channel's own noise is
not in it. The variables are known, so what a channel owes to them cannot leak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor

from ...data.standardised import StandardisedChannels
from ...networks.stack import Embedder
from ...spaces.base import Space, layout, reported
from ...training.decoders import WIDTHS, decode, fit_decoders, losses
from ..maps import AttributionMaps, TooFewSteps
from .frame import STRETCHES, Frame, frame_of
from .inputs import Question, white

__all__ = ["Answer", "Question", "ask", "unique_maps", "unique_variance"]

STEPS = 1000
BATCH = 512
PASSES = 80
"""Times that the decoders see the time steps they learn from, but for very short recordings: in more of them they
learn their noise."""
FEWEST = 150
"""Steps that they are trained for at least."""
FOLDS = 2
BLOCKS = (5, 40)
"""Fewest and most blocks of time that the spread of a score is judged by."""
APART = 10
"""A block has at least this many lags. Where there is nothing, blocks of as few as five are uncorrelated: news that
is drawn anew has no memory."""
CONSTANT = 1e-8
"""Least variance (or deviance) of a channel of which anything can be explained."""
CHUNK = {False: 8192, True: 65_536}
"""Time steps that are judged together, on a CPU and on a GPU."""
NUMBERS = 2**25
"""Most numbers of a layer held at once; with many channels and seeds there are fewer than CHUNK steps of them."""


@dataclass(frozen=True)
class Answer:
    """Held-out loss that each space saves, as a share of the channel's variance (or Poisson deviance).

    delta : (seed, space, channel, block), means over blocks of time. at(rows) : (seed, rows, channel, space), of
    single rows of the question's `steps`.
    """

    question: Question
    delta: np.ndarray
    at: Callable[[np.ndarray], np.ndarray]


def ask(
    embedder: Embedder,
    parameters: Mapping[str, Tensor],
    spaces: Mapping[str, Space],
    X: Tensor | StandardisedChannels,
    epochs: np.ndarray,
    variables: pd.DataFrame,
    *,
    counts: Tensor | StandardisedChannels | None = None,
    lag: int | None = None,
    frame: Frame | None = None,
) -> Question:
    """Put the question for one recording.

    X : (time, channel), standardised. variables : those that are known; a space without its variables, or whose
    variables never change within an epoch and so have no news, is asked about as if it followed time.
    counts : (time, channel), to be predicted under a Poisson loss instead of X. lag : over which there is news, by
    default by the pace of each space's variables. frame : that of these spaces and this recording, if it is at hand
    from another model (`frame_of`).

    Nothing is asked about a nuisance, but the decoders see it like any other space.
    """
    if frame is not None and lag is not None:
        raise ValueError(f"lag={lag!r} beside a frame, which has lags of its own: give the lag to `frame_of`.")
    if frame is None:
        frame = frame_of(spaces, embedder.window, epochs, variables, X, lag)
    asked, steps, slices = reported(spaces), frame.steps, layout(spaces)
    embed = lambda at: embedder.embed(parameters, X, epochs, at)  # noqa: E731
    seeds = len(next(iter(parameters.values())))
    what, parts = frame.what, [frame.values.expand(seeds, -1, -1)]
    first = 0
    if frame.lags:
        then = white((embed(steps - frame.before) + embed(steps - frame.before - 1)) / 2)
        first = then.shape[-1]
        what, parts = np.r_[np.full(first, "then", dtype=object), what], [then, *parts]
    if frame.hidden:
        around = (embed(steps - frame.near) + embed(steps + frame.near)) / 2
        for name in frame.hidden:
            parts.append(white(around[..., slices[name]]))
            what = np.r_[what, np.full(parts[-1].shape[-1], f"space {name}", dtype=object)]
    inputs = torch.cat(parts, -1)
    past = np.array([w.startswith(("then", "news ")) for w in what])
    level = np.array([w == "now" or w.startswith("space ") for w in what])
    masks, against, news = [past] if frame.lags else [], {}, {}
    for name, draws in frame.draws.items():
        where = np.flatnonzero(what == f"news {name}")
        news[name] = (slice(where[0], where[-1] + 1), draws)
    if frame.hidden:
        full = len(masks)
        masks.append(level)
        for name in (n for n in frame.hidden if n in asked):
            against[name] = (full, len(masks))
            masks.append(level & (what != f"space {name}"))
    waves = frame.waves
    if waves is not None:  # phases do not depend on the embedding
        waves = torch.nn.functional.pad(waves, (0, 0, first, len(what) - first - len(waves)))
    blocks = int(np.clip(len(steps) // (APART * max(frame.lags.values(), default=1)), *BLOCKS))
    stretch = np.arange(len(steps)) * STRETCHES // len(steps)
    fold = stretch % FOLDS
    gap = min(frame.reach, len(steps) // STRETCHES // 4)
    apart = np.ones(len(steps), dtype=bool)  # rows near a stretch of another fold share neighbours with it
    apart[gap:] &= fold[gap:] == fold[: len(fold) - gap]
    apart[: len(fold) - gap] &= fold[gap:] == fold[: len(fold) - gap]
    at = torch.from_numpy(steps).to(X.device)
    return Question(
        steps=steps,
        x=X[at] if counts is None else counts[at],
        inputs=inputs,
        masks=torch.from_numpy(np.stack(masks)).to(inputs),
        spaces=tuple(asked),
        against=against,
        news=news,
        fold=fold,
        block=np.arange(len(steps)) * blocks // len(steps),
        training=[np.flatnonzero((fold != k) & apart) for k in range(FOLDS)],
        loss="squared" if counts is None else "poisson",
        waves=waves,
    )


def unique_variance(
    questions: Sequence[Question], seeds: Sequence[Sequence[int]], *, steps: int = STEPS, progress: bool = True
) -> list[Answer]:
    """Answer questions of one shape (channels, inputs, loss) with one stack of decoders, or a few.

    seeds : for each question the seeds of its models. Every model, variant and fold has its own decoder.
    steps : of training at most; short recordings have fewer.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    for k, question in enumerate(questions):
        groups.setdefault(_training(question, steps), []).append(k)
    answers: dict[int, Answer] = {}
    for plan, members in groups.items():
        found = _answer_together([questions[k] for k in members], [seeds[k] for k in members], *plan, progress)
        answers |= dict(zip(members, found, strict=True))
    return [answers[k] for k in range(len(questions))]


def _training(question: Question, most: int) -> tuple[int, int]:
    """Steps that the decoders of a question are trained for, and their batch; like questions share a stack.

    Steps go up by 50, for recordings that are nearly of one length.
    """
    rows = min(len(training) for training in question.training)
    return min(most, max(FEWEST, 50 * -(-PASSES * rows // (50 * BATCH)))), min(BATCH, rows)


def _answer_together(
    questions: Sequence[Question], seeds: Sequence[Sequence[int]], steps: int, batch: int, progress: bool
) -> list[Answer]:
    """Answers by one stack of decoders that are trained alike."""
    inputs, which, rows, masks, drawn = [], [], [], [], []
    for number, (question, own) in enumerate(zip(questions, seeds, strict=True)):
        for model, seed in enumerate(own):
            for mask in question.wide_masks:
                for training in question.training:
                    which.append((len(inputs), number))
                    rows.append(training)
                    masks.append(mask)
                    drawn.append(seed)  # variants are compared: same initial values, same batches
            inputs.append(question.wide(question.inputs[model]))
    parameters = fit_decoders(
        inputs,
        [question.x for question in questions],
        which,
        drawn,
        rows=rows,
        mask=torch.stack(masks),
        loss=questions[0].loss,
        steps=steps,
        batch=batch,
        progress=progress,
        name="unique variance",
    )
    answers, start = [], 0
    for question, own in zip(questions, seeds, strict=True):
        size = len(own) * len(question.masks) * FOLDS
        mine = {k: v[start : start + size].unflatten(0, (len(own), -1, FOLDS)) for k, v in parameters.items()}
        answers.append(_judge(question, mine))
        start += size
    return answers


def _judge(question: Question, parameters: Mapping[str, Tensor]) -> Answer:
    """Held-out losses of the decoders of one question, parameters (seed, variant, fold, ...)."""
    x = question.x
    seeds, variants = parameters["0.bias"].shape[:2]
    masks = question.wide_masks
    whole = losses(_constant(x, question.loss), x, question.loss).mean(0) - _least(x, question.loss).mean(0)
    whole = torch.where(whole > CONSTANT, whole, torch.inf)  # of a channel that never changes nothing is explained
    widest = max(x.shape[1], masks.shape[1], *WIDTHS)
    chunk = min(CHUNK[x.is_cuda], max(64, NUMBERS // (seeds * variants * widest)))

    @torch.no_grad()
    def at(rows: Tensor, fold: int) -> Tensor:
        """Saved loss of rows of one fold: (seed, rows, channel, space)."""
        one = {name: value[:, :, fold] for name, value in parameters.items()}
        flat = {name: value.flatten(0, 1) for name, value in one.items()}
        u = question.inputs[:, rows]
        found = losses(
            decode(flat, (question.wide(u)[:, None] * masks[:, None]).flatten(0, 1)), x[rows], question.loss
        )
        found = found.unflatten(0, (seeds, variants))
        saved = {name: found[:, without] - found[:, full] for name, (full, without) in question.against.items()}
        first = {name: value[:, 0] for name, value in one.items()}
        for name, (where, draws) in question.news.items():
            total = torch.zeros_like(found[:, 0])
            for other in draws[:, rows]:
                v = u.clone()
                v[..., where] = other
                total += losses(decode(first, question.wide(v) * masks[0]), x[rows], question.loss) - found[:, 0]
            saved[name] = total / (2 * len(draws))
        return torch.stack([saved[name] / whole for name in question.spaces], -1)

    def over(rows: np.ndarray) -> np.ndarray:
        out = np.empty((seeds, len(rows), x.shape[1], len(question.spaces)), dtype=np.float32)
        for fold in range(FOLDS):
            places = np.flatnonzero(question.fold[rows] == fold)
            for part in np.array_split(places, max(1, -(-len(places) // chunk))):
                out[:, part] = at(torch.from_numpy(rows[part]).to(x.device), fold).cpu().numpy()
        return out

    blocks = int(question.block[-1]) + 1
    total = torch.zeros(seeds, blocks, x.shape[1], len(question.spaces), dtype=torch.float64, device=x.device)
    for fold in range(FOLDS):
        for part in torch.from_numpy(np.flatnonzero(question.fold == fold)).split(chunk):
            where = torch.from_numpy(question.block[part.numpy()]).to(x.device)
            total.index_add_(1, where, at(part.to(x.device), fold).double())
    mean = total / torch.from_numpy(np.bincount(question.block)).to(x.device)[:, None, None]
    return Answer(question, mean.permute(0, 3, 2, 1).cpu().numpy(), over)


def unique_maps(
    answer: Answer,
    *,
    weight: np.ndarray,
    refused: dict[str, str],
    channels: Sequence[str],
    time: np.ndarray,
    epochs: np.ndarray,
) -> AttributionMaps:
    """The answer as maps. weight : (seed, space), 1 for the seeds whose space counts."""
    steps, names = answer.question.steps, list(answer.question.spaces)
    share = np.where(weight.any(0), weight, 1.0)
    share = (share / share.sum(0))[:, None]  # (seed, 1, space)
    gone = [name in refused for name in names]

    def over_time(index: np.ndarray) -> np.ndarray:
        out = np.full((len(index), len(channels), len(names)), np.nan)
        rows = np.searchsorted(steps, index).clip(max=len(steps) - 1)
        asked = np.flatnonzero(steps[rows] == index)
        out[asked] = (answer.at(rows[asked]) * share[:, None]).sum(0)
        out[..., gone] = np.nan
        return out

    def at(chosen: np.ndarray) -> AttributionMaps:
        rows = np.flatnonzero(np.isin(steps, chosen))
        if len(rows) < BLOCKS[0]:
            raise TooFewSteps(
                f"{len(rows)} of these {len(chosen)} time steps have all their variables and neighbours: too few."
            )
        size = len(steps) / answer.delta.shape[-1]
        blocks = np.arange(len(rows)) * int(np.clip(len(rows) / size, *BLOCKS)) // len(rows)
        parts = [answer.at(rows[blocks == b]).mean(1) for b in range(blocks[-1] + 1)]
        return maps(np.stack(parts, -1).transpose(0, 2, 1, 3))

    def maps(delta: np.ndarray) -> AttributionMaps:
        score = (delta.mean(-1).transpose(0, 2, 1) * share).sum(0)
        score[:, gone] = np.nan
        delta = np.where(share[:, 0, :, None, None] > 0, delta, np.nan)
        labels = {"channel": list(channels), "space": names}
        attrs = {"method": "unique_variance", "loss": answer.question.loss}
        return AttributionMaps(
            None,
            xr.DataArray(score, dims=("channel", "space"), coords=labels, name="by_space", attrs=attrs),
            "unique_variance",
            refused,
            0.0,
            xr.DataArray(delta, dims=("seed", "space", "channel", "block"), coords=labels, name="blocks"),
            over_time,
            time,
            epochs,
            at,
        )

    return maps(answer.delta)


def _constant(x: Tensor, loss: str) -> Tensor:
    """The best prediction that knows nothing: (1, channel)."""
    mean = x.mean(0, keepdim=True)
    return mean if loss == "squared" else mean.clamp_min(1e-12).log()


def _least(x: Tensor, loss: str) -> Tensor:
    """The least loss possible: (time, channel)."""
    return torch.zeros_like(x) if loss == "squared" else x - torch.special.xlogy(x, x)
