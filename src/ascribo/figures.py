"""Figures of a fitted model: its map, its embedding, its training, and all of them on one page.

Each function draws into the axes it is given, or into a new figure of its own, and returns the axes. Matplotlib's
global state is left alone: figures are made without pyplot, so no window opens and no style or backend of the
caller changes. Matplotlib is an extra, `pip install 'ascribo[report]'`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from .data.recording import Recording
from .data.segments import evenly
from .spaces.base import layout, reported
from .support.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .attribution.maps import AttributionMaps
    from .model.estimator import ContrastiveEmbedding

__all__ = ["embedding", "image_grid", "map_image", "new_axes", "overview", "tidy", "training", "write_png"]

INK, FAINT = "#2b2d33", "#b9bdc6"
PALETTE = ("#3b6fb6", "#d9822b", "#3f9a6b", "#8a5fb0", "#c0504d", "#5c8a9a", "#a08a3c", "#7d6b5d")
SEQUENTIAL, CYCLIC = "viridis", "twilight"
LABELLED = 60
"""Most channels whose names are written beside a map."""


def map_image(
    scores: xr.DataArray, ax: Axes | None = None, *, title: str | None = None, colorbar: bool = True
) -> Axes:
    """Draw an attribution map as colours: a row for each channel, a column for each space.

    scores : (channel, space), such as `maps.by_space`; or booleans, dark where a channel really carries a space.
        Spaces without a map (NaN) are left grey.
    ax : the axes to draw into; None: those of a new figure. title, colorbar : of the picture.

    Examples
    --------
    >>> truth = xr.DataArray(np.eye(2, dtype=bool), dims=("channel", "space"),
    ...                      coords={"channel": ["a", "b"], "space": ["position", "rest"]})
    >>> [label.get_text() for label in map_image(truth).get_xticklabels()]
    ['position', 'rest']
    """
    scores = scores.transpose("channel", "space")
    channels, spaces = ([str(name) for name in scores[dim].values] for dim in scores.dims)
    ax = new_axes(ax, (1.2 + 0.9 * len(spaces), 1.2 + min(8.0, 0.16 * len(channels))))
    known = scores.dtype == bool
    values = scores.values.astype(float)
    top = 1.0 if known else float(np.nanmax(values, initial=0.0)) or 1.0
    image = ax.imshow(
        np.ma.masked_invalid(values),
        aspect="auto",
        interpolation="nearest",
        cmap=_sequential("Greys" if known else "YlGnBu"),
        vmin=0.0,
        vmax=top if not known else 1.25,  # dark grey rather than black for a true entry
    )
    tidy(ax, title, frame=False)
    crowded = len(spaces) > 3 or sum(map(len, spaces)) > 24
    ax.set_xticks(range(len(spaces)), spaces, fontsize=7.5, rotation=90 if crowded else 0)
    if len(channels) <= LABELLED:
        ax.set_yticks(range(len(channels)), channels, fontsize=max(5.5, 8 - len(channels) / 20))
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(channels)} channels")
    for edge in np.arange(0.5, len(spaces) - 0.5):
        ax.axvline(edge, color="white", linewidth=2)
    ax.tick_params(length=0)
    if colorbar and not known:
        _colorbar(image, ax, "score")
    return ax


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
        _colorbar(points, ax, label or "")
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


def training(history: xr.Dataset, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw the training: the contrastive loss of each space, the size of the Jacobian, and its weight λ.

    The losses are on the left, in nats; ‖J_f‖² and λ on the right, on a logarithmic scale. Lines are means over
    seeds, smoothed; the faint ones behind are the seeds.

    history : `model.history_`. ax : the axes to draw into; None: those of a new figure.
    """
    ax = new_axes(ax, (5.6, 3.4))
    steps = np.arange(1, history.sizes["step"] + 1)
    errors = [("regression", history["mse"][..., k]) for k in range(history.sizes["regression"])]
    spaces = [(f"InfoNCE, {name}", history["infonce"].sel(space=name)) for name in history["space"].values]
    for k, (name, curve) in enumerate([*spaces, *errors]):
        colour = PALETTE[k % len(PALETTE)]
        ax.plot(steps, _smooth(curve.values), color=colour, linewidth=0.6, alpha=0.35)
        ax.plot(steps, _smooth(_mean(curve.values)), color=colour, linewidth=1.6, label=name)
    right = ax.twinx()
    penalty, weight = (_mean(history[name].values) for name in ("penalty", "lambda"))
    right.plot(steps, _smooth(penalty), color=INK, linewidth=1.0, label="‖J‖²")
    if (weight > 0).any():
        ended = ", at the end " + ", ".join(f"{value:.2g}" for value in history.attrs["lambda"])
        weight = np.where(weight > 0, weight, np.nan)
        right.plot(steps, weight, color=INK, linewidth=1.2, linestyle=(0, (3, 2)), label=f"λ{ended}")
    right.set_yscale("log")
    ax.set(xlabel="training step", ylabel="loss (nats)", xlim=(0, len(steps)))
    right.set_ylabel("‖J‖² and λ", color=INK, fontsize=8)
    tidy(ax, title)
    tidy(right)
    right.spines["right"].set_visible(True)
    lines = [line for a in (ax, right) for line in a.get_lines() if line.get_label()[0] != "_"]  # type: ignore[index]
    ax.legend(
        lines,
        [str(line.get_label()) for line in lines],
        ncols=len(lines),
        fontsize=7.5,
        frameon=False,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
    )
    return ax


