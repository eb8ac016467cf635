"""The way back out: an embedding in the container that its recording came in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..recording import Recording
from ..validation import is_pynapple, time_first

__all__ = ["in_kind"]


def in_kind(
    values: np.ndarray, X: Any, recording: Recording, names: Sequence[str], spaces: Sequence[str]
) -> np.ndarray | pd.DataFrame | xr.DataArray | Any:
    """An embedding (time, dim) as the type of X, which `recording` was made from.

    A DataFrame keeps its index, a DataArray what it has along time, pynapple's objects give a TsdFrame with their
    time support; anything else, a Recording too, an array. names, spaces : of the dimensions.

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
    if is_pynapple(X):
        from .pynapple import frame

        return frame(values, recording.time, X.time_support, list(names), {"space": list(spaces)})
    return values
