"""Tuning of single channels: curves along one variable, rate maps over two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from ..data.recording import Recording
from ..data.standardised_channels import time_chunks
from ..support.circle import check_period
from .style import FAINT, PALETTE, SEQUENTIAL, colorbar, new_axes, plain, sequential, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["rate_map", "stacked_curves", "tuning_curve"]

MOST_LABELS = 24
"""Labels that are named below a tuning curve."""


def tuning_curve(
    recording: Recording,
    channel: str,
    variable: str,
    ax: Axes | None = None,
    *,
    bins: int = 24,
    period: float | None = None,
    title: str | None = None,
) -> Axes:
    """Draw the mean of a channel for each value of a variable, with that of each half of the recording behind it.

    A curve that is not the same in both halves is mostly noise. Labels have a point each. Bins with less than a
    twentieth of an even share of time are left out: the mean of a few time steps would look like a peak.

    bins : along the variable. period : of a circular variable, its full turn, in the unit of the variable.

    Examples
    --------
    >>> x = np.random.default_rng(0).uniform(0, 1, 2000)
    >>> ax = tuning_curve(Recording(x[:, None] ** 2, {"x": x}), "channel0", "x")
    >>> len(ax.get_lines())
    3
    """
    if channel not in recording.channel_names:
        raise ValueError(f"no channel is called {channel!r}.")
    if variable not in recording.variables:
        raise ValueError(f"the recording has no variable {variable!r}; it has {list(recording.variables)}.")
    place = recording.channel_names.index(channel)
    rates: Any = pd.Series(np.concatenate([recording.X[rows, place].copy() for rows in time_chunks(recording.X)]))
    column: pd.Series = recording.variables[variable].reset_index(drop=True)  # type: ignore[assignment]
    half = np.arange(len(rates)) < len(rates) // 2
    ax = new_axes(ax, (3.2, 2.4))
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if numeric:
        if period:
            check_period(variable, column.to_numpy(float), period)
        values = column.to_numpy(float) % period if period else column.to_numpy(float)
        low, high = (0.0, period) if period else (np.nanmin(values), np.nanmax(values))
        edges = np.linspace(low, high, bins + 1)
        groups = np.clip(np.digitize(values, edges) - 1, 0, bins - 1).astype(float)
        groups[~np.isfinite(values)] = np.nan
        places = (edges[1:] + edges[:-1]) / 2
    else:
        codes, labels = pd.factorize(column, sort=True)
        groups, places = np.where(codes < 0, np.nan, codes), np.arange(len(labels))
        few = len(labels) <= MOST_LABELS
        ax.set_xticks(places if few else [], [plain(label) for label in labels] if few else [])
    for rows, width, alpha in ((half, 0.9, 0.45), (~half, 0.9, 0.45), (half | True, 1.8, 1.0)):
        groups_of_rows = rates[rows].groupby(groups[rows])
        enough = groups_of_rows.count() * (20 * len(places)) >= rows.sum()
        mean = groups_of_rows.mean()[enough].reindex(range(len(places)))
        marker, size = ("-", 0) if numeric else ("o", 3.0 * width)  # labels have no order: no line joins them
        ax.plot(places, mean, marker, color=PALETTE[0], linewidth=width, alpha=alpha, markersize=size)
    many = "" if numeric or len(places) <= MOST_LABELS else f" ({len(places)} labels)"
    ax.set(xlabel=plain(variable) + many, ylabel=f"mean of {plain(channel)}")
    tidy(ax, title)
    return ax


def stacked_curves(
    places: ArrayLike,
    rates: Mapping[str, ArrayLike],
    ax: Axes | None = None,
    *,
    marked: Sequence[bool] | None = None,
    xlabel: str = "",
    title: str | None = None,
) -> Axes:
    """Draw the curves of many channels below each other, each on a scale of its own.

    places : (n,), where along the variable. rates : name -> (n,), from the top. marked : those in colour, such as
    the channels that were called; None: all. ax : the axes to draw into; None: those of a new figure.

    Examples
    --------
    >>> ax = stacked_curves([0, 1, 2], {"unit0": [0, 5, 1], "unit1": [1, 1, 2]}, marked=[True, False])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['unit0', 'unit1']
    """
    ax = new_axes(ax, (5.6, 1.2 + 0.26 * len(rates)))
    chosen = [True] * len(rates) if marked is None else marked
    for k, (own, colour) in enumerate(zip(rates.values(), chosen, strict=True)):
        values = np.asarray(own, dtype=float)
        line = k - 0.85 * values / (float(np.nanmax(values, initial=0.0)) or 1.0)
        ax.fill_between(np.asarray(places), k, line, color=PALETTE[0] if colour else FAINT, linewidth=0)
    ax.set_yticks(range(len(rates)), [plain(name) for name in rates])
    ax.set(ylim=(len(rates) - 0.4, -1), xlabel=plain(xlabel))
    tidy(ax, title)
    return ax


def rate_map(rates: xr.DataArray, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw the rate map of one channel over two variables; places that were never visited are grey.

    rates : (x, y), one channel of `cells.rate_maps`.

    Examples
    --------
    >>> rates = xr.DataArray([[0.0, 1.0], [2.0, np.nan]], coords={"x": [0, 1], "y": [0, 1]})
    >>> rate_map(rates).get_xlabel()
    'x'
    """
    if rates.ndim != 2:
        raise ValueError(f"rates have dimensions {rates.dims}: expected two, those of one channel.")
    across, up = rates.dims
    x, y = (np.asarray(rates[dim].values, dtype=float) for dim in rates.dims)
    edge = lambda v: (v[0] - (step := (v[-1] - v[0]) / max(1, len(v) - 1)) / 2, v[-1] + step / 2)  # noqa: E731
    ax = new_axes(ax, (3.0, 2.7))
    image = ax.imshow(
        np.ma.masked_invalid(rates.values.T), origin="lower", extent=(*edge(x), *edge(y)), aspect="equal",
        cmap=sequential(SEQUENTIAL), interpolation="nearest",
    )  # fmt: skip
    ax.set(xlabel=plain(across), ylabel=plain(up))
    tidy(ax, title, frame=False)
    colorbar(image, ax, "mean")
    return ax
