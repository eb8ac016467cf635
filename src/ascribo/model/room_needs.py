"""How much room on a disk a fit needs: upper estimates, so that a disk that is too full is seen before the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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

__all__ = ["bytes_of_calls", "bytes_of_map", "bytes_of_report", "bytes_on_disk", "room_for_fit"]

FIXED = 100_000
"""Bytes of model.json and of the heads of files, for few channels and seeds."""
A_CHANNEL = 200
"""Bytes of a channel's names in model.json, of its mean and its scale."""
A_CALL = 300
"""Bytes of a line of a table: numbers, and two names."""
MOST_BLOCKS = 40
"""Of time, that a map has scores in."""
A_PAGE, A_CHANNEL_OF_A_PAGE, A_SPACE_OF_A_CHANNEL = 2_500_000, 8_000, 500
"""Bytes of a report with its drawings, and what channels and their spaces add to it."""


def room_for_fit(
    model: ContrastiveEstimator, recording: Recording, folder: str | Path, *, attributed: bool = False
) -> AbstractContextManager[Callable[[], None]]:
    """Keep room in a folder for the model that comes of a fit, and see that there is some for its states.

    The block gets a function that gives the room back, to be called before the model is saved.

    attributed : a map, its calls and a report are to follow, when the states are gone.
    """
    check_parameters(model)
    spaces = resolve_spaces(model.spaces, recording)
    saved, state = bytes_on_disk(model, spaces, recording.X.shape[1])
    more, what = 2 * state, "the model and the state of its fit"  # a state is written beside the one before
    if attributed:
        seeds, names = _seeds(model), recording.channel_names
        later = bytes_of_map(spaces, names, seeds) + bytes_of_calls(spaces, names) + bytes_of_report(spaces, names)
        more = max(more, later)
    return room_kept(folder, saved, more, what)


def bytes_of_map(spaces: Mapping[str, Space], names: Sequence[str], seeds: int) -> int:
    """Bytes of a map in a file, of channels of these names, at most."""
    dim = sum(space.dim for space in spaces.values())
    return 8 * len(names) * (len(spaces) * (seeds * MOST_BLOCKS + 10) + dim) + 2 * _length(names) + FIXED


def bytes_of_calls(spaces: Mapping[str, Space], names: Sequence[str]) -> int:
    """Bytes of a table of calls, at most."""
    return len(spaces) * (A_CALL * len(names) + _length(names) + len(names) * _length(spaces)) + FIXED


def bytes_of_report(spaces: Mapping[str, Space], names: Sequence[str]) -> int:
    """Bytes of a report, at most."""
    return A_PAGE + len(names) * (A_CHANNEL_OF_A_PAGE + len(spaces) * A_SPACE_OF_A_CHANNEL) + 4 * _length(names)


def _length(names: Iterable[str]) -> int:
    return sum(len(str(name).encode("utf-8", "backslashreplace")) for name in names)


def _seeds(model: ContrastiveEstimator) -> int:
    return MOST_SEEDS if model.seeds == "auto" else int(model.seeds)


def bytes_on_disk(model: ContrastiveEstimator, spaces: Mapping[str, Space], channels: int) -> tuple[int, int]:
    """Bytes of the saved model, and of the states of all seeds, at most."""
    seeds = _seeds(model)
    steps = MOST_STEPS if model.steps == "auto" else int(model.steps)
    dim = sum(space.dim for space in spaces.values())
    encoder = sum(value.numel() for value in build_encoder(model.encoder, channels, dim).parameters())
    first, second = WIDTHS
    decoder = (dim + 1) * first + (first + 1) * second + (second + 1) * channels
    aligned = dim * (2 * dim + 1)
    curves = steps * (8 * len(spaces) + 24)  # losses of each space, penalty, λ, held-out bits
    saved = seeds * (4 * (encoder + decoder + aligned) + curves + 2000) + channels * A_CHANNEL + FIXED
    return saved, seeds * (12 * encoder + curves + FIXED)  # parameters, and two moments of each
