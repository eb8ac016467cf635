"""Figure 4 of Schneider et al. (2025): what a model of a navigating rat found, and how well methods find it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

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
        return _modes(cells, figures.new_axes(ax, (6.4, 3.8)))
    figure = figures.new_figure((11, 7.4))
    grid = figure.add_gridspec(2, 2, hspace=0.32, wspace=0.28)
    first = figure.add_subplot(grid[0, 0], projection="3d")
    z, place = np.array(shown["embedding"]), np.array(shown["position"])
    first.scatter(*z[:, :3].T, c=np.column_stack([np.clip(place, 0, 1), np.full(len(place), 0.4)]), s=4)  # type: ignore[arg-type]
    figures.tidy(first, "Position space; red: x, green: y")
    image = figure.add_subplot(grid[0, 1])
    over = np.array(shown["over_time"]).T
    image.imshow(over, aspect="auto", cmap="viridis", vmin=0, vmax=np.quantile(over, 0.98), interpolation="nearest")
    for kind in TYPES:
        places = [k for k, own in enumerate(shown["types"]) if own == kind]
        image.annotate(
            kind.replace("_", " "),
            (-12, np.mean(places)),
            ha="right",
            va="center",
            fontsize=7,
            annotation_clip=False,
        )
    image.set(xlabel="time step", yticks=[])
    figures.tidy(image, "Unique variance of position over time")
    scores = figure.add_subplot(grid[1, 0])
    table, of_type = np.array(shown["scores"]), np.array(shown["type_of_channel"])
    for k in range(len(SPACES)):
        for j, kind in enumerate(TYPES):
            own = table[of_type == kind, k]
            at = k + 0.18 * (j - 1.5) + np.linspace(-0.06, 0.06, len(own))
            colour = figures.PALETTE[j]
            scores.scatter(
                at, own, s=5, color=colour, alpha=0.6, linewidths=0, label=kind.replace("_", " ") if not k else None
            )
    scores.set_xticks(range(len(SPACES)), [space.replace("_", " ") for space in SPACES])
    scores.set(ylabel="unique variance")
    scores.legend(fontsize=7, frameon=False, loc="upper right")
    figures.tidy(scores, "Scores by cell type")
    last = figure.add_subplot(grid[1, 1])
    _modes(cells, last)
    return last


def _modes(cells: list[Mapping[str, Any]], ax: Axes) -> Axes:
    """auROC of position by training mode and penalty, a point for each method."""
    if not cells:
        return ax
    columns = [(mode, penalty) for mode in MODES for penalty in ("none", "regularized")]
    methods = list(dict.fromkeys(cell["method"] for cell in cells))
    for k, method in enumerate(methods):
        own = {(c["mode"], c["penalty"]): c["mean"] for c in cells if c["method"] == method}
        at = [columns.index(key) + 0.6 * ((k + 0.5) / len(methods) - 0.5) for key in own]
        colour = figures.INK if method == METHOD else figures.PALETTE[k % len(figures.PALETTE)]
        ax.scatter(at, list(own.values()), s=14, color=colour, label=method.replace("_", " "))
    names = {"none": "no penalty", "regularized": "regularized"}
    ax.set_xticks(range(len(columns)), [f"{mode.replace(' ', chr(10))}\n{names[p]}" for mode, p in columns])
    ax.tick_params(axis="x", labelsize=6.5)
    ax.set(ylabel="auROC of position", ylim=(min(0.45, *(cell["mean"] - 0.02 for cell in cells)), 1.01))
    figures.tidy(ax, "By training mode and method")
    ax.legend(fontsize=5.5, frameon=False, loc="lower left", ncol=2)
    return ax
