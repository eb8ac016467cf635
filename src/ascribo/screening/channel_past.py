"""The past of the channels, which stands for what is hidden: averages of it, and the channels less what it says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..support.compute import in_threads
from .features import as_slice, averages, components

__all__ = ["ENOUGH", "History", "channel_history", "whiten"]

DECAY_TIMES = (1.0, 4.0, 15.0)
"""Time steps over which the past of the channels is averaged."""
COMPONENTS = 12
"""Principal components of the channels whose past is conditioned on."""
CHANNELS_AT_ONCE = 16
ENOUGH = 8_000
"""Time steps from which on the number of features is not limited; shorter recordings have fewer."""


@dataclass(frozen=True)
class History:
    """The channels' past: averages of their principal components, (time, component, decay time)."""

    averages: np.ndarray

    @property
    def recent(self) -> np.ndarray:
        """(time, component): what products with variables are made of."""
        return self.averages[:, :, 1]


def channel_history(
    scores: np.ndarray, first: np.ndarray, index: np.ndarray, view: np.ndarray | None = None
) -> History:
    """The past of the channels at the time steps `index`, by principal components or by a view (time, k)."""
    if view is None:
        view = components(scores, max(3, round(COMPONENTS * min(1, len(first) / ENOUGH))))
    return History(np.ascontiguousarray(averages(view, DECAY_TIMES, first)[:, index].transpose(1, 2, 0)))


def whiten(scores: np.ndarray, first: np.ndarray, index: np.ndarray, blocks: list[np.ndarray]) -> np.ndarray:
    """The channels less what their own past says, by fits to the other blocks: (time, channel) float32."""
    out = scores.copy(order="K")
    every = max(1, len(scores) // ENOUGH)  # some time steps are enough for three weights
    small = 1e-3 * len(scores) / every * np.eye(len(DECAY_TIMES))
    places = [(as_slice(rows), as_slice(index[rows])) for rows in blocks]

    def fit(a: int) -> None:
        part = slice(a, a + CHANNELS_AT_ONCE)
        past = averages(scores[:, part], DECAY_TIMES, first).transpose(2, 0, 1)  # (channel, decay time, time)
        now, left = scores[:, part].T, out[:, part].T
        sums = np.empty((len(blocks), len(past), len(DECAY_TIMES) + 1, len(DECAY_TIMES) + 1))
        for (here, before), own in zip(places, sums, strict=True):
            some = np.concatenate([past[:, :, before][:, :, ::every], now[:, None, here][:, :, ::every]], axis=1)
            own[:] = some @ some.transpose(0, 2, 1)
        others = sums.sum(0) - sums
        weights = np.linalg.solve(others[:, :, :-1, :-1] + small, others[:, :, :-1, -1:])
        for (here, before), own in zip(places, weights.astype(np.float32).transpose(0, 1, 3, 2), strict=True):
            left[:, here] -= (own @ past[:, :, before])[:, 0]

    in_threads(fit, range(0, scores.shape[1], CHANNELS_AT_ONCE))
    return out
