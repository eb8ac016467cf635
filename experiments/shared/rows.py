"""A row of numbers for each case of an experiment, computed in processes, kept as soon as it is there.

A *case* is a dict fit for JSON that holds all that determines its row: the seeds, the data, the training. An
interrupted run goes on with the cases that have no row yet.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ascribo.support.progress import bar
from ascribo.support.sealed_json import read_json
from ascribo.support.spread import spread
from experiments.shared.results import code, write_json

__all__ = ["Case", "Row", "compute_rows", "row_files"]

Case = Mapping[str, Any]
"""All that determines a row, fit for JSON."""
Row = dict[str, Any]
"""What was measured of a case, fit for JSON."""


def compute_rows(
    task: Callable[..., Row],
    cases: Sequence[Case],
    state: Path,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    fresh: bool = False,
    progress: bool = True,
    describe: Callable[[Row], str] = str,
) -> tuple[list[Row], int]:
    """`task(**case)` for every case, spread as the cells of `ascribo.sweep` are: over processes of one thread each,
    or over the workers of a Dask scheduler. A worker that is lost costs only what it was at.

    Returns the rows, in the order of the cases, and how many of them were taken from an interrupted run.

    Parameters
    ----------
    task : a function of a module.
    state : folder in which each row is kept. A row is taken from there only if it was made from the same case by
        the same code; `publish` removes the folder when the experiment is over.
    jobs : processes. scheduler : address of a Dask scheduler, whose workers can import `experiments`.
    fresh : remove what is in `state` first.
    describe : one line about a finished row, for standard error.
    """
    if fresh:
        shutil.rmtree(state, ignore_errors=True)
    files = row_files(cases, state)
    waiting = [k for k, file in enumerate(files) if not file.exists()]

    tasks = {str(k): (task, cases[k]) for k in waiting}
    with bar("cases", len(cases), progress) as shown:
        shown.advance(len(cases) - len(waiting))
        for k, row in spread(_row, tasks, n_jobs=jobs, scheduler=scheduler):
            write_json(files[int(k)], row)
            shown.advance()
            shown.line(describe(row))
    return [read_json(file) for file in files], len(cases) - len(waiting)


def _row(task: Callable[..., Row], case: Case) -> Row:
    return task(**case)


def row_files(cases: Sequence[Case], state: Path) -> list[Path]:
    """Where the row of each case is kept: a name for the case and for the code that makes its row."""
    digest = code()["sha256"]
    return [state / f"{_digest([digest, dict(case)])}.json" for case in cases]


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]
