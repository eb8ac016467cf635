"""From a recording to a fitted model, in three steps: prepare the problem, train the encoders, learn the way back.

The estimator takes them for one recording and several seeds. Experiments take them for many recordings at once:
what has one shape trains as one stack, and so do the decoders.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..attribution.methods.generative_gradient import decoder_embedding, decoder_rows
from ..data.recording import Recording
from ..data.segments import hold_out, hold_out_epochs
from ..data.standardised_channels import channel_statistics, limit_time_steps, on_device, standardise
from ..networks.encoders import build_encoder, input_window
from ..networks.model_stack import Embedder
from ..networks.seed_alignment import Alignment, align
from ..spaces.base import Space, layout
from ..spaces.pairs import Pairs
from ..training.decoders import fit_decoders
from ..training.dispatch import train_many
from ..training.objective import contrastive_objectives
from ..training.penalty_weight import Schedule
from ..training.settings import DECODER_STEPS, Settings
from ..training.training_problem import Problem
from .fitted import FittedModel
from .goodness_of_fit import TEMPERATURES, Fit, goodness_of_fit
from .input_checks import check_dimensions

__all__ = ["Prepared", "finish", "fit_many", "is_of_trials", "make_targets", "prepare", "still_within_epochs"]

DECODED = 100_000
"""Most time steps a decoder is fitted to."""
FEWEST_HELD_OUT = 20
"""Fewest time steps that the goodness of fit is measured on. Spaces that are there were called collapsed in a fifth
of the recordings on 10 time steps, in 0 to 8% on 20, in none on 100."""


@dataclass(frozen=True)
class Prepared:
    """A recording and the problem made of it.

    validation_pairs, validation_segments : pairs and segments of the held-out time; those of the training if
        nothing is held out.
    mean, scale : (channel,) float64, what the channels are standardised with.
    regressions : for each Regress space the mean and spread (2, dim) of its targets.
    between : names of spaces that are judged by pairs of different epochs alone, see `goodness_of_fit`.
    """

    recording: Recording
    problem: Problem
    validation_pairs: Pairs
    validation_segments: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    regressions: dict[str, np.ndarray]
    between: tuple[str, ...] = ()

    @property
    def held_out(self) -> bool:
        """Whether the goodness of fit is measured on time the encoders have not seen."""
        return self.validation_pairs is not self.problem.pairs


def prepare(
    recording: Recording,
    spaces: Mapping[str, Space],
    *,
    encoder: object = "mlp",
    hybrid: str = "whole",
    validation_fraction: float = 0.1,
    one_scale: bool = False,
    device: torch.device | str = "cpu",
) -> Prepared:
    """Standardise the channels, hold out blocks of time, index the pairs.

    device : where the channels of the problem are kept: they are moved once, and all that follows finds them there.

    one_scale : divide all channels by one number instead of each by its own standard deviation: attributions in the
        channels' own units, as Schneider et al. (2025) have them.
    """
    module = build_encoder(encoder, recording.X.shape[1], sum(s.dim for s in spaces.values()))
    longest = int(np.bincount(recording.epochs).max())
    if (window := input_window(module)) > longest:
        raise ValueError(
            f"the encoder's window of {window} time steps is longer than the longest epoch ({longest}): use a "
            "shorter window or longer epochs."
        )
    check_dimensions(spaces, recording.X.shape[1], window)
    still = still_within_epochs(recording, spaces)
    pairs, training, judging, validation = _split(recording, spaces, module, validation_fraction, still)
    statistics = {
        name: space.target_statistics(recording.variables, np.flatnonzero(training >= 0))
        for name, space in spaces.items()
        if not space.contrastive
    }
    X = on_device(recording.X, device)
    mean, scale = channel_statistics(X)
    if one_scale:
        scale = np.full_like(scale, np.sqrt(np.mean(scale**2)))
    standard = standardise(X, mean, scale)
    targets = make_targets(spaces, recording, statistics)
    held_out = (judging, validation) if judging is not pairs else None
    objectives = contrastive_objectives(spaces, hybrid)
    problem = Problem(module, spaces, objectives, standard, training, pairs, targets, held_out)
    return Prepared(recording, problem, judging, validation, mean, scale, statistics, still)


def make_targets(
    spaces: Mapping[str, Space], recording: Recording, statistics: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What the Regress spaces predict, standardised with their statistics: name -> (time, dim)."""
    return {name: spaces[name].targets(recording.variables, value) for name, value in statistics.items()}


