"""How much memory explanations of a fitted model take: upper estimates, by which a budget is refused beforehand.

The budget is that of the fitted estimator (`memory=`). Modules and functions have none: what they take is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ..data.recording import Recording
from ..model.fitted import FittedModel
from ..model.memory_needs import bytes_read, describe_size, unit_widths
from ..support.memory import memory_budget, require_memory

__all__ = ["check_contrastive_examples", "check_examples", "check_features", "within_budget"]

Function = TypeVar("Function", bound=Callable[..., Any])

EDGES = 32
"""Bytes a time step for the bounds of its segment."""
WRITTEN_OUT = 4096
"""Most parameters for which the curvature is written out as a matrix (`example_contrastive`)."""
PASSES = 12
"""Numbers held for each unit and input of an example while its batch is explained: forward, backward, questions."""


def within_budget(function: Function) -> Function:
    """A function that keeps to the budget of the fitted estimator that is its first argument; others have none."""

    @wraps(function)
    def kept(*given: Any, **named: Any) -> Any:
        encoder = given[0] if given else named.get("encoder", named.get("model"))
        with memory_budget(getattr(encoder, "memory", None) if hasattr(encoder, "model_") else None):
            return function(*given, **named)

    return kept  # type: ignore[return-value]


def check_features(
    recording: Recording, model: FittedModel, *, steps: int, questions: int, batch_size: int
) -> None:
    """Refuse scores that do not fit. steps : that are explained. questions : asked about each."""
    inputs = recording.X.shape[1] * model.embedder.window
    scores = 4 * steps * inputs * (2 + 3 * questions)  # inputs, baselines; scores in parts, joined, handed back
    work = 4 * PASSES * min(batch_size, steps) * _width(model) * (1 + questions)
    needed = _common(recording, model) + scores + work
    require_memory(needed, f"explaining {steps:,} time steps", "explain fewer, index=")


def check_examples(train: Recording, test: Recording, model: FittedModel, *, kept: bool, batch_size: int) -> None:
    """Refuse scores of all pairs of time steps that do not fit. kept : they go to a file."""
    inputs = train.X.shape[1] * model.embedder.window
    scores = 0 if kept else 4 * len(train) * len(test)
    work = 4 * (PASSES * batch_size * _width(model) + 6 * batch_size * len(train))
    held = 4 * (len(train) + len(test)) * (inputs + 3 * model.embedder.dim)
    what = f"examples for {len(test):,} time steps from {len(train):,}"
    needed = max(_common(train, model), _common(test, model)) + held + work + scores
    require_memory(needed, what, "use parts of the recordings" if kept else "keep the scores in a file, out=")


def check_contrastive_examples(
    recording: Recording, model: FittedModel, *, references: int, positives: int, negatives: int, blocks: int
) -> None:
    """Refuse influences of blocks of time that do not fit; all is in float64."""
    drawn = references * (1 + positives * len(model.spaces)) + negatives
    count = sum(value[0].numel() for value in model.parameters.values())
    logits = 8 * references * negatives * (2 + 2 * model.embedder.dim) * (1 + len(model.spaces))
    gradients = 8 * count * (6 * blocks + 64) + (24 * count**2 if count <= WRITTEN_OUT else 0)
    needed = _common(recording, model) + 8 * PASSES * drawn * _width(model) + logits + gradients
    needed += 8 * len(recording) * 12
    require_memory(needed, f"examples from {describe_size(recording)}", "use fewer references, negatives or blocks")


def _width(model: FittedModel) -> int:
    """Inputs and units of an encoder, of all seeds."""
    return model.seeds * (unit_widths(model.module) + len(model.channels) * model.embedder.window)


def _common(recording: Recording, model: FittedModel) -> int:
    return bytes_read(recording, model.embedder.window) + EDGES * len(recording)
