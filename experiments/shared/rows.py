"""A row of numbers for each case of an experiment, computed in processes, kept as soon as it is there.

A *case* is a dict fit for JSON that holds all that determines its row: the seeds, the data, the training. An
interrupted run goes on with the cases that have no row yet.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ascribo.support.progress import bar
from ascribo.support.sealed_json import is_whole, read_json, write_sealed
from ascribo.support.spread import WorkersLost, spread
from experiments.shared.results import as_json, code

__all__ = ["Case", "CasesFailed", "Row", "compute_rows", "read_row", "row_files", "start_over", "write_row"]

MOST_SAID = 5
"""Cases that failed that an error names."""

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
    or over the workers of a Dask scheduler. A worker that is lost costs only what it was at. A case that fails does
    not end the others: when they are done and kept, a `CasesFailed` says which failed and why.

    Returns the rows, in the order of the cases, and how many of them were taken from an interrupted run.

    Parameters
    ----------
    task : a function of a module.
    state : folder in which each row is kept. A row is taken from there only if it was made from the same case by
        the same code, and is whole; the runner removes the folder when the experiment is over.
    jobs : processes. scheduler : address of a Dask scheduler, whose workers can import `experiments`.
    fresh : remove what is in `state` first.
    describe : one line about a finished row, for standard error.
    """
    if fresh:
        start_over(state)
    files = row_files(cases, state)
    rows = [read_row(file) for file in files]
    waiting = [k for k, row in enumerate(rows) if row is None]
    tasks, failed = {str(k): (task, cases[k]) for k in waiting}, {}
    with bar("cases", len(cases), progress) as shown:
        shown.advance(len(cases) - len(waiting))
        try:
            for k, (row, error) in spread(_row, tasks, n_jobs=jobs, scheduler=scheduler):
                if row is None:
                    failed[int(k)] = error
                else:
                    rows[int(k)] = write_row(files[int(k)], row)
                shown.advance()
                shown.line(error if row is None else describe(row))
        except WorkersLost as lost:
            failed |= {int(k): str(lost) for k in lost.keys}
    if failed:
        raise CasesFailed({str(dict(cases[k])): error for k, error in sorted(failed.items())}, len(cases))
    return [row for row in rows if row is not None], len(cases) - len(waiting)


class CasesFailed(ValueError):
    """Cases of which there is no row. reasons : case -> why, the traceback where there is one. cases : of all."""

    def __init__(self, reasons: Mapping[str, str], cases: int):
        lines = [f"  {case}: {error.strip().splitlines()[-1]}" for case, error in reasons.items()]
        more = [f"  and {len(lines) - MOST_SAID} more"] if len(lines) > MOST_SAID else []
        super().__init__(
            f"{len(lines)} of {cases} cases failed; the rows of the others are kept, and the same command tries "
            "again those that failed:\n" + "\n".join([*lines[:MOST_SAID], *more])
        )
        self.reasons = dict(reasons)


def _row(task: Callable[..., Row], case: Case) -> tuple[Row | None, str]:
    """The row of a case; or none, and why."""
    try:
        return task(**case), ""
    except Exception:
        return None, traceback.format_exc()


def write_row(file: Path, row: Row) -> Row:
    """Keep a row with its checksum; returns it as it will be read."""
    write_sealed(file, {"row": (kept := as_json(row))})
    return kept


def read_row(file: Path) -> Row | None:
    """A row that was kept; None where there is none, or where it is damaged: it is then computed again."""
    try:
        kept = read_json(file)
    except (OSError, ValueError):
        return None
    return kept["row"] if is_whole(kept) else None


def start_over(state: Path) -> None:
    """Remove all rows that are kept in a folder, but not the lock of who is working there."""
    for entry in state.iterdir() if state.is_dir() else []:
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != ".lock":
            entry.unlink()


def row_files(cases: Sequence[Case], state: Path) -> list[Path]:
    """Where the row of each case is kept: a name for the case and for the code that makes its row."""
    digest = code()["sha256"]
    return [state / f"{_digest([digest, dict(case)])}.json" for case in cases]


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]
