"""Embeddings as clouds of points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..data.segments import evenly
from .style import CYCLIC, INK, PALETTE, SEQUENTIAL, colorbar, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["embedding"]


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
    colour : (time,) numbers, or labels, which a legend then names. Time steps where it is missing are left out.
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
    ax = new_axes(ax, (4.4, 4.0), projection="3d" if z.shape[1] >= 3 else None)
    solid = ax.name == "3d" and z.shape[1] >= 3
    columns = list(z[shown, : 3 if solid else 2].T)
    if len(columns) == 1:
        columns.append(shown if colour is None else codes[shown])
    style: dict[str, Any] = {"s": 5, "linewidths": 0, "alpha": 0.75, "rasterized": True}
    if names is not None:
        for k, name in enumerate(names):
            of_this = codes[shown] == k
            ax.scatter(*(c[of_this] for c in columns), color=PALETTE[k % len(PALETTE)], label=name, **style)
        ax.legend(title=label, fontsize=7, title_fontsize=8, frameon=False, markerscale=2.5)
    elif colour is None:
        ax.scatter(*columns, color=PALETTE[0], **style)
    else:
        points = ax.scatter(*columns, c=codes[shown], cmap=CYCLIC if circular else SEQUENTIAL, **style)
        colorbar(points, ax, label or "")
    if z.shape[1] == 1:
        ax.set(xlabel="dimension 0", ylabel="time step" if colour is None else label or "")
    else:
        # a block is identified up to a linear map only, so its axes have no unit worth a tick
        ax.set(xticks=[], yticks=[], xlabel="dimension 0", ylabel="dimension 1")
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
    codes, names = pd.factorize(column, sort=True)
    return np.where(codes < 0, np.nan, codes), [str(name) for name in names]
