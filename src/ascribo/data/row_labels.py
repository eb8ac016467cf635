"""Rows matched by their labels.

A DataFrame or Series *has labels* if its index is any other than the 0, 1, 2, ... that pandas makes up; a DataArray
if it has a coordinate along time. Where the channels and what is given beside them both have labels, rows belong
together that have the same label. Where only one side has labels, or none, the first row belongs to the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..support.names import plural

__all__ = ["match_rows", "row_labels"]

ROUNDING = 1e-6
"""Share of the median step by which labels that are floats may differ and still be the same."""


def row_labels(data: Any) -> pd.Index | None:
    """The labels of the rows of a DataFrame, Series or DataArray (time in front); None where there are none.

    >>> row_labels(pd.Series([5, 6], index=[0.1, 0.2]))
    Index([0.1, 0.2], dtype='float64')
    >>> row_labels(pd.Series([5, 6])) is None
    True
    """
    if isinstance(data, pd.DataFrame | pd.Series):
        index = data.index
        default = isinstance(index, pd.RangeIndex) and (index.start, index.step) == (0, 1)
        return None if default else index
    if isinstance(data, xr.DataArray) and data.ndim:
        return data.indexes.get(data.dims[0])
    return None


def match_rows(data: Any, labels: pd.Index | None, what: str) -> Any:
    """The rows of `data` that have these labels, in this order; `data` itself if it or X has no labels.

    labels : those of X, as `row_labels` gives them. what : the name of `data` in messages.

    Labels that are the same on both sides are fine, repeated ones too. Otherwise each label of X must occur once in
    X and once in `data`: rows are then put in the order of X, and those that X does not have are dropped.

    >>> speed = pd.Series([3, 1, 2], index=["c", "a", "b"])
    >>> match_rows(speed, pd.Index(["a", "b"]), "speed").tolist()
    [1, 2]
    """
    own = row_labels(data)
    if labels is None or own is None or _same(labels, own):
        return data
    once = np.flatnonzero(~own.duplicated(keep=False))
    place = own[once].get_indexer(labels)
    if (place < 0).any() or not labels.is_unique:
        raise ValueError(_mismatch(labels, own, place >= 0, what))
    rows = once[place]
    return data.isel({data.dims[0]: rows}) if isinstance(data, xr.DataArray) else data.iloc[rows]


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


def _mismatch(labels: pd.Index, own: pd.Index, found: np.ndarray, what: str) -> str:
    """What is wrong with the labels, and what to do."""
    missing = np.flatnonzero(~found)
    if len(missing):
        example = labels[missing[0]]
        times = int((own == example).sum())
        said = f"{example} {f'occurs {times} times' if times else 'does not occur'} in {what}"
    else:
        example = labels[labels.duplicated()][0]
        said = f"{example} occurs more than once in X"
    return (
        f"X and {what} both have row labels, and rows with the same label belong together; but {int(found.sum())} "
        f"of the {len(labels)} label{plural(len(labels))} of X can be found once among the {len(own)} of {what} "
        f"(for example, {said}). Give {what} the labels of X with .reindex(...), or, if the rows are in the right "
        "order already, drop the labels of one side with .reset_index(drop=True) or .to_numpy()."
    )
