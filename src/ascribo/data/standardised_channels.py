"""Channels standardised: each less its mean, divided by its standard deviation, in float32.

The channels may be a memory-mapped file larger than memory. What works with them wants some time steps at a time: a
batch, a chunk, a sample. So `StandardisedChannels` keeps the file as it is and standardises what is taken from it,
to the same bits as standardising the whole. Ordinary recordings are standardised once, and are plain tensors; on a
GPU all recordings are. A recording kept in float64 (`ascribo.data.float_precision`) is centred in float64 first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from .mapped_files import release, take_rows

__all__ = [
    "StandardisedChannels",
    "are_counts",
    "channel_statistics",
    "chunk_bounds",
    "limit_time_steps",
    "on_device",
    "standardise",
    "time_chunks",
]

LARGE_BYTES = 2**27
"""A recording that would take more than this in float32 is not copied."""
ENTRIES_HELD = 2**27
"""Entries of a recording that are held at once to fit decoders: 512 MB."""
ENTRIES_AT_ONCE = 2**21
"""Entries looked at together: 8 MB in float32, 16 MB in float64."""
ENTRIES_SUMMED = 2**17
"""Entries summed together on a CPU: 1 MB in float64, which its cache holds."""


@dataclass(frozen=True, eq=False)
class StandardisedChannels:
    """A standardised recording (time, channel) that is indexed like a tensor and never held as a whole.

    raw : (time, channel) float32 or float64, memory-mapped as a rule. mean, scale : (channel,) of the same type.

    Rows are read when they are asked for, those of a memory-mapped file in the order of the file. Batches are
    uniform over time, so the first steps of a training are slow if the file is not in the system's cache.

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

    def __getitem__(self, index: Tensor | slice) -> Tensor:
        """The rows of time steps (...,) or of a slice, standardised: (..., channel) float32."""
        if isinstance(index, slice):
            rows = np.array(self.raw[index])
            release(self.raw[index])
        else:
            rows = take_rows(self.raw, index.numpy().ravel()).reshape(*index.shape, -1)
        return torch.from_numpy(rows).sub_(self.mean).div_(self.scale).float()

    def to(self, device: torch.device | str) -> StandardisedChannels | Tensor:
        """Itself on a CPU; on another device a tensor, moved a chunk at a time."""
        if torch.device(device).type == "cpu":
            return self
        if self.raw.dtype == np.float32:
            return standardise(on_device(self.raw, device), self.mean.numpy(), self.scale.numpy())
        out = _room(self.shape, torch.float32, device)
        for part in time_chunks(self.raw):  # float64 is centred before it is rounded
            out[part] = self[part].to(device)
        return out


def on_device(X: np.ndarray, device: torch.device | str) -> np.ndarray | Tensor:
    """Channels X (time, channel) where they are worked with: as they are on a CPU, on a GPU as a tensor.

    They are moved once, a chunk at a time, so that a memory-mapped file need not fit into memory twice.

    >>> on_device(np.ones((2, 1), np.float32), "cpu")
    array([[1.],
           [1.]], dtype=float32)
    """
    if torch.device(device).type == "cpu":
        return X
    out = _room(X.shape, torch.float32 if X.dtype == np.float32 else torch.float64, device)
    for part in time_chunks(X):
        out[part] = torch.from_numpy(np.array(X[part])).to(device)
    return out


