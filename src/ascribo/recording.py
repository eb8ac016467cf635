"""Recordings: channels over time, named variables and epochs. The one door for data to come in."""

import copy
import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
import xarray as xr


class Recording:
    """Channels over time, with what was measured beside them.

    Everything is checked here, once, so that the rest of the library need not.

    Parameters
    ----------
    X : (time, channel) array, tensor, DataFrame or DataArray
        The channels. Stored as float32; float32 data in C order is shared, not copied.
    variables : DataFrame, Series, DataArray, dict of 1-D arrays, 1-D or 2-D array, optional
        One row per time step. Unnamed ones are called "y", or "y0", "y1", ... if there are
        several. Text, categories and booleans stay as they are.
    epochs : (time,) labels, optional
        Trials or sessions. Wherever the label changes between two neighbouring time steps there
        is an edge, and time steps on its two sides are not neighbours.
    time : (time,) numbers, optional
        Time stamps in any unit, strictly increasing within an epoch; datetimes become seconds
        since the first. Default: 0, 1, 2, ...
    truth : boolean DataArray (channel, space), optional
        Which channels really carry which space, where this is known.

    Attributes
    ----------
    X : (time, channel) float32 array
    channel_names : list of str
    named_channels : bool
        Whether the names came with the data, as text, rather than being made up here.
    variables : DataFrame, one column per variable; there may be none
    epochs : (time,) int64 array, counting contiguous runs of one label: 0, 0, 1, 1, 1, 2, ...
    time : (time,) float64 array
    truth : DataArray or None

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> recording = Recording(
    ...     rng.normal(size=(6, 3)), {"speed": np.arange(6)}, epochs=["a", "a", "b", "b", "b", "a"]
    ... )
    >>> recording
    Recording(6 time steps x 3 channels, variables: speed, 3 epochs)
    >>> recording.epochs
    array([0, 0, 1, 1, 1, 2])
    >>> recording[2:5].take_channels(["channel2", "channel0"])
    Recording(3 time steps x 2 channels, variables: speed, 1 epoch)
    """

    X: np.ndarray
    channel_names: list[str]
    named_channels: bool
    variables: pd.DataFrame
    epochs: np.ndarray
    time: np.ndarray
    truth: xr.DataArray | None

    def __init__(self, X, variables=None, *, epochs=None, time=None, truth=None):
        X, variables = _time_first(X), _time_first(variables)
        labels = _second_axis(X)
        values = _matrix(X)
        steps, channels = values.shape
        self.named_channels = labels is not None and all(isinstance(c, str) for c in labels)
        self.channel_names = (
            [f"channel{i}" for i in range(channels)] if labels is None else [str(c) for c in labels]
        )
        _check_unique(self.channel_names, "channel")
        self.X = _finite_float32(values, self.channel_names)
        self.variables = _table(variables, steps)
        _check_same_order(X, variables)
        self.epochs = _runs(epochs, steps)
        self.time = _stamps(time, self.epochs)
        self.truth = None if truth is None else _truth(truth, self.channel_names)

    @classmethod
    def of(cls, X, y=None) -> "Recording":
        """`X` itself if it is a Recording already, else `Recording(X, y)`."""
        if not isinstance(X, Recording):
            return cls(X, y)
        if y is not None:
            raise ValueError(
                f"y ({type(y).__name__}) was given beside a Recording, which holds its variables "
                f"({_some(X.variables) or 'none'}). Leave y out, or pass recording.X and y."
            )
        return X

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        (steps, channels), epochs = self.X.shape, int(self.epochs[-1]) + 1
        parts = [
            f"{steps} time step{_s(steps)} x {channels} channel{_s(channels)}",
            f"variables: {_some(self.variables)}" if self.variables.shape[1] else "no variables",
            f"{epochs} epoch{_s(epochs)}",
            *(["with truth"] if self.truth is not None else []),
        ]
        return f"Recording({', '.join(parts)})"

    def __getitem__(self, steps: slice) -> "Recording":
        """The time steps of a slice `a:b`, sharing memory with this recording."""
        if not isinstance(steps, slice):
            raise TypeError(
                f"a recording is indexed by a slice of time steps, recording[a:b], not by "
                f"{type(steps).__name__}; its channels are chosen with recording.take_channels()."
            )
        if steps.step not in (None, 1):
            raise ValueError(
                f"recording[{steps.start}:{steps.stop}:{steps.step}] would change which time steps "
                "are neighbours. Use a step of 1, or resample the data and make a new Recording."
            )
        part = copy.copy(self)
        part.X = self.X[steps]
        if len(part.X) == 0:
            raise ValueError(
                f"recording[{steps.start}:{steps.stop}] holds no time steps; the recording has {len(self)}."
            )
        part.variables = self.variables.iloc[steps].reset_index(drop=True)
        part.epochs = self.epochs[steps] - self.epochs[steps][0]
        part.time = self.time[steps]
        return part

    def take_channels(self, names: str | Iterable[str]) -> "Recording":
        """These channels, in this order."""
        names = [names] if isinstance(names, str) else list(names)
        if not names:
            raise ValueError("take_channels needs at least one channel name; none were given.")
        position = {name: i for i, name in enumerate(self.channel_names)}
        for name in names:
            if name not in position:
                raise ValueError(f"no channel called {name!r}{nearest(name, self.channel_names)}")
        _check_unique(names, "channel")
        chosen = [position[name] for name in names]
        part = copy.copy(self)
        part.X = np.ascontiguousarray(self.X[:, chosen])
        part.channel_names = names
        part.truth = None if self.truth is None else self.truth.isel(channel=chosen)
        return part

    def constant_channels(self) -> list[str]:
        """Names of the channels that never change."""
        constant = self.X.min(axis=0) == self.X.max(axis=0)
        return [name for name, c in zip(self.channel_names, constant, strict=True) if c]


