"""Batches whose channels are read while the step before is computed, for recordings that are read from a file."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch

from ..support.memory import bytes_read_ahead

__all__ = ["Reading", "read_ahead"]

Batch = TypeVar("Batch")

READERS = 4
"""Threads that read, at most: a disk answers several questions at once."""
MOST_AHEAD = 16
"""Batches that are read before they are needed, at most."""


@dataclass(frozen=True)
class Reading(Generic[Batch]):
    """A batch whose inputs are being read. index : its time steps, (model, row, batch) as a rule.

    A slice of it is that of some models.
    """

    index: Batch
    inputs: Callable[[], Any]

    def __getitem__(self, models: slice) -> Reading[Batch]:
        return Reading(self.index[models], lambda: self.inputs()[models])  # type: ignore[index]


def read_ahead(batches: Sequence[Batch], read: Callable[[Batch], Any], size: int) -> Iterator[Reading[Batch]]:
    """The batches, one after the other, while those that come next are read by other threads.

    read : batch -> its inputs. size : bytes of the inputs of a batch; how many are read ahead follows from it and
    from the memory there is.

    >>> [one.inputs().item() for one in read_ahead(torch.tensor([1, 2, 3]), lambda batch: 10 * batch, size=8)]
    [10, 20, 30]
    """
    ahead = max(1, min(MOST_AHEAD, bytes_read_ahead() // max(1, size)))
    waiting: deque[Future[Any]] = deque()
    # the readers' own tensor operations take one thread each, like those of the training
    with ThreadPoolExecutor(min(READERS, ahead), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            for k, batch in enumerate(batches):
                while len(waiting) + k < len(batches) and len(waiting) <= ahead:
                    following = batches[k + len(waiting)]
                    waiting.append(pool.submit(read, following))
                yield Reading(batch, waiting.popleft().result)
        finally:
            for reading in waiting:
                reading.cancel()
