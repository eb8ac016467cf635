"""Recordings that are too large to copy: read and standardised a few time steps at a time, when they are asked for.

The channels may be a memory-mapped file larger than memory. Everything downstream wants them standardised, and
wants some time steps of them at a time: a batch, a chunk, a sample. So `StandardisedChannels` keeps the file as it
is and standardises what is taken from it, to the same bits as standardising the whole. Ordinary recordings are
standardised once, and are plain tensors; on a GPU all recordings are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

__all__ = ["StandardisedChannels", "are_counts", "channel_statistics", "chunks", "limit_time_steps", "standardise"]

LARGE_BYTES = 2**27
"""Bytes of a recording above which it is not copied."""
ENTRIES_HELD = 2**27
"""Entries of a recording that are held at once to fit decoders: 512 MB."""
ENTRIES_AT_ONCE = 2**21
"""Entries looked at together: 8 MB as they are, 16 MB in float64."""


@dataclass(frozen=True, eq=False)
class StandardisedChannels:
    """A standardised recording (time, channel) that is indexed like a tensor and never held as a whole.

    raw : (time, channel) float32, memory-mapped as a rule. mean, scale : (channel,) float32.

    Rows are read when they are asked for. Batches are uniform over time, so the first steps of a training read a
    file in random order: slow from a cold disk, at the speed of memory once it is in the system's cache.

    Examples
    --------
    >>> raw = np.array([[0.0, 1.0], [2.0, 5.0]], dtype=np.float32)
    >>> X = StandardisedChannels(raw, mean=torch.tensor([1.0, 3.0]), scale=torch.tensor([1.0, 2.0]))
    >>> X[torch.tensor([1, 0, 1])]
    tensor([[ 1.,  1.],
            [-1., -1.],
            [ 1.,  1.]])
    """

    raw: np.ndarray
    mean: Tensor
    scale: Tensor
    device: ClassVar[torch.device] = torch.device("cpu")
    dtype: ClassVar[torch.dtype] = torch.float32
    is_cuda: ClassVar[bool] = False

    @property
    def shape(self) -> tuple[int, ...]:
        """(time, channel)."""
        return self.raw.shape

    def __len__(self) -> int:
        return len(self.raw)

    def numel(self) -> int:
        """Number of entries."""
        return self.raw.size

    def __getitem__(self, steps: Tensor | slice) -> Tensor:
        """The rows of time steps (...,) or of a slice, standardised: (..., channel)."""
        if isinstance(steps, slice):
            rows = np.array(self.raw[steps])
        elif self.raw.flags.c_contiguous:
            rows = self.raw.take(steps.numpy(), axis=0)
        else:  # `take` would copy the whole into C order first
            rows = self.raw[steps.numpy()]
        return torch.from_numpy(rows).sub_(self.mean).div_(self.scale)

    def to(self, device: torch.device | str) -> StandardisedChannels | Tensor:
        """Itself on a CPU; on another device a tensor, moved a chunk at a time."""
        device = torch.device(device)
        if device.type == "cpu":
            return self
        if device.type == "cuda":
            free, needed = torch.cuda.mem_get_info(device)[0], 4 * self.numel()
            if needed > free:
                raise ValueError(
                    f"the recording takes {needed / 1e9:.1f} GB and the GPU has {free / 1e9:.1f} GB left: use "
                    "device='cpu', which reads a large recording as it goes."
                )
        return self._moved(device)

    def _moved(self, device: torch.device) -> Tensor:
        out = torch.empty(self.shape, device=device)
        for part in chunks(self.raw):
            out[part] = torch.from_numpy(np.array(self.raw[part])).to(device)
        return out.sub_(self.mean.to(device)).div_(self.scale.to(device))


def standardise(
    X: np.ndarray, mean: np.ndarray, scale: np.ndarray, device: torch.device | str = "cpu"
) -> StandardisedChannels | Tensor:
    """X (time, channel) less the mean, divided by the scale, on a device: a tensor, float32.

    A large recording on the CPU is not copied: it comes back as `StandardisedChannels`.

    >>> standardise(np.ones((2, 1), np.float32), np.zeros(1), np.full(1, 2.0))
    tensor([[0.5000],
            [0.5000]])
    """
    whole = StandardisedChannels(
        np.asarray(X), *(torch.from_numpy(np.asarray(v, dtype=np.float32)) for v in (mean, scale))
    )
    return whole.to(device) if X.nbytes > LARGE_BYTES or torch.device(device).type != "cpu" else whole[:]


def channel_statistics(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every channel, (channel,) float64 each, a chunk at a time.

    >>> channel_statistics(np.array([[1.0, 0.0], [3.0, 0.0]], np.float32))
    (array([2., 0.]), array([1., 0.]))
    """
    mean = _sum_over_time(X, lambda part: part) / len(X)
    return mean, np.sqrt(_sum_over_time(X, lambda part: np.square(part - mean)) / len(X))


def are_counts(X: np.ndarray) -> bool:
    """Whether all entries are whole numbers of at least 0.

    >>> are_counts(np.array([[0.0, 2.0]])), are_counts(np.array([[0.5, 2.0]]))
    (True, False)
    """
    return all(bool(((part := X[rows]) >= 0).all() and (part == np.round(part)).all()) for rows in chunks(X))


def limit_time_steps(most: int, channels: int) -> int:
    """At most how many time steps to hold at once: `most`, but for recordings of more than a thousand channels.

    >>> limit_time_steps(100_000, 50), limit_time_steps(100_000, 10_000)
    (100000, 13421)
    """
    return min(most, max(1, ENTRIES_HELD // channels))


def chunks(X: np.ndarray) -> Iterator[slice]:
    """Slices of time steps that cover X, each of a bounded number of entries."""
    rows = max(1, ENTRIES_AT_ONCE // X.shape[1])
    return (slice(start, start + rows) for start in range(0, len(X), rows))


def _sum_over_time(X: np.ndarray, function) -> np.ndarray:
    """Sum of a function of the entries over time, in float64: (channel,).

    The sum so far is the first row of what is summed next: rows are added one after the other, as in one piece.
    """
    total = np.zeros((1, X.shape[1]))
    for rows in chunks(X):
        part = function(X[rows].astype(np.float64))
        total = np.add.reduce(np.concatenate([total, part]) if rows.start else part, axis=0, keepdims=True)
    return total[0]


Channels, standardised, steps_held = StandardisedChannels, standardise, limit_time_steps
