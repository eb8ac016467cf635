"""How much room on a disk a fit needs: upper estimates, so that a disk that is too full is seen before the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from ..data.recording import Recording
from ..networks.encoders import build_encoder
from ..spaces.base import Space
from ..support.files import room_kept
from ..training.decoders import WIDTHS
from ..training.settings import MOST_SEEDS, MOST_STEPS
from .input_checks import check_parameters, resolve_spaces
from .parameters import ContrastiveEstimator

__all__ = ["bytes_on_disk", "room_for_fit"]

FIXED = 100_000
"""Bytes of model.json and of the heads of files, for few channels and seeds."""
A_CHANNEL = 200
"""Bytes of a channel's names in model.json, of its mean and its scale."""


def room_for_fit(
    model: ContrastiveEstimator, recording: Recording, folder: str | Path
) -> AbstractContextManager[Callable[[], None]]:
    """Keep room in a folder for the model that comes of a fit, and see that there is some for its states.

    The block gets a function that gives the room back, to be called before the model is saved.
    """
    check_parameters(model)
    spaces = resolve_spaces(model.spaces, recording)
    saved, state = bytes_on_disk(model, spaces, recording.X.shape[1])
    # a state is written beside the one before
    return room_kept(folder, saved, 2 * state, "the model and the state of its fit")


def bytes_on_disk(model: ContrastiveEstimator, spaces: Mapping[str, Space], channels: int) -> tuple[int, int]:
    """Bytes of the saved model, and of the states of all seeds, at most."""
    seeds = MOST_SEEDS if model.seeds == "auto" else int(model.seeds)
    steps = MOST_STEPS if model.steps == "auto" else int(model.steps)
    dim = sum(space.dim for space in spaces.values())
    encoder = sum(value.numel() for value in build_encoder(model.encoder, channels, dim).parameters())
    first, second = WIDTHS
    decoder = (dim + 1) * first + (first + 1) * second + (second + 1) * channels
    aligned = dim * (2 * dim + 1)
    curves = steps * (8 * len(spaces) + 24)  # losses of each space, penalty, λ, held-out bits
    saved = seeds * (4 * (encoder + decoder + aligned) + curves + 2000) + channels * A_CHANNEL + FIXED
    return saved, seeds * (12 * encoder + curves + FIXED)  # parameters, and two moments of each
