"""Evidence: scores with their intervals, agreement of embeddings, how many dimensions, scores against a truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.metrics import roc_curve

from ..metrics.scores import auroc
from .style import FAINT, INK, PALETTE, SEQUENTIAL, colorbar, new_axes, plain, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..evidence.choose_dimension import ChosenDimension

__all__ = ["agreement", "dimension_curve", "number_grid", "roc", "scores_with_intervals"]

MOST_NAMES = 40


def scores_with_intervals(
    calls: pd.DataFrame, space: str, ax: Axes | None = None, *, by: str | None = None, title: str | None = None
) -> Axes:
    """Draw the scores of one space with their 95% intervals, a point for each channel, the strongest first.

    calls : `maps.calls()`. Filled points are called, open ones are not.
    by : a column of the calls, such as "region": channels of a group stand together and share a colour.

    Examples
    --------
    >>> calls = pd.DataFrame({"channel": ["a", "b"], "space": "place", "score": [0.1, 0.5], "ci_low": [0.0, 0.4],
    ...                       "ci_high": [0.2, 0.6], "called": [False, True]})
    >>> [label.get_text() for label in scores_with_intervals(calls, "place").get_xticklabels()]
    ['b', 'a']
    """
    own: Any = calls[calls["space"] == space]
    if not len(own):
        raise ValueError(f"there are no calls for {space!r}: expected one of {sorted(set(calls['space']))}.")
    if by is not None and by not in own:
        raise ValueError(f"the calls have no column {by!r}: expected one of {list(own)}.")
    keys = [by, "score"] if by else ["score"]
    own = own.sort_values(keys, ascending=[True] * (len(keys) - 1) + [False], kind="stable").reset_index(drop=True)
    ax = new_axes(ax, (min(9.0, 1.6 + 0.16 * len(own)), 2.8))
    groups = list(dict.fromkeys(own[by])) if by else [None]
    for k, group in enumerate(groups):
        rows = own if by is None else own[own[by] == group]
        colour = PALETTE[k % len(PALETTE)]
        ax.vlines(rows.index, rows["ci_low"], rows["ci_high"], color=colour, linewidth=1.4, alpha=0.6)
        for called, face in ((True, colour), (False, "white")):
            some = rows[rows["called"] == called]
            label = plain(group) if by and called == rows["called"].any() else None
            ax.scatter(some.index, some["score"], s=16, facecolor=face, edgecolor=colour, zorder=3, label=label)
    ax.axhline(0, color=FAINT, linewidth=0.8)
    if len(own) <= MOST_NAMES:
        ax.set_xticks(range(len(own)), [plain(name) for name in own["channel"]], rotation=90)
    else:
        ax.set_xticks([])
        ax.set_xlabel(f"{len(own)} channels")
    ax.set_ylabel("score (filled: called)")
    if by:
        ax.legend(title=plain(by), fontsize=7, title_fontsize=8, frameon=False)
    tidy(ax, title or space)
    return ax


def agreement(table: pd.DataFrame, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw how far embeddings agree: R² of each from each other, as a matrix with its numbers.

    table : of `evidence.consistency`: source, target, r2.

    Examples
    --------
    >>> table = pd.DataFrame({"source": ["a", "b"], "target": ["b", "a"], "r2": [0.9, 0.8]})
    >>> sorted(text.get_text() for text in agreement(table).texts)
    ['0.80', '0.90']
    """
    names = list(dict.fromkeys([*table["source"], *table["target"]]))
    values: Any = table.pivot(index="source", columns="target", values="r2").reindex(index=names, columns=names)
    return number_grid(values, ax, xlabel="predicted", ylabel="from", label="R²", title=title)


