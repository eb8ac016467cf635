"""Variables sampled at times of their own, put on the time stamps of a recording: within epochs, not over gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..support.circle import wrap
from ..support.names import check_unique, suggest
from .arrays import ArrayLike, column_labels
from .format_registry import find_time_series
from .validation import number_epochs

__all__ = ["HOW", "MAX_GAP", "align_variables", "is_sampled"]

HOW = ("linear", "nearest", "previous", "count")
MAX_GAP = 1.0
"""Seconds between two samples beyond which nothing is known of what lies between them."""

SLACK = 1e-6
"""Share of a time step by which rounding may move an edge."""


def align_variables(
    variables: Mapping[str, Any] | pd.DataFrame | Any,
    time: ArrayLike,
    epochs: ArrayLike | None = None,
    *,
    support: ArrayLike | None = None,
    how: Mapping[str, str] | None = None,
    period: Mapping[str, float] | None = None,
    max_gap: float | Mapping[str, float] = MAX_GAP,
) -> pd.DataFrame:
    """Variables with time stamps of their own, such as behaviour on video, at the time stamps of a recording.

    Nothing crosses an epoch's edge: a time step takes its value from samples of its own epoch. Samples that are
    missing (NaN, None) are passed over, as if they had not been taken.

    Parameters
    ----------
    variables : dict name -> samples
        A pair (time stamps, values), a Series indexed by time, a DataArray with a time coordinate, or a pynapple
        Tsd or Ts. The k columns of a matrix become name0, name1, ..., or keep names of their own. A pynapple
        TsdFrame or a DataFrame indexed by time instead of the dict is a variable for each column. Events, such as
        licks, are time stamps without values: a Ts, or (time stamps, None).
    time : (time,) the recording's time stamps, in the same unit and counted from the same moment.
    epochs : (time,) the label of each time step's epoch.
    support : (epoch, 2) start and end of each epoch. Default: half a time step around its time stamps; before the
        first epoch and after the last without end.
    how : name -> how
        "linear" interpolates, "nearest" takes the nearer sample, "previous" the last one, "count" counts events
        nearer to this time step than to any other. Default: "linear" for floats, "nearest" for integers, "previous"
        for text, categories and booleans, "count" for events.
    period : name -> period
        Circular variables, such as headings (2π or 360): interpolated the short way round. They come back from
        0 to the period, or from minus half of it to half if they have negative values.
    max_gap : seconds, for all or by name
        Between two samples further apart than this a variable is missing (NaN), except at the samples themselves.
        Before an epoch's first sample and after its last it is missing further away than half of this. With
        "previous" a value holds until the next sample, unless `max_gap` has a limit under the variable's own name.

    Returns
    -------
    DataFrame with a row for each time step and a column for each variable.

    Examples
    --------
    >>> heading, choice = ([0.0, 1.0], [350.0, 10.0]), ([0.2, 0.7], ["left", "right"])
    >>> licks = ([0.3, 0.45, 0.5], None)
    >>> given = {"heading": heading, "choice": choice, "licks": licks}
    >>> align_variables(given, [0.25, 0.5, 0.75], period={"heading": 360})
       heading choice  licks
    0    355.0   left      1
    1      0.0   left      2
    2      5.0  right      0
    """
    steps = _Steps.make(time, epochs, support)
    how, period = dict(how or {}), dict(period or {})
    limits = dict(max_gap) if isinstance(max_gap, Mapping) else {}
    limit = MAX_GAP if isinstance(max_gap, Mapping) else max_gap
    for name, value in [("max_gap", limit), *((f"max_gap[{n!r}]", v) for n, v in limits.items())]:
        if not isinstance(value, int | float | np.number) or not value > 0:
            raise ValueError(f"{name}={value!r}: expected a positive number of seconds; numpy.inf for no limit.")
    samples = list(_samples(variables))
    names = [name for name, _, _ in samples]
    check_unique(names, "variable")
    for name, turn in period.items():
        if isinstance(turn, bool) or not isinstance(turn, int | float | np.number) or not 0 < turn < np.inf:
            raise ValueError(f"period[{name!r}]={turn!r}: expected the full turn, a positive number.")
    for what, given in {"how": how, "period": period, "max_gap": limits}.items():
        for name in given:
            if name not in names:
                raise ValueError(f"{what}: no variable called {name!r}{suggest(name, names)}")
    columns = {}
    for name, stamps, values in samples:
        kind = how.get(name) or _default_how(values, name in period)
        if kind not in HOW:
            raise ValueError(f"how[{name!r}]={kind!r}: expected one of {', '.join(HOW)}.")
        if name in period and kind != "linear":
            raise ValueError(f"variable {name!r} has a period, but is taken by {kind!r}: expected 'linear'.")
        own = limits.get(name, np.inf if kind == "previous" else limit)
        columns[name] = _align(name, stamps, values, steps, kind, period.get(name), own)
    return pd.DataFrame(columns, index=pd.RangeIndex(len(steps.time)))


def is_sampled(variable: Any) -> bool:
    """Whether a variable has time stamps of its own: a pair (stamps, values), or an object such as pynapple's."""
    pair = isinstance(variable, tuple) and len(variable) == 2
    return pair or find_time_series(variable) is not None


