"""Recordings: channels over time, named variables and epochs. Everything that is analysed comes in as one."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import ClassVar, Self

import numpy as np
import pandas as pd
import xarray as xr

from ..support.html_tables import html_table
from ..support.memory import require_memory
from ..support.names import check_unique, first_few, plural, suggest
from .arrays import ArrayLike, as_matrix, column_labels, is_default, time_first
from .float_precision import as_stored
from .preprocessing import Treatment, find_interval, treat
from .row_labels import find_labels, match_rows
from .standardised_channels import time_chunks
from .validation import (
    as_table,
    check_support,
    check_time,
    check_truth,
    check_units,
    number_epochs,
    split_at_gaps,
    time_from_labels,
)

__all__ = ["Recording"]


class Recording:
    """Channels over time, with what was measured beside them.

    Everything is checked here, once, so that the rest of the library need not. Rows of the variables, epochs and
    time stamps belong to rows of X by their labels, where both sides have labels (a DataFrame's or Series' index
    other than 0, 1, 2, ..., a DataArray's coordinate along time; `time` for an X without labels), and by their
    position otherwise. Two integer indexes are compared even if one is 0, 1, 2, ...

    Parameters
    ----------
    X : (time, channel) array, tensor, DataFrame or DataArray
        The channels. Stored as float32, or as float64 where float32 would lose their changes (a channel whose mean
        is over 1,000 standard deviations from zero, integers beyond 2**24). Data that have this type already, in C
        order, are shared, not copied, so that a memory-mapped file may be larger than memory. For pynapple's
        objects see `ascribo.from_pynapple`.
    variables : DataFrame, Series, DataArray, dict of 1-D arrays, 1-D or 2-D array, optional
        One row per time step. Unnamed ones are called "y", or "y0", "y1", ... if there are
        several. Text, categories and booleans stay as they are.
    epochs : (time,) labels, optional
        Trials or sessions. Wherever the label changes between two neighbouring time steps there
        is an edge, and time steps on its two sides are not neighbours.
    time : (time,) numbers, optional
        Time stamps in any unit, strictly increasing within an epoch; datetimes become seconds since the first.
        Default: what a DataArray X has along its time; a DataFrame's index, if it holds numbers or dates that
        increase and is not just 0, 1, 2, ...; or else 0, 1, 2, ... A step of more than ten times the median step is
        a gap: there is an edge, as between two epochs (unless `support` says where the epochs are).
    truth : boolean DataArray (channel, space), optional
        Which channels really carry which space, where this is known.
    units : DataFrame or dict, optional
        What is known of the channels, such as their brain region: a row for each. Default: the coordinates a
        DataArray X has along its channels.
    treatment : Treatment, optional
        How X was made from what was measured: see `treat`. None: not known.
    support : (epoch, 2) array, optional
        Start and end of each epoch, in the unit of time, where they are known.

    Attributes
    ----------
    X : (time, channel) float32 or float64 array
    channel_names : list of str
    named_channels : bool
        Whether the names came with the data: labels of columns, text or not, other than 0, 1, 2, ... Data with
        named channels must have the same names in the same order to be compared with each other.
    labelled_channels : bool
        Whether X is a table whose columns have labels: those of named channels, or 0, 1, 2, ...
    variables : DataFrame, one column per variable; there may be none
    epochs : (time,) int64 array: 0, 0, 1, 1, 1, 2, ...
        Counts the contiguous runs of one label; a gap in time starts a new one.
    time : (time,) float64 array
    truth : DataArray or None
    units : DataFrame indexed by channel name; it may have no columns
    treatment : Treatment or None
    support : (epoch, 2) float64 array or None

    A subclass with attributes of its own that have an entry for each time step, or for each channel, names them in
    `along_time` and `along_channels`: slices and choices of channels then take them along.

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

    along_time: ClassVar[tuple[str, ...]] = ()
    """Attributes of a subclass that are arrays with time as their first axis."""
    along_channels: ClassVar[tuple[str, ...]] = ()
    """Attributes of a subclass that are arrays with the channels as their last axis, DataArrays with a dimension
    "channel", or dicts with the channels' names as keys."""

    X: np.ndarray
    channel_names: list[str]
    named_channels: bool
    labelled_channels: bool
    variables: pd.DataFrame
    epochs: np.ndarray
    time: np.ndarray
    truth: xr.DataArray | None
    units: pd.DataFrame
    treatment: Treatment | None
    support: np.ndarray | None

    def __init__(
        self,
        X: ArrayLike,
        variables: ArrayLike | Mapping | None = None,
        *,
        epochs: ArrayLike | None = None,
        time: ArrayLike | None = None,
        truth: xr.DataArray | None = None,
        units: pd.DataFrame | Mapping | None = None,
        treatment: Treatment | None = None,
        support: ArrayLike | None = None,
    ):
        X = time_first(X)
        values, columns = as_matrix(X), column_labels(X)
        steps, channels = values.shape
        self.labelled_channels = columns is not None
        self.named_channels = columns is not None and not is_default(columns)
        self.channel_names = [f"channel{i}" for i in range(channels)] if columns is None else [*map(str, columns)]
        check_unique(self.channel_names, "channel")
        self.X = as_stored(values, self.channel_names)
        time = None if time is None else match_rows(time_first(time), find_labels(X), "time")
        rows = find_labels(X, time)
        self.variables = as_table(variables, steps, rows)
        self.epochs = number_epochs(epochs, steps, rows)
        self.time = check_time(time_from_labels(X, self.epochs) if time is None else time, self.epochs)
        if support is None:
            self.epochs = split_at_gaps(self.epochs, self.time)
        self.truth = None if truth is None else check_truth(truth, self.channel_names)
        self.units = check_units(units, self.channel_names, X)
        if treatment is not None and not isinstance(treatment, Treatment):
            raise TypeError(f"treatment is a {type(treatment).__name__}; expected an ascribo.Treatment or None.")
        self.treatment = treatment
        self.support = None if support is None else check_support(support, self.time, self.epochs)

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        (steps, channels), epochs = self.X.shape, int(self.epochs[-1]) + 1
        parts = [
            f"{steps} time step{plural(steps)} x {channels} channel{plural(channels)}",
            f"variables: {first_few(self.variables)}" if self.variables.shape[1] else "no variables",
            f"{epochs} epoch{plural(epochs)}",
            *(["with truth"] if self.truth is not None else []),
        ]
        return f"Recording({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """In a notebook: what it holds, a row for each variable."""
        rows = []
        for name, column in self.variables.items():
            number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
            what = f"{column.min():.3g} to {column.max():.3g}" if number else f"{column.nunique()} labels"
            rows.append([name, what, int(column.isna().sum())])
        below = f"channels: {first_few(self.channel_names)}"
        return html_table(repr(self), ["variable", "values", "missing"], rows, below)

    def __getitem__(self, index: slice) -> Self:
        """The time steps of a slice `a:b`, sharing memory with this recording."""
        if not isinstance(index, slice):
            raise TypeError(
                f"a recording is indexed by a slice of time steps, recording[a:b], not by "
                f"{type(index).__name__}; its channels are chosen with recording.take_channels()."
            )
        if index.step not in (None, 1):
            raise ValueError(
                f"recording[{index.start}:{index.stop}:{index.step}] would change which time steps "
                "are neighbours. Use a step of 1, or resample the data and make a new Recording."
            )
        part = copy.copy(self)
        part.X = self.X[index]
        if len(part.X) == 0:
            raise ValueError(
                f"recording[{index.start}:{index.stop}] holds no time steps; the recording has {len(self)}."
            )
        part.variables = self.variables.iloc[index].reset_index(drop=True)
        part.epochs = self.epochs[index] - self.epochs[index][0]
        part.time = self.time[index]
        if self.support is not None:
            first, stop, _ = index.indices(len(self))
            part.support = self.support[self.epochs[first] : self.epochs[stop - 1] + 1].copy()
            if first > 0 and self.epochs[first - 1] == self.epochs[first]:  # cut midway between two steps
                part.support[0, 0] = self.time[first - 1 : first + 1].mean()
            if stop < len(self) and self.epochs[stop] == self.epochs[stop - 1]:
                part.support[-1, 1] = self.time[stop - 1 : stop + 1].mean()
        for name in self.along_time:
            setattr(part, name, getattr(self, name)[index])
        return part

    def take_channels(self, names: str | Iterable[str]) -> Self:
        """These channels, in this order."""
        names = [names] if isinstance(names, str) else list(names)
        if not names:
            raise ValueError("take_channels needs at least one channel name; none were given.")
        position = {name: i for i, name in enumerate(self.channel_names)}
        for name in names:
            if name not in position:
                raise ValueError(f"no channel called {name!r}{suggest(name, self.channel_names)}")
        check_unique(names, "channel")
        chosen = [position[name] for name in names]
        part = copy.copy(self)
        if names != self.channel_names:
            size = self.X.dtype.itemsize * len(self) * len(chosen)
            require_memory(size, f"a copy of {len(chosen):,} of the channels", "write them to a file of their own")
            part.X = np.ascontiguousarray(self.X[:, chosen])
        part.channel_names = names
        part.units = self.units.iloc[chosen]
        part.treatment = None if self.treatment is None else self.treatment.take(chosen)
        part.truth = None if self.truth is None else self.truth.isel(channel=chosen)
        for name in self.along_channels:
            held = getattr(self, name)
            if isinstance(held, xr.DataArray):
                taken = held.isel(channel=chosen)
            else:
                taken = {own: held[own] for own in names} if isinstance(held, Mapping) else held[..., chosen]
            setattr(part, name, taken)
        return part

    def treat(
        self, treatment: Treatment | None = None, *, smooth: float | None = None, transform: str | None = None
    ) -> Self:
        """The recording with its channels smoothed within epochs, their square root or z-score taken.

        Pass either a treatment, such as that of a fitted model, or what it should do: see `ascribo.Treatment`.
        Time must be in seconds. Bins cannot be changed any more: a treatment with a bin size is for a recording
        in bins of that size.

        >>> recording = Recording([[0.0], [4.0], [9.0]], time=[0.0, 0.1, 0.2]).treat(transform="sqrt")
        >>> recording.X.ravel(), str(recording.treatment)
        (array([0., 2., 3.], dtype=float32), 'square root')
        """
        if treatment is not None and (smooth is not None or transform is not None):
            raise ValueError("pass either a treatment or smooth and transform, not both.")
        plan = Treatment(smooth=smooth, transform=transform) if treatment is None else treatment
        if self.treatment not in (None, Treatment()):
            raise ValueError(f"the recording is treated already: {self.treatment}. Treat what it was made from.")
        interval = None
        if plan.bin_size is not None or plan.smooth is not None:
            interval = find_interval(self.time, self.epochs)
        if interval and plan.bin_size and not np.isclose(interval, plan.bin_size, rtol=1e-3):
            raise ValueError(
                f"the treatment has bins of {plan.bin_size:g} s and the recording time steps of {interval:g} s: "
                "make a recording with bins of that size."
            )
        part = copy.copy(self)
        rows = lambda a, b: self.X[a:b]  # noqa: E731
        part.X, part.treatment = treat(rows, self.X.shape[1], self.epochs, plan, interval, dtype=self.X.dtype)
        return part

    def constant_channels(self) -> list[str]:
        """Names of the channels that never change.

        >>> Recording([[0.0, 1.0], [0.0, 2.0]]).constant_channels()
        ['channel0']
        """
        constant = np.arange(self.X.shape[1])
        for rows in time_chunks(self.X):  # as a rule none is left after the first
            constant = constant[(self.X[rows, constant] == self.X[0, constant]).all(axis=0)]
            if not len(constant):
                break
        return [self.channel_names[k] for k in constant]
