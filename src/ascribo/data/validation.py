"""What comes through the door, checked: anything array-like as arrays, tables, epochs and time stamps.

Large arrays are looked at a chunk at a time: a memory-mapped one passes through without being read into memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
import xarray as xr

from ..support.names import check_unique, first_few, plural
from .standardised import chunks


def as_array(data: Any, what: str) -> np.ndarray:
    """Anything array-like as a numpy array, missing values as NaN; refuses sparse and complex."""
    if scipy.sparse.issparse(data) or (torch.is_tensor(data) and data.layout != torch.strided):
        dense = "to_dense()" if torch.is_tensor(data) else "toarray()"
        raise TypeError(f"{what} is sparse ({type(data).__name__}); pass a dense array: .{dense}")
    if hasattr(data, "take_channels"):
        raise TypeError(f"{what} is a Recording already; use it as it is.")
    if torch.is_tensor(data):
        data = data.detach().cpu()
        data = data.float() if data.dtype == torch.bfloat16 else data  # numpy has no bfloat16
    elif np.ma.isMaskedArray(data):
        data = np.ma.filled(data.astype(float), np.nan)  # asarray would unmask the values
    elif isinstance(data, pd.DataFrame) and all(_is_real(dtype) for dtype in data.dtypes):
        data = data.to_numpy(dtype=float, na_value=np.nan)
    try:
        values = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"{what} cannot be made into an array: {error}") from error
    _check_not_complex(values.dtype, what)
    return values


def _is_real(dtype: Any) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)


def _numbers(values: np.ndarray, what: str) -> np.ndarray:
    """Numbers of any real type; an object array if all that is in it can be made into floats."""
    if values.dtype.kind in "biuf":
        return values
    if values.dtype.kind != "O":
        raise ValueError(f"{what} has dtype {values.dtype}; expected numbers. Convert or encode it first.")
    try:
        return values.astype(float)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{what} holds something that is not a number: {error}. Drop or encode what is not numeric first."
        ) from error


def time_first(data: Any) -> Any:
    """A DataArray says which dimension is time: bring it to the front, wherever it stands."""
    if isinstance(data, xr.DataArray) and "time" in data.dims:
        return data.transpose("time", ...)
    if isinstance(data, xr.DataArray) and data.ndim == 2 and data.dims[0] == "channel":
        return data.transpose()
    return data


def column_labels(X: Any) -> list[Any] | None:
    """The labels of the columns, where the container has them."""
    if isinstance(X, pd.DataFrame):
        return X.columns.to_list()
    if isinstance(X, xr.DataArray) and X.ndim == 2 and X.dims[1] in X.indexes:
        return X.indexes[X.dims[1]].to_list()
    return None


def matrix(X: Any) -> np.ndarray:
    """Numbers of any real type, (time, channel), neither of them none."""
    if is_pynapple(X):
        raise TypeError(
            f"X is a pynapple {type(X).__name__}; use ascribo.from_pynapple, which keeps its epochs and metadata."
        )
    values = as_array(X, "X")
    if values.ndim != 2:
        hint = " Reshape your data: X.reshape(-1, 1) for one channel, (1, -1) for one time step."
        raise ValueError(
            f"X ({type(X).__name__}) has {values.ndim} dimension{plural(values.ndim)}, shape "
            f"{values.shape}; expected 2: time x channel.{hint if values.ndim == 1 else ''}"
        )
    if values.shape[0] == 0:
        raise ValueError(f"X has no time steps: shape {values.shape}; expected at least one row.")
    if values.shape[1] == 0:
        raise ValueError(
            f"X has no channels: 0 feature(s) (shape=({values.shape[0]}, 0)) while a minimum of 1 is required."
        )
    return _numbers(values, "X")


def finite_float32(values: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Entries as float32 in C order, shared where they are that already; refused where one is not finite."""
    shared = values.dtype == np.float32 and values.flags.c_contiguous
    X = np.asarray(values) if shared else np.empty(values.shape, dtype=np.float32)
    for part in chunks(values):
        if not shared:
            with np.errstate(over="ignore"):  # said better below
                X[part] = values[part]
        if not np.isfinite(X[part]).all():
            raise ValueError(_not_finite(values, names))
    return X


