"""Cells whose models train as one stack: what a worker with a GPU is given, which has room for many at once."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..model.begun_fit import begin
from ..model.fitting_together import fit_together
from ..support.files import FolderInUse, only_writer
from .cells import Cell, changed, collect_notes, compute_cell, read_session, save_fitted

__all__ = ["compute_stack", "make_stacks"]

MAY_DIFFER = ("penalty", "random_state", "n_jobs", "checkpoint", "progress")
"""Parameters that the models of a stack need not have in common."""


def make_stacks(cells: Iterable[Cell], most: int) -> list[list[Cell]]:
    """Cells to be computed by one worker each time, at most so many; those of one stack take the same steps.

    How many channels a recording has is not known before it is read: those of other sizes train apart all the same.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        given = cell.model.get_params(deep=False)
        alike = repr({name: value for name, value in given.items() if name not in MAY_DIFFER})
        groups.setdefault(alike, []).append(cell)
    return [own[k : k + most] for own in groups.values() for k in range(0, len(own), most)]


def compute_stack(cells: Sequence[Cell], out: str, jobs: int | None) -> dict[str, dict[str, Any]]:
    """`compute_cell` for each, their models trained together first; the records by digest.

    What cannot be trained with the others, a session that cannot be read say, is left to be computed alone: its
    record says what is wrong.
    """
    if len(cells) > 1:
        with contextlib.suppress(Exception):
            _train_stack(cells, Path(out), jobs)
    return {cell.digest: compute_cell(cell, out, jobs) for cell in cells}


def _train_stack(cells: Sequence[Cell], out: Path, jobs: int | None) -> None:
    """Fit those that are not fitted, and save each in its folder."""
    waiting, models, begun, notes = [], [], [], []
    with contextlib.ExitStack() as held:
        for cell in cells:
            folder = out / cell.digest
            try:
                held.enter_context(only_writer(folder))
            except FolderInUse:
                continue
            if (folder / "model.json").exists():
                continue
            model = changed(cell.model, progress=False)
            with contextlib.suppress(Exception), warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", UserWarning)
                begun.append(begin(model, read_session(cell)))
                waiting.append(cell)
                models.append(model)
                notes.append(collect_notes(said))
        if len(waiting) > 1:
            fit_together(models, begun, n_jobs=jobs)
            digests = [cell.digest for cell in waiting]
            for cell, model, own in zip(waiting, models, notes, strict=True):
                save_fitted(model, cell, out / cell.digest, notes=own, stack=digests)
