"""The demo: a recording whose truth is known, from simulation to calls, in about a minute."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import figures
from ..attribution.maps import AttributionMaps
from ..model.estimator import ContrastiveEmbedding
from ..model.saving import save
from ..simulate.box import BoxRecording, box
from ..spaces.kinds.follow import Follow
from ..spaces.kinds.time import Time
from ..support.files import room_kept, write_atomically
from ..support.names import plural
from ..support.progress import say

__all__ = ["Demo", "run"]

RESULTS = 20_000_000
"""Bytes of model, map, figure and report, at most."""


@dataclass(frozen=True)
class Demo:
    """What the demo made.

    recording : simulated; its second half of the channels carries the position (x, y), all carry the rest.
    auroc : space -> area under the ROC curve of its scores against the truth, where the truth has both kinds.
    files : what it is -> where it was written.
    """

    recording: BoxRecording
    model: ContrastiveEmbedding
    maps: AttributionMaps
    auroc: dict[str, float]
    files: dict[str, Path]
    seconds: float


def run(
    out: str | Path = "runs/demo",
    progress: bool = True,
    *,
    channels: tuple[int, int] = (15, 15),
    steps: int = 30_000,
    training_steps: int = 600,
    seeds: int = 2,
) -> Demo:
    """Simulate, fit, attribute, and write all of it to the folder `out`; see `Demo` for what comes back.

    progress : say on standard error what is being done.
    channels, steps : size of the simulated recording; training_steps, seeds : size of the fit.
    """
    began, out = time.monotonic(), Path(out)
    with room_kept(out, RESULTS + 8 * sum(channels) * steps, what="the demo") as give_back:
        made = _make(progress, channels, steps, training_steps, seeds)
        give_back()
    return _write(*made, out, began, progress)


def _make(
    progress: bool, channels: tuple[int, int], steps: int, training_steps: int, seeds: int
) -> tuple[BoxRecording, ContrastiveEmbedding, AttributionMaps]:
    """The recording, the model and the map."""
    say(f"simulating {sum(channels)} channels over {steps:,} time steps", progress)
    recording = box(seed=0, observed=2, hidden=2, channels=channels, steps=steps)
    spaces = {"position": Follow(("x", "y"), dim=2), "rest": Time(dim=2)}
    model = ContrastiveEmbedding(
        spaces, seeds=seeds, steps=training_steps, random_state=0, n_jobs=seeds, progress=progress
    )
    say(f"fitting {seeds} model{plural(seeds)} in {training_steps} training steps", progress)
    model.fit(recording)
    say("attributing the spaces to the channels", progress)
    return recording, model, model.attribute(recording)


def _write(
    recording: BoxRecording,
    model: ContrastiveEmbedding,
    maps: AttributionMaps,
    out: Path,
    began: float,
    progress: bool,
) -> Demo:
    """All that came of it, in the folder. began : when the demo began."""
    files = {
        "recording": out / "recording.npz",
        "model": out / "model.json",
        "map": out / "map.nc",
        "map as a table": out / "map.csv",
        "figure": out / "overview.png",
        "report": out / "report.html",
    }
    arrays = {"X": recording.X, **{k: v.to_numpy() for k, v in recording.variables.items()}}
    write_atomically(files["recording"], lambda path: np.savez(path, **arrays))  # type: ignore[arg-type]
    save(model, out, data={"path": str(files["recording"].absolute()), "how": {}})
    maps.to_netcdf(files["map"])
    maps.to_csv(files["map as a table"])
    model.report(recording, files["report"], maps=maps)
    say("drawing", progress)
    try:
        figures.write_png(figures.overview(model, recording, maps), files["figure"])
    except ImportError as error:  # all else is there without it
        del files["figure"]
        say(f"no figure: {error}", progress)
    truth = recording.truth
    assert truth is not None  # simulated
    tellable = [s for s in maps.by_space["space"].values if 0 < truth.sel(space=s).mean() < 1]
    auroc = {str(s): maps.auroc(recording, s) for s in tellable if s not in maps.refused}
    return Demo(recording, model, maps, auroc, files, time.monotonic() - began)