@dataclass(frozen=True)
class _Steps:
    """The recording's time steps: their stamps, epochs, bounds (epoch, 2), and half the interval between them."""

    time: np.ndarray
    epochs: np.ndarray
    support: np.ndarray
    half: float

    @classmethod
    def make(cls, time: Any, epochs: Any, support: Any) -> _Steps:
        time = np.asarray(time, dtype=np.float64)
        numbers = number_epochs(epochs, len(time))
        back = np.flatnonzero(np.diff(time) < 0)
        if len(back):
            raise ValueError(
                f"time goes back at time step {back[0] + 1}: samples cannot be told apart by their time stamps. "
                "Align the epochs one by one."
            )
        within = np.diff(time)[np.diff(numbers) == 0]
        half = float(np.median(within)) / 2 if len(within) else 0.0 if support is None else np.inf
        if support is not None:
            return cls(time, numbers, np.asarray(support, dtype=np.float64), half)
        first = np.flatnonzero(np.diff(numbers, prepend=-1))
        last = np.append(first[1:], len(time)) - 1
        middle = (time[last[:-1]] + time[first[1:]]) / 2  # of the gap between two epochs
        # before the first epoch and after the last there is no other that a sample could belong to
        starts = np.append(-np.inf, np.maximum(time[first[1:]] - half, middle))
        ends = np.append(np.minimum(time[last[:-1]] + half, middle), np.inf)
        return cls(time, numbers, np.stack([starts, ends], 1), half)

    def find_epoch(self, stamps: np.ndarray) -> np.ndarray:
        """The epoch that each time stamp lies in, -1 for none; an edge between two belongs to the later."""
        starts, ends = self.support.T
        epoch = np.searchsorted(starts, stamps, "right") - 1
        return np.where((epoch >= 0) & (stamps <= ends[epoch]), epoch, -1)

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Where each time step's share of time begins and ends: midway to its neighbours in the epoch."""
        middle = (self.time[1:] + self.time[:-1]) / 2
        same = np.diff(self.epochs) == 0
        starts, ends = self.support[self.epochs].T
        left = np.append(starts[0], np.where(same, middle, starts[1:]))
        right = np.append(np.where(same, middle, ends[:-1]), ends[-1])
        # at an epoch's edge a time step reaches as far out as in, and not out of the epoch
        opens, closes = ~np.append(False, same), ~np.append(same, False)
        ahead = np.where(closes, self.half, right - self.time) * (1 + SLACK)
        behind = np.where(opens, self.half, self.time - left) * (1 + SLACK)
        left = np.where(opens, np.maximum(left, self.time - ahead), left)
        right = np.where(closes, np.minimum(right, self.time + behind), right)
        return left, right


def _samples(variables: Any) -> Iterator[tuple[str, np.ndarray, Any]]:
    """(name, time stamps, values or None) of every variable."""
    if find_time_series(variables) is not None or isinstance(variables, pd.DataFrame):
        variables = {"y": variables}
    if not isinstance(variables, Mapping):
        raise TypeError(
            f"variables is a {type(variables).__name__}; expected a dict of name -> samples, a TsdFrame, or a "
            "DataFrame indexed by time."
        )
    for name, given in variables.items():
        stamps, values, labels = _stamped(str(name), given)
        if values is None or values.ndim == 1:
            yield str(name), stamps, values
        elif values.ndim == 2:
            named = labels is not None and all(isinstance(label, str) for label in labels)
            for k in range(values.shape[1]):
                column = values.iloc[:, k] if isinstance(values, pd.DataFrame) else values[:, k]
                yield labels[k] if named and labels else f"{name}{k}", stamps, column
        else:
            raise ValueError(f"variable {name!r} has shape {values.shape}; expected samples, or samples x columns.")


