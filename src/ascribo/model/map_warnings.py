"""What a user should hear beside a map: spaces without one, samples without one, too short a training."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ..attribution import AttributionMaps

__all__ = ["warn_about"]

LONGER = "inverted_neuron_gradient"
"""The method whose maps still get better when held-out bits no longer do: λ, too, has to find its value."""


def warn_about(maps: AttributionMaps, spent: Mapping[str, Any] | None, most: float = 0.5) -> None:
    """Warn of what is wrong with maps that a model was asked for.

    spent : `spent_` of the model, if it has one. most : share of samples without a map of which nothing is said.
    """
    for name, why in maps.refused.items():
        warnings.warn(f"space {name!r} has no map: {why}", stacklevel=4)
    if maps.rank_deficient > most:
        warnings.warn(
            f"{maps.method}: {maps.rank_deficient:.0%} of the samples were left out of the map: their Jacobian has "
            "no inverse, because an output is at its limit or the recording has fewer dimensions. "
            "method='generative_gradient' uses all samples.",
            stacklevel=4,
        )
    if maps.method == LONGER and (short := _stopped_early(spent)):
        warnings.warn(
            f"{maps.method}: training stopped by itself after {short} steps, as held-out bits no longer rose. "
            "This map goes on getting better after that, as λ grows: fit with steps=3000 for it. "
            "method='generative_gradient' and the unique variance need no more steps.",
            stacklevel=4,
        )


def _stopped_early(spent: Mapping[str, Any] | None) -> int | None:
    """The least steps of a seed whose training was ended by its held-out bits; None if there is none."""
    if spent is None:
        return None
    ended = zip(spent["steps"], spent["why_steps"], strict=True)
    return min((steps for steps, why in ended if why.startswith("held-out bits")), default=None)
