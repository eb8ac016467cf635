"""Every session with every choice of settings, and one table of what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.model_selection import ParameterGrid

from ..attribution.maps import AttributionMaps
from ..model.estimator import ContrastiveEmbedding
from ..model.fitting_together import why_not_together
from ..model.loading import load
from ..support.compute import resolve_device
from ..support.files import check_writable, only_writer, write_atomically
from ..support.names import suggest
from ..support.progress import bar, say
from ..support.sealed_json import is_whole, read_json, write_sealed
from ..support.spread import WorkersLost, spread
from .cells import MAP, changed, make_cell, read_failure, read_record, write_failure
from .pages import Computed, write_page
from .sessions import find_sessions, fingerprints
from .stacks import compute_stack, make_stacks

__all__ = ["Sweep", "sweep"]

FORMAT = 2
"""Goes up when what sweep.json says changes. 2 has a checksum."""
PLAN = "sweep.json"
ON_A_GPU = 16
"""Cells of a stack there, if nobody says otherwise: what fits into its memory together trains together."""


def sweep(
    sessions: Any,
    model: ContrastiveEmbedding,
    out: str | Path,
    *,
    grid: Mapping[str, Iterable[Any]] | None = None,
    read: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    scheduler: Any = None,
    stack: int | None = None,
    progress: bool = True,
) -> Sweep:
    """Fit a model to every session with every choice of settings, and find which channels carry what in each.

    What is done is never computed again: run the same sweep after an interruption, with more sessions or with more
    settings, and only what is missing is computed. A session that fails is in the table with the reason, and is
    tried again the next time.

    Parameters
    ----------
    sessions : a folder of recordings, a pattern such as "data/*.nwb", a list of files, or a dict of names and files
        or `Recording`s.
    model : the estimator, not fitted. Its random_state is an integer, so that a cell computed again is the same.
    out : the folder of the sweep, on a disk that all workers see.
    grid : parameters of the model and the values to try, as scikit-learn's `ParameterGrid` has them:
        {"penalty": [0.1, "auto"], "spaces__rest__dim": [2, 3]}. None: the model as it is.
    read : arguments of `ascribo.read` for the files, such as bin_size and variables.
    n_jobs : processes, one cell each (None: this one; -1: one for each core).
    scheduler : address of a Dask scheduler, or a Client of `distributed`: the cells are computed by its workers.
        Workers that are lost are replaced by others.
    stack : cells that are handed out together and trained as one stack, at most: for GPUs, which take hardly longer
        for many than for one. It needs numbers for the model's steps and seeds, and none of the cells stops early.
        On a GPU the numbers of a cell then depend on which others were trained with it, as on another seed.
        None: 16 where the model's device is a GPU ("auto": if this machine has one) and its steps and seeds are
        numbers; else 1, each cell on its own.

    Returns
    -------
    Sweep : what came of it, read from the folder. `results.csv` in the folder holds its table.

    Examples
    --------
    >>> import tempfile
    >>> import ascribo as asc
    >>> small = {"observed": 1, "hidden": 1, "channels": (3, 3), "steps": 400}
    >>> sessions = {f"rat{k}": asc.simulate.box(k, **small) for k in (0, 1)}
    >>> spaces = {"position": asc.Follow("x", dim=1), "rest": asc.Time(dim=1)}
    >>> model = asc.ContrastiveEmbedding(spaces, seeds=1, steps=20, batch_size=32, random_state=0)
    >>> done = asc.sweep(sessions, model, tempfile.mkdtemp(), grid={"penalty": [0.0, 0.1]}, progress=False)
    >>> done
    Sweep(4 cells: 4 done)
    >>> list(done.table().columns[:4])
    ['session', 'penalty', 'state', 'space']
    """
    if not isinstance(model.random_state, int):
        raise ValueError(
            f"random_state={model.random_state!r}: a sweep needs an integer, such as 0, so that a cell which is "
            "computed again is the same."
        )
    folder, points = check_writable(Path(out)), _points(model, grid)
    together = _stack(stack, [changed(model, **point) for point in points])
    found = find_sessions(sessions)
    how = {name: value for name, value in (read or {}).items() if value is not None}
    with only_writer(folder):
        prints = fingerprints(found, folder)
        plan, cells = [], {}
        for name, source in found.items():
            for point in points:
                cell = make_cell(source, prints[name], how, changed(model, **point))
                cells[cell.digest] = cell
                plan.append({"session": name, "settings": _plain(point), "digest": cell.digest})
        write_sealed(folder / PLAN, {"format": FORMAT, "cells": plan})
        waiting = {key: cell for key, cell in cells.items() if read_record(folder / key) is None}
        done = len(cells) - len(waiting)
        say(f"{len(cells)} cells, {done} of them done before", progress and done > 0)
        alone = scheduler is None and n_jobs in (None, 1)
        place = str(folder.absolute())
        stacks = {own[0].digest: own for own in make_stacks(waiting.values(), together)}
        tasks = {key: (own, place, model.n_jobs if alone else 1) for key, own in stacks.items()}
        with bar("cells", len(cells), progress) as shown:
            shown.advance(done)
            try:
                for _, records in spread(compute_stack, tasks, n_jobs=n_jobs, scheduler=scheduler):
                    shown.advance(len(records))
                    for key, record in records.items():
                        if "error" in record:
                            shown.line(f"{key} failed: {record['error']}")
            except WorkersLost as lost:
                for key in (cell.digest for first in lost.keys for cell in stacks[first]):
                    if read_record(folder / key) is None:
                        write_failure(folder / key, lost)
                        shown.line(f"{key} failed: {lost}")
        result = Sweep(folder)
        write_atomically(folder / "results.csv", lambda path: result.table().to_csv(path, index=False))
    return result


def _points(model: ContrastiveEmbedding, grid: Mapping[str, Iterable[Any]] | None) -> list[dict[str, Any]]:
    """The choices of settings."""
    known = model.get_params()
    for name, values in (grid or {}).items():
        if name not in known:
            raise ValueError(f"grid: the model has no parameter {name!r}{suggest(name, known)}")
        if isinstance(values, str) or not isinstance(values, Iterable) or not list(values):
            raise ValueError(f"grid[{name!r}] is {values!r}; expected a list of values to try.")
    return list(ParameterGrid({name: list(values) for name, values in (grid or {}).items()}))


def _stack(given: int | None, models: list[ContrastiveEmbedding]) -> int:
    """How many cells to train together at most; refuses stacks of models that do not take the same steps."""
    if given is None:
        apart = any(why_not_together(model) or not _on_gpu(model) for model in models)
        return 1 if apart else ON_A_GPU
    if not isinstance(given, int) or given < 1:
        raise ValueError(f"stack={given!r}: expected how many cells to train together, 1 or more, or None.")
    for model in models if given > 1 else []:
        if why := why_not_together(model):
            raise ValueError(f"stack={given}: cells that train together take the same steps; the model has {why}.")
    return given


def _on_gpu(model: ContrastiveEmbedding) -> bool:
    """Whether a model asks for a GPU. Workers elsewhere are taken to be like this machine if it asks for "auto"."""
    device = resolve_device("auto") if model.device == "auto" else model.device
    return str(device).startswith("cuda")


def _plain(point: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for JSON and for a table: numbers and texts as they are, anything else as Python writes it."""
    return {
        name: value if value is None or isinstance(value, str | int | float) else repr(value)
        for name, value in point.items()
    }


