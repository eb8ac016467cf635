"""`ascribo report`: the report of a run, or several runs beside each other."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ..attribution.maps import AttributionMaps
from ..model.estimator import ContrastiveEmbedding
from ..report import Run, write_comparison
from ..support.files import check_writable, room_kept, write_atomically
from ..support.memory import refuse_memory
from ..support.progress import say
from ..training.kept_decoders import decoders_kept
from .output import print_line
from .runs import model_of_run, recording_of_run

__all__ = ["maps_in", "report", "shift_in", "write_shift"]

MAP, SHIFT = "map.nc", "shift.csv"
"""Names of the map that the demo and `ascribo analyse` leave in a run folder, and of the shift test."""
COMPARISON = 5_000_000
"""Bytes of a page that compares runs, at most."""
PASS = "ascribo report RUN FILE"


def report(
    *,
    paths: list[str],
    out: str | None,
    session: str | None,
    title: str | None,
    q: float,
    memory: str | None,
    progress: bool,
) -> None:
    """`ascribo report`."""
    runs = [path for path in paths if Path(path).is_dir()]
    files = [path for path in paths if not Path(path).is_dir()]
    if not runs:
        raise ValueError(f"{', '.join(paths)}: expected the folder of at least one fitted model.")
    if len(files) > 1 or (files and len(runs) > 1):
        raise ValueError(
            f"{', '.join(files)}: expected one recording, of one run. Several runs are compared without."
        )
    if len(runs) > 1:
        refuse_memory(memory, "comparing runs", "leave it out")
        _compare(runs, check_writable("compare.html" if out is None else out), session, title, q, progress)
        return
    path = check_writable(Path(runs[0]) / "report.html" if out is None else out)
    say(f"reading {runs[0]}", progress)
    model, source = model_of_run(runs[0], session, PASS)
    recording = recording_of_run(runs[0], model, source, files[0] if files else None, progress, PASS)
    model.set_params(progress=progress, memory=memory)
    run = Path(runs[0])
    with decoders_kept(run / ".checkpoint"):
        model.report(recording, path, maps=maps_in(run, model), shift=shift_in(run), title=title, q=q)
    print_line(f"report: {path}")


def _compare(runs: list[str], path: Path, session: str | None, title: str | None, q: float, progress: bool) -> None:
    """Several runs beside each other."""
    names = [Path(run).name for run in runs]
    with room_kept(path.parent, COMPARISON, what="the report") as give_back:
        found = _runs(runs, names, session, progress)
        give_back()
    if len(found) < len(runs):
        raise ValueError(f"{', '.join(runs)}: a run is given twice. Pass different ones.")
    write_comparison(found, path, q=q, title=title)
    print_line(f"report: {path}")


def _runs(runs: list[str], names: list[str], session: str | None, progress: bool) -> dict[str, Run]:
    """Runs by name, each with its map."""
    found = {}
    for name, run in zip(names if len(set(names)) == len(names) else runs, runs, strict=True):
        say(f"reading {run}", progress)
        model, source = model_of_run(run, session, PASS)
        model.set_params(progress=progress)
        maps = maps_in(Path(run), model)
        if maps is None:
            maps = model.attribute(recording_of_run(run, model, source, None, progress, PASS))
        found[name] = Run(model, maps)
    return found


def maps_in(run: Path, model: ContrastiveEmbedding) -> AttributionMaps | None:
    """The map that lies in a run folder, if it is of the model's channels and younger than the model."""
    if not _is_of_the_model(run / MAP):
        return None
    maps = AttributionMaps.load(run / MAP)
    return maps if list(maps.by_space["channel"].values) == list(model.model_.channels) else None


def write_shift(shift: pd.DataFrame, run: Path) -> Path:
    """Write the table of a shift test, with the scores of its single copies in one column."""
    copies = shift.attrs.get("copies", {})
    table = shift.assign(copies=[" ".join(f"{score:.5g}" for score in copies.get(s, [])) for s in shift["space"]])
    return write_atomically(run / SHIFT, lambda path: table.to_csv(path, index=False))


def shift_in(run: Path) -> pd.DataFrame | None:
    """The shift test that lies in a run folder, if it is younger than the model."""
    if not _is_of_the_model(run / SHIFT):
        return None
    empty = dict.fromkeys(["score_low", "score_high", "r2"], "")  # a space may be named NA
    table = pd.read_csv(run / SHIFT, dtype={"space": str, "copies": str}, keep_default_na=False, na_values=empty)
    copies = table.pop("copies").str.split() if "copies" in table else []
    table.attrs["copies"] = {
        s: [float(score) for score in own] for s, own in zip(table["space"], copies, strict=False)
    }
    if "bits" in table:  # written before there were decoders
        table = table.rename(columns=lambda name: name.replace("bits", "score")).assign(statistic="embedding")
    return table


def _is_of_the_model(file: Path) -> bool:
    """Whether a file lies in a run folder and is younger than the model there."""
    return file.is_file() and file.stat().st_mtime >= (file.parent / "model.json").stat().st_mtime
