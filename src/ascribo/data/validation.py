"""What is given beside the channels, checked: variables, epochs, time stamps, truth, units and support."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..support.names import check_unique, first_few, plural
from .arrays import as_array, as_numbers, column_labels, is_real, refuse_complex, time_first
from .row_labels import RowLabels, match_rows, row_labels

__all__ = [
    "as_table",
    "check_support",
    "check_time",
    "check_truth",
    "check_units",
    "number_epochs",
    "split_at_gaps",
    "time_from_labels",
]

GAP = 10.0
"""A step in time of more than this many median steps is a gap."""


def as_table(variables: Any, steps: int, labels: RowLabels | None = None) -> pd.DataFrame:
    """The variables as columns with text names and rows 0, 1, 2, ...

    steps : number of time steps. labels : of the rows of X, where it has any: see `ascribo.data.row_labels`.

    >>> as_table({"speed": [1.0, 2.0], "side": ["left", "right"]}, 2)
       speed   side
    0    1.0   left
    1    2.0  right
    """
    if variables is None:
        return pd.DataFrame(index=pd.RangeIndex(steps))
    variables = match_rows(time_first(variables), labels, "variables")
    if isinstance(variables, pd.DataFrame):
        columns = [variables.iloc[:, i] for i in range(variables.shape[1])]
        names, labels = list(variables.columns), None
    elif isinstance(variables, Mapping):
        columns, names = list(variables.values()), list(variables)
    else:
        columns, names = _unnamed(variables)
        labels = None
    names = [str(name) for name in names]
    check_unique(names, "variable")
    table = {}
    for name, column in zip(names, columns, strict=True):
        what = f"variable {name!r}"
        column = match_rows(time_first(column), labels, what)
        if not isinstance(column, pd.Series):  # whose categories an array would lose
            column = as_array(column, what)
        if column.ndim != 1:
            raise ValueError(
                f"{what} has shape {column.shape}; expected one value per time step. Pass the "
                "columns of a matrix as variables of their own."
            )
        _check_length(column, what, steps)
        column = pd.Series(column).reset_index(drop=True).infer_objects()
        refuse_complex(column.dtype, what)
        table[name] = column
    return pd.DataFrame(table, index=pd.RangeIndex(steps))


def _unnamed(variables: Any) -> tuple[list[Any], list[Any]]:
    """Columns and names of what has one name at most; "y" if it has none."""
    named = isinstance(variables, pd.Series | pd.Index | xr.DataArray)
    name = "y" if not named or variables.name is None else variables.name
    if isinstance(variables, pd.Series):
        return [variables], [name]
    values = as_array(variables, "variables")
    if values.ndim == 1:
        return [values], [name]
    if values.ndim != 2:
        raise ValueError(
            f"variables has shape {values.shape}; expected one value per time step, or a matrix of time x variable."
        )
    labels = column_labels(variables)
    numbered = [f"{name}{i}" for i in range(values.shape[1])]
    return list(values.T), numbered if labels is None else labels.to_list()


def number_epochs(epochs: Any, steps: int, labels: RowLabels | None = None) -> np.ndarray:
    """Number the contiguous runs of one label: a, a, b, a -> 0, 0, 1, 2. One run if epochs is None.

    steps : number of time steps. labels : of the rows of X, where it has any.

    >>> number_epochs(["a", "a", "b", "a"], 4)
    array([0, 0, 1, 2])
    """
    if epochs is None:
        return np.zeros(steps, dtype=np.int64)
    names = _one_per_step(epochs, "epochs", steps, labels)
    # Codes rather than names, so that missing names in a row are one run, not one each.
    codes = pd.factorize(names, use_na_sentinel=False)[0]
    return np.concatenate([[0], np.cumsum(codes[1:] != codes[:-1])]).astype(np.int64)


def check_time(time: Any, epochs: np.ndarray) -> np.ndarray:
    """Time stamps (time,) in float64, checked to increase within epochs; 0, 1, 2, ... if time is None."""
    if time is None:
        return np.arange(len(epochs), dtype=np.float64)
    stamps = _seconds(_one_per_step(time, "time", len(epochs), None))
    if not np.isfinite(stamps).all():
        raise ValueError(
            f"time contains NaN or infinity, first at time step {np.argmin(np.isfinite(stamps))}; "
            "expected a finite number for every time step."
        )
    back = np.flatnonzero((np.diff(stamps) <= 0) & (np.diff(epochs) == 0))
    if len(back):
        i = back[0]
        raise ValueError(
            f"time goes from {stamps[i]:g} to {stamps[i + 1]:g} at time step {i + 1} (one of "
            f"{len(back)} such); expected it to increase within an epoch. Sort the data by time, "
            "or give each part of it an epoch of its own."
        )
    return stamps


def _seconds(stamps: np.ndarray) -> np.ndarray:
    """Numbers as they are; dates as seconds since the first, durations as seconds."""
    if stamps.dtype.kind == "O" and len(stamps) and isinstance(stamps[0], pd.Timestamp):  # dates with a time zone
        stamps = pd.to_datetime(stamps, utc=True).tz_localize(None).to_numpy()
    if stamps.dtype.kind == "M":
        stamps = stamps - stamps[0]
    if stamps.dtype.kind == "m":
        stamps = stamps / np.timedelta64(1, "s")
    return as_numbers(stamps, "time").astype(np.float64)


def time_from_labels(X: Any, epochs: np.ndarray) -> np.ndarray | None:
    """The time stamps that the rows of X are labelled with; None where their labels are not time stamps.

    A DataArray's coordinate along time is its time if it holds numbers or dates. A DataFrame's index is its time if
    it holds numbers or dates that increase within epochs, and is not the 0, 1, 2, ... that pandas makes up.

    >>> X = pd.DataFrame({"a": [5.0, 6.0]}, index=pd.to_datetime(["2030-01-01", "2030-01-02"]))
    >>> time_from_labels(X, np.zeros(2))
    array([    0., 86400.])
    """
    labels = row_labels(X)
    if labels is None or isinstance(labels, pd.MultiIndex):
        return None
    dates = pd.api.types.is_datetime64_any_dtype(labels.dtype) or pd.api.types.is_timedelta64_dtype(labels.dtype)
    if not dates and (not is_real(labels.dtype) or pd.api.types.is_bool_dtype(labels.dtype)):
        return None
    stamps = _seconds(labels.to_numpy())
    increases = (np.diff(stamps) > 0) | (np.diff(epochs) != 0)
    if isinstance(X, pd.DataFrame) and not (increases.all() and np.isfinite(stamps).all()):
        return None
    return stamps


def split_at_gaps(epochs: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Epochs numbered anew, with an edge wherever time leaps by more than ten times the median step within epochs.

    >>> split_at_gaps(np.array([0, 0, 0, 0, 1]), np.array([0.0, 1.0, 50.0, 51.0, 0.0]))
    array([0, 0, 1, 1, 2])
    """
    inside, step = np.diff(epochs) == 0, np.diff(time)
    if not inside.any():
        return epochs
    gaps = inside & (step > GAP * np.median(step[inside]))
    return epochs + np.append(0, np.cumsum(gaps))


