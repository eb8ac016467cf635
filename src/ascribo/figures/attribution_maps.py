"""Attribution maps: of the whole recording, and over time beside behaviour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from .style import INK, PALETTE, new_axes, plain, sequential, tidy
from .style import colorbar as draw_colorbar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["map_image", "map_over_time"]

LABELLED = 60
"""Most channels whose names are written beside a map."""


def map_image(
    scores: xr.DataArray,
    ax: Axes | None = None,
    *,
    calls: pd.DataFrame | None = None,
    sort: bool = False,
    own_scale: bool = False,
    title: str | None = None,
    colorbar: bool = True,
) -> Axes:
    """Draw an attribution map as colours: a row for each channel, a column for each space.

    scores : (channel, space), such as `maps.by_space`; or booleans, dark where a channel really carries a space.
        Spaces without a map (NaN) are left grey.
    ax : the axes to draw into; None: those of a new figure. title, colorbar : of the picture.
    calls : `maps.calls()`: a dot marks each channel that is called for a space.
    sort : bring channels together by the space they carry most of (of those called, if there are calls), the
        strongest first.
    own_scale : each space has a scale of its own, up to its greatest score: scores of slow variables are small.

    Examples
    --------
    >>> truth = xr.DataArray(np.eye(2, dtype=bool), dims=("channel", "space"),
    ...                      coords={"channel": ["a", "b"], "space": ["position", "rest"]})
    >>> [label.get_text() for label in map_image(truth).get_xticklabels()]
    ['position', 'rest']
    """
    scores = scores.transpose("channel", "space")
    if sort:
        scores = scores[channel_order(scores, calls)]
    marked = _marked(scores, calls)
    channels, spaces = ([str(name) for name in scores[dim].values] for dim in scores.dims)
    ax = new_axes(ax, (1.2 + 0.9 * len(spaces), 1.2 + min(8.0, 0.16 * len(channels))))
    known = scores.dtype == bool
    values = scores.values.astype(float)
    if own_scale and not known:
        greatest = np.nanmax(values, axis=0, initial=0.0)
        values = values / np.where(greatest > 0, greatest, 1.0)
    top = 1.0 if known else float(np.nanmax(values, initial=0.0)) or 1.0
    image = ax.imshow(
        np.ma.masked_invalid(values),
        aspect="auto",
        interpolation="nearest",
        cmap=sequential("Greys" if known else "YlGnBu"),
        vmin=0.0,
        vmax=top if not known else 1.25,  # dark grey rather than black for a true entry
    )
    tidy(ax, title, frame=False)
    crowded = len(spaces) > 3 or sum(map(len, spaces)) > 24
    ax.set_xticks(range(len(spaces)), [plain(name) for name in spaces], fontsize=7.5, rotation=90 if crowded else 0)
    if len(channels) <= LABELLED:
        size = max(5.5, 8 - len(channels) / 20)
        ax.set_yticks(range(len(channels)), [plain(name) for name in channels], fontsize=size)
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(channels)} channels")
    for edge in np.arange(0.5, len(spaces) - 0.5):
        ax.axvline(edge, color="white", linewidth=2)
    rows, columns = np.nonzero(marked)
    if len(rows):
        ax.scatter(
            columns,
            rows,
            s=max(2.0, 14 - len(channels) / 8),
            color="white",
            edgecolor=INK,
            linewidths=0.6,
            label="called",
        )
    ax.tick_params(length=0)
    if colorbar and not known:
        label = "score / greatest of the space" if own_scale else "score"
        draw_colorbar(image, ax, label + (", dots: called" if len(rows) else ""))
    return ax


def _marked(scores: xr.DataArray, calls: pd.DataFrame | None) -> np.ndarray:
    """(channel, space) booleans: what is called."""
    if calls is None:
        return np.zeros(scores.shape, dtype=bool)
    table: Any = calls.pivot(index="channel", columns="space", values="called")
    table = table.reindex(index=scores["channel"].values, columns=scores["space"].values)
    return table.eq(True).to_numpy(dtype=bool)


def channel_order(scores: xr.DataArray, calls: pd.DataFrame | None = None) -> np.ndarray:
    """Numbers of the channels in the order of the first space they are called for, or have most of; the strongest
    first. scores, calls : as for `map_image`."""
    scores = scores.transpose("channel", "space")
    values, marked = scores.values.astype(float), _marked(scores, calls)
    share = np.nan_to_num(values / np.where((top := np.nanmax(np.abs(values), axis=0)) > 0, top, 1))
    first = np.where(marked.any(1), marked.argmax(1), values.shape[1]) if marked.any() else share.argmax(1)
    strength = share[np.arange(len(share)), np.minimum(first, values.shape[1] - 1)]
    return np.lexsort((-strength, first))


def map_over_time(
    scores: xr.DataArray,
    space: str,
    behaviour: Any = None,
    ax: Axes | None = None,
    *,
    label: str | None = None,
    bins: int = 200,
    title: str | None = None,
) -> Axes:
    """Draw the scores of one space over time, a row for each channel, with behaviour below it.

    Parameters
    ----------
    scores : (time, channel, space), such as `maps.over_time(step=10)`. Channels are sorted by their mean.
    behaviour : (time,) numbers at the same time steps, None for no second picture. label : what it is.
    ax : the axes to draw into; None: those of a new figure. bins : most columns; scores in a bin are averaged.

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(size=(500, 6, 1))
    >>> coords = {"time": np.arange(500) / 10, "channel": list("abcdef"), "space": ["place"]}
    >>> ax = map_over_time(xr.DataArray(values, coords=coords), "place", np.arange(500), label="x")
    >>> ax.images[0].get_array().shape, len(ax.child_axes)
    ((6, 200), 1)
    """
    own = scores.sel(space=space).transpose("time", "channel")
    time = np.asarray(own["time"].values, dtype=float)
    if not len(time):
        raise ValueError("the scores have no time steps.")
    count = min(bins, len(time))
    where = np.arange(len(time)) * count // len(time)
    means = np.asarray(pd.DataFrame(own.values).groupby(where).mean()).T
    order = np.argsort(-np.nan_to_num(means.mean(1)), kind="stable")
    own_figure = ax is None
    ax = new_axes(ax, (6.4, 1.6 + min(5.0, 0.14 * len(order))))
    if own_figure:  # room for what stands below the second picture
        ax.figure.get_layout_engine().set(h_pad=0.15)  # type: ignore[union-attr, call-arg]
    top = float(np.nanquantile(np.abs(means), 0.99)) or 1.0
    extent = (time[0], time[-1] if time[-1] > time[0] else time[0] + 1, len(order) - 0.5, -0.5)
    image = ax.imshow(
        np.ma.masked_invalid(means[order]), aspect="auto", interpolation="nearest", extent=extent,
        cmap=sequential("YlGnBu"), vmin=0.0, vmax=top,
    )  # fmt: skip
    tidy(ax, title or space, frame=False)
    names = own["channel"].values[order]
    if len(names) <= LABELLED:
        ax.set_yticks(range(len(names)), [plain(name) for name in names], fontsize=max(5.5, 8 - len(names) / 20))
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(names)} channels")
    draw_colorbar(image, ax, "score")
    if behaviour is None:
        ax.set_xlabel("time")
        return ax
    values = np.asarray(behaviour, dtype=float)
    if values.shape != time.shape:
        raise ValueError(f"behaviour has shape {values.shape}: expected one number for each of {len(time)} times.")
    below = ax.inset_axes((0, -0.32, 1, 0.26), sharex=ax)
    below.plot(time, values, color=PALETTE[0], linewidth=0.8)
    below.set(xlabel="time", ylabel=plain(label or ""))
    tidy(below)
    ax.tick_params(labelbottom=False, length=0)
    return ax
