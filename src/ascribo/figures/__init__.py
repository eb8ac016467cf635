"""Figures of recordings, models, maps and evidence, for papers and for looking.

    attribution_maps.py   maps, sorted and with calls marked; maps over time beside behaviour
    embeddings.py         embeddings in two and three dimensions
    evidence.py           scores with intervals, agreement, the curve of dimensions, ROC curves
    comparisons.py        methods or settings beside each other: curves, bars, dots, points
    tuning.py             tuning curves and rate maps of single channels
    training_curves.py    losses beside chance, the penalty and its weight
    images.py             many small images in one grid
    overview.py           all of a fitted model on one page
    style.py              colours, axes, files

Each function draws into the axes it is given (`ax`), or into a new figure of its own, and returns the axes. The
colours can be told apart by readers with any kind of colour vision. Matplotlib's global state is left alone:
figures are made without pyplot, so no window opens and no style or backend of the caller changes. Matplotlib is an
extra, `pip install 'ascribo[report]'`.
"""

from .attribution_maps import map_image, map_over_time
from .comparisons import bars, curves, dots, points
from .embeddings import embedding
from .evidence import agreement, dimension_curve, number_grid, roc, scores_with_intervals
from .images import image_grid
from .overview import overview
from .style import FAINT, INK, PALETTE, new_axes, new_figure, tidy, write_png
from .training_curves import training
from .tuning import rate_map, stacked_curves, tuning_curve

__all__ = [
    "FAINT",
    "INK",
    "PALETTE",
    "agreement",
    "bars",
    "curves",
    "dimension_curve",
    "dots",
    "embedding",
    "image_grid",
    "map_image",
    "map_over_time",
    "new_axes",
    "new_figure",
    "number_grid",
    "overview",
    "points",
    "rate_map",
    "roc",
    "scores_with_intervals",
    "stacked_curves",
    "tidy",
    "training",
    "tuning_curve",
    "write_png",
]
