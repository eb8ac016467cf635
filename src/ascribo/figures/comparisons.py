"""Comparisons: methods, settings or recordings beside each other, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .style import INK, PALETTE, new_axes, plain, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bars", "curves", "dots", "points"]

Series = Mapping[str, Mapping[str, Any]]
"""Name -> its numbers by name, and beside them how it looks."""
ROOM = 0.72
"""Of the distance between two groups, what the series of one group take."""


def curves(
    series: Series,
    ax: Axes | None = None,
    *,
    xlabel: str = "",
    ylabel: str = "",
    size: tuple[float, float] = (6.4, 3.8),
    title: str | None = None,
) -> Axes:
    """Draw a line for each series, with a band where its interval is known.

    series : name -> x and y, (n,) each; low and high, (n,), the ends of the interval, if known; and how it looks:
        color, linestyle, marker, linewidth or drawstyle of matplotlib's lines.
    ax : the axes to draw into; None: those of a new figure of this size in inches.

    Examples
    --------
    >>> found = {"ours": {"x": [1, 2], "y": [0.8, 0.9], "low": [0.7, 0.8], "high": [0.9, 1.0]}}
    >>> ax = curves(found, xlabel="recordings", ylabel="auROC")
    >>> len(ax.get_lines()), len(ax.collections)
    (1, 1)
    """
    ax = new_axes(ax, size)
    for k, (name, own) in enumerate(series.items()):
        look = {key: value for key, value in own.items() if key not in ("x", "y", "low", "high")}
        look = {"color": PALETTE[k % len(PALETTE)], "marker": "o", "markersize": 3.5, "linewidth": 1.4, **look}
        ax.plot(own["x"], own["y"], label=plain(name), **look)
        if "low" in own:
            ax.fill_between(own["x"], own["low"], own["high"], color=look["color"], alpha=0.12, linewidth=0)
    ax.set(xlabel=plain(xlabel), ylabel=plain(ylabel))
    return _finished(ax, title, len(series))


def bars(
    series: Mapping[str, ArrayLike],
    groups: Sequence[str],
    ax: Axes | None = None,
    *,
    ylabel: str = "",
    size: tuple[float, float] | None = None,
    title: str | None = None,
) -> Axes:
    """Draw a bar for each group and series.

    series : name -> (group,). groups : their names. ax : the axes to draw into; None: those of a new figure.

    Examples
    --------
    >>> ax = bars({"screen": [20, 30], "GLM": [18, 28]}, ["track", "reaching"], ylabel="units called")
    >>> len(ax.patches)
    4
    """
    ax = new_axes(ax, size or (1.6 + 1.2 * len(groups), 3.4))
    wide = ROOM / len(series)
    for k, (name, values) in enumerate(series.items()):
        at = np.arange(len(groups)) + wide * (k - (len(series) - 1) / 2)
        ax.bar(at, np.asarray(values, dtype=float), 0.94 * wide, color=PALETTE[k % len(PALETTE)], label=plain(name))
    ax.set_xticks(range(len(groups)), [plain(name) for name in groups])
    ax.set_ylabel(plain(ylabel))
    return _finished(ax, title, len(series))


def dots(
    series: Series,
    groups: Sequence[str],
    ax: Axes | None = None,
    *,
    label: str = "",
    upright: bool = False,
    size: tuple[float, float] | None = None,
    title: str | None = None,
) -> Axes:
    """Draw dots with their intervals: a row for each group, in it the series below each other.

    series : name -> group (n,), names of groups, and value (n,); low and high (n,), if known; and how it looks:
        color, marker, hollow (True: only an outline). Series with the same `lane`, a number, lie in one line.
    groups : their names, from the top. label : what the values are. upright : groups are columns, not rows.
    ax : the axes to draw into; None: those of a new figure.

    Examples
    --------
    >>> found = {"FDR": {"group": ["box", "track"], "value": [0.04, 0.03], "low": [0, 0], "high": [0.1, 0.1]},
    ...          "power": {"group": ["box", "track"], "value": [0.9, 1.0], "marker": "|", "lane": 0}}
    >>> [text.get_text() for text in dots(found, ["box", "track"], label="share").get_yticklabels()]
    ['box', 'track']
    """
    wide, tall = 2.4 + 1.2 * len(groups), 1.3 + 0.26 * len(groups)
    ax = new_axes(ax, size or ((wide, 3.8) if upright else (6.4, max(2.0, tall))))
    lanes = [own.get("lane", k) for k, own in enumerate(series.values())]
    for (name, own), lane in zip(series.items(), lanes, strict=True):
        place = {group: g for g, group in enumerate(groups)}
        shift = ROOM * ((lane + 0.5) / (max(lanes) + 1) - 0.5)
        at = np.array([place[group] for group in own["group"]]) + shift
        colour = own.get("color", PALETTE[lane % len(PALETTE)])
        if "low" in own:
            (ax.vlines if upright else ax.hlines)(at, own["low"], own["high"], color=colour, linewidth=1.2)
        marker = own.get("marker", "o")
        look = {"s": 60 if marker == "|" else 22, "marker": "_" if upright and marker == "|" else marker}
        face = {"facecolors": "none", "edgecolors": colour} if own.get("hollow") else {"color": colour}
        values = np.asarray(own["value"], dtype=float)
        ax.scatter(*((at, values) if upright else (values, at)), label=plain(name), zorder=3, **look, **face)
    names = [plain(group) for group in groups]
    if upright:
        ax.set_xticks(range(len(groups)), names)
        ax.set_ylabel(plain(label))
    else:
        ax.set_yticks(range(len(groups)), names)
        ax.set(xlabel=plain(label), ylim=(len(groups) - 0.4, -0.6))
        for edge in np.arange(1, len(groups)) - 0.5:
            ax.axhline(edge, color="#eceef1", linewidth=0.8, zorder=0)
    return _finished(ax, title, len(series), above=not upright and title is None)


def points(
    series: Series,
    ax: Axes | None = None,
    *,
    xlabel: str = "",
    ylabel: str = "",
    size: tuple[float, float] = (4.6, 3.6),
    title: str | None = None,
) -> Axes:
    """Draw one number against another, a point for each pair.

    series : name -> x and y, (n,) each, and how it looks: color, and s, the area of a point.
    ax : the axes to draw into; None: those of a new figure of this size in inches.

    Examples
    --------
    >>> points({"cells": {"x": [0.1, 0.5], "y": [0.0, 0.2]}}, xlabel="grid score").get_xlabel()
    'grid score'
    """
    ax = new_axes(ax, size)
    for k, (name, own) in enumerate(series.items()):
        colour = own.get("color", PALETTE[k % len(PALETTE)])
        ax.scatter(
            own["x"], own["y"], s=own.get("s", 26), color=colour, alpha=0.85, linewidths=0, label=plain(name)
        )
    ax.set(xlabel=plain(xlabel), ylabel=plain(ylabel))
    return _finished(ax, title, len(series))


def _finished(ax: Axes, title: str | None, series: int, above: bool = False) -> Axes:
    """The look of all of them; a legend beside or above the picture if there is more than one series."""
    tidy(ax, title)
    if series > 1:
        place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        if above:  # rows have long names, and need the width
            place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 2}
        ax.legend(fontsize=7.5, frameon=False, labelcolor=INK, **place)
    return ax