def finish(
    prepared: Sequence[Prepared],
    parameters: Sequence[Mapping[str, Tensor]],
    seeds: Sequence[Sequence[int]],
    *,
    batch_size: int,
    decoder_steps: int = DECODER_STEPS,
    until_flat: bool = False,
    device: torch.device | str = "cpu",
    progress: bool = True,
    alignments: Callable[[Sequence[Tensor], int], Sequence[Alignment]] | None = None,
) -> list[tuple[FittedModel, Fit]]:
    """Judge trained encoders on held-out time, align their seeds, and fit the decoders.

    parameters, seeds : for each recording the stacked parameters (seed, ...) of its models, and their seeds. The
    decoders of recordings of one shape are fitted as one stack. until_flat : `decoder_steps` are the most, see
    `fit_decoders`.
    alignments : makes the alignments of recordings that have a basis in common, from their embeddings (seed, time,
    dim) and the best seed; by default each recording has its own.
    """
    fits, embeddings, goals = [], [], []
    for item, given, own in zip(prepared, parameters, seeds, strict=True):
        problem, epochs = item.problem, item.recording.epochs
        embedder = Embedder(problem.module, problem.spaces)
        standard = problem.X.to(device)
        stacked = {name: value.to(device) for name, value in given.items()}
        fit = goodness_of_fit(
            *(
                embedder,
                stacked,
                problem.spaces,
                standard,
                item.validation_segments,
                item.validation_pairs,
                problem.targets,
            ),
            batch=min(batch_size, int((item.validation_segments >= 0).sum())),
            seed=own[0],
            temperatures=TEMPERATURES,
            between=item.between,
        )
        # The way back from the embedding to the channels, from each step's neighbours in time.
        most = limit_time_steps(DECODED, standard.shape[1])
        index, neighbours = decoder_rows(epochs, most, np.random.default_rng(own[0]))
        embed = partial(embedder.embed, stacked, standard, epochs)
        around = (embed(neighbours[:, 0]) + embed(neighbours[:, 1])) / 2
        z = decoder_embedding(embed(index), around, problem.spaces)
        fits.append(fit)
        embeddings.append(z)
        goals.append(standard[torch.from_numpy(index).to(device)])
    if alignments is None:
        each = zip(embeddings, prepared, fits, strict=True)
        aligned = [align(z, layout(p.problem.spaces), int(f.bits.sum(1).argmax())) for z, p, f in each]
    else:
        best = int(np.sum([fit.bits.sum(1) for fit in fits], axis=0).argmax())
        aligned = list(alignments(embeddings, best))
    inputs = [a.to(device).to_aligned(z) for a, z in zip(aligned, embeddings, strict=True)]
    decoders: dict[int, dict[str, Tensor]] = {}
    for members in _alike(inputs, goals):
        owner = np.repeat(np.arange(len(members)), [len(seeds[k]) for k in members])
        decoder = fit_decoders(
            [u for k in members for u in inputs[k]],
            [goals[k] for k in members],
            list(enumerate(owner.tolist())),
            [seed for k in members for seed in seeds[k]],
            steps=decoder_steps,
            until_flat=until_flat,
            progress=progress,
        )
        for place, k in enumerate(members):
            mine = torch.from_numpy(owner == place).to(device)
            decoders[k] = {name: value[mine].cpu() for name, value in decoder.items()}
    models = [
        FittedModel(
            spaces=item.problem.spaces,
            module=item.problem.module,
            channels=tuple(item.recording.channel_names),
            mean=item.mean,
            scale=item.scale,
            parameters=dict(parameters[k]),
            decoder=decoders[k],
            alignment=aligned[k],
            usable=~fits[k].collapsed,
            regressions=item.regressions,
        )
        for k, item in enumerate(prepared)
    ]
    return list(zip(models, fits, strict=True))


