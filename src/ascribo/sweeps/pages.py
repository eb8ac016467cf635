"""The page about the runs of a sweep: a few are compared channel by channel, many are summarised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..attribution.maps import AttributionMaps
from ..model.loading import load
from ..report.compare import Run, called_channels, write_comparison
from ..report.summary import Failure, Outcome, write_summary
from .cells import MAP, read_failure, read_record

__all__ = ["Computed", "write_page"]

MOST_COMPARED = 24
"""Runs that are compared channel by channel: there is a column for each."""


@dataclass(frozen=True)
class Computed:
    """A cell of a sweep, as it is found in the sweep's folder: done, failed, or neither."""

    folder: Path
    session: str
    settings: dict[str, Any]
    digest: str

    @cached_property
    def record(self) -> dict[str, Any] | None:
        """What came of it; None if it is not done."""
        return read_record(self.folder / self.digest)

    @property
    def has_map(self) -> bool:
        """Whether it is done, and some space has not collapsed."""
        return self.record is not None and (self.folder / self.digest / MAP).is_file()

    @property
    def words(self) -> str:
        """Its settings in words."""
        return ", ".join(f"{key} {value}" for key, value in self.settings.items())

    @property
    def failure(self) -> Failure | None:
        """Why it failed; None if it did not."""
        reason = None if self.record else read_failure(self.folder / self.digest)
        return None if reason is None else Failure(self.session, self.words, reason)

    def maps(self) -> AttributionMaps:
        """Its map."""
        return AttributionMaps.load(self.folder / self.digest / MAP)

    def outcomes(self, q: float) -> list[Outcome]:
        """What it found of each space; nothing if it is not done. q : false discovery rate of the calls."""
        maps = self.maps() if self.has_map else None
        calls = pd.DataFrame() if maps is None else called_channels(maps, q)
        found = []
        for fit in self.record["spaces"] if self.record else []:
            name, bits = fit["space"], float("nan") if fit["bits"] is None else float(fit["bits"])
            scores, called = np.empty(0), None
            if maps is not None and name in maps.by_space["space"].values:
                scores = maps.by_space.sel(space=name).values
                if name in calls:
                    called = calls[name].reindex(maps.by_space["channel"].values).to_numpy(dtype=bool)
            about = (self.session, self.words, self.digest, name)
            found.append(Outcome(*about, bits, bool(fit["collapsed"]), scores, called))
        return found


def write_page(cells: Sequence[Computed], path: str | Path, q: float) -> Path:
    """Write one page about the cells that are done, and about those that failed where there are many."""
    ready = [cell for cell in cells if cell.has_map]
    if len(ready) <= MOST_COMPARED:
        runs = {
            ", ".join(filter(None, [cell.session, cell.words])): Run(load(cell.folder / cell.digest), cell.maps())  # type: ignore[arg-type]
            for cell in ready
        }
        return write_comparison(runs, path, q=q)
    failures = [failure for cell in cells if (failure := cell.failure) is not None]
    done = [cell for cell in cells if cell.record]
    return write_summary(
        [outcome for cell in done for outcome in cell.outcomes(q)],
        path,
        failures=failures,
        waiting=len(cells) - len(done) - len(failures),
        q=q,
    )
