"""From the contents of a report to one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ..attribution.maps import AttributionMaps
from ..data.recording import Recording
from ..model.estimator import ContrastiveEmbedding
from ..model.reporting import report_writer
from ..support.compute import one_thread
from ..support.files import write_atomically
from ..support.progress import say
from .blobs import pack
from .contents import Contents, gather
from .render import as_json, encoded, part, render

__all__ = ["page", "write_report"]

SCRIPTS = ("base.js", "plots.js", "table.js", "embedding.js", "channel.js", "main.js")


@report_writer
def write_report(
    model: ContrastiveEmbedding,
    recording: Recording,
    path: str | Path,
    *,
    maps: AttributionMaps,
    shift: pd.DataFrame | None = None,
    title: str | None = None,
    q: float = 0.05,
    assumed: Sequence[str] = (),
) -> Path:
    """Write the report of a fitted model; `ContrastiveEmbedding.report` says what the parameters are.

    recording : the channels that the model uses, in its order.

    Examples
    --------
    >>> import tempfile, ascribo as asc
    >>> data = asc.simulate.mixed(spaces={"speed": 1}, hidden=1, channels=6, steps=1000)
    >>> spaces = {"speed": asc.Follow("speed0", dim=1)}
    >>> model = asc.ContrastiveEmbedding(spaces, seeds=1, steps=15, batch_size=64, penalty=0.0).fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(model, data, f"{folder}/mouse.html", maps=model.attribute(data), title="Mouse 7")
    ...     print(path.name, "<title>Mouse 7" in path.read_text())
    mouse.html True
    """
    if list(maps.by_space["channel"].values) != list(recording.channel_names):
        raise ValueError("the maps are of other channels than the recording: pass the maps of this recording.")
    say("writing the report", bool(model.progress))
    path = Path(path)
    with one_thread():
        contents = gather(model, recording, maps, title=title, q=q, shift=shift, assumed=assumed)
    return write_page(contents, path)


def write_page(contents: Contents, path: Path) -> Path:
    """Write the page of some contents."""
    return write_atomically(path, lambda file: file.write_bytes(encoded(page(contents))))


def page(contents: Contents) -> str:
    """The page as text."""
    return render(
        "report.html",
        **contents.words,
        script="\n".join(part(name) for name in SCRIPTS),
        facts=as_json(contents.facts),
        arrays={name: as_json(pack(array)) for name, array in contents.arrays.items()},
    )