def fit_many(
    prepared: Sequence[Prepared],
    seeds: Sequence[Sequence[int]],
    schedules: Sequence[Schedule],
    settings: Settings,
    *,
    progress: bool = True,
) -> list[tuple[FittedModel, Fit]]:
    """Fit models to many recordings (how they are trained together: `ascribo.training.dispatch.train_many`).

    seeds : for each recording the seeds of its models. schedules : for each recording its schedule of λ. `settings`
    hold for all; its own schedule is not used.
    """
    owner = [k for k, own in enumerate(seeds) for _ in own]
    trained = train_many(
        [prepared[k].problem for k in owner],
        [seed for own in seeds for seed in own],
        settings,
        schedules=[schedules[k] for k in owner],
        progress=progress,
    )
    each = [
        [one.parameters for one, whose in zip(trained, owner, strict=True) if whose == k]
        for k in range(len(prepared))
    ]
    parameters = [{name: torch.cat([one[name] for one in models]) for name in models[0]} for models in each]
    return finish(
        prepared,
        parameters,
        seeds,
        batch_size=settings.batch_size,
        decoder_steps=settings.decoder_steps,
        device=settings.device,
        progress=progress,
    )


def _alike(inputs: Sequence[Tensor], goals: Sequence[Tensor]) -> list[list[int]]:
    """Numbers of the recordings whose decoders have one shape."""
    groups: dict[tuple, list[int]] = {}
    for k, (u, x) in enumerate(zip(inputs, goals, strict=True)):
        groups.setdefault((u.shape[-1], x.shape[-1]), []).append(k)
    return list(groups.values())


def _split(
    recording: Recording,
    spaces: Mapping[str, Space],
    module: torch.nn.Module,
    fraction: float,
    still: Sequence[str],
):
    """Pairs and segments to train on, and to judge on; the same ones twice if nothing can be held out."""
    epochs, variables = recording.epochs, recording.variables
    if fraction > 0:
        reach = max(space.reach for space in spaces.values())
        whole = hold_out_epochs(epochs, fraction) if still else None
        least = max(20, 4 * reach, 2 * input_window(module))
        training, validation = whole or hold_out(epochs, fraction, least=least)
        try:
            if (kept := int((validation >= 0).sum())) < FEWEST_HELD_OUT:
                raise ValueError(f"{kept} time steps are too few to judge by: expected at least {FEWEST_HELD_OUT}")
            both = [Pairs(spaces, variables, segments) for segments in (training, validation)]
            return both[0], training, both[1], validation
        except ValueError as error:
            warnings.warn(
                f"validation_fraction={fraction:g}: nothing could be held out ({error}). The goodness of fit is "
                "measured on the training data, where it is too good. Use a longer recording or a larger "
                "validation_fraction.",
                stacklevel=6,
            )
    pairs = Pairs(spaces, variables, epochs)
    return pairs, epochs, pairs, epochs


def still_within_epochs(recording: Recording, spaces: Mapping[str, Space]) -> tuple[str, ...]:
    """Names of contrastive spaces of which no variable changes within any of several epochs, as labels of trials.

    >>> table = {"cue": [1, 1, 2, 2, 1, 1], "x": range(6)}
    >>> recording = Recording(np.zeros((6, 2)), table, epochs=[0, 0, 1, 1, 2, 2])
    >>> from ascribo import Discrete, Follow
    >>> still_within_epochs(recording, {"cue": Discrete("cue", 1), "x": Follow("x", 1)})
    ('cue',)
    """
    asked = {name: s.variables for name, s in spaces.items() if s.contrastive and s.variables}
    return tuple(name for name, variables in asked.items() if is_of_trials(recording, variables))


def is_of_trials(recording: Recording, variables: Sequence[str]) -> bool:
    """Whether a recording has several epochs and none of some variables changes within any of them."""
    runs = np.r_[0, np.cumsum(np.diff(recording.epochs) != 0)]
    table = recording.variables[list(variables)]
    return bool(runs[-1] > 0) and not (table.groupby(runs).nunique() > 1).to_numpy().any()
