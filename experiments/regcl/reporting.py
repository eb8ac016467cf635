"""How measured scores are shown: beside printed numbers, as tables, as curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ascribo import figures
from experiments.regcl.box_models import OURS, PAPERS
from experiments.shared.rows import Row
from experiments.shared.summaries import summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "blank_missing",
    "compare_with_paper",
    "describe_time",
    "draw_curves",
    "draw_dots",
    "fit_table",
    "method_table",
    "read_printed_table",
    "spell_out",
]

Column = tuple[Any, ...]


def read_printed_table(text: str, columns: Sequence[Column]) -> dict[Column, dict[str, Any]]:
    """A printed table in percent: (*column, method) -> mean and interval, as fractions.

    Each line has a method and for each column the mean, the upper and the lower end of the 95% interval.

    >>> read_printed_table("a 83.1 84.8 81.3", [("supervised", "none")])
    {('supervised', 'none', 'a'): {'mean': 0.831, 'ci95': [0.813, 0.848]}}
    """
    found = {}
    for line in text.strip().splitlines():
        method, *numbers = line.split()
        values = [round(float(number) / 100, 3) for number in numbers]
        for k, column in enumerate(columns):
            mean, high, low = values[3 * k : 3 * k + 3]
            found[*column, method] = {"mean": mean, "ci95": [low, high]}
    return found


def compare_with_paper(rows: Sequence[Row], paper: Mapping[Column, Row], by: Sequence[str]) -> list[Row]:
    """Scores by entries with the paper's numbers beside them; `difference` is measured minus printed."""
    cells = summarise(rows, "entries", by, PAPERS)
    printed = [paper.get((*(cell[key] for key in by), cell["method"])) for cell in cells]
    return [
        {**cell, "paper": other, "difference": other and round(cell["mean"] - other["mean"], 4)}
        for cell, other in zip(cells, printed, strict=True)
    ]


def method_table(cells: Sequence[Row], kind: str, by: Sequence[str]) -> pd.DataFrame:
    """Methods by columns, "mean (low - high) | paper" in percent."""
    rows: dict[str, Row] = {}
    for cell in cells:
        if cell["kind"] == kind:
            text = "{:.1f} ({:.1f} - {:.1f})".format(*(100 * v for v in (cell["mean"], *cell["ci95"])))
            printed = f" | {100 * cell['paper']['mean']:.1f}" if cell.get("paper") else ""
            own = rows.setdefault(cell["method"], {"method": spell_out(cell["method"])})
            own[", ".join(str(cell[key]) for key in by)] = text + printed
    return pd.DataFrame(list(rows.values()))


def fit_table(rows: Sequence[Row], by: Sequence[str]) -> pd.DataFrame:
    """How well the models fit, by column: R² of the latents, bits above chance, collapsed spaces, λ, samples."""
    groups: dict[Column, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(key) for key in by), []).append(row)
    table = []
    for column, group in groups.items():
        line: Row = {**dict(zip(by, column, strict=True)), "models": len(group)}
        for name in group[0].get("r2", {}):
            line[f"R² {name}"] = float(np.mean([row["r2"][name] for row in group]))
            line[f"lowest R² {name}"] = float(min(row["r2"][name] for row in group))
        for name in group[0]["bits"]:
            line[f"bits {name}"] = float(np.mean([row["bits"][name] for row in group]))
        line["collapsed"] = sum(bool(row["collapsed"]) for row in group)
        line["λ"] = float(np.median([row["lambda"] for row in group]))
        for name in group[0]["rank_deficient"]:
            line[f"left out, {spell_out(name)}"] = float(np.mean([row["rank_deficient"][name] for row in group]))
        table.append(line)
    return blank_missing(pd.DataFrame(table))


def draw_dots(cells: Sequence[Row], by: Sequence[str], ax: Axes | None = None) -> Axes:
    """Mean and 95% interval of each cell, by column and method; hollow: the paper's."""
    named = [("\n".join(str(cell[key]) for key in by).replace(" ", "\n"), cell) for cell in cells]
    series: dict[str, dict[str, Any]] = {}
    for lane, method in enumerate(dict.fromkeys(cell["method"] for cell in cells)):
        own = [(name, cell) for name, cell in named if cell["method"] == method]
        low, high = np.array([cell["ci95"] for _, cell in own]).T
        means = {"group": [name for name, _ in own], "value": [cell["mean"] for _, cell in own], "lane": lane}
        series[spell_out(method)] = {**means, "low": low, "high": high}
        printed = [(name, cell["paper"]["mean"]) for name, cell in own if cell.get("paper")]
        if printed:
            groups, values = zip(*printed, strict=True)
            # a name that begins with an underscore stays out of the legend
            series[f"_{method}"] = {"group": groups, "value": values, "lane": lane, "hollow": True}
    columns = list(dict.fromkeys(name for name, _ in named))
    return figures.dots(series, columns, ax, label="auROC by entries (hollow: the paper's)", upright=True)


def draw_curves(
    series: Mapping[str, Sequence[Row]],
    place: Callable[[Row], float],
    ax: Axes | None = None,
    *,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
) -> Axes:
    """A line with its 95% band for each series of summaries; `place` says where a summary lies on the x-axis."""
    shown = {}
    for label, points in series.items():
        ordered = sorted(points, key=place)
        low, high = np.array([point["ci95"] for point in ordered]).T
        numbers = {"x": [place(point) for point in ordered], "y": [point["mean"] for point in ordered]}
        shown[label] = {**numbers, "low": low, "high": high, **(styles or {}).get(label, {})}
    return figures.curves(shown, ax, ylabel="auROC", size=(7.6, 4.2))


def method_styles(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Lines by method: the papers' black, ours coloured and thick, the others thin."""
    styles: dict[str, dict[str, Any]] = {}
    for k, method in enumerate(methods):
        colour = figures.PALETTE[k % len(figures.PALETTE)]
        styles[method] = {"color": colour, "linewidth": 2.0 if method in OURS else 0.8}
    if "inverted_neuron_gradient" in styles:
        styles["inverted_neuron_gradient"] = {"color": figures.INK, "linewidth": 1.8}
    return styles


def blank_missing(frame: pd.DataFrame) -> pd.DataFrame:
    """The same table with nothing where a value is missing."""
    plain = frame.astype(object)
    return plain.where(plain.notna(), "")


def spell_out(method: str) -> str:
    """A method's name for people.

    >>> spell_out("inverted_neuron_gradient")
    'inverted neuron gradient'
    """
    return method.replace("_", " ")


def describe_time(result: Mapping[str, Any]) -> str:
    """How much was done in what time."""
    return f"{result['models']} models in {result['elapsed'] / 60:.1f} minutes on {result['protocol']['device']}"
