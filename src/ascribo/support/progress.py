"""A progress bar that stays silent for work under two seconds and never writes to standard output."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

__all__ = ["Bar", "bar"]

QUIET = 2.0  # seconds


class Bar:
    """Handed out by `bar`: call `advance` as work gets done."""

    def __init__(self, description: str, total: int, enabled: bool):
        self.description, self.total, self.enabled = description, total, enabled
        self._done, self._began, self._progress = 0, time.monotonic(), None

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Report `amount` more units done, with a short note on how it goes."""
        self._done += amount
        if not self.enabled:
            return
        if self._progress is None:
            if time.monotonic() - self._began < QUIET:
                return
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(compact=True),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task(self.description, total=self.total, note="")
        self._progress.update(self._task, completed=self._done, note=note)

    def close(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()


@contextmanager
def bar(description: str, total: int, enabled: bool = True) -> Iterator[Bar]:
    """A progress bar on standard error while the block runs.

    >>> with bar("counting", total=3) as progress:
    ...     for _ in range(3):
    ...         progress.advance()
    """
    shown = Bar(description, total, enabled)
    try:
        yield shown
    finally:
        shown.close()