def overview(
    model: ContrastiveEmbedding,
    recording: Recording,
    maps: AttributionMaps,
    path: str | Path | None = None,
) -> Figure:
    """Draw all of a fitted model on one page: its map, its embedding by the variables, its training.

    model : fitted. recording, maps : what it was fitted to, and its maps. If the recording has a truth, it stands
    beside the map. path : where to write the page as PNG; None: nowhere.
    """
    figure = _figure((11.5, 6.4))
    grid = figure.add_gridspec(2, 3, width_ratios=(1.1, 1, 1), height_ratios=(1.15, 1))
    tables = {"map": maps.by_space}
    if recording.truth is not None:
        tables["truth"] = recording.truth.sel(channel=maps.by_space["channel"])
    left = grid[:, 0].subgridspec(1, len(tables))
    images = [
        map_image(table, figure.add_subplot(left[k]), title=name, colorbar=False)
        for k, (name, table) in enumerate(tables.items())
    ]
    for beside in images[1:]:  # the same rows as the map
        beside.set_yticks([])
        beside.set_ylabel("")
    _colorbar(images[0].images[0], images, "score", shrink=0.4)
    panels = _embedding_panels(model, recording)
    for k, panel in enumerate(panels):
        z = panel.pop("z")
        where = grid[0, 1 + k] if len(panels) == 2 else grid[0, 1:]
        ax = figure.add_subplot(where, projection="3d" if z.shape[1] >= 3 else None)
        embedding(z, panel.pop("colour"), ax, **panel)
    training(model.history_, figure.add_subplot(grid[1, 1:]))
    figure.suptitle(
        f"{recording.X.shape[1]} channels, {len(recording):,} time steps: {maps.method.replace('_', ' ')}",
        fontsize=11,
        color=INK,
        x=0.01,
        ha="left",
    )
    if path is not None:
        write_png(figure, path)
    return figure