def number_grid(
    table: pd.DataFrame,
    ax: Axes | None = None,
    *,
    marked: Sequence[Any] | None = None,
    xlabel: str = "",
    ylabel: str = "",
    label: str = "",
    title: str | None = None,
) -> Axes:
    """Draw a table of numbers from 0 to 1 as colours, with the numbers in it.

    table : its index and columns name the rows and columns. marked : (row, column) of the entry to stand out.
    label : what the numbers are. ax : the axes to draw into; None: those of a new figure.

    Examples
    --------
    >>> table = pd.DataFrame([[0.5, 0.9], [np.nan, 0.1]], index=["a", "b"], columns=["x", "y"])
    >>> [text.get_text() for text in number_grid(table, marked=("a", "y")).texts]
    ['0.50', '0.90', '0.10']
    """
    values = table.to_numpy(dtype=float)
    ax = new_axes(ax, (2.0 + 0.45 * values.shape[1], 1.4 + 0.45 * values.shape[0]))
    image = ax.imshow(np.ma.masked_invalid(values), cmap=SEQUENTIAL, vmin=0, vmax=1)
    if max(values.shape) <= 12:
        for i, j in zip(*np.nonzero(np.isfinite(values)), strict=True):
            colour = INK if values[i, j] > 0.6 else "white"
            ax.text(j, i, f"{values[i, j]:.2f}", ha="center", va="center", fontsize=7, color=colour)
    if marked is not None:
        row, column = list(table.index).index(marked[0]), list(table.columns).index(marked[1])
        ax.plot(column, row, "s", markersize=22, fillstyle="none", color=INK, markeredgewidth=1.6)
    upright = all(len(str(name)) <= 3 for name in table.columns)
    ax.set_xticks(range(values.shape[1]), [plain(name) for name in table.columns], rotation=0 if upright else 90)
    ax.set_yticks(range(values.shape[0]), [plain(name) for name in table.index])
    ax.set(xlabel=plain(xlabel), ylabel=plain(ylabel))
    tidy(ax, title, frame=False)
    colorbar(image, ax, label)
    return ax


def dimension_curve(chosen: ChosenDimension, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw how consistent seeds are for each number of dimensions, with the one that was chosen.

    chosen : of `ascribo.select_dimension`. The shaded band is what counts as consistent.

    Examples
    --------
    >>> from ascribo.evidence import ChosenDimension
    >>> table = pd.DataFrame({"dim": [1, 2, 3], "consistency": [0.8, 0.99, 0.6]})
    >>> table["ci_low"], table["ci_high"] = table["consistency"] - 0.05, table["consistency"] + 0.01
    >>> dimension_curve(ChosenDimension("rest", 2, table, 0.02)).texts[0].get_text()
    'chosen: 2'
    """
    curve: Any = chosen.curve
    ax = new_axes(ax, (4.4, 3.0))
    best = float(curve["consistency"].max())
    ax.axhspan(best - chosen.tolerance, best, color=PALETTE[5], alpha=0.25, linewidth=0)
    ax.fill_between(curve["dim"], curve["ci_low"], curve["ci_high"], color=PALETTE[0], alpha=0.2, linewidth=0)
    ax.plot(curve["dim"], curve["consistency"], "o-", color=PALETTE[0], markersize=4, linewidth=1.4)
    if chosen.dim is not None:
        row = curve[curve["dim"] == chosen.dim].iloc[0]
        ax.plot(chosen.dim, row["consistency"], "o", markersize=11, fillstyle="none", color=INK)
        ax.annotate(
            f"chosen: {chosen.dim}", (chosen.dim, row["consistency"]), (0, -26), textcoords="offset points",
            ha="center", fontsize=8, color=INK,
        )  # fmt: skip
    else:
        told = "none chosen: at chance whatever the dimension"
        ax.text(0.5, 0.04, told, transform=ax.transAxes, ha="center", fontsize=8, color=INK)
    ax.set(xlabel="dimensions", ylabel="consistency between seeds")
    ax.set_xticks(curve["dim"].tolist())
    tidy(ax, title or chosen.space)
    return ax


def roc(
    scores: ArrayLike | Mapping[str, ArrayLike],
    truth: ArrayLike,
    ax: Axes | None = None,
    *,
    title: str | None = None,
) -> Axes:
    """Draw how well scores rank the channels that really carry a space: the ROC curve, with the area below it.

    scores : (channel,), or several by name, such as those of different methods. truth : (channel,) booleans.

    Examples
    --------
    >>> ax = roc({"good": [0.1, 0.2, 0.9], "bad": [0.9, 0.2, 0.1]}, [False, False, True])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['good: 1.000', 'bad: 0.000']
    """
    named = scores if isinstance(scores, Mapping) else {"scores": scores}
    known = np.asarray(truth, dtype=bool)
    ax = new_axes(ax, (3.4, 3.4))
    ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
    for k, (name, own) in enumerate(named.items()):
        values = np.asarray(own, dtype=float)
        false, true, _ = roc_curve(known, values)
        label = f"{plain(name)}: {auroc(values, known):.3f}"
        ax.plot(false, true, color=PALETTE[k % len(PALETTE)], linewidth=1.6, label=label)
    ax.set(xlabel="share called of channels that do not carry it", ylabel="share called of those that do")
    ax.set_aspect("equal")
    ax.legend(title="area under the curve", fontsize=7, title_fontsize=7.5, frameon=False, loc="lower right")
    tidy(ax, title)
    return ax
