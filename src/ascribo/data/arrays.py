"""Anything array-like as a numpy array, and what its container says about time and channels."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse
import torch
import xarray as xr

from ..support.names import plural
from .format_registry import find_time_series

__all__ = [
    "ArrayLike",
    "as_array",
    "as_matrix",
    "as_numbers",
    "column_labels",
    "is_default",
    "is_real",
    "refuse_complex",
    "time_first",
]

ArrayLike: TypeAlias = npt.ArrayLike | torch.Tensor | pd.DataFrame | pd.Series | pd.Index | xr.DataArray
"""What `as_array` takes: numbers in any container; nested lists, too."""


def as_array(data: Any, what: str) -> np.ndarray:
    """Anything array-like as a numpy array, missing values as NaN; refuses sparse and complex arrays.

    what : its name in messages.
    """
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
    elif isinstance(data, pd.DataFrame) and all(is_real(dtype) for dtype in data.dtypes) and not _integers(data):
        data = data.to_numpy(dtype=float, na_value=np.nan)
    try:
        values = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"{what} cannot be made into an array: {error}") from error
    refuse_complex(values.dtype, what)
    return values


def _integers(table: pd.DataFrame) -> bool:
    """Whether a table is of one type of integers, none missing: as floats large ones would be rounded."""
    kinds = set(table.dtypes)
    return len(kinds) == 1 and isinstance(kind := kinds.pop(), np.dtype) and kind.kind in "iu"


def as_numbers(values: np.ndarray, what: str) -> np.ndarray:
    """Numbers of any real type; an array of objects if all that is in it can be made into numbers."""
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


def as_matrix(X: Any) -> np.ndarray:
    """The channels as numbers of any real type: (time, channel), at least one of each."""
    if (known := find_time_series(X)) is not None:
        raise TypeError(f"X is a {known.library} {type(X).__name__}; {known.advice}")
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
    return as_numbers(values, "X")


def time_first(data: Any) -> Any:
    """A DataArray with its time dimension in front, wherever it was; anything else as it is."""
    if isinstance(data, xr.DataArray) and "time" in data.dims:
        return data.transpose("time", ...)
    if isinstance(data, xr.DataArray) and data.ndim == 2 and data.dims[0] == "channel":
        return data.transpose()
    return data


def column_labels(X: Any) -> pd.Index | None:
    """The labels of the columns of a DataFrame or DataArray; None for anything without labels."""
    if isinstance(X, pd.DataFrame):
        return X.columns
    if isinstance(X, xr.DataArray) and X.ndim == 2:
        return X.indexes.get(X.dims[1])
    return None


def is_default(labels: pd.Index) -> bool:
    """Whether labels are those that pandas makes up: 0, 1, 2, ...

    >>> is_default(pd.RangeIndex(3)), is_default(pd.Index([0, 2, 1])), is_default(pd.Index(["a"]))
    (True, False, False)
    """
    return labels.equals(pd.RangeIndex(len(labels)))


def is_real(dtype: Any) -> bool:
    """Whether a type of numpy's or pandas' is one of real numbers."""
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)


def refuse_complex(dtype: Any, what: str) -> None:
    """Complex numbers are refused: their two parts are two channels, or two variables."""
    if pd.api.types.is_complex_dtype(dtype):
        raise ValueError(
            f"Complex data not supported: {what} is {dtype}. Pass its real and imaginary parts, or "
            "its modulus and phase, as separate columns."
        )
