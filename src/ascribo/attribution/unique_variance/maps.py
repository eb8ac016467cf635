"""Unique variance from start to end: models and recordings to decoding problems, to held-out scores, to maps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import xarray as xr

from ...data.recording import Recording
from ...data.standardised_channels import are_counts, standardise
from ..false_discovery_rate import reasons_without_test
from ..maps import AttributionMaps, Parts, TooFewSteps
from ..method_inputs import Model, reasons_without_map, seed_weights
from ..method_registry import Options, recording_method
from .decoding_problem import DecodingProblem, make_problem
from .design import BLOCKS, make_design
from .score import HeldOutScores, score_problems

__all__ = ["make_problems", "maps_from_scores", "unique_variance_maps"]


@recording_method("unique_variance", takes={"loss"}, tested=True)
def _unique_variance(model: Model, recording: Recording, options: Options) -> AttributionMaps:
    """The unique variance of one model."""
    how = {"until_flat": options.until_flat, "n_jobs": options.n_jobs, "progress": options.progress}
    return unique_variance_maps([model], [recording], loss=options.loss, **how)[0]


def unique_variance_maps(
    models: Sequence[Model],
    recordings: Sequence[Recording],
    *,
    loss: str = "squared",
    steps: int | None = None,
    until_flat: bool = False,
    n_jobs: int | None = 1,
    progress: bool = False,
) -> list[AttributionMaps]:
    """Unique variance maps of many models, each of its recording; those of one shape share a stack of decoders.

    loss : "squared", or "poisson" for channels that are counts. steps : of training of the decoders, at most.
    until_flat, n_jobs : see `score_problems`.
    """
    problems = make_problems(models, recordings, loss=loss)
    how = {"until_flat": until_flat, "n_jobs": n_jobs, "progress": progress}
    groups: dict[tuple, list[int]] = {}
    for k, problem in enumerate(problems):
        phases = None if problem.phases is None else problem.phases.shape
        groups.setdefault((problem.x.shape[1], problem.masks.shape, phases), []).append(k)
    maps: dict[int, AttributionMaps] = {}
    for members in groups.values():
        seeds = [list(range(models[k].seeds)) for k in members]
        found = score_problems([problems[k] for k in members], seeds, steps=steps, **how)
        for k, scores in zip(members, found, strict=True):
            maps[k] = maps_from_scores(
                scores,
                weight=seed_weights(models[k]),
                refused=reasons_without_map(models[k]),
                untested=reasons_without_test(models[k].spaces, recordings[k].variables),
                channels=models[k].channels,
                time=recordings[k].time,
                epochs=recordings[k].epochs,
            )
    return [maps[k] for k in range(len(models))]


def make_problems(
    models: Sequence[Model], recordings: Sequence[Recording], *, loss: str = "squared"
) -> list[DecodingProblem]:
    """What the decoders of each model and its recording learn; models of one recording share a design."""
    problems, designs = [], {}
    for model, recording in zip(models, recordings, strict=True):
        counts = None
        if loss == "poisson":
            if not are_counts(recording.X):
                raise ValueError("loss='poisson' is for counts: X has entries that are not whole numbers >= 0.")
            nothing, one = np.zeros(recording.X.shape[1]), np.ones(recording.X.shape[1])
            counts = standardise(recording.X, nothing, one, model.device)
        X, about = model.standardise(recording.X), (recording.epochs, recording.variables)
        key = (id(recording), repr(model.spaces), model.embedder.window)
        if key not in designs:
            designs[key] = make_design(model.spaces, model.embedder.window, *about, X)
        given = (model.embedder, model.parameters, model.spaces, X, *about)
        problems.append(make_problem(*given, counts=counts, design=designs[key]))
    return problems


def maps_from_scores(
    scores: HeldOutScores,
    *,
    weight: np.ndarray,
    refused: dict[str, str],
    untested: dict[str, str],
    channels: Sequence[str],
    time: np.ndarray,
    epochs: np.ndarray,
) -> AttributionMaps:
    """Held-out scores as maps.

    weight : (seed, space), 1 for the seeds whose space is usable. refused : space -> why it has no map. Both are
    for spaces that are judged by their embedding: variables are tested as they are, whatever the embedding knows
    of them.
    """
    index, names = scores.problem.index, list(scores.problem.spaces)
    by_embedding = scores.problem.comparisons
    weight = np.where([name in by_embedding for name in names], weight, 1.0)
    refused = {name: why for name, why in refused.items() if name in by_embedding}
    share = np.where(weight.any(0), weight, 1.0)
    share = (share / share.sum(0))[:, None]  # (seed, 1, space)
    gone = [name in refused for name in names]

    def over_time(chosen: np.ndarray) -> np.ndarray:
        out = np.full((len(chosen), len(channels), len(names)), np.nan)
        rows = np.searchsorted(index, chosen).clip(max=len(index) - 1)
        tested = np.flatnonzero(index[rows] == chosen)
        out[tested] = (scores.at(rows[tested]) * share[:, None]).sum(0)
        out[..., gone] = np.nan
        return out

    def only_at(chosen: np.ndarray) -> AttributionMaps:
        rows = np.flatnonzero(np.isin(index, chosen))
        if len(rows) < BLOCKS[0]:
            raise TooFewSteps(
                f"{len(rows)} of these {len(chosen)} time steps have all their variables and neighbours: too few."
            )
        size = len(index) / scores.by_block.shape[-1]
        blocks = np.arange(len(rows)) * int(np.clip(len(rows) / size, *BLOCKS)) // len(rows)
        parts = [scores.at(rows[blocks == b]).mean(1) for b in range(blocks[-1] + 1)]
        return maps(np.stack(parts, -1).transpose(0, 2, 1, 3))

    def maps(by_block: np.ndarray, level: np.ndarray | None = None) -> AttributionMaps:
        score = np.minimum((by_block.mean(-1).transpose(0, 2, 1) * share).sum(0), 1.0)
        score[:, gone] = np.nan
        by_block = np.where(share[:, 0, :, None, None] > 0, by_block, np.nan)
        labels = {"channel": list(channels), "space": names}
        attrs = {"method": "unique_variance", "loss": scores.problem.loss}
        array = partial(xr.DataArray, dims=("channel", "space"), coords=labels, attrs=attrs)
        return AttributionMaps(
            None,
            array(score, name="by_space"),
            "unique_variance",
            refused,
            0.0,
            xr.DataArray(by_block, dims=("seed", "space", "channel", "block"), coords=labels, name="blocks"),
            untested=untested,
            undecided={name: why for name, why in scores.problem.undecided.items() if name not in untested},
            level=None if level is None else array(level, name="level"),
            parts=Parts(time, epochs, over_time, only_at),
        )

    if scores.level is None:
        return maps(scores.by_block)
    level = np.minimum((scores.level.transpose(0, 2, 1) * share).sum(0), 1.0)
    level[:, gone] = np.nan
    return maps(scores.by_block, level)
