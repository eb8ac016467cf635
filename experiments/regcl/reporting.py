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
    columns = list(dict.fromkeys(tuple(cell[key] for key in by) for cell in cells))
    methods = list(dict.fromkeys(cell["method"] for cell in cells))
    ax = figures.new_axes(ax, (2.2 + 1.25 * len(columns), 3.8))
    for k, method in enumerate(methods):
        colour = figures.PALETTE[k % len(figures.PALETTE)]
        own = [cell for cell in cells if cell["method"] == method]
        place = np.array([columns.index(tuple(cell[key] for key in by)) for cell in own])
        place = place + 0.7 * ((k + 0.5) / len(methods) - 0.5)
        ax.vlines(place, *np.array([cell["ci95"] for cell in own]).T, color=colour, linewidth=1.2)
        ax.scatter(place, [cell["mean"] for cell in own], s=24, color=colour, label=spell_out(method), zorder=3)
        printed = [(p, cell["paper"]["mean"]) for p, cell in zip(place, own, strict=True) if cell.get("paper")]
        if printed:
            ax.scatter(*np.array(printed).T, s=30, facecolors="none", edgecolors=colour, linewidths=1, zorder=2)
    ax.set_xticks(range(len(columns)), ["\n".join(map(str, column)).replace(" ", "\n") for column in columns])
    ax.set(ylabel="auROC by entries (hollow: the paper's)")
    figures.tidy(ax)
    ax.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return ax


def draw_curves(
    series: Mapping[str, Sequence[Row]],
    place: Callable[[Row], float],
    ax: Axes | None = None,
    *,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
) -> Axes:
    """A line with its 95% band for each series of summaries; `place` says where a summary lies on the x-axis."""
    ax = figures.new_axes(ax, (7.6, 4.2))
    for k, (label, points) in enumerate(series.items()):
        ordered = sorted(points, key=place)
        x = [place(point) for point in ordered]
        style = {"color": figures.PALETTE[k % len(figures.PALETTE)], **(styles or {}).get(label, {})}
        ax.plot(x, [point["mean"] for point in ordered], marker="o", markersize=3.5, label=label, **style)
        low, high = np.array([point["ci95"] for point in ordered]).T
        ax.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)
    ax.set(ylabel="auROC")
    figures.tidy(ax)
    ax.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return ax


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
