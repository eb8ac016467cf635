"""Batches whose channels are read while the step before is computed, for recordings that are read from a file."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from ..support.memory import bytes_read_ahead

__all__ = ["Reading", "read_ahead"]

READERS = 4
"""Threads that read, at most: a disk answers several questions at once."""
MOST_AHEAD = 16
"""Batches that are read before they are needed, at most."""


@dataclass(frozen=True)
class Reading:
    """A batch of time steps, (model, row, batch), whose inputs are being read.

    A slice of it is that of some models.
    """

    index: Tensor
    inputs: Callable[[], Tensor]

    def __getitem__(self, models: slice) -> Reading:
        return Reading(self.index[models], lambda: self.inputs()[models])


def read_ahead(batches: Sequence[Tensor], read: Callable[[Tensor], Tensor], size: int) -> Iterator[Reading]:
    """The batches, one after the other, while those that come next are read by other threads.

    read : batch -> its inputs. size : bytes of the inputs of a batch; how many are read ahead follows from it and
    from the memory there is.

    >>> [one.inputs().item() for one in read_ahead(torch.tensor([1, 2, 3]), lambda batch: 10 * batch, size=8)]
    [10, 20, 30]
    """
    ahead = max(1, min(MOST_AHEAD, bytes_read_ahead() // max(1, size)))
    waiting: deque[tuple[Tensor, Future[Tensor]]] = deque()
    # the readers' own tensor operations take one thread each, like those of the training
    with ThreadPoolExecutor(min(READERS, ahead), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            for k, batch in enumerate(batches):
                while len(waiting) + k < len(batches) and len(waiting) <= ahead:
                    following = batches[k + len(waiting)]
                    waiting.append((following, pool.submit(read, following)))
                _, reading = waiting.popleft()
                yield Reading(batch, reading.result)
        finally:
            for _, reading in waiting:
                reading.cancel()
