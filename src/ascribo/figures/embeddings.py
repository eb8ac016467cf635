"""Embeddings as clouds of points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..data.segments import evenly
from .style import CYCLIC, FAINT, INK, PALETTE, SEQUENTIAL, colorbar, new_axes, plain, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["embedding"]

FAR = 2.0
"""Times the spread of all but a hundredth of the points, from their middle, beyond which a point is left out: a few
far points would shrink all others to a speck."""


def embedding(
    z: np.ndarray,
    colour: Any = None,
    ax: Axes | None = None,
    *,
    label: str | None = None,
    circular: bool = False,
    most: int = 5000,
    title: str | None = None,
) -> Axes:
    """Draw an embedding as points, one for each time step, in the colour of a variable.

    Parameters
    ----------
    z : (time, dim) embedding, as a rule of one space. Two or three dimensions are drawn as they are, of more the
        first three; one is drawn against the colour, or against time without one. On flat axes three dimensions are
        drawn as two.
    colour : (time,) numbers, or labels, which a legend then names: the most frequent, and the others together. Time
        steps where it is missing are left out, and so are points very far from all others, whose number is written
        below the picture.
    ax : the axes to draw into; None: those of a new figure.
    label : what the colour is.
    circular : whether the colour is an angle: its two ends then look the same.
    most : most time steps that are drawn; of more, this many, evenly spaced.

    Examples
    --------
    >>> embedding(np.random.default_rng(0).normal(size=(100, 3)), np.arange(100)).name
    '3d'
    """
    z = np.asarray(z)
    if z.ndim != 2 or not len(z) or not z.shape[1]:
        raise ValueError(f"z has shape {z.shape}: expected (time, dim) with at least one of each.")
    codes, names = _colours(colour, len(z))
    shown = np.flatnonzero(np.isfinite(z).all(1) & np.isfinite(codes))
    shown = shown[evenly(len(shown), most)]
    near = _near(z[shown, :3])
    left_out, shown = int((~near).sum()), shown[near]
    ax = new_axes(ax, (4.4, 4.0), projection="3d" if z.shape[1] >= 3 else None)
    solid = ax.name == "3d" and z.shape[1] >= 3
    columns = list(z[shown, : 3 if solid else 2].T)
    if len(columns) == 1:
        columns.append(shown if colour is None else codes[shown])
    style: dict[str, Any] = {"s": 5, "linewidths": 0, "alpha": 0.75, "rasterized": True}
    if names is not None:
        others = len(names) > len(PALETTE)
        for k, name in enumerate(names):
            of_this, last = codes[shown] == k, k == len(names) - 1
            colour_of_this = FAINT if others and last else PALETTE[k % len(PALETTE)]
            ax.scatter(*(c[of_this] for c in columns), color=colour_of_this, label=plain(name), **style)
        # beside the points, which it would cover
        beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        ax.legend(title=plain(label or ""), fontsize=7, title_fontsize=8, frameon=False, markerscale=2.5, **beside)
    elif colour is None:
        ax.scatter(*columns, color=PALETTE[0], **style)
    else:
        points = ax.scatter(*columns, c=codes[shown], cmap=CYCLIC if circular else SEQUENTIAL, **style)
        colorbar(points, ax, label or "")
    if z.shape[1] == 1:
        ax.set(xlabel="dimension 0", ylabel="time step" if colour is None else plain(label or ""))
    else:
        # a block is identified up to a linear map only, so its axes have no unit worth a tick
        below = f"\n{left_out} of {left_out + len(shown):,} points far off are left out" if left_out else ""
        ax.set(xticks=[], yticks=[], xlabel="dimension 0" + ("" if solid else below), ylabel="dimension 1")
        if solid:
            ax.set_title(below.strip(), fontsize=7, color=INK, loc="right")
            spans = [np.ptp(limits) for limits in (ax.get_xlim(), ax.get_ylim(), ax.get_zlim())]  # type: ignore[attr-defined]
            ax.set_box_aspect(spans, zoom=0.88)  # type: ignore[call-arg, arg-type]
        else:
            ax.set_aspect("equal")
    if solid:
        ax.set(zticks=[], zlabel="dimension 2")  # type: ignore[call-arg]
        for axis in (ax.xaxis, ax.yaxis, ax.zaxis):  # type: ignore[attr-defined]
            axis.pane.fill = False  # type: ignore[union-attr]
            axis.labelpad = -12
        ax.zaxis.label.set(color=INK, fontsize=8)  # type: ignore[attr-defined]
    tidy(ax, title)
    return ax


def _colours(colour: Any, steps: int) -> tuple[np.ndarray, list[str] | None]:
    """Numbers to colour by, NaN where unknown, and the names of the labels if they are labels."""
    if colour is None:
        return np.zeros(steps), None
    column = pd.Series(np.asarray(colour) if not isinstance(colour, pd.Series) else colour)
    if len(column) != steps:
        raise ValueError(f"{len(column)} colours for {steps} points: expected one for each.")
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return column.to_numpy(dtype=float, na_value=np.nan), None
    codes, found = pd.factorize(column, sort=True)
    names = [str(name) for name in found]
    if len(names) > len(PALETTE):  # as many as there are colours to tell apart; the others together
        often = np.sort(np.argsort(-np.bincount(codes[codes >= 0]), kind="stable")[: len(PALETTE)])
        place = np.full(len(names), len(often))
        place[often] = np.arange(len(often))
        codes = np.where(codes < 0, -1, place[codes])
        names = [names[k] for k in often] + [f"{len(names) - len(often)} others"]
    return np.where(codes < 0, np.nan, codes), names


def _near(z: np.ndarray) -> np.ndarray:
    """Which points are not very far from all others: (time,) booleans."""
    if len(z) < 100:
        return np.ones(len(z), dtype=bool)
    low, high = np.quantile(z, (0.005, 0.995), axis=0)
    spread = np.where(high > low, high - low, np.inf)
    return (np.abs(z - (low + high) / 2) <= FAR * spread / 2).all(1)
