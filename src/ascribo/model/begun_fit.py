"""A fit up to its training: the recording checked and indexed, and how to train on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..data.containers import as_recording
from ..data.recording import Recording
from ..training.checkpoints import check_seeds, remember, remembered
from ..training.data_parallel import from_first_rank, rank
from ..training.settings import MOST_SEEDS, Settings
from .fitting import Prepared, prepare
from .input_checks import check_length, check_parameters, check_recording, resolve_spaces
from .memory_needs import check_fit
from .parameters import ContrastiveEstimator

__all__ = ["Begun", "begin", "settle_seeds"]


@dataclass(frozen=True)
class Begun:
    """What training needs.

    given : the recording as it came. prepared : without channels that are left out, as a problem. seeds : all that
    there may be.
    """

    given: Recording
    prepared: Prepared
    settings: Settings
    seeds: list[int]


def begin(model: ContrastiveEstimator, X: Any, y: Any = None) -> Begun:
    """Check the parameters of an estimator and what it is to be fitted to, and prepare the problem."""
    check_parameters(model)
    given = as_recording(X, y)
    check_length(given)
    spaces = resolve_spaces(model.spaces, given)
    recording = check_recording(model, given, spaces)
    settings = Settings.from_parameters(model, time_steps=len(recording))
    most = MOST_SEEDS if model.seeds == "auto" else model.seeds
    check_fit(recording, spaces, model.encoder, batch_size=settings.batch_size, seeds=most)
    prepared = prepare(
        recording,
        spaces,
        encoder=model.encoder,
        hybrid=model.hybrid,
        validation_fraction=model.validation_fraction,
        device=settings.device,
    )
    seeds = check_random_state(model.random_state).randint(np.iinfo(np.int32).max, size=most).tolist()
    return Begun(given, prepared, settings, seeds)


def settle_seeds(made: list[int], folder: Path | None, key: str, *, drawn: bool) -> list[int]:
    """The seeds of a fit, the same in every process: if they are drawn at random, those of an interrupted fit in
    the folder, which it kept under `key`. A folder that has the state of a fit with other seeds is refused."""
    seeds = made
    if folder is not None and rank() == 0:
        if drawn:
            seeds = remembered(folder).get(key, made)
            whole = isinstance(seeds, list) and all(type(seed) is int for seed in seeds)
            if not whole or len(seeds) != len(made):
                raise ValueError(
                    f"{folder} does not say which seeds the fit had: delete its fit.json to start anew."
                )
        check_seeds(folder, seeds)
        if drawn:
            remember(folder, key, seeds)
    return from_first_rank(seeds)
