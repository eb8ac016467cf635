"""Figure 4 of Schneider et al. (2025): what a model of a navigating rat found, and how well methods find it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from ascribo import figures
from experiments.regcl.box_models import MODES
from experiments.regcl.navigation_models import SPACES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["panels"]

TYPES = ("place", "grid", "head_direction", "speed")
METHOD = "inverted_neuron_gradient"


def panels(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Four panels in a figure of their own; with an axis given, only the last, auROC by mode and method."""
    shown = next((row["figure"] for row in result["rows"] if row.get("figure")), None)
    cells = [cell for cell in result["cells"] if cell["kind"] == "channels"]
    if ax is not None or shown is None:
        return _modes(cells, ax)
    figure = figures.new_figure((13.5, 8.4))
    grid = figure.add_gridspec(2, 2)
    first = figure.add_subplot(grid[0, 0], projection="3d")
    z, place = np.array(shown["embedding"]), np.array(shown["position"])
    figures.embedding(z[:, :3], place[:, 0], first, label="x (m)", title="Position space, by x")
    over = np.array(shown["over_time"])  # (time, channel)
    names = [f"{kind} {k}" for k, kind in enumerate(shown["types"])]
    coords = {"time": np.arange(len(over)), "channel": names, "space": ["position"]}
    map_of_time = xr.DataArray(over[..., None], coords=coords)
    title = "Unique variance of position over time, cells by their mean"
    figures.map_over_time(map_of_time, "position", ax=figure.add_subplot(grid[0, 1]), title=title)
    table, of_type = np.array(shown["scores"]), np.array(shown["type_of_channel"])
    spaces = [space.replace("_", " ") for space in SPACES]
    by_type = {
        kind.replace("_", " "): {
            "group": [space for space in spaces for _ in range((of_type == kind).sum())],
            "value": table[of_type == kind].T.ravel(),
        }
        for kind in TYPES
    }
    label: dict[str, Any] = {"label": "unique variance", "title": "Scores by cell type"}
    figures.dots(by_type, spaces, figure.add_subplot(grid[1, 0]), upright=True, **label)
    return _modes(cells, figure.add_subplot(grid[1, 1]))


def _modes(cells: list[Mapping[str, Any]], ax: Axes | None) -> Axes:
    """auROC of position by training mode and penalty, a point for each method."""
    names = {"none": "no penalty", "regularized": "regularized"}
    columns = {(mode, penalty): f"{mode},\n{names[penalty]}" for mode in MODES for penalty in names}
    series: dict[str, dict[str, Any]] = {}
    for method in dict.fromkeys(cell["method"] for cell in cells):
        own = {columns[c["mode"], c["penalty"]]: c["mean"] for c in cells if c["method"] == method}
        look = {"color": figures.INK} if method == METHOD else {}
        series[method.replace("_", " ")] = {"group": list(own), "value": list(own.values()), **look}
    title = "By training mode and method"
    groups = list(columns.values())
    if not series:
        return figures.new_axes(ax, (6.4, 3.8))
    return figures.dots(series, groups, ax, label="auROC of position", size=(8.4, 4.6), title=title)
