"""Recordings: channels over time, named variables and epochs. The one door for data to come in."""

import copy
from collections.abc import Iterable

import numpy as np
import pandas as pd
import xarray as xr

from ..support.names import check_unique, first_few, plural, suggest
from .standardised import chunks
from .treatment import Treatment, find_interval, treat
from .validation import (
    as_table,
    check_same_order,
    check_support,
    check_time,
    check_truth,
    check_units,
    column_labels,
    finite_float32,
    matrix,
    runs,
    time_coordinate,
    time_first,
)

__all__ = ["Recording"]


class Recording:
    """Channels over time, with what was measured beside them.

    Everything is checked here, once, so that the rest of the library need not.

    Parameters
    ----------
    X : (time, channel) array, tensor, DataFrame or DataArray
        The channels. Stored as float32; float32 data in C order is shared, not copied, so that a memory-mapped
        file may be larger than memory. For pynapple's objects see `ascribo.from_pynapple`.
    variables : DataFrame, Series, DataArray, dict of 1-D arrays, 1-D or 2-D array, optional
        One row per time step. Unnamed ones are called "y", or "y0", "y1", ... if there are
        several. Text, categories and booleans stay as they are.
    epochs : (time,) labels, optional
        Trials or sessions. Wherever the label changes between two neighbouring time steps there
        is an edge, and time steps on its two sides are not neighbours.
    time : (time,) numbers, optional
        Time stamps in any unit, strictly increasing within an epoch; datetimes become seconds
        since the first. Default: what a DataArray X has along its time, or 0, 1, 2, ...
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
    X : (time, channel) float32 array
    channel_names : list of str
    named_channels : bool
        Whether the names came with the data, as text, rather than being made up here.
    variables : DataFrame, one column per variable; there may be none
    epochs : (time,) int64 array, counting contiguous runs of one label: 0, 0, 1, 1, 1, 2, ...
    time : (time,) float64 array
    truth : DataArray or None
    units : DataFrame indexed by channel name; it may have no columns
    treatment : Treatment or None
    support : (epoch, 2) float64 array or None

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
    units: pd.DataFrame
    treatment: Treatment | None
    support: np.ndarray | None

    def __init__(
        self,
        X,
        variables=None,
        *,
        epochs=None,
        time=None,
        truth=None,
        units=None,
        treatment=None,
        support=None,
    ):
        X, variables = time_first(X), time_first(variables)
        labels = column_labels(X)
        values = matrix(X)
        steps, channels = values.shape
        self.named_channels = labels is not None and all(isinstance(c, str) for c in labels)
        self.channel_names = (
            [f"channel{i}" for i in range(channels)] if labels is None else [str(c) for c in labels]
        )
        check_unique(self.channel_names, "channel")
        self.X = finite_float32(values, self.channel_names)
        self.variables = as_table(variables, steps)
        check_same_order(X, variables)
        self.epochs = runs(epochs, steps)
        self.time = check_time(time_coordinate(X) if time is None else time, self.epochs)
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
        if self.support is not None:
            first, stop, _ = steps.indices(len(self))
            part.support = self.support[self.epochs[first] : self.epochs[stop - 1] + 1].copy()
            if first > 0 and self.epochs[first - 1] == self.epochs[first]:  # cut midway between two steps
                part.support[0, 0] = self.time[first - 1 : first + 1].mean()
            if stop < len(self) and self.epochs[stop] == self.epochs[stop - 1]:
                part.support[-1, 1] = self.time[stop - 1 : stop + 1].mean()
        return part

    def take_channels(self, names: str | Iterable[str]) -> "Recording":
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
            part.X = np.ascontiguousarray(self.X[:, chosen])
        part.channel_names = names
        part.units = self.units.iloc[chosen]
        part.treatment = None if self.treatment is None else self.treatment.take(chosen)
        part.truth = None if self.truth is None else self.truth.isel(channel=chosen)
        return part

    def treat(self, treatment: Treatment | None = None, *, smooth=None, transform=None) -> "Recording":
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
        part.X, part.treatment = treat(rows, self.X.shape[1], self.epochs, plan, interval)
        return part

    def constant_channels(self) -> list[str]:
        """Names of the channels that never change."""
        constant = np.arange(self.X.shape[1])
        for rows in chunks(self.X):  # as a rule none is left after the first
            constant = constant[(self.X[rows, constant] == self.X[0, constant]).all(axis=0)]
            if not len(constant):
                break
        return [self.channel_names[k] for k in constant]
