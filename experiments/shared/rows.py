"""What experiments share: a grid of runs that survives interruption, intervals, and where it all ran."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

import ascribo
from ascribo import __version__, figures
from ascribo.support.files import write_atomically

__all__ = ["machine", "publish", "row_files", "run_grid", "summary", "write_json"]

Row = dict[str, Any]
PACKAGE = Path(ascribo.__file__).parent


def run_grid(
    task: Callable[..., Row],
    cells: Sequence[Mapping[str, Any]],
    state: Path,
    *,
    jobs: int = 1,
    fresh: bool = False,
    progress: bool = True,
    describe: Callable[[Row], str] = str,
) -> tuple[list[Row], int]:
    """`task(**cell)` for every cell, spread over processes of one thread each.

    Returns the rows, in the order of the cells, and how many of them were taken from an interrupted run.

    Parameters
    ----------
    task : a function of a module; what it returns must be fit for JSON.
    cells : all that determines a row, fit for JSON.
    state : folder in which each row is kept as soon as it is there. A row is taken from there only if it was
        made from the same cell by the same code; the caller removes the folder when the experiment is over.
    fresh : forget what is in `state`.
    describe : one line about a finished row, shown on standard error.
    """
    if fresh:
        shutil.rmtree(state, ignore_errors=True)
    files = row_files(cells, state)
    waiting = [k for k, file in enumerate(files) if not file.exists()]

    def run(k: int) -> tuple[int, Row]:
        return k, task(**cells[k])

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    columns += [TimeElapsedColumn(), TimeRemainingColumn(compact=True)]
    console = Console(stderr=True)
    with (
        Progress(*columns, console=console, transient=True, disable=not progress) as shown,
        parallel_config("loky", inner_max_num_threads=1),
    ):
        bar = shown.add_task("data sets", total=len(cells), completed=len(cells) - len(waiting))
        finished = Parallel(
            n_jobs=min(effective_n_jobs(jobs), max(1, len(waiting))),
            return_as="generator_unordered",
            pre_dispatch="n_jobs",
        )(delayed(run)(k) for k in waiting)
        for k, row in finished:  # type: ignore[misc]
            write_json(files[k], row)
            shown.advance(bar)
            if progress:
                console.print(describe(row), highlight=False, markup=False)
    return [json.loads(file.read_text()) for file in files], len(cells) - len(waiting)


def row_files(cells: Sequence[Mapping[str, Any]], state: Path) -> list[Path]:
    """Where the row of each cell is kept: a name for the cell and for the code that makes its row."""
    code = _code()
    return [state / f"{_digest([code, dict(cell)])}.json" for cell in cells]


def summary(values: Sequence[float], draws: int = 10_000) -> dict[str, Any]:
    """Mean, smallest value, and a 95% bootstrap interval of the mean over data sets.

    >>> summary([1.0, 1.0, 1.0])
    {'mean': 1.0, 'min': 1.0, 'ci95': [1.0, 1.0], 'n': 3}
    """
    numbers = np.asarray(values, dtype=float)
    means = np.random.default_rng(0).choice(numbers, (draws, len(numbers))).mean(1)
    interval = np.quantile(means, [0.025, 0.975]).tolist()
    return {"mean": float(numbers.mean()), "min": float(numbers.min()), "ci95": interval, "n": len(numbers)}


def machine() -> dict[str, Any]:
    """What the numbers depend on: processor, cores, versions. Nothing that names the machine."""
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), cpu)
    return {
        "cpu": cpu,
        "cores": effective_n_jobs(-1),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "ascribo": __version__,
    }


def write_json(path: Path, content: Any) -> Path:
    """Write JSON, all of it or nothing."""
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    return write_atomically(path, lambda temporary: temporary.write_text(text))


def publish(name: str, out: Path, result: dict[str, Any], draw: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Write an experiment's JSON and figure to a folder, and forget its unfinished rows there.

    Without matplotlib there is no figure, and a warning: what was measured is in the JSON.
    """
    write_json(out / f"{name}.json", result)
    try:
        figures.write_png(draw(result).figure, out / f"{name}.png")
    except ImportError as error:
        warnings.warn(f"{name}.png was not drawn: {error}", stacklevel=3)
    shutil.rmtree(out / f".{name}", ignore_errors=True)
    return result


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def _code() -> str:
    """Digest of this package's source: rows of an older version of it are not mixed with new ones."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        digest.update(os.fsencode(file.relative_to(PACKAGE)) + file.read_bytes())
    return digest.hexdigest()
