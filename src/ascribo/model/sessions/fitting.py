"""From prepared sessions to fitted ones: train the encoders, find a common basis, keep landmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...networks.model_stack import LOG_TEMPERATURE
from ...networks.seed_alignment import Alignment, align_sessions
from ...spaces.base import Space, layout
from ...training.dispatch import train_source
from ...training.early_stopping import Watch, watch_held_out
from ...training.objective import contrastive_objectives
from ...training.settings import Settings
from ..fitted import FittedModel
from ..fitting import Prepared, finish, make_targets
from ..goodness_of_fit import Fit
from .kept_time_steps import Landmarks, keep_landmarks
from .session_batches import SessionSource, learned_temperatures, own_parameters
from .session_pairs import Measures, Member, SessionPairs

__all__ = ["FittedSession", "as_member", "fit_sessions", "frozen_member", "with_labels", "with_targets"]


class FittedSession(NamedTuple):
    """A session's part of a model. curves, ended : as of `ascribo.training.loop.Trained`, its own."""

    model: FittedModel
    fit: Fit
    curves: dict[str, np.ndarray]
    landmarks: Landmarks
    ended: tuple[str, ...]


def fit_sessions(
    prepared: Sequence[Prepared],
    spaces: Mapping[str, Space],
    pairs: SessionPairs,
    seeds: Sequence[int],
    settings: Settings,
    *,
    hybrid: str,
    frozen: Sequence[tuple[FittedModel, Landmarks]] = (),
    checkpoint: Path | None = None,
    progress: bool = True,
) -> list[FittedSession]:
    """Fit sessions into one space.

    spaces : of the whole model. pairs : of these sessions, then of the frozen ones, which are fitted already and
    take part with their landmarks. checkpoint : a file to write the state to, and to go on from if it is there.
    """
    problems, device = [part.problem for part in prepared], torch.device(settings.device)
    models = [model for model, _ in frozen]
    source = SessionSource(
        problems,
        spaces,
        contrastive_objectives(spaces, hybrid),
        pairs,
        seeds,
        device=device,
        exact_penalty=settings.exact_penalty,
        first=len(frozen),
        frozen=[(marks.tempered(model), model.spaces) for model, marks in frozen],
        temperature=_temperature(spaces, models),
    )
    watch = _watch(source, seeds, settings)
    trained = train_source(source, settings, progress=progress, checkpoint=checkpoint, watch=watch)
    parameters = {**trained.parameters, **{name: value.cpu() for name, value in source.fixed.items()}}
    fitted = finish(
        prepared,
        [own_parameters(parameters, k, spaces, problem.spaces) for k, problem in enumerate(problems)],
        [seeds] * len(problems),
        batch_size=settings.batch_size,
        decoder_steps=settings.decoder_steps,
        until_flat=settings.watched,
        device=device,
        progress=progress,
        alignments=lambda z, best: align_sessions(
            z,
            [layout(problem.spaces) for problem in problems],
            [name for name, space in spaces.items() if space.comparable],
            models[0].alignment.reference if models else best,
            _bases(models),
        ),
    )
    return [
        FittedSession(
            *(model, fit, _curves(trained.history, k, len(seeds), spaces, model)),
            keep_landmarks(model.to(device), prepared[k], pairs.keep(k)),
            trained.ended[k * len(seeds) : (k + 1) * len(seeds)],
        )
        for k, (model, fit) in enumerate(fitted)
    ]


def _watch(source: SessionSource, seeds: Sequence[int], settings: Settings) -> Watch | None:
    """Held-out bits of every session by itself, (session · seed,); None if one of them holds nothing out."""
    each = [watch_held_out(own, list(seeds), settings.device, settings.batch_size) for own in source.problems]
    found = [one for one in each if one is not None]

    def watch(parameters: Mapping[str, Tensor]) -> np.ndarray:
        whole, own = {**parameters, **source.fixed}, [problem.spaces for problem in source.problems]
        return np.concatenate([f(own_parameters(whole, k, source.spaces, own[k])) for k, f in enumerate(found)])

    return watch if len(found) == len(each) else None


def _bases(models: Sequence[FittedModel]) -> dict[str, Alignment]:
    """The bases of the blocks of fitted sessions."""
    out: dict[str, Alignment] = {}
    for model in models:
        for name, where in layout(model.spaces).items():
            out.setdefault(name, model.alignment.block(where))
    return out


def _temperature(spaces: Mapping[str, Space], models: Sequence[FittedModel]) -> Tensor | None:
    """The temperatures that were fitted, (seed, space); None if there are none."""
    columns = []
    for name in learned_temperatures(spaces) if models else []:
        model = next(model for model in models if name in model.spaces)
        place = learned_temperatures(model.spaces).index(name)
        columns.append(model.parameters[LOG_TEMPERATURE][:, place])
    return torch.stack(columns, 1) if columns else None


def _curves(
    history: Mapping[str, np.ndarray], session: int, seeds: int, spaces: Mapping[str, Space], model: FittedModel
) -> dict[str, np.ndarray]:
    """One session's curves among those of all: its seeds, and the spaces that it has."""
    mine = {name: value[:, session * seeds : (session + 1) * seeds] for name, value in history.items()}
    for curve, regress in (("infonce", False), ("mse", True)):
        names = [n for n, s in spaces.items() if s.contrastive != regress]
        mine[curve] = mine[curve][..., [k for k, name in enumerate(names) if name in model.spaces]]
    return mine


def as_member(prepared: Prepared) -> Member:
    """A session that is to be trained, as the pairs see it."""
    return Member(prepared.problem.spaces, prepared.recording.variables, prepared.problem.segments)


def frozen_member(model: FittedModel, marks: Landmarks) -> Member:
    """A session that is fitted already; what it learned of time alone is its own."""
    own = {name: space for name, space in model.spaces.items() if space.comparable}
    return Member(own, marks.variables, np.zeros(len(marks.variables), dtype=int), marks.kept)


def with_targets(prepared: Prepared, statistics: Mapping[str, np.ndarray]) -> Prepared:
    """The same with regressions whose targets are standardised in common for all sessions."""
    own = {name: statistics[name] for name in prepared.regressions}
    targets = make_targets(prepared.problem.spaces, prepared.recording, own)
    return replace(prepared, problem=replace(prepared.problem, targets=targets), regressions=own)


def with_labels(measures: Measures, prepared: Prepared) -> Measures:
    """The same with what a new session adds, such as its labels."""
    own, table = prepared.problem.spaces, prepared.recording.variables
    return {n: own[n].extended_measure(value, table) if n in own else value for n, value in measures.items()}
