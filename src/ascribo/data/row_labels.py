"""Rows matched by their labels.

A DataFrame or Series *has labels* if its index is any other than the 0, 1, 2, ... that pandas makes up; a DataArray
if it has a coordinate along time. Time stamps are the labels of channels that have none. Where the channels and
what is given beside them both have labels, rows belong together that have the same label. Where only one side has
labels, or none, the first row belongs to the first.

One exception: whole numbers are compared with whole numbers, even if pandas made up those of one side.
`X.iloc[:1000]` has the labels 0 to 999, and beside `V.iloc[300:1300]` they say that rows do not belong together.
Time stamps are not compared with whole numbers unless they are such themselves: `V[chosen]` has the numbers of the
rows that were chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..support.names import plural
from .arrays import as_array

__all__ = ["RowLabels", "find_labels", "match_rows", "row_labels"]

ROUNDING = 1e-6
"""Share of the median step by which labels that are floats may differ and still be the same."""


@dataclass(frozen=True)
class RowLabels:
    """The labels of the channels' rows, for `match_rows`.

    source : what has them, "X" or "time". made_up : whether pandas made them up. others : further labels that the
    same rows have.
    """

    index: pd.Index
    source: str = "X"
    made_up: bool = False
    others: tuple[pd.Index, ...] = ()


def find_labels(X: Any, time: Any = None) -> RowLabels | None:
    """The labels of the rows of X: its own, or else its time stamps, or else those that pandas made up.

    time : (time,) stamps in any container, or None. A Series of stamps has an index, which labels the rows too.

    >>> find_labels(np.zeros((2, 3)), time=[0.5, 1.0]).index.tolist()
    [0.5, 1.0]
    >>> find_labels(np.zeros((2, 3))) is None
    True
    """
    if (own := row_labels(X)) is not None:
        return RowLabels(own)
    stamps = None if time is None else time if isinstance(time, pd.Index) else as_array(time, "time")
    if stamps is not None and stamps.ndim == 1 and len(stamps) == len(X):  # else `check_time` says what is wrong
        index = row_labels(time)
        return RowLabels(pd.Index(stamps), "time", others=() if index is None else (index,))
    return RowLabels(X.index, made_up=True) if isinstance(X, pd.DataFrame | pd.Series) else None


def row_labels(data: Any) -> pd.Index | None:
    """The labels of the rows of a DataFrame, Series or DataArray (time in front); None where there are none.

    >>> row_labels(pd.Series([5, 6], index=[0.1, 0.2]))
    Index([0.1, 0.2], dtype='float64')
    >>> row_labels(pd.Series([5, 6])) is None
    True
    """
    if isinstance(data, pd.DataFrame | pd.Series):
        return None if _made_up(data.index) else data.index
    if isinstance(data, xr.DataArray) and data.ndim:
        return data.indexes.get(data.dims[0])
    return None


def match_rows(data: Any, labels: RowLabels | None, what: str) -> Any:
    """The rows of `data` that have these labels, in this order; `data` itself if it or X has no labels.

    labels : those of X, as `find_labels` gives them. what : the name of `data` in messages.

    Labels that are the same on both sides are fine, repeated ones too. Otherwise each label of X must occur once in
    X and once in `data`: rows are then put in the order of X, and those that X does not have are dropped.

    >>> speed = pd.Series([3, 1, 2], index=["c", "a", "b"])
    >>> match_rows(speed, RowLabels(pd.Index(["a", "b"])), "speed").tolist()
    [1, 2]
    """
    own = data.index if isinstance(data, pd.DataFrame | pd.Series) else row_labels(data)
    if labels is None or own is None or any(_same(index, own) for index in (labels.index, *labels.others)):
        return data
    made_up = [labels.made_up, row_labels(data) is None]
    whole = [pd.api.types.is_integer_dtype(index.dtype) for index in (labels.index, own)]
    if all(made_up) or (any(made_up) and not (all(whole) and labels.source == "X")):
        return data
    if labels.source == "time" and whole[0] != whole[1]:  # the numbers of rows that were chosen are no time stamps
        return data
    once = np.flatnonzero(~own.duplicated(keep=False))
    place = own[once].get_indexer(labels.index)
    if (place < 0).any() or not labels.index.is_unique:
        raise ValueError(_mismatch(labels, own, place >= 0, what))
    rows = once[place]
    return data.isel({data.dims[0]: rows}) if isinstance(data, xr.DataArray) else data.iloc[rows]


def _made_up(index: pd.Index) -> bool:
    """Whether an index is the 0, 1, 2, ... that pandas makes up."""
    return isinstance(index, pd.RangeIndex) and (index.start, index.step) == (0, 1)


def _same(labels: pd.Index, own: pd.Index) -> bool:
    """Whether two sets of labels are equal; floats but for rounding."""
    if len(labels) != len(own):
        return False
    if labels.equals(own):
        return True
    if not all(pd.api.types.is_float_dtype(index.dtype) for index in (labels, own)):
        return False
    a, b = labels.to_numpy(dtype=np.float64), own.to_numpy(dtype=np.float64)
    step = float(np.median(np.abs(np.diff(a)))) if len(a) > 1 else 0.0
    return bool((np.abs(a - b) <= ROUNDING * step).all())


def _mismatch(labels: RowLabels, own: pd.Index, found: np.ndarray, what: str) -> str:
    """What is wrong with the labels, and what to do."""
    missing = np.flatnonzero(~found)
    index, source = labels.index, labels.source
    if len(missing):
        example = index[missing[0]]
        times = int((own == example).sum())
        said = f"{example} {f'occurs {times} times' if times else 'does not occur'} in {what}"
    else:
        example = index[index.duplicated()][0]
        said = f"{example} occurs more than once in {source}"
    stamps = source == "time"
    both = f"{what} has row labels, and X has the time stamps" if stamps else f"X and {what} both have row labels"
    drop = f"the labels of {what}" if stamps else "the labels of one side"
    return (
        f"{both}, and rows with the same label belong together; but {int(found.sum())} of the {len(index)} "
        f"label{plural(len(index))} of {source} can be found once among the {len(own)} of {what} (for example, "
        f"{said}). Give {what} the labels of {source} with .reindex(...), or, if the rows are in the right order "
        f"already, drop {drop} with .reset_index(drop=True) or .to_numpy()."
    )
