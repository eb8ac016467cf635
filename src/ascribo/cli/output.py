"""Standard output of the commands: lines, and tables of plain text that no column is left out of.

Names are shown as they are, with control characters written out. Where a table is too wide for the terminal, long
texts are broken over several lines, then columns are put below each other; a file gets every row in one line.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any
from unicodedata import combining, east_asian_width

import numpy as np
import pandas as pd
import xarray as xr

from ..attribution.maps import AttributionMaps
from ..support.names import visible

__all__ = ["print_calls", "print_goodness", "print_line", "print_scores", "print_table", "short_rates"]

GAP = "  "
NARROWEST = 8
"""Characters that a broken text has at least in a line."""


def print_line(text: str = "") -> None:
    """One line, however long."""
    print(visible(text))


def print_table(table: pd.DataFrame, title: str) -> None:
    """A table under its title; floats with three digits."""
    columns = [
        _Column(str(name), [_text(value) for value in values], pd.api.types.is_numeric_dtype(values.dtype))
        for name, values in table.items()
    ]
    print_line()
    print_line(title)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for part in [columns] if width is None else _parts(columns, width):
        print(_row([column.head for column in part], part))
        for k in range(len(table)):
            pieces = [_broken(column.cells[k], column.width) for column in part]
            for line in range(max(map(len, pieces), default=0)):
                print(_row([piece[line] if line < len(piece) else "" for piece in pieces], part))


def print_goodness(table: pd.DataFrame) -> None:
    """Bits above chance of each space with their interval, and what they mean."""
    columns: dict[str, Any] = {"session": table["session"]} if "session" in table else {}
    columns |= {"space": table["space"], "bits": table["bits"]}
    columns |= {"low": table["bits_low"].astype(float), "high": table["bits_high"].astype(float)}
    columns[""] = np.where(table["collapsed"], "at chance", "above chance")
    if np.any(table["left_out"]):
        columns["left out"] = table["left_out"]
    held_out = np.all(table["held_out"])
    where = "held-out time" if held_out else "the training data (too short to hold anything out)"
    print_table(pd.DataFrame(columns), f"Goodness of fit: bits above chance on {where}, 95% interval")
    if np.any(table["collapsed"]):
        print_line("at chance: this part of the embedding tells nothing and has no map of its own.")
        print_line("Which channels carry known variables is tested without it.")
    if "left out" in columns:
        print_line("left out: time steps whose variables are missing")


def print_calls(maps: AttributionMaps, space: str, truth: xr.DataArray | None = None) -> None:
    """Channels by falling unique variance with its interval, the call, and the truth if it is known."""
    table: Any = maps.calls()
    table = table[table["space"] == space].sort_values("score", ascending=False, kind="stable")
    number = f"{table['called'].sum()} of {len(table)} channels called, at a false discovery rate of 5%"
    columns: dict[str, Any] = {
        **{name: table[name] for name in ("channel", "score", "ci_low", "ci_high")},
        "q": short_rates(table["q"]),
        "called": np.where(table["called"], "yes", "no"),
    }
    if truth is not None:
        known = truth.sel(space=space, channel=table["channel"].to_numpy()).values
        columns["truth"] = np.where(known, "carries it", "does not")
    print_table(pd.DataFrame(columns), f"Who carries {space}? {number}")


def short_rates(values: pd.Series) -> np.ndarray:
    """p or q as texts of two digits, however small: three behind the point would show most of them as 0.000."""
    return np.array([f"{value:.2g}" for value in values], dtype=object)


def print_scores(maps: AttributionMaps, space: str, variables: Sequence[str] = (), most: int | None = None) -> None:
    """Channels by falling score with a bar, and whether that is above the mean."""
    scores = maps.by_space.sel(space=space)
    scores = scores[np.argsort(-scores.values, kind="stable")[:most]]
    above = maps.threshold().sel(space=space, channel=scores["channel"]).values
    columns: dict[str, Any] = {
        "channel": scores["channel"].values,
        "score": scores.values,
        "": ["█" * max(1, round(20 * value / scores.values[0])) for value in scores.values],
        "above mean": np.where(above, "yes", "no"),
    }
    what = f"{space} ({', '.join(variables)})" if variables else space
    print_table(pd.DataFrame(columns), f"Who carries {what}? The strongest first")


class _Column:
    """A column of texts: head and cells, its width, whether it holds numbers (which stand to the right)."""

    def __init__(self, head: str, cells: list[str], numeric: bool):
        self.head, self.cells, self.numeric = visible(head), [visible(cell) for cell in cells], numeric
        self.width = max(map(_width, [self.head, *self.cells]))
        self.least = self.width if numeric else min(self.width, max(NARROWEST, _width(self.head)))


def _parts(columns: list[_Column], width: int) -> list[list[_Column]]:
    """The columns, texts narrowed to fit, in as few parts as fit; each begins with the first column."""
    parts: list[list[_Column]] = [columns[:1]]
    for column in columns[1:]:
        if sum(c.least + len(GAP) for c in parts[-1]) + column.least > width and len(parts[-1]) > 1:
            parts.append(columns[:1])
        parts[-1] = [*parts[-1], column]
    over = max(sum(c.width for c in part) + len(GAP) * (len(part) - 1) for part in parts) - width
    while over > 0 and (wide := [c for c in columns if c.width > c.least]):
        max(wide, key=lambda c: c.width).width -= 1
        over = max(sum(c.width for c in part) + len(GAP) * (len(part) - 1) for part in parts) - width
    return parts


def _row(cells: Sequence[str], columns: Sequence[_Column]) -> str:
    spaces = [" " * (column.width - _width(cell)) for cell, column in zip(cells, columns, strict=True)]
    padded = [s + cell if c.numeric else cell + s for s, cell, c in zip(spaces, cells, columns, strict=True)]
    return GAP.join(padded).rstrip()


def _broken(text: str, width: int) -> list[str]:
    """The text in lines of that width."""
    lines = [""]
    for character in text:
        if _width(lines[-1] + character) > width:
            lines.append("")
        lines[-1] += character
    return lines


def _width(text: str) -> int:
    """Characters that a terminal gives to a text."""
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.3f}" if np.isfinite(value) else "-"
    return str(value)