def image_grid(
    images: Any, ax: Axes | None = None, *, rows: Any = None, signed: bool = False, title: str | None = None
) -> Axes:
    """Draw many small images in one grid, such as saliency maps or the training examples put first.

    images : (row, column, height, width); each is drawn on a scale of its own. rows : a name for each row.
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
    if values.ndim != 4:
        raise ValueError(f"images have shape {values.shape}: expected (row, column, height, width).")
    largest = np.abs(values).max((2, 3), keepdims=True)
    values = np.pad(
        values / np.where(largest > 0, largest, 1), ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan
    )
    lines, columns, height, width = values.shape
    ax = new_axes(ax, (0.8 + 0.6 * columns, 0.4 + 0.6 * lines))
    whole = values.transpose(0, 2, 1, 3).reshape(lines * height, columns * width)
    ax.imshow(
        np.ma.masked_invalid(whole),
        cmap="RdBu_r" if signed else "gray",
        vmin=-1 if signed else 0,
        vmax=1,
        aspect="equal",
    )
    tidy(ax, title, frame=False)
    ax.set_xticks([])
    ax.set_yticks(
        (np.arange(lines) + 0.5) * height - 1, [str(name) for name in rows] if rows is not None else [""] * lines
    )
    ax.tick_params(length=0, labelsize=7)
    return ax


def write_png(figure: Any, path: str | Path) -> Path:
    """Write a figure as PNG, all of it or nothing."""
    return write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=150))


def _embedding_panels(model: ContrastiveEmbedding, recording: Recording) -> list[dict[str, Any]]:
    """What to draw of the embedding: the first space with variables, by its first two variables; else by time."""
    spaces = model.model_.spaces
    z, slices = model.transform(recording), layout(spaces)
    shown = reported(spaces)
    driven = [name for name in shown if all(v in recording.variables for v in spaces[name].variables)]
    name = next((n for n in driven if spaces[n].variables), shown[0])
    space, block = spaces[name], {"z": z[:, slices[name]]}
    variables = space.variables[:2] if name in driven else ()
    if not variables:
        return [{**block, "colour": recording.time, "label": "time", "title": name}]
    turns = dict(zip(space.variables, space.periods, strict=True))
    return [
        {
            **block,
            "colour": recording.variables[v],
            "label": v,
            "circular": turns[v] > 0,
            "title": f"{name}, by {v}",
        }
        for v in variables
    ]


def _figure(size: tuple[float, float]) -> Figure:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'ascribo[report]'") from error
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes(ax: Axes | None, size: tuple[float, float], projection: str | None = None) -> Axes:
    """`ax`, or the axes of a new figure of this size in inches."""
    return _figure(size).add_subplot(projection=projection) if ax is None else ax


def _sequential(name: str):
    """A colour map whose missing values are grey."""
    from matplotlib import colormaps

    return colormaps[name].with_extremes(bad="#dcdde0")


def _colorbar(drawn: Any, ax: Any, label: str, shrink: float = 1.0) -> None:
    figure = ax[0].figure if isinstance(ax, list) else ax.figure
    bar = figure.colorbar(drawn, ax=ax, fraction=0.05, pad=0.03, shrink=shrink)
    bar.set_label(label, color=INK, fontsize=8)
    bar.solids.set_alpha(1)
    bar.ax.tick_params(labelsize=7, length=2, color=FAINT)
    bar.outline.set_visible(False)


def tidy(ax: Axes, title: str | None = None, frame: bool = True) -> None:
    """The look that all figures share."""
    if title:
        ax.set_title(title, fontsize=9.5, color=INK, loc="left")
    for side, spine in ax.spines.items():
        spine.set_visible(frame and side in ("left", "bottom"))
        spine.set_color(FAINT)
    ax.tick_params(color=FAINT, labelcolor=INK, labelsize=7.5)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(color=INK, fontsize=8)


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


def _mean(curves: np.ndarray) -> np.ndarray:
    """Mean over seeds, (step, seed) -> (step,), of those that had not stopped yet."""
    running = np.isfinite(curves)
    return np.where(running, curves, 0).sum(1) / np.maximum(running.sum(1), 1)


def _smooth(curve: np.ndarray) -> np.ndarray:
    """Running mean over a hundredth of all steps."""
    frame = pd.DataFrame(curve)
    return np.asarray(frame.rolling(max(1, len(frame) // 100), min_periods=1, center=True).mean())
