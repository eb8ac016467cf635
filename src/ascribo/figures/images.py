"""Many small images in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .style import new_axes, plain, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["image_grid"]


def image_grid(
    images: Any, ax: Axes | None = None, *, rows: Any = None, signed: bool = False, title: str | None = None
) -> Axes:
    """Draw many small images in one grid, such as saliency maps or the training examples put first.

    images : (row, column, height, width); each is drawn on a scale of its own. Or (row, column, height, width, 3),
        colours from 0 to 1. rows : a name for each row.
    signed : scores with a sign, red above zero and blue below; else from black to white.
    ax : the axes to draw into; None: those of a new figure.

    Examples
    --------
    >>> scores = np.random.default_rng(0).normal(size=(2, 3, 8, 8))
    >>> ax = image_grid(scores, rows=["saliency", "deeplift"], signed=True)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['saliency', 'deeplift']
    """
    values = np.asarray(images, dtype=float)
    coloured = values.ndim == 5 and values.shape[-1] == 3
    if values.ndim != 4 and not coloured:
        raise ValueError(f"images have shape {values.shape}: expected (row, column, height, width[, 3]).")
    if not coloured:
        largest = np.abs(values).max((2, 3), keepdims=True)
        values = values / np.where(largest > 0, largest, 1)
    edge = ((0, 0), (0, 0), (0, 1), (0, 1), (0, 0))[: values.ndim]
    values = np.pad(values, edge, constant_values=1.0 if coloured else np.nan)
    lines, columns, height, width = values.shape[:4]
    ax = new_axes(ax, (0.8 + 0.6 * columns, 0.4 + 0.6 * lines))
    whole = values.swapaxes(1, 2).reshape(lines * height, columns * width, *values.shape[4:])
    ax.imshow(
        whole.clip(0, 1) if coloured else np.ma.masked_invalid(whole),
        cmap="RdBu_r" if signed else "gray",
        vmin=-1 if signed else 0,
        vmax=1,
        aspect="equal",
    )
    tidy(ax, title, frame=False)
    ax.set_xticks([])
    ax.set_yticks(
        (np.arange(lines) + 0.5) * height - 1, [plain(name) for name in rows] if rows is not None else [""] * lines
    )
    ax.tick_params(length=0, labelsize=7)
    return ax