def check_truth(truth: Any, names: list[str]) -> xr.DataArray:
    """Booleans (channel, space) of the channels of that name, in their order."""
    expected = "expected a boolean xarray.DataArray with dimensions channel and space"
    if not isinstance(truth, xr.DataArray):
        raise TypeError(f"truth is a {type(truth).__name__}; {expected}.")
    if set(truth.dims) != {"channel", "space"} or truth.dtype != bool:
        raise ValueError(f"truth is {truth.dtype} with dimensions {truth.dims}; {expected}.")
    truth = truth.transpose("channel", "space")
    if "channel" not in truth.indexes and len(truth) == len(names):
        return truth.assign_coords(channel=names)
    if [str(c) for c in truth["channel"].values] != names:
        raise ValueError(
            f"truth has {len(truth)} channels ({first_few(truth['channel'].values)}) and X has "
            f"{len(names)} ({first_few(names)}); expected the same names in the same order."
        )
    return truth


def check_units(units: Any, names: list[str], X: Any = None) -> pd.DataFrame:
    """What is known of the channels, one row each; by default what a DataArray says along its channels.

    >>> check_units({"region": ["CA1", "CA3"]}, ["a", "b"]).loc["b", "region"]
    'CA3'
    """
    index = pd.Index(names, name="channel")
    if units is None:
        along = {} if not isinstance(X, xr.DataArray) else X.coords
        named = X.dims[1] if along else None
        columns = {str(c): v.values for c, v in along.items() if v.dims == (named,) and c != named}
        return pd.DataFrame(columns, index=index)
    if isinstance(units, Mapping):
        units = pd.DataFrame(dict(units))
    if not isinstance(units, pd.DataFrame):
        raise TypeError(f"units is a {type(units).__name__}; expected a DataFrame with a row for each channel.")
    own = [str(label) for label in units.index]
    if set(names) <= set(own):
        check_unique(own, "unit")
        table = units.set_axis(own).loc[names]
    elif isinstance(units.index, pd.RangeIndex) and len(units) == len(names):
        table = units
    else:
        raise ValueError(
            f"units has {len(units)} row{plural(len(units))} ({first_few(own)}) and X has {len(names)} channels "
            f"({first_few(names)}); expected a row for each, under its name."
        )
    return table.set_axis([str(c) for c in table.columns], axis=1).set_axis(index)


def check_support(support: Any, time: np.ndarray, epochs: np.ndarray) -> np.ndarray:
    """Start and end of each epoch (epoch, 2) float64, around its time stamps."""
    values = np.array(support, dtype=np.float64)
    count = int(epochs[-1]) + 1
    if values.shape != (count, 2):
        raise ValueError(
            f"support has shape {values.shape}; expected a start and an end for each epoch: ({count}, 2)."
        )
    outside = np.flatnonzero((time < values[epochs, 0]) | (time > values[epochs, 1]))
    if len(outside):
        start, end = values[epochs[outside[0]]]
        raise ValueError(
            f"time step {outside[0]} is at {time[outside[0]]:g} and its epoch from {start:g} to {end:g}: "
            "expected support to hold the epoch's time stamps."
        )
    return values


def _one_per_step(data: Any, what: str, steps: int, labels: RowLabels | None) -> np.ndarray:
    values = as_array(match_rows(time_first(data), labels, what), what)
    if values.ndim != 1:
        raise ValueError(f"{what} has shape {values.shape}; expected one entry per time step: shape ({steps},).")
    _check_length(values, what, steps)
    return values


def _check_length(data: Any, what: str, steps: int) -> None:
    if len(data) != steps:
        raise ValueError(
            f"{what} has {len(data)} entr{'y' if len(data) == 1 else 'ies'} and X has {steps} time "
            f"step{plural(steps)}; expected the same number. X is time x channel: is it transposed?"
        )
