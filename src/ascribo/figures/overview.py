"""All of a fitted model on one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.recording import Recording
from ..spaces.base import layout, reported
from .attribution_maps import channel_order, map_image
from .embeddings import embedding
from .style import INK, colorbar, new_figure, write_png
from .training_curves import training

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..attribution.maps import AttributionMaps
    from ..model.estimator import ContrastiveEmbedding

__all__ = ["overview"]


def overview(
    model: ContrastiveEmbedding,
    recording: Recording,
    maps: AttributionMaps,
    path: str | Path | None = None,
) -> Figure:
    """Draw all of a fitted model on one page: its map, its embedding by the variables, its training.

    model : fitted. recording, maps : what it was fitted to, and its maps; channels stand together by what they
    carry. If the recording has a truth, it stands beside the map. path : where to write the page as PNG; None:
    nowhere.

    Examples
    --------
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=1, hidden=1, channels=(4, 4), steps=800)
    >>> small = dict(steps=10, batch_size=64, encoder=asc.MLP((8,)), penalty=0, progress=False)
    >>> model = asc.ContrastiveEmbedding({"x": asc.Follow("x", dim=1)}, seeds=1, **small).fit(data)
    >>> figure = overview(model, data, model.attribute(data))
    >>> figure.get_suptitle(), [ax.get_title(loc="left") for ax in figure.axes][:2]  # a simulation has a truth
    ('8 channels, 800 time steps: unique variance', ['map', 'truth'])
    """
    figure = new_figure((11.5, 6.4))
    grid = figure.add_gridspec(2, 3, width_ratios=(1.1, 1, 1), height_ratios=(1.15, 1))
    tables = {"map": maps.by_space}
    if recording.truth is not None:
        tables["truth"] = recording.truth.sel(channel=maps.by_space["channel"])
    left = grid[:, 0].subgridspec(1, len(tables))
    calls = maps.calls() if maps.tested else None
    order = channel_order(maps.by_space, calls)
    tables = {name: table.isel(channel=order) for name, table in tables.items()}
    images = [
        map_image(
            table,
            figure.add_subplot(left[k]),
            calls=calls if name == "map" else None,
            own_scale=True,
            title=name,
            colorbar=False,
        )
        for k, (name, table) in enumerate(tables.items())
    ]
    for beside in images[1:]:  # the same rows as the map
        beside.set_yticks([])
        beside.set_ylabel("")
    label = "score / greatest of the space" + (", dots: called" if calls is not None else "")
    colorbar(images[0].images[0], images, label, shrink=0.4)
    panels = _embedding_panels(model, recording)
    for k, panel in enumerate(panels):
        z = panel.pop("z")
        where = grid[0, 1 + k] if len(panels) == 2 else grid[0, 1:]
        ax = figure.add_subplot(where, projection="3d" if z.shape[1] >= 3 else None)
        embedding(z, panel.pop("colour"), ax, **panel)
    chance = model.goodness_of_fit_["chance"].to_numpy(dtype=float)  # NaN of a space that predicts something
    known = chance[np.isfinite(chance)]
    training(model.history_, figure.add_subplot(grid[1, 1:]), chance=float(known[0]) if len(known) else None)
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
