"""The look that all figures share: colours that colour-blind readers can tell apart, axes, colour bars, files."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "CYCLIC",
    "FAINT",
    "INK",
    "PALETTE",
    "SEQUENTIAL",
    "colorbar",
    "new_axes",
    "new_figure",
    "plain",
    "sequential",
    "tidy",
    "write_png",
]

INK, FAINT = "#2b2d33", "#b9bdc6"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7d6b5d", "#5a5a5a")
"""Colours of Okabe and Ito (2008), which readers with any kind of colour vision tell apart; two more at the end."""
SEQUENTIAL, CYCLIC = "viridis", "twilight"


def new_figure(size: tuple[float, float]) -> Figure:
    """A figure of this size in inches, made without pyplot. A notebook shows it as a picture.

    >>> figure = new_figure((6, 3))
    >>> left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    >>> len(figure.axes)
    2
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure = _figure_class()(figsize=size, layout="constrained")
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'ascribo[report]'") from error
    FigureCanvasAgg(figure)
    return figure


@cache
def _figure_class() -> type[Figure]:
    """Matplotlib's figures, with a picture for notebooks, which else show them only once pyplot is imported."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        """A figure that a notebook shows."""

        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png", dpi=110)
            return file.getvalue()

    return ShownFigure


def new_axes(ax: Axes | None, size: tuple[float, float], projection: str | None = None) -> Axes:
    """`ax`, or the axes of a new figure of this size in inches.

    >>> new_axes(None, (4, 3)).figure.get_size_inches().tolist()
    [4.0, 3.0]
    """
    return new_figure(size).add_subplot(projection=projection) if ax is None else ax


def tidy(ax: Axes, title: str | None = None, frame: bool = True) -> None:
    """The look that all figures share.

    >>> ax = new_axes(None, (4, 3))
    >>> tidy(ax, "a title")
    >>> ax.get_title(loc="left"), ax.spines["top"].get_visible()
    ('a title', False)
    """
    if title:
        ax.set_title(plain(title), fontsize=9.5, color=INK, loc="left")
    for side, spine in ax.spines.items():
        spine.set_visible(frame and side in ("left", "bottom"))
        spine.set_color(FAINT)
    ax.tick_params(color=FAINT, labelcolor=INK, labelsize=7.5)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(color=INK, fontsize=8)


def plain(text: object) -> str:
    """A text that matplotlib shows as it is, with `$` as a character: channels may be called "$x^$", which is no
    formula.

    >>> plain("ROI $5"), plain(7)
    ('ROI \\\\$5', '7')
    """
    return str(text).replace("$", r"\$")


def sequential(name: str) -> Any:
    """A colour map whose missing values are grey."""
    from matplotlib import colormaps

    return colormaps[name].with_extremes(bad="#dcdde0")


def colorbar(drawn: Any, ax: Any, label: str, shrink: float = 1.0) -> None:
    """A colour bar beside one or several axes."""
    figure = ax[0].figure if isinstance(ax, list) else ax.figure
    bar = figure.colorbar(drawn, ax=ax, fraction=0.05, pad=0.03, shrink=shrink)
    bar.set_label(plain(label), color=INK, fontsize=8)
    bar.solids.set_alpha(1)
    bar.ax.tick_params(labelsize=7, length=2, color=FAINT)
    bar.outline.set_visible(False)


def write_png(figure: Any, path: str | Path) -> Path:
    """Write a figure as PNG, all of it or nothing.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> write_png(new_figure((2, 1)), f"{folder.name}/empty.png").stat().st_size > 100
    True
    >>> folder.cleanup()
    """
    return write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=150))
