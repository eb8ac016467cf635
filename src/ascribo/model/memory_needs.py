"""How much memory the calls of a model take: upper estimates, by which a budget is refused before the work begins.

Each counts what lies in memory at the same time: indices of every time step, blocks of fixed size, and the time
steps that decoders and tests hold (100,000 at most). What is really taken is compared with them in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from torch import nn

from ..attribution.local_methods import BYTES_AT_ONCE
from ..attribution.unique_variance import design
from ..attribution.unique_variance.maps import known_spaces
from ..attribution.unique_variance.score import NUMBERS_AT_ONCE, ROWS_AT_ONCE
from ..data.recording import Recording
from ..data.standardised_channels import LARGE_BYTES, limit_time_steps
from ..networks.encoders import build_encoder, input_window
from ..screening.memory_needs import screening_needs
from ..spaces.base import Space, reported
from ..support.memory import bytes_mapped, bytes_read_ahead, limited, memory_budget, require_memory
from ..support.names import plural
from ..training.decoders import WIDTHS
from ..training.read_ahead import READERS
from . import fitting
from .fitted import FittedModel

__all__ = [
    "bytes_read",
    "check_attribution",
    "check_fit",
    "check_report",
    "check_score",
    "check_session_embeddings",
    "check_session_fit",
    "check_transform",
    "describe_size",
    "unit_widths",
    "within_memory",
]

Function = TypeVar("Function", bound=Callable[..., Any])

FIXED = 200_000_000
"""Bytes of chunks of the recording, of what else is small, and of what the allocator keeps: the same fit took
408 MB on a quiet machine and 483 on a busy one."""
ROWS = 20_000
"""Time steps that a report looks at together."""
WINDOW = 48
"""Bytes a time step for the bounds of its segment, which encoders of a window need."""


def within_memory(method: Function) -> Function:
    """A method of an estimator that keeps to the estimator's `memory`."""

    @wraps(method)
    def kept(self: Any, *given: Any, **named: Any) -> Any:
        with memory_budget(self.memory):
            return method(self, *given, **named)

    return kept  # type: ignore[return-value]


def check_fit(
    recording: Recording, spaces: Mapping[str, Space], encoder: object, *, batch_size: int, seeds: int
) -> None:
    """Refuse a fit that the budget is too small for."""
    if limited():
        module = build_encoder(encoder, recording.X.shape[1], sum(space.dim for space in spaces.values()))
        needed = _fit(recording, spaces, module, batch_size, seeds)
        require_memory(needed, f"fitting {describe_size(recording)}", "use a part of the recording, recording[a:b]")


def check_session_fit(
    recordings: Mapping[str, Recording],
    spaces: Mapping[str, Mapping[str, Space]],
    encoder: object,
    *,
    batch_size: int,
    seeds: int,
) -> None:
    """Refuse a fit of sessions that the budget is too small for: all of them, and all seeds, are trained together.

    spaces : those that each session has.
    """
    if not limited():
        return
    copies, from_files, index, training, decoders = 0, 0, 0, 0, 0
    for name, recording in recordings.items():
        own = spaces[name]
        module = build_encoder(encoder, recording.X.shape[1], sum(space.dim for space in own.values()))
        if _is_copied(recording):
            copies += 4 * recording.X.size
        else:
            from_files = bytes_from_file()
        index += len(recording) * (_index(own) + (WINDOW if input_window(module) > 1 else 0))
        training += seeds * _training(recording, own, module, batch_size)
        decoders += _decoders(recording, own, seeds)
    needed = FIXED + copies + from_files + index + max(training, decoders)
    steps = sum(map(len, recordings.values()))
    require_memory(
        needed,
        f"fitting {len(recordings)} session{plural(len(recordings))} of {steps:,} time steps in all",
        "fit fewer sessions or seeds, or parts of the recordings, recording[a:b]",
    )


def check_transform(recording: Recording, model: FittedModel, rows: int | None = None) -> None:
    """Refuse an embedding that does not fit. rows : time steps and seeds that are embedded; all time by default."""
    size = (len(recording) if rows is None else rows) * 8 * model.embedder.dim
    needed = bytes_read(recording, model.embedder.window) + 16 * len(recording) + size
    require_memory(needed, f"the embedding of {describe_size(recording)}", "transform a part of it, recording[a:b]")


def check_session_embeddings(steps: int, dim: int) -> None:
    """Refuse embeddings of several sessions that do not fit beside each other. steps : of all sessions."""
    needed = FIXED + 4 * steps * dim
    require_memory(needed, f"the embedding of {steps:,} time steps in all", "transform one session at a time")


