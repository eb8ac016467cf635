"""Unique variance from start to end: the test of known variables, decoders for the other spaces, and maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import xarray as xr

from ...data.recording import Recording
from ...data.standardised_channels import are_counts, standardise
from ...screening import SpaceTest, screen_spaces
from ...spaces.base import reported
from ..false_discovery_rate import reasons_without_test
from ..maps import NUMBERS, AttributionMaps, Parts, TooFewSteps
from ..method_inputs import Model, reasons_without_map, seed_weights
from ..method_registry import Options, recording_method
from .decoding_problem import DecodingProblem, make_problem
from .design import BLOCKS, make_design
from .score import HeldOutScores, score_problems

__all__ = ["known_spaces", "make_problems", "maps_of_recording", "unique_variance_maps"]

FEWEST_TIME_STEPS = 5
"""Time steps below which a part of the recording has no map."""


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

    loss : "squared", or "poisson" for channels that are counts; of the decoders. steps : of training of the
    decoders, at most. until_flat, n_jobs : see `score_problems`.
    """
    problems = make_problems(models, recordings, loss=loss)
    how = {"until_flat": until_flat, "n_jobs": n_jobs, "progress": progress}
    groups: dict[tuple, list[int]] = {}
    for k, problem in enumerate(problems):
        if problem is not None:
            phases = None if problem.phases is None else problem.phases.shape
            groups.setdefault((problem.x.shape[1], problem.masks.shape, phases), []).append(k)
    scores: dict[int, HeldOutScores] = {}
    for members in groups.values():
        seeds = [list(range(models[k].seeds)) for k in members]
        chosen = [own for k in members if (own := problems[k]) is not None]
        scores |= dict(zip(members, score_problems(chosen, seeds, steps=steps, **how), strict=True))
    tests: dict[tuple[int, str], list[SpaceTest]] = {}  # models of one recording share them
    maps = []
    for k, (model, recording) in enumerate(zip(models, recordings, strict=True)):
        known = known_spaces(model, recording)
        key = id(recording), repr({name: model.spaces[name] for name in known})
        if key not in tests:
            tests[key] = screen_spaces(recording, {name: model.spaces[name] for name in known}) if known else []
        maps.append(
            maps_of_recording(
                *(recording, reported(model.spaces), tests[key], scores.get(k)),
                weight=seed_weights(model),
                refused=reasons_without_map(model),
                untested=reasons_without_test(model.spaces, recording.variables),
                again=lambda only, model=model, recording=recording, known=known: screen_spaces(
                    recording, {name: model.spaces[name] for name in known}, only=only
                ),
            )
        )
    return maps


def known_spaces(model: Model, recording: Recording) -> list[str]:
    """Spaces of a model whose variables the recording has, nuisances too; none if all of them are nuisances."""
    known = [n for n, s in model.spaces.items() if s.variables and set(s.variables) <= set(recording.variables)]
    return known if any(not model.spaces[name].nuisance for name in known) else []


def make_problems(
    models: Sequence[Model], recordings: Sequence[Recording], *, loss: str = "squared"
) -> list[DecodingProblem | None]:
    """What the decoders of each model and its recording learn; models of one recording share a design.

    None for a model all of whose spaces have variables that the recording knows.
    """
    problems, designs = [], {}
    for model, recording in zip(models, recordings, strict=True):
        counts = None
        if loss == "poisson":
            if not are_counts(recording.X):
                raise ValueError("loss='poisson' is for counts: X has entries that are not whole numbers >= 0.")
            nothing, one = np.zeros(recording.X.shape[1]), np.ones(recording.X.shape[1])
            counts = standardise(recording.X, nothing, one, model.device)
        if set(reported(model.spaces)) <= set(known_spaces(model, recording)):
            problems.append(None)
            continue
        X, about = model.standardise(recording.X), (recording.epochs, recording.variables)
        key = (id(recording), repr(model.spaces), model.embedder.window)
        if key not in designs:
            designs[key] = make_design(model.spaces, model.embedder.window, *about, X)
        given = (model.embedder, model.parameters, model.spaces, X, *about)
        problems.append(make_problem(*given, counts=counts, design=designs[key]))
    return problems


