"""`ascribo report`: the report of a run, or several runs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..attribution.maps import AttributionMaps
from ..data.recording import Recording
from ..model.estimator import ContrastiveEmbedding
from ..support.files import check_writable
from ..support.progress import say
from .output import print_line
from .runs import model_of_run, recording_of_run

__all__ = ["maps_in", "report"]

MAP = "map.nc"
"""Name of the map that the demo and `ascribo analyse` leave in a run folder."""
PASS = "ascribo report RUN FILE"


def report(
    *, paths: list[str], out: str | None, session: str | None, title: str | None, q: float, progress: bool
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
        raise ValueError(f"{len(runs)} runs: expected one at a time.")
    path = check_writable(Path(runs[0]) / "report.html" if out is None else out)
    say(f"reading {runs[0]}", progress)
    model, source = model_of_run(runs[0], session, PASS)
    recording = recording_of_run(runs[0], model, source, files[0] if files else None, progress, PASS)
    model.set_params(progress=progress)
    model.report(recording, path, maps=maps_in(Path(runs[0]), model, recording), title=title, q=q)
    print_line(f"report: {path}")


def maps_in(run: Path, model: ContrastiveEmbedding, recording: Recording) -> AttributionMaps | None:
    """The map that lies in a run folder, if it is of this model and recording and younger than the model."""
    file, description = run / MAP, run / "model.json"
    if not file.is_file() or file.stat().st_mtime < description.stat().st_mtime:
        return None
    maps: Any = AttributionMaps.load(file)
    same = list(maps.by_space["channel"].values) == list(model.model_.channels)
    return maps if same and len(recording) else None