def check_score(recording: Recording, model: FittedModel) -> None:
    """Refuse a score that does not fit."""
    needed = bytes_read(recording, model.embedder.window) + len(recording) * _index(model.spaces)
    require_memory(needed, f"scoring {describe_size(recording)}", "score a part of it, recording[a:b]")


def check_attribution(recording: Recording, model: FittedModel, method: str, *, tested: bool) -> None:
    """Refuse a map that does not fit. tested : the method is the unique variance."""
    needed = _attribution(recording, model, tested)
    require_memory(
        needed, f"{method} of {describe_size(recording)}", "attribute a part of the recording, recording[a:b]"
    )


def check_report(recording: Recording, model: FittedModel) -> None:
    """Refuse a report that does not fit; the attribution aside, which has its own check."""
    steps, channels = recording.X.shape
    variables = min(12, recording.variables.shape[1])
    looked_at = min(steps, ROWS) * (16 * min(500, channels) + 8 * channels)
    needed = bytes_read(recording, model.embedder.window) + steps * (64 + 24 * variables) + looked_at
    require_memory(
        needed, f"the report on {describe_size(recording)}", "report on a part of the recording, recording[a:b]"
    )


def _fit(recording: Recording, spaces: Mapping[str, Space], module: nn.Module, batch_size: int, seeds: int) -> int:
    """Bytes that a fit takes, one seed after the other."""
    work = max(_training(recording, spaces, module, batch_size), _decoders(recording, spaces, seeds))
    return bytes_read(recording, input_window(module)) + len(recording) * _index(spaces) + work


def _training(recording: Recording, spaces: Mapping[str, Space], module: nn.Module, batch_size: int) -> int:
    """Bytes of a training step of one model."""
    rows = batch_size * (2 + 2 * len(spaces))
    return 40 * rows * (unit_widths(module) + recording.X.shape[1] * input_window(module))


def _decoders(recording: Recording, spaces: Mapping[str, Space], seeds: int) -> int:
    """Bytes of what decoders are fitted to."""
    channels = recording.X.shape[1]
    held = min(len(recording), limit_time_steps(fitting.DECODED, channels))
    return held * (5 * channels + 40 * seeds * sum(space.dim for space in spaces.values()))


def _attribution(recording: Recording, model: FittedModel, tested: bool) -> int:
    """Bytes that `attribute` takes. tested : by the unique variance; otherwise by a local method."""
    steps, channels = len(recording), recording.X.shape[1]
    common = bytes_read(recording, model.embedder.window) + steps * WINDOW
    if not tested:
        return common + 5 * BYTES_AT_ONCE // 4
    held = min(steps, limit_time_steps(design.MOST_TIME_STEPS, channels))
    known = known_spaces(model, recording)
    screening = screening_needs(recording, {name: model.spaces[name] for name in known}) if known else 0
    embedded = [name for name in reported(model.spaces) if name not in known]
    if not embedded:
        return common + screening
    variants = model.seeds * (1 + len(embedded))
    judging = 12 * min(NUMBERS_AT_ONCE, variants * ROWS_AT_ONCE[False] * max(channels, *WIDTHS))
    inputs = held * model.seeds * 8 * (model.embedder.dim + 100)
    return common + inputs + held * 4 * channels + max(judging + held * 12 * channels, screening)


def unit_widths(module: nn.Module) -> int:
    """Units of all layers of an encoder."""
    return sum(value.shape[0] for value in module.parameters() if value.ndim > 1)


def bytes_read(recording: Recording, window: int) -> int:
    """Blocks of the recording that are in memory, or a standardised copy of one that is small."""
    whole = 4 * recording.X.size if _is_copied(recording) else bytes_from_file()
    return FIXED + whole + (WINDOW * len(recording) if window > 1 else 0)


def bytes_from_file() -> int:
    """What is read ahead of a large recording, and mapped by the readers."""
    return bytes_read_ahead() + READERS * bytes_mapped()


def _is_copied(recording: Recording) -> bool:
    """Whether the standardised channels are a tensor in memory."""
    return 4 * recording.X.size <= LARGE_BYTES


def _index(spaces: Mapping[str, Space]) -> int:
    """Bytes for each time step: segments, references, and how each space finds its positives."""
    total = 40
    for space in spaces.values():
        columns = len(space.variables)
        total += 8 if not columns else 64 + 24 * columns if space.contrastive else 16 + 16 * space.dim
    return total


def describe_size(recording: Recording) -> str:
    """How large a recording is, in words."""
    return f"{len(recording):,} time steps of {recording.X.shape[1]:,} channels"
