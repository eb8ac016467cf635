"""Containers in and out: anything that may be a recording as one, and embeddings in the container of the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..support.names import first_few
from .arrays import time_first
from .format_registry import find_time_series
from .preprocessing import Treatment
from .recording import Recording

__all__ = ["as_recording", "in_kind"]


def as_recording(X: Any, y: Any = None, *, treatment: Treatment | None = None) -> Recording:
    """`X` itself if it is a Recording already, else a recording of channels X with variables y.

    X : Recording, array, tensor, DataFrame, DataArray, or an object with time stamps such as pynapple's.
    treatment : what is done to X if it is an object with time stamps. Anything else is taken as it is.

    >>> as_recording([[1.0], [2.0]])
    Recording(2 time steps x 1 channel, no variables, 1 epoch)
    """
    if (known := find_time_series(X)) is not None:
        return known.to_recording(X, y, treatment)
    if not isinstance(X, Recording):
        return Recording(X, y)
    if y is not None:
        raise ValueError(
            f"y ({type(y).__name__}) was given beside a Recording, which holds its variables "
            f"({first_few(X.variables) or 'none'}). Leave y out, or pass recording.X and y."
        )
    return X


def in_kind(
    values: np.ndarray, X: Any, recording: Recording, names: Sequence[str], spaces: Sequence[str]
) -> np.ndarray | pd.DataFrame | xr.DataArray | Any:
    """An embedding (time, dim) in the container of X, which `recording` was made from.

    A DataFrame keeps its index, a DataArray what it has along time, pynapple's objects give a TsdFrame with their
    time support; anything else, a Recording too, gives an array. names, spaces : of the dimensions.

    >>> X = pd.DataFrame(np.eye(3), index=["a", "b", "c"])
    >>> in_kind(np.ones((3, 1)), X, Recording(X), ["rest0"], ["rest"]).loc["b"].to_dict()
    {'rest0': 1.0}
    """
    if isinstance(X, pd.DataFrame):
        return pd.DataFrame(values, index=X.index, columns=list(names))
    if isinstance(X, xr.DataArray):
        along = time_first(X).dims[0]
        coords: dict[Any, Any] = {name: c for name, c in X.coords.items() if c.dims == (along,)}
        coords |= {"dimension": list(names), "space": ("dimension", list(spaces))}
        return xr.DataArray(values, dims=(along, "dimension"), coords=coords, name="embedding")
    if (known := find_time_series(X)) is not None:
        return known.from_embedding(values, X, recording, names, spaces)
    return values
