"""Standard output of the commands: plain tables and lines that are never broken, so that a script can read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Console
from rich.table import Table

from ..attribution.maps import AttributionMaps

__all__ = ["Output"]


class Output:
    """Prints lines and tables."""

    def __init__(self):
        self.console = Console(highlight=False)
        if not self.console.is_terminal:  # a file keeps what a terminal would have no room for
            self.console = Console(highlight=False, width=1000)

    def line(self, text: str = "") -> None:
        """One line, however long."""
        self.console.print(text, soft_wrap=True, markup=False)

    def frame(self, frame: pd.DataFrame, title: str) -> None:
        """A table under its title; floats with three digits."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in frame.columns:
            right = pd.api.types.is_numeric_dtype(frame.dtypes[name])
            table.add_column(str(name), justify="right" if right else "left", no_wrap=True)
        for row in frame.itertuples(index=False):
            table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row))
        self.line(f"\n{title}")
        self.console.print(table)

    def goodness(self, table: pd.DataFrame) -> None:
        """Bits above chance on held-out time, and what they mean."""
        verdicts = np.where(table["collapsed"], "at chance: collapsed, it has no map", "above chance")
        columns: dict[str, Any] = {"space": table["space"], "bits above chance": table["bits"], "": verdicts}
        if np.any(table["left_out"]):
            columns["time steps left out"] = table["left_out"]
        where = "on held-out time" if np.all(table["held_out"]) else "on the training data: too short to hold out"
        self.frame(pd.DataFrame(columns), f"Goodness of fit, {where}")

    def calls(self, maps: AttributionMaps, space: str, truth: xr.DataArray | None = None) -> None:
        """Channels by falling unique variance with its interval, the call, and the truth if it is known."""
        table: Any = maps.calls()
        table = table[table["space"] == space].sort_values("score", ascending=False, kind="stable")
        number = f"{table['called'].sum()} of {len(table)} channels called, at a false discovery rate of 5%"
        columns: dict[str, Any] = {
            **{name: table[name] for name in ("channel", "space", "score", "ci_low", "ci_high")},
            "q": [f"{value:.2g}" for value in table["q"]],
            "called": np.where(table["called"], "yes", "no"),
        }
        if truth is not None:
            known = truth.sel(space=space, channel=table["channel"].to_numpy()).values
            columns["truth"] = np.where(known, "carries it", "does not")
        self.frame(pd.DataFrame(columns), f"Who carries {space}? {number}")

    def scores(
        self,
        maps: AttributionMaps,
        space: str,
        title: str,
        variables: Sequence[str] = (),
        most: int | None = None,
    ) -> None:
        """Channels by falling score with a bar, and whether that is above the mean."""
        scores = maps.by_space.sel(space=space)
        scores = scores[np.argsort(-scores.values, kind="stable")[:most]]
        carried = ("variable", ", ".join(variables)) if variables else ("space", space)
        above = maps.threshold().sel(space=space, channel=scores["channel"]).values
        columns: dict[str, Any] = {
            "channel": scores["channel"].values,
            carried[0]: carried[1],
            "score": scores.values,
            "": ["█" * max(1, round(20 * value / scores.values[0])) for value in scores.values],
            "above mean": np.where(above, "yes", "no"),
        }
        self.frame(pd.DataFrame(columns), title)