def maps_of_recording(
    recording: Recording,
    names: Sequence[str],
    tests: Sequence[SpaceTest],
    scores: HeldOutScores | None,
    *,
    weight: np.ndarray,
    refused: Mapping[str, str],
    untested: Mapping[str, str],
    again: Callable[[np.ndarray], Sequence[SpaceTest]],
) -> AttributionMaps:
    """Tests of known variables and held-out scores of the other spaces as maps.

    Parameters
    ----------
    names : the spaces, in order.
    tests : of the spaces whose variables are known. scores : of the others, None if there are none.
    weight : (seed, space), 1 for the seeds whose space is usable. refused : space -> why it has no map. Both are
        for spaces that are judged by their embedding: variables are tested as they are, whatever the embedding
        knows of them.
    again : (time,) booleans -> the tests at these time steps alone.
    """
    names, channels = list(names), recording.channel_names
    embedded = list(scores.problem.spaces) if scores is not None else []
    refused = {name: why for name, why in refused.items() if name in embedded}
    weight = weight[:, [names.index(name) for name in embedded]]
    share = np.where(weight.any(0), weight, 1.0)
    share = (share / share.sum(0))[:, None]  # (seed, 1, space)
    gone = [name in refused for name in embedded]

    def joined(of_tests: Sequence[np.ndarray], of_scores: np.ndarray | None) -> np.ndarray:
        """(..., channel) of each test and (..., channel, space) of the others, as (..., channel, space)."""
        parts = dict(zip([test.space for test in tests], of_tests, strict=True))
        if of_scores is not None:
            of_scores = np.where(gone, np.nan, of_scores)
            parts |= {name: of_scores[..., k] for k, name in enumerate(embedded)}
        return np.stack([parts[name] for name in names], axis=-1)

    def over_time(chosen: np.ndarray) -> np.ndarray:
        if scores is None:
            return joined([test.at(chosen) for test in tests], None)
        index = scores.problem.index
        out = np.full((len(chosen), len(channels), len(embedded)), np.nan)
        rows = np.searchsorted(index, chosen).clip(max=len(index) - 1)
        there = np.flatnonzero(index[rows] == chosen)
        out[there] = (scores.at(rows[there]) * share[:, None]).sum(0)
        return joined([test.at(chosen) for test in tests], out)

    def scores_at(chosen: np.ndarray) -> np.ndarray:
        found = over_time(chosen)
        enough = np.isfinite(found).sum(0) >= FEWEST_TIME_STEPS
        if not enough.any():
            raise TooFewSteps(f"of these {len(chosen)} time steps too few have all their variables and neighbours.")
        return np.where(enough, np.nanmean(np.where(enough, found, 0.0), 0), np.nan)

    def only_at(chosen: np.ndarray) -> AttributionMaps:
        by_block = None
        if scores is not None:
            rows = np.flatnonzero(np.isin(scores.problem.index, chosen))
            if len(rows) < BLOCKS[0]:
                raise TooFewSteps(
                    f"{len(rows)} of these {len(chosen)} time steps have all their variables and neighbours: too "
                    "few."
                )
            size = len(scores.problem.index) / scores.by_block.shape[-1]
            blocks = np.arange(len(rows)) * int(np.clip(len(rows) / size, *BLOCKS)) // len(rows)
            parts = [scores.at(rows[blocks == b]).mean(1) for b in range(blocks[-1] + 1)]
            by_block = np.stack(parts, -1).transpose(0, 2, 1, 3)
        only = np.zeros(len(recording), dtype=bool)
        only[chosen] = True
        return maps(again(only) if tests else [], by_block)

    def maps(tests: Sequence[SpaceTest], by_block: np.ndarray | None) -> AttributionMaps:
        found = None
        if by_block is not None:
            found = np.minimum((by_block.mean(-1).transpose(0, 2, 1) * share).sum(0), 1.0)
            by_block = np.where(share[:, 0, :, None, None] > 0, by_block, np.nan)
        attrs = {"method": "unique_variance", "loss": "squared" if scores is None else scores.problem.loss}
        labels = {"channel": list(channels), "space": names}
        array = partial(xr.DataArray, dims=("channel", "space"), coords=labels, attrs=attrs)
        return AttributionMaps(
            None,
            array(joined([test.score for test in tests], found), name="by_space"),
            "unique_variance",
            refused,
            0.0,
            None if by_block is None else _blocks(by_block, channels, embedded),
            untested=dict(untested),
            undecided={test.space: test.why_refused for test in tests if test.why_refused},
            level=array(joined([test.level for test in tests], found), name="level"),
            tests=_tests(tests, channels) if tests else None,
            notes={test.space: {note.kind: note.text for note in test.notes} for test in tests if test.notes},
            parts=Parts(recording.time, recording.epochs, over_time, only_at, scores_at),
        )

    return maps(tests, None if scores is None else scores.by_block)


def _blocks(by_block: np.ndarray, channels: Sequence[str], spaces: list[str]) -> xr.DataArray:
    labels = {"channel": list(channels), "space": spaces}
    return xr.DataArray(by_block, dims=("seed", "space", "channel", "block"), coords=labels, name="blocks")


def _tests(tests: Sequence[SpaceTest], channels: Sequence[str]) -> xr.DataArray:
    labels = {"number": list(NUMBERS), "channel": list(channels), "space": [test.space for test in tests]}
    values = [[getattr(test, number) for test in tests] for number in NUMBERS]
    return xr.DataArray(
        np.array(values).transpose(0, 2, 1), dims=("number", "channel", "space"), coords=labels, name="tests"
    )
