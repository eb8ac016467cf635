"""From the contents of a report to one HTML file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from ..attribution.maps import AttributionMaps
from ..data.recording import Recording
from ..model.estimator import ContrastiveEmbedding
from ..model.reporting import report_writer
from ..screening import Screening, screen
from ..spaces.base import Space
from ..support.compute import one_thread
from ..support.files import write_atomically
from ..support.progress import say
from .blobs import pack
from .contents import Contents, gather
from .words import listed, percent, short

__all__ = ["page", "write_report"]

SCRIPTS = ("base.js", "plots.js", "table.js", "embedding.js", "channel.js", "main.js")
QUICKLY_SCREENED = 4_000_000
"""Entries of a recording that are screened in a few seconds: larger ones are not, unless the user does."""


@report_writer
def write_report(
    model: ContrastiveEmbedding,
    recording: Recording,
    path: str | Path,
    *,
    maps: AttributionMaps,
    shift: pd.DataFrame | None = None,
    screening: Screening | None = None,
    title: str | None = None,
    q: float = 0.05,
) -> Path:
    """Write the report of a fitted model; `ContrastiveEmbedding.report` says what the parameters are.

    recording : the channels that the model uses, in its order.
    """
    if list(maps.by_space["channel"].values) != list(recording.channel_names):
        raise ValueError("the maps are of other channels than the recording: pass the maps of this recording.")
    say("writing the report", bool(model.progress))
    path = Path(path)
    if screening is None and recording.X.size <= QUICKLY_SCREENED:
        screening = _screening(recording, model.model_.spaces, q)
    with one_thread():
        contents = gather(model, recording, maps, title=title, q=q, shift=shift, screening=screening)
    return write_page(contents, path)


def _screening(recording: Recording, spaces: Mapping[str, Space], q: float) -> Screening | None:
    """The calls of the quick screening, a second opinion; None where no variable can be asked about."""
    known = {n: s for n, s in spaces.items() if s.variables and set(s.variables) <= set(recording.variables)}
    asked = any(not space.nuisance for space in known.values())
    return screen(recording, known, q) if asked else None


def write_page(contents: Contents, path: Path) -> Path:
    """Write the page of some contents."""
    text = page(contents)
    # a lone surrogate in a name has no code: it is written out
    return write_atomically(path, lambda file: file.write_bytes(text.encode("utf-8", "backslashreplace")))


def page(contents: Contents, template: str = "report.html") -> str:
    """The page as text."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"short": short, "percent": percent, "listed": listed}
    return environment.from_string(_part(template)).render(
        **contents.words,
        style=_part("style.css"),
        script="\n".join(_part(name) for name in SCRIPTS),
        facts=_json(contents.facts),
        arrays={name: _json(pack(array)) for name, array in contents.arrays.items()},
    )


def _part(name: str) -> str:
    return (files("ascribo.report") / "templates" / name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