def nearest(name: object, names: Iterable[object]) -> str:
    """What to say after "no such name": the closest of `names`, or some of them.

    >>> nearest("sped", ["speed", "position"])
    "; did you mean 'speed'?"
    >>> nearest("q", ["speed", "position"])
    '; there are: speed, position.'
    """
    known = [str(n) for n in names]
    if not known:
        return "; there are none."
    by_lower = {n.lower(): n for n in known}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else f"; there are: {_some(known)}."


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _some(names: Iterable[object], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    names = [str(n) for n in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _array(data: Any, what: str) -> np.ndarray:
    """Anything array-like as a numpy array, missing values as NaN; refuses sparse and complex."""
    if scipy.sparse.issparse(data) or (torch.is_tensor(data) and data.layout != torch.strided):
        dense = "to_dense()" if torch.is_tensor(data) else "toarray()"
        raise TypeError(f"{what} is sparse ({type(data).__name__}); pass a dense array: .{dense}")
    if isinstance(data, Recording):
        raise TypeError(f"{what} is a Recording already; use it as it is, or Recording.of(...).")
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


def _time_first(data: Any) -> Any:
    """A DataArray says which dimension is time: bring it to the front, wherever it stands."""
    if isinstance(data, xr.DataArray) and "time" in data.dims:
        return data.transpose("time", ...)
    if isinstance(data, xr.DataArray) and data.ndim == 2 and data.dims[0] == "channel":
        return data.transpose()
    return data


def _second_axis(X: Any) -> list[Any] | None:
    """The labels of the columns, where the container has them."""
    if isinstance(X, pd.DataFrame):
        return X.columns.to_list()
    if isinstance(X, xr.DataArray) and X.ndim == 2 and X.dims[1] in X.indexes:
        return X.indexes[X.dims[1]].to_list()
    return None


def _matrix(X: Any) -> np.ndarray:
    values = _array(X, "X")
    if values.ndim != 2:
        hint = " Reshape your data: X.reshape(-1, 1) for one channel, (1, -1) for one time step."
        raise ValueError(
            f"X ({type(X).__name__}) has {values.ndim} dimension{_s(values.ndim)}, shape "
            f"{values.shape}; expected 2: time x channel.{hint if values.ndim == 1 else ''}"
        )
    if values.shape[0] == 0:
        raise ValueError(f"X has no time steps: shape {values.shape}; expected at least one row.")
    if values.shape[1] == 0:
        raise ValueError(
            f"X has no channels: 0 feature(s) (shape=({values.shape[0]}, 0)) while a minimum of 1 is required."
        )
    return _numbers(values, "X")


def _finite_float32(values: np.ndarray, names: Sequence[str]) -> np.ndarray:
    with np.errstate(over="ignore"):  # said better below
        X = np.ascontiguousarray(values, dtype=np.float32)
    if np.isfinite(X).all():
        return X
    if np.isnan(X).any():
        bad, what, cure = np.isnan(X), "NaN", "fill or drop the missing values"
    elif np.isinf(values).any():
        bad, what, cure = np.isinf(X), "infinity", "clip it, or drop the channels or time steps"
    else:
        bad, what = np.isinf(X), "values too large for float32 (infinity beyond 3.4e38)"
        cure = "rescale them"
    counts = bad.sum(axis=0)
    where = [f"{name} ({n} of {len(X)})" for name, n in zip(names, counts, strict=True) if n]
    raise ValueError(
        f"X contains {what} in {len(where)} of {len(names)} channel{_s(len(names))}, in time "
        f"steps: {_some(where)}. Before making a Recording, {cure}."
    )


def _table(variables: Any, steps: int) -> pd.DataFrame:
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
    _check_unique(names, "variable")
    table = {}
    for name, column in zip(names, columns, strict=True):
        what = f"variable {name!r}"
        if not isinstance(column, pd.Series):  # whose categories an array would lose
            column = _array(column, what)
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
    values = _array(variables, "variables")
    if values.ndim == 1:
        return [values], [name]
    if values.ndim != 2:
        raise ValueError(
            f"variables has shape {values.shape}; expected one value per time step, or a matrix of time x variable."
        )
    numbered = [f"{name}{i}" for i in range(values.shape[1])]
    return list(values.T), _second_axis(variables) or numbered


def _runs(epochs: Any, steps: int) -> np.ndarray:
    """Number the contiguous runs of one label: a, a, b, a -> 0, 0, 1, 2."""
    if epochs is None:
        return np.zeros(steps, dtype=np.int64)
    labels = _one_per_step(epochs, "epochs", steps)
    # Codes rather than labels, so that missing labels in a row are one run, not one each.
    codes = pd.factorize(labels, use_na_sentinel=False)[0]
    return np.concatenate([[0], np.cumsum(codes[1:] != codes[:-1])]).astype(np.int64)


def _stamps(time: Any, epochs: np.ndarray) -> np.ndarray:
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


def _truth(truth: Any, names: list[str]) -> xr.DataArray:
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
            f"truth has {len(truth)} channels ({_some(truth['channel'].values)}) and X has "
            f"{len(names)} ({_some(names)}); expected the same names in the same order."
        )
    return truth


def _one_per_step(data: Any, what: str, steps: int) -> np.ndarray:
    values = _array(data, what)
    if values.ndim != 1:
        raise ValueError(f"{what} has shape {values.shape}; expected one entry per time step: shape ({steps},).")
    _check_length(values, what, steps)
    return values


def _check_length(data: Any, what: str, steps: int) -> None:
    if len(data) != steps:
        raise ValueError(
            f"{what} has {len(data)} entr{'y' if len(data) == 1 else 'ies'} and X has {steps} time "
            f"step{_s(steps)}; expected the same number. X is time x channel: is it transposed?"
        )


def _check_not_complex(dtype: Any, what: str) -> None:
    if pd.api.types.is_complex_dtype(dtype):
        raise ValueError(
            f"Complex data not supported: {what} is {dtype}. Pass its real and imaginary parts, or "
            "its modulus and phase, as separate columns."
        )


def _check_unique(names: Iterable[str], what: str) -> None:
    twice = [f"{name!r}" for name, n in Counter(names).items() if n > 1]
    if twice:
        raise ValueError(f"{what} names must differ; more than one is called {_some(twice)}.")


def _check_same_order(X: Any, variables: Any) -> None:
    """Rows are matched by position: the same index in another order is surely a mistake."""
    if isinstance(X, pd.DataFrame) and isinstance(variables, pd.DataFrame | pd.Series):
        ours, theirs = X.index, variables.index
        if not ours.equals(theirs) and set(ours) == set(theirs):
            raise ValueError(
                "X and variables have the same index in a different order, and rows are matched by "
                "position. Use variables.loc[X.index]."
            )