def _stamped(name: str, given: Any) -> tuple[np.ndarray, Any, Sequence[Any] | None]:
    """Time stamps, values and the names of columns of one variable, in order of time."""
    values, labels = None, None
    if (known := find_time_series(given)) is not None:
        try:
            stamps, values, labels = known.samples(given)
        except TypeError as error:
            raise TypeError(f"variable {name!r}: {error}") from error
    elif isinstance(given, pd.Series | pd.DataFrame):
        stamps, values = given.index, given
        labels = list(given.columns) if isinstance(given, pd.DataFrame) else None
    elif isinstance(given, xr.DataArray) and "time" in given.coords:
        given = given.transpose("time", ...)
        own = column_labels(given)
        stamps, values, labels = given["time"].values, given.values, None if own is None else own.to_list()
    elif isinstance(given, tuple) and len(given) == 2:
        stamps, values = given
    else:
        raise TypeError(
            f"variable {name!r} is a {type(given).__name__} without time stamps; expected a pair (time stamps, "
            "values), a Series indexed by time, a DataArray with a time coordinate, or a pynapple Tsd."
        )
    stamps = np.asarray(stamps)
    if stamps.ndim != 1 or stamps.dtype.kind not in "iuf" or not np.isfinite(stamps).all():
        raise ValueError(
            f"variable {name!r}: its time stamps are {stamps.dtype} of shape {stamps.shape}; expected a finite "
            "number of seconds for each sample."
        )
    if values is not None and not isinstance(values, pd.Series | pd.DataFrame):
        values = np.asarray(values)
    if values is not None and len(values) != len(stamps):
        raise ValueError(f"variable {name!r} has {len(values)} values and {len(stamps)} time stamps.")
    order = slice(None) if (np.diff(stamps) >= 0).all() else np.argsort(stamps, kind="stable")
    if values is not None:
        values = values.iloc[order] if isinstance(values, pd.Series | pd.DataFrame) else values[order]
    return stamps[order].astype(np.float64), values, labels


def _default_how(values: Any, circular: bool) -> str:
    if values is None:
        return "count"
    if circular or pd.api.types.is_float_dtype(values.dtype):
        return "linear"
    plain = pd.api.types.is_integer_dtype(values.dtype) and not pd.api.types.is_bool_dtype(values.dtype)
    return "nearest" if plain else "previous"


def _align(
    name: str,
    stamps: np.ndarray,
    values: Any,
    steps: _Steps,
    how: str,
    period: float | None,
    limit: float,
) -> pd.Series:
    """One variable at all time steps."""
    if how == "count":
        return pd.Series(_count_events(stamps if values is None else stamps[_are_events(values)], steps))
    if values is None:
        raise ValueError(f"variable {name!r} is events, time stamps without values: how={how!r} needs values.")
    column = pd.Series(values).reset_index(drop=True)
    epoch = steps.find_epoch(stamps)
    known = (column.notna() & (epoch >= 0)).to_numpy()
    stamps, column, epoch = stamps[known], column.loc[known].reset_index(drop=True), epoch[known]
    if not len(stamps):
        return pd.Series(column.reindex(np.full(len(steps.time), -1)).to_numpy())
    left = np.searchsorted(stamps, steps.time, "right") - 1
    right = left + 1
    before = (left >= 0) & (epoch[left] == steps.epochs)
    after = right < len(stamps)
    right = np.minimum(right, len(stamps) - 1)
    after &= epoch[right] == steps.epochs
    since, until = steps.time - stamps[left], stamps[right] - steps.time
    if how == "previous":
        return column.reindex(np.where(before & (since <= limit), left, -1)).reset_index(drop=True)
    both = before & after
    # the sum, not its parts: a gap of the limit itself is allowed whatever the rounding
    sound = both & (stamps[right] - stamps[left] <= limit)
    sound |= (before & ~after & (since <= limit / 2)) | (after & ~before & (until <= limit / 2))
    sound |= before & (since == 0)
    if how == "nearest":
        chosen = np.where(before & (~after | (since <= until)), left, right)
        return column.reindex(np.where(sound, chosen, -1)).reset_index(drop=True)
    try:
        numbers = column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"variable {name!r} is {column.dtype}: how='linear' needs numbers; use 'previous' or 'nearest'."
        ) from error
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(both & (since > 0), since / (since + until), 0.0)
    low, high = numbers[np.where(before, left, right)], numbers[np.where(after, right, left)]
    ahead = high - low
    if period is not None:
        ahead = wrap(ahead, period, -period / 2)
    out = low + share * ahead
    if period is not None:
        out = wrap(out, period, -period / 2 if numbers.min() < 0 else 0.0)
    return pd.Series(np.where(sound, out, np.nan))


def _are_events(values: Any) -> np.ndarray:
    """Which samples of a series are events: those that are neither missing nor zero."""
    column = pd.Series(np.asarray(values))
    return (column.notna() & (column != 0)).to_numpy()


def _count_events(stamps: np.ndarray, steps: _Steps) -> np.ndarray:
    """Events in each time step's share of its epoch: (time,) int64."""
    epoch = steps.find_epoch(stamps)
    stamps, epoch = stamps[epoch >= 0], epoch[epoch >= 0]
    start, stop = steps.edges()
    ends = np.append(np.diff(steps.epochs) != 0, True)
    first = np.searchsorted(stamps, start)
    last = np.where(ends, np.searchsorted(stamps, stop, "right"), np.searchsorted(stamps, stop))
    # an event on the edge between two epochs belongs to the later
    low, high = np.searchsorted(epoch, steps.epochs), np.searchsorted(epoch, steps.epochs, "right")
    return np.maximum(np.minimum(last, high) - np.maximum(first, low), 0)
