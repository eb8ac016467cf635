"""Segments: runs of time steps that belong together. An epoch is one, and so is a part of it next to held-out time.

Segments are an array (time,) of numbers; -1 marks time steps that are not to be used. Pairs, changes and windows
stay within a segment.
"""

from __future__ import annotations

import numpy as np

from ..support.array_shapes import Array, Bool, Int, shaped

__all__ = ["evenly", "hold_out", "hold_out_epochs", "same_segment", "segment_bounds"]


def evenly(length: int, most: int | None) -> np.ndarray:
    """Numbers of all of `length` time steps, or of `most` of them, evenly spaced, if there are more.

    >>> evenly(10, 4), evenly(3, 4)
    (array([0, 3, 6, 9]), array([0, 1, 2]))
    """
    return np.linspace(0, length - 1, length if most is None else min(most, length)).astype(np.int64)


@shaped
def same_segment(segments: Int[Array, " time"], offset: int) -> Bool[Array, " time"]:
    """True at the steps t for which t + offset lies in the same segment.

    >>> same_segment(np.array([0, 0, 0, 1, 1, -1]), 1)
    array([ True,  True, False,  True, False, False])
    """
    inside = np.zeros(len(segments), dtype=bool)
    if offset < len(segments):
        inside[: len(segments) - offset] = segments[offset:] == segments[: len(segments) - offset]
    return inside & (segments >= 0)


@shaped
def segment_bounds(segments: Int[Array, " time"]) -> tuple[Int[Array, " time"], Int[Array, " time"]]:
    """First and last step of the segment each step belongs to, both (time,).

    >>> first, last = segment_bounds(np.array([0, 0, 1, 1, 1]))
    >>> first, last
    (array([0, 0, 2, 2, 2]), array([1, 1, 4, 4, 4]))
    """
    edges = np.flatnonzero(np.diff(segments)) + 1
    starts, stops = np.r_[0, edges], np.r_[edges, len(segments)]
    lengths = stops - starts
    return np.repeat(starts, lengths), np.repeat(stops - 1, lengths)


@shaped
def hold_out(
    epochs: Int[Array, " time"], fraction: float, least: int = 20
) -> tuple[Int[Array, " time"], Int[Array, " time"]]:
    """Split a recording into segments to train on and up to ten evenly spaced blocks of time that are held out.

    epochs : (time,) numbers of the epochs. fraction : of the time steps, to hold out.
    least : time steps a block should have; where ten blocks would be shorter there are fewer.

    Returns the segments of both parts, (time,) each, one -1 wherever the other is not. Blocks are held out, not
    single time steps: neighbours in time are nearly copies of each other.

    >>> train, test = hold_out(np.zeros(100, int), 0.2, least=10)
    >>> (test >= 0).sum(), (train >= 0).sum(), len(np.unique(train[train >= 0]))
    (np.int64(20), np.int64(80), 3)
    """
    steps = len(epochs)
    blocks = int(np.clip(steps * fraction // least, 1, 10))
    length = round(steps * fraction / blocks)
    held_out = np.zeros(steps, dtype=bool)
    if length >= 1:
        # each block in the middle of its share of the recording
        starts = (np.arange(blocks) + 0.5) * steps / blocks - length / 2
        for start in starts.astype(int):
            held_out[start : start + length] = True
    numbers = np.r_[0, np.cumsum((np.diff(epochs) != 0) | (np.diff(held_out.astype(int)) != 0))]
    return np.where(held_out, -1, numbers), np.where(held_out, numbers, -1)


FEWEST_EPOCHS = 5
"""Epochs to hold out at least, if that is not more than a quarter of them."""


@shaped
def hold_out_epochs(
    epochs: Int[Array, " time"], fraction: float
) -> tuple[Int[Array, " time"], Int[Array, " time"]] | None:
    """As `hold_out`, but whole epochs, evenly spaced; None if that would be fewer than two.

    For variables that do not change within an epoch: half of a trial would tell an encoder the label of the other
    half, which moves on from where it was, whether the channels carry the label or not.

    >>> train, test = hold_out_epochs(np.repeat(np.arange(40), 5), 0.1)
    >>> np.unique(test[test >= 0]), int((test >= 0).sum()), int((train >= 0).sum())
    (array([ 4, 12, 20, 28, 36]), 25, 175)
    """
    numbers = np.r_[0, np.cumsum(np.diff(epochs) != 0)]
    every = int(numbers[-1]) + 1
    count = max(round(fraction * every), min(FEWEST_EPOCHS, every // 4))
    if not 2 <= count < every:
        return None
    chosen = ((np.arange(count) + 0.5) * every / count).astype(int)
    held_out = np.isin(numbers, chosen)
    return np.where(held_out, -1, numbers), np.where(held_out, numbers, -1)
