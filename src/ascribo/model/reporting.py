"""How a model is shown: in a notebook, and by the report, which stands above and registers its writer here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..attribution import AttributionMaps
from ..spaces.base import Space, describe_space
from ..support.files import check_writable, room_kept
from ..support.html_tables import html_table
from ..support.progress import say
from .input_checks import check_same_channels
from .memory_needs import check_report, within_memory
from .room_needs import bytes_of_report

__all__ = ["Reported", "report_writer", "written"]

Writer = Callable[..., Path]
WRITERS: list[Writer] = []


def report_writer(function: Writer) -> Writer:
    """Register what writes reports (as a decorator): (model, recording, path, **options) -> path."""
    WRITERS[:] = [function]
    return function


def written(*given: Any, **options: Any) -> Path:
    """Write a report with the writer that is registered."""
    if not WRITERS:
        raise RuntimeError("nothing here can write reports: import ascribo.report first.")
    return WRITERS[0](*given, **options)


class Reported:
    """What estimators of one recording have to be looked at: `report`, and a table in a notebook."""

    @within_memory
    def report(
        self: Any,
        X: Any,
        path: str | Path,
        y: Any = None,
        *,
        maps: AttributionMaps | None = None,
        shift: pd.DataFrame | None = None,
        title: str | None = None,
        q: float = 0.05,
        assumed: Sequence[str] = (),
    ) -> Path:
        """Write one HTML file that says which channels carry which space, how sure that is, and if to trust it.

        The file needs no network and no other file. `docs/report.md` says how to read it.

        Parameters
        ----------
        X, y : the recording, as for `attribute`.
        path : the file to write, such as "report.html".
        maps : what `attribute` gave for this recording; None: it is asked now.
        shift : what `ascribo.shift_test` gave for this model and recording, if it was run.
        title : None: the question that the report answers.
        q : false discovery rate of the calls within each space.
        assumed : what readers should know was assumed before the fit, a sentence each.
        """
        recording = check_same_channels(self, X, y)
        check_writable(path)
        check_report(recording, self.model_)
        size = bytes_of_report(self.model_.spaces, self.model_.channels)
        with room_kept(Path(path).parent, size, what="the report") as give_back:
            if maps is None:
                say("attributing the spaces to the channels", bool(self.progress))
                maps = self.attribute(X, y)
            give_back()
        return written(self, recording, Path(path), maps=maps, shift=shift, title=title, q=q, assumed=assumed)

    def _repr_html_(self: Any) -> str:
        """In a notebook: its spaces and, once it is fitted, the bits above chance of each."""
        fit = getattr(self, "goodness_of_fit_", None)
        if fit is None:
            told = lambda space: describe_space(space) if isinstance(space, Space) else repr(space)  # noqa: E731
            rows = [[name, told(space)] for name, space in (self.spaces or {}).items()]
            return html_table(f"{type(self).__name__}, not fitted", ["space", "what it is"], rows)
        rows = [
            [r.space, f"{r.bits:.2f}", f"{r.bits_low:.2f} to {r.bits_high:.2f}", "yes" if r.collapsed else "no"]
            for r in fit.itertuples()
        ]
        return html_table(
            f"{type(self).__name__}, {len(self.model_.channels)} channels, {self.model_.seeds} seeds",
            ["space", "bits above chance", "95% interval", "at chance"],
            rows,
            "model.attribute(recording) tells which channels carry what, model.report(recording, path) writes all.",
        )
