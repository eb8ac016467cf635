"""Two sides that take turns: ascribo in this process, cebra in a process and an environment of its own.

What else the machine does then hits both sides alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ascribo.support.progress import bar

__all__ = ["CHECKOUT", "ONE_THREAD", "CebraProcess", "take_turns"]

CHECKOUT = Path(__file__).parents[1]
ONE_THREAD = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")}
"""The environment of a process whose libraries use one thread."""
Times = Mapping[str, float]
"""What `clock` says: wall_ms and processor_ms."""


class CebraProcess:
    """cebra's side, which works only when asked to: see `peer_cebra.py`.

    python : the Python of an environment with cebra. X (time, channel) : standardised channels.
    labels (time, variable) : the variables that cebra follows. options : those of peer_cebra.py's command line.
    """

    def __init__(self, python: str | Path, X: np.ndarray, labels: np.ndarray, **options: float):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "recording.npz"
            np.savez(file, X=X, labels=labels)
            command = [str(python), "-m", "benchmarks.peer_cebra", str(file)]
            command += [text for name, value in options.items() for text in (f"--{name}", str(value))]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                command, cwd=CHECKOUT, env=ONE_THREAD, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
            )
            self.about = self._answer()  # the file is read by then

    def ask(self, request: str) -> Any:
        """Have it do one thing; it answers how long that took."""
        assert self._process.stdin is not None
        print(request, file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                "cebra's side ended early. To see why, run `-m benchmarks.peer_cebra --help` with its Python."
            )
        return json.loads(line)


def take_turns(
    what: str, sides: Mapping[str, Callable[[], Any]], rounds: int, progress: bool = True
) -> dict[str, dict]:
    """All sides in turn, `rounds` times after one round to warm up: medians, and the times of every round.

    sides : name -> work that returns `Times`, or name -> `Times` where it times several things at once.

    >>> from benchmarks.clock import clock
    >>> found = take_turns("sums", {"short": lambda: clock(lambda: sum(range(9)))}, rounds=3)
    >>> sorted(found["short"]), len(found["short"]["rounds"])
    (['median_processor_ms', 'median_wall_ms', 'rounds'], 3)
    """
    got: list[dict[str, Times]] = []
    with bar(what, (rounds + 1) * len(sides), progress) as shown:
        for _ in range(rounds + 1):
            times: dict[str, Times] = {}
            for name, work in sides.items():
                answer = work()
                times |= {name: answer} if "wall_ms" in answer else answer
                shown.advance(note=name)
            got.append(times)
    return {name: _medians([times[name] for times in got[1:]]) for name in got[0]}


def _medians(rounds: Sequence[Times]) -> dict[str, Any]:
    found = {f"median_{key}": median(times[key] for times in rounds) for key in ("processor_ms", "wall_ms")}
    return {**found, "rounds": list(rounds)}