def _not_finite(values: np.ndarray, names: Sequence[str]) -> str:
    """What is wrong with which channels: NaN, or else infinity, or else numbers that are too large."""
    nan, infinite, large = (np.zeros(len(names), dtype=np.int64) for _ in range(3))
    for part in chunks(values):
        with np.errstate(over="ignore"):
            nan += np.isnan(values[part]).sum(axis=0)
            infinite += np.isinf(values[part]).sum(axis=0)
            large += np.isinf(values[part].astype(np.float32)).sum(axis=0)
    if nan.any():
        counts, what, cure = nan, "NaN", "fill or drop the missing values"
    elif infinite.any():
        counts, what, cure = infinite, "infinity", "clip it, or drop the channels or time steps"
    else:
        counts, what, cure = large, "values too large for float32 (infinity beyond 3.4e38)", "rescale them"
    where = [f"{name} ({n} of {len(values)})" for name, n in zip(names, counts, strict=True) if n]
    return (
        f"X contains {what} in {len(where)} of {len(names)} channel{plural(len(names))}, in time "
        f"steps: {first_few(where)}. Before making a Recording, {cure}."
    )


def as_table(variables: Any, steps: int) -> pd.DataFrame:
    """The variables as columns with text names and rows 0, 1, 2, ..."""
    if variables is None:
        return pd.DataFrame(index=pd.RangeIndex(steps))
    if isinstance(variables, pd.DataFrame):
        columns = [variables.iloc[:, i] for i in range(variables.shape[1])]
        names = list(variables.columns)
    elif isinstance(variables, Mapping):
        columns, names = list(variables.values()), list(variables)
    else:
        columns, names = _unnamed(variables)
    names = [str(name) for name in names]
    check_unique(names, "variable")
    table = {}
    for name, column in zip(names, columns, strict=True):
        what = f"variable {name!r}"
        if not isinstance(column, pd.Series):  # whose categories an array would lose
            column = as_array(column, what)
        if column.ndim != 1:
            raise ValueError(
                f"{what} has shape {column.shape}; expected one value per time step. Pass the "
                "columns of a matrix as variables of their own."
            )
        _check_length(column, what, steps)
        column = pd.Series(column).reset_index(drop=True).infer_objects()
        _check_not_complex(column.dtype, what)
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
    numbered = [f"{name}{i}" for i in range(values.shape[1])]
    return list(values.T), column_labels(variables) or numbered


def runs(epochs: Any, steps: int) -> np.ndarray:
    """Number the contiguous runs of one label: a, a, b, a -> 0, 0, 1, 2."""
    if epochs is None:
        return np.zeros(steps, dtype=np.int64)
    labels = _one_per_step(epochs, "epochs", steps)
    # Codes rather than labels, so that missing labels in a row are one run, not one each.
    codes = pd.factorize(labels, use_na_sentinel=False)[0]
    return np.concatenate([[0], np.cumsum(codes[1:] != codes[:-1])]).astype(np.int64)


def check_time(time: Any, epochs: np.ndarray) -> np.ndarray:
    """Time stamps in float64, checked to increase within epochs; 0, 1, 2, ... by default."""
    if time is None:
        return np.arange(len(epochs), dtype=np.float64)
    stamps = _one_per_step(time, "time", len(epochs))
    if stamps.dtype.kind == "M":
        stamps = stamps - stamps[0]
    if stamps.dtype.kind == "m":
        stamps = stamps / np.timedelta64(1, "s")
    stamps = _numbers(stamps, "time").astype(np.float64)
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
            "or give each stretch of it an epoch of its own."
        )
    return stamps


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


def time_coordinate(X: Any) -> np.ndarray | None:
    """The time stamps a DataArray has along its first dimension, where they are numbers or dates."""
    if not isinstance(X, xr.DataArray) or X.dims[0] not in X.indexes:
        return None
    stamps = X[X.dims[0]].values
    return stamps if stamps.dtype.kind in "iufmM" else None


def is_pynapple(data: Any) -> bool:
    """Whether something is an object of pynapple's, told without importing it."""
    return type(data).__module__.partition(".")[0] == "pynapple"


def _one_per_step(data: Any, what: str, steps: int) -> np.ndarray:
    values = as_array(data, what)
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


def _check_not_complex(dtype: Any, what: str) -> None:
    if pd.api.types.is_complex_dtype(dtype):
        raise ValueError(
            f"Complex data not supported: {what} is {dtype}. Pass its real and imaginary parts, or "
            "its modulus and phase, as separate columns."
        )


def check_same_order(X: Any, variables: Any) -> None:
    """Rows are matched by position: the same index in another order is surely a mistake."""
    if isinstance(X, pd.DataFrame) and isinstance(variables, pd.DataFrame | pd.Series):
        ours, theirs = X.index, variables.index
        if not ours.equals(theirs) and set(ours) == set(theirs):
            raise ValueError(
                "X and variables have the same index in a different order, and rows are matched by "
                "position. Use variables.loc[X.index]."
            )
