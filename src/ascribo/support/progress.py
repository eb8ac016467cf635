"""Progress on standard error: one line that is rewritten, or a new line now and then where that cannot be.

In a terminal and in a notebook the line grows as the work does and is gone when the work is done. A log file gets a
line every ten seconds or so, without control characters. Work that takes less than two seconds shows nothing, and
nothing is ever written to standard output.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from .names import visible

__all__ = ["Bar", "bar", "duration", "say"]

SILENT = 2.0
"""Seconds of work before the bar is shown."""
REDRAWN = 0.2
"""Seconds between two pictures of the bar."""
LOGGED = 10.0
"""Seconds between two lines in a log file."""
LENGTH = 20
"""Characters of the bar itself."""


def say(text: str, enabled: bool = True) -> None:
    """Write a line to standard error."""
    if enabled:
        sys.stderr.write("\n".join(map(visible, text.split("\n"))) + "\n")
        sys.stderr.flush()


class Bar:
    """What `bar` hands out: call `advance` as work gets done, `line` to say something above the bar."""

    def __init__(self, description: str, total: int, enabled: bool = True, rounds: int = 1):
        self.description, self.total, self.enabled, self.rounds = description, total, enabled, rounds
        self._done, self._note, self._width = 0, "", 0
        self._began = self._shown = time.monotonic()
        self._first: tuple[int, float] | None = None  # how much was done before the work began, and when it did

    def advance(self, amount: int = 1, note: str | Callable[[], str] = "") -> None:
        """Report `amount` more units of work done, with a short note on how it goes; a function that makes the note
        is called only when it is shown.

        Work that an earlier run has done is reported before the first unit, so that it does not count for the time
        left.
        """
        now = time.monotonic()
        self._done += amount
        self._first = self._first or (self._done, now)
        rewrites = _rewrites(sys.stderr)
        waited = REDRAWN if rewrites else LOGGED
        if self.enabled and now - self._began >= SILENT and now - self._shown >= waited:
            self._shown, self._note = now, note if isinstance(note, str) else note()
            if rewrites:
                self._draw(now)
            else:
                say(f"{self.description}: {', '.join(self._said(now))}")

    def line(self, text: str) -> None:
        """Write a line above the bar."""
        if self.enabled:
            drawn = self._width > 0
            self.close()
            say(text)
            if drawn:
                self._draw(time.monotonic())

    def close(self) -> None:
        """Take the bar away."""
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0

    def _draw(self, now: float) -> None:
        full, empty = ("━", "─") if "utf" in (sys.stderr.encoding or "").lower() else ("#", ".")
        length = min(LENGTH, LENGTH * self._done // max(self.total, 1))
        parts = [self.description, full * length + empty * (LENGTH - length), *self._said(now)]
        text = visible("  ".join(parts))[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def _said(self, now: float) -> list[str]:
        """How much is done, the note, and the time left."""
        before, since = self._first or (0, now)
        speed = (self._done - before) / (now - since) if now > since else 0.0
        ahead = self.rounds * self.total - self._done
        left = [f"{duration(ahead / speed)} left"] if speed and self._done < self.total else []
        return [f"{self._done:,} of {self.total:,}", *([self._note] if self._note else []), *left]


@contextmanager
def bar(description: str, total: int, enabled: bool = True, rounds: int = 1) -> Iterator[Bar]:
    """Show how far some work has come while the block runs.

    total : units of work there are. enabled : False shows nothing. rounds : this work and as much again, after it,
    until so many are done: they count for the time left.

    >>> with bar("counting", total=3) as shown:
    ...     for _ in range(3):
    ...         shown.advance(note="all is well")
    """
    shown = Bar(description, total, enabled, rounds)
    try:
        yield shown
    finally:
        shown.close()


def _rewrites(stream: TextIO) -> bool:
    """Whether a line that was written can be written over: in a terminal, and in a notebook."""
    notebook = type(stream).__module__.partition(".")[0] == "ipykernel"
    return notebook or (stream.isatty() and os.environ.get("TERM") != "dumb")


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(41.2), duration(200), duration(7500)
    ('41 s', '3 min', '2 h 5 min')
    """
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