def _planned(cell: Mapping[str, Any]) -> tuple[str, dict[str, Any], str]:
    """Session, settings and digest of a cell of a plan. The digest names a folder beside it, and is no path."""
    digest = str(cell["digest"])
    if not re.fullmatch(r"[0-9a-f]+", digest):
        raise ValueError(f"a cell is called {digest!r}")
    return str(cell["session"]), _plain(dict(cell["settings"])), digest


class Sweep:
    """What came of a sweep, read from its folder: tables, models, maps, a page that compares.

    folder : the folder that `ascribo.sweep` wrote, whether it is finished or not.

    >>> import tempfile
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=1, hidden=1, channels=(3, 3), steps=600)
    >>> small = dict(seeds=1, steps=20, batch_size=32, random_state=0, progress=False)
    >>> model = asc.ContrastiveEmbedding({"position": asc.Follow("x", dim=1)}, **small)
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = asc.sweep({"rat1": data, "rat2": data[:400]}, model, folder.name, progress=False)
    >>> done = asc.Sweep(folder.name)  # also in another process, while the sweep is still running
    >>> done.cells()[["session", "state", "time_steps"]]
      session state  time_steps
    0    rat1  done         600
    1    rat2  done         400
    >>> done.table()["space"].tolist(), done.summary()["sessions"].tolist()
    (['position', 'position'], [2])
    >>> len(done.calls()), done.model("rat1").seeds, list(done.maps("rat2").by_space.shape)
    (12, 1, [6, 1])
    >>> done.report().name
    'compare.html'
    >>> folder.cleanup()
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        try:
            plan = read_json(self.folder / PLAN)
            if plan["format"] != FORMAT or not is_whole(plan):
                raise ValueError("it does not match its checksum, or is of another version of ascribo")
            self._cells = [_planned(cell) for cell in plan["cells"]]
            if not self._cells:
                raise ValueError("it names no cells")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{folder} is not the folder of a sweep, or its {PLAN} is damaged ({error!r})."
            ) from error

    def __repr__(self) -> str:
        states = self.cells()["state"].value_counts()
        return f"Sweep({len(self._cells)} cells: {', '.join(f'{n} {state}' for state, n in states.items())})"

    def cells(self) -> pd.DataFrame:
        """A row for each cell: session, its settings, state ("done", "failed" or "waiting"), seconds, channels,
        time_steps, error, run (its folder), ascribo (the version that computed it)."""
        return pd.DataFrame([self._cell(*cell)[0] for cell in self._cells])

    def table(self) -> pd.DataFrame:
        """A row for each cell and space: session, its settings, state, space, bits above chance with their 95%
        interval, collapsed, called (channels that carry it at a false discovery rate of 5%; missing where nothing
        was tested), channels, seconds, error, run."""
        rows = []
        for cell in self._cells:
            about, record = self._cell(*cell)
            fits = record["spaces"] if record else [{}]
            for fit in fits:
                name = fit.get("space")
                found = {key: fit.get(key) for key in ("bits", "bits_low", "bits_high", "collapsed")}
                called = record["called"].get(name) if record else None
                head = {key: about[key] for key in ("session", *cell[1], "state")}
                tail = {key: about[key] for key in ("channels", "seconds", "error", "run")}
                rows.append({**head, "space": name, **found, "called": called, **tail})
        return pd.DataFrame(rows)

    def summary(self) -> pd.DataFrame:
        """A row for each choice of settings and space: sessions, the median of their bits, how many collapsed, and
        of the channels of all sessions how many are called."""
        table = self.table()
        table = table[table["state"] == "done"]
        by = [*self._settings(), "space"]
        return (
            table.groupby(by, sort=False, dropna=False)
            .agg(
                sessions=("session", "nunique"),
                bits=("bits", "median"),
                collapsed=("collapsed", "sum"),
                called=("called", "sum"),
                channels=("channels", "sum"),
            )
            .reset_index()
        )

    def calls(self, q: float = 0.05) -> pd.DataFrame:
        """A row for each cell, space and channel: session, its settings, and what `AttributionMaps.calls` says."""
        parts = []
        for session, settings, digest in self._cells:
            maps = self._maps(digest)
            if maps is not None and maps.tested:
                parts.append(maps.calls(q).assign(**{"session": session, **settings}))
        if not parts:
            return pd.DataFrame()
        table: Any = pd.concat(parts, ignore_index=True)
        head = ["session", *self._settings()]
        return table[[*head, *(name for name in table.columns if name not in head)]]

    def model(self, session: str, **settings: Any) -> ContrastiveEmbedding:
        """The fitted model of a session; settings : those of the grid, where there is more than one choice."""
        ((_, _, digest),) = self._chosen(session, settings)
        return load(self.folder / digest)  # type: ignore[return-value]

    def maps(self, session: str, **settings: Any) -> AttributionMaps | None:
        """The map of a session; None if all its spaces have collapsed. settings : as for `model`."""
        ((_, _, digest),) = self._chosen(session, settings)
        return self._maps(digest)

    def report(
        self, path: str | Path | None = None, *, sessions: Iterable[str] | None = None, q: float = 0.05
    ) -> Path:
        """Write one page about the runs that are done. path : compare.html in the folder.

        Up to 24 runs are compared channel by channel. Of more the page says how they are spread, which stand out
        and which failed. sessions : those to compare. None: all.
        """
        wanted = None if sessions is None else set(sessions)
        cells = [Computed(self.folder, *cell) for cell in self._cells if wanted is None or cell[0] in wanted]
        return write_page(cells, self.folder / "compare.html" if path is None else path, q)

    def _settings(self) -> list[str]:
        return list(dict.fromkeys(name for _, settings, _ in self._cells for name in settings))

    def _cell(self, session: str, settings: dict[str, Any], digest: str) -> tuple[dict[str, Any], dict | None]:
        """The row of a cell, and its record if it is done."""
        folder = self.folder / digest
        record = read_record(folder)
        error = None if record else read_failure(folder)
        state = "done" if record else "waiting" if error is None else "failed"
        known = {
            key: record.get(key) if record else None for key in ("seconds", "channels", "time_steps", "ascribo")
        }
        return {"session": session, **settings, "state": state, **known, "error": error, "run": str(folder)}, record

    def _maps(self, digest: str) -> AttributionMaps | None:
        file = self.folder / digest / MAP
        return AttributionMaps.load(file) if file.is_file() else None

    def _chosen(self, session: str, settings: Mapping[str, Any]) -> list[tuple[str, dict[str, Any], str]]:
        names = list(dict.fromkeys(cell[0] for cell in self._cells))
        if session not in names:
            raise ValueError(f"the sweep has no session {session!r}{suggest(session, names)}")
        wanted = _plain(settings)
        found = [cell for cell in self._cells if cell[0] == session and cell[1].items() >= wanted.items()]
        if len(found) != 1:
            choices = [cell[1] for cell in self._cells if cell[0] == session]
            raise ValueError(
                f"{len(found)} cells of {session!r} have {wanted}; expected one. There are: {choices}."
            )
        return found