def _room(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """Memory of a device for a whole recording."""
    if torch.device(device).type == "cuda":
        free, needed = torch.cuda.mem_get_info(device)[0], dtype.itemsize * int(np.prod(shape))
        if needed > free:
            raise ValueError(
                f"the recording takes {needed / 1e9:.1f} GB and the GPU has {free / 1e9:.1f} GB left: use "
                "device='cpu', which reads a large recording as it goes."
            )
    return torch.empty(shape, dtype=dtype, device=device)


def standardise(
    X: np.ndarray | Tensor, mean: np.ndarray, scale: np.ndarray, device: torch.device | str = "cpu"
) -> StandardisedChannels | Tensor:
    """X (time, channel) less the mean, divided by the scale, both (channel,): a float32 tensor on a device.

    A large recording on the CPU is not copied: it comes back as `StandardisedChannels`. What X itself is kept in,
    float32 or float64, is what the mean and the scale are taken in. X as a tensor (`on_device`) is used up: the
    result may take its memory.

    >>> standardise(np.ones((2, 1), np.float32), np.zeros(1), np.full(1, 2.0))
    tensor([[0.5000],
            [0.5000]])
    """
    if isinstance(X, Tensor):
        centre, spread = (torch.from_numpy(np.asarray(v)).to(X) for v in (mean, scale))
        return X.sub_(centre).div_(spread).float()
    X = np.asarray(X)
    whole = StandardisedChannels(X, *(torch.from_numpy(np.asarray(v, dtype=X.dtype)) for v in (mean, scale)))
    return whole.to(device) if 4 * X.size > LARGE_BYTES or torch.device(device).type != "cpu" else whole[:]


def channel_statistics(X: np.ndarray | Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every channel of X (time, channel): (channel,) float64 each.

    X is read a chunk at a time; what is on a GPU is summed there.

    >>> channel_statistics(np.array([[1.0, 0.0], [3.0, 0.0]], np.float32))
    (array([2., 0.]), array([1., 0.]))
    """
    if isinstance(X, Tensor):
        return _statistics_on_device(X)
    # far from zero a sum of many steps would round away what the changes add to it
    base = X[0].astype(np.float64) if X.dtype == np.float64 else np.zeros(X.shape[1])
    mean = base + _sum_over_time(X, base, 1) / len(X)
    return mean, np.sqrt(_sum_over_time(X, mean, 2) / len(X))


def _statistics_on_device(X: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """`channel_statistics` of a tensor, in float64, where it is."""
    rows = max(1, 16 * ENTRIES_AT_ONCE // X.shape[1])
    base = X[0].double()
    mean = base + torch.stack([(part.double() - base).sum(0) for part in X.split(rows)]).sum(0) / len(X)
    square = torch.stack([(part.double() - mean).square().sum(0) for part in X.split(rows)]).sum(0)
    return mean.cpu().numpy(), (square / len(X)).sqrt().cpu().numpy()


def are_counts(X: np.ndarray) -> bool:
    """Whether all entries are whole numbers of at least 0.

    >>> are_counts(np.array([[0.0, 2.0]])), are_counts(np.array([[0.5, 2.0]]))
    (True, False)
    """
    return all(bool(((part := X[rows]) >= 0).all() and (part == np.round(part)).all()) for rows in time_chunks(X))


def limit_time_steps(most: int, channels: int) -> int:
    """At most how many time steps to hold at once: `most`, but fewer for recordings of over a thousand channels.

    >>> limit_time_steps(100_000, 50), limit_time_steps(100_000, 10_000)
    (100000, 13421)
    """
    return min(most, max(1, ENTRIES_HELD // channels))


def chunk_bounds(steps: int, channels: int) -> Iterator[tuple[int, int]]:
    """Starts and ends of chunks of time that cover all steps, each of a bounded number of entries."""
    rows = max(1, ENTRIES_AT_ONCE // channels)
    return ((start, min(start + rows, steps)) for start in range(0, steps, rows))


def time_chunks(X: np.ndarray) -> Iterator[slice]:
    """Slices of time that cover X (time, channel), each of a bounded number of entries.

    Of a memory-mapped file what has been looked at is given back (`ascribo.data.mapped_files`).
    """
    for bounds in chunk_bounds(len(X), X.shape[1]):
        try:
            yield slice(*bounds)
        finally:
            release(X[slice(*bounds)])


def _sum_over_time(X: np.ndarray, centre: np.ndarray, power: int) -> np.ndarray:
    """Sum over time of what each entry is above a centre (channel,), or of its square: (channel,) float64.

    The sum so far is the first row of what is summed next: rows are added one after the other, as in one piece.
    """
    rows = max(1, ENTRIES_SUMMED // X.shape[1])
    space = np.empty((rows + 1, X.shape[1]))
    space[0] = 0
    for start in range(0, len(X), rows):
        own = X[start : start + rows]
        part = space[1 : len(own) + 1]
        part[:] = own
        release(own)
        part -= centre
        if power == 2:
            np.square(part, out=part)
        space[0] = np.add.reduce(space[: len(own) + 1] if start else part, axis=0)
    return space[0].copy()
