"""Ctrl-C while training: the steps under way are finished, the state is kept, and then the fit ends.

A first Ctrl-C is only noted; training looks for it after every chunk of steps. A second one ends the program at
once, as ever. Worker processes learn of it through a file beside their checkpoints.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["STOP", "Interrupted", "stops_cleanly"]

STOP = ".stop"
"""Name of the file that tells worker processes to stop."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while fitting, with a message that says what was kept and how to go on."""

    @classmethod
    def kept_in(cls, folder: Path, how_far: str) -> Interrupted:
        """The message for a fit whose state is in a folder."""
        return cls(f"stopped{how_far}; the state is kept in {folder}, and the same fit goes on from there.")


@contextmanager
def stops_cleanly(folder: Path | None) -> Iterator[Callable[[], bool]]:
    """Within the block the first Ctrl-C is noted only; the block is given a function that tells whether to stop.

    folder : of the checkpoints. None: nothing could be kept, so Ctrl-C ends everything at once.
    """
    if folder is None:
        yield lambda: False
        return
    file, noted = folder / STOP, threading.Event()
    here = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if here else None

    def note(number: int, frame: object) -> None:
        noted.set()
        if folder.is_dir():
            file.touch()
        signal.signal(signal.SIGINT, before)

    ours = here and before not in (None, signal.SIG_IGN)
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: noted.is_set() or file.exists()
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)
        if noted.is_set():
            file.unlink(missing_ok=True)
