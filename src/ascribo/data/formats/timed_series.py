"""Recordings from events and from samples within intervals of time: what all formats with time stamps use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..binning import average_samples, count_events, make_bins
from ..float_precision import needs_float64
from ..preprocessing import Treatment, find_interval, treat
from ..recording import Recording
from ..variables import MAX_GAP, align_variables, is_sampled

__all__ = ["choose_treatment", "events_recording", "samples_recording"]


def choose_treatment(treatment: Treatment | None, **settings: Any) -> Treatment:
    """The treatment given, or that of the settings; never both."""
    if treatment is None:
        return Treatment(**settings)
    given = [name for name, value in settings.items() if value is not None]
    if given:
        raise ValueError(f"pass either a treatment or {' and '.join(given)}: the treatment is {treatment}.")
    return treatment


def events_recording(
    times: Sequence[np.ndarray],
    names: Sequence[object],
    intervals: np.ndarray,
    treatment: Treatment,
    *,
    variables: Any = None,
    units: pd.DataFrame | None = None,
    how: Mapping[str, str] | None = None,
    period: Mapping[str, float] | None = None,
    max_gap: float | Mapping[str, float] = MAX_GAP,
) -> Recording:
    """Events of units, such as their spikes, counted in bins.

    times : sorted time stamps in seconds of each unit. intervals : (epoch, 2), see `ascribo.data.binning`.
    """
    if treatment.bin_size is None:
        raise ValueError("spike times are counted in bins: pass their size in seconds, such as bin_size=0.1.")
    if treatment.counts_events is False:
        raise ValueError(f"the treatment ({treatment}) averages samples, and these are events: pass sampled data.")
    bins = make_bins(intervals, treatment.bin_size, len(times))
    plan = replace(treatment, counts_events=True)
    X, plan = treat(count_events(times, bins), len(times), bins.interval, plan, plan.bin_size)
    present = np.unique(bins.interval)  # an interval shorter than a bin has none
    about = (names, bins.centre, bins.interval, intervals[present], plan, units, variables)
    return _recording(X, *about, how=how, period=period, max_gap=max_gap)


def samples_recording(
    values: Any,
    time: np.ndarray,
    names: Sequence[object] | None,
    intervals: np.ndarray,
    treatment: Treatment,
    *,
    variables: Any = None,
    units: pd.DataFrame | None = None,
    how: Mapping[str, str] | None = None,
    period: Mapping[str, float] | None = None,
    max_gap: float | Mapping[str, float] = MAX_GAP,
) -> Recording:
    """Samples (time, channel) within intervals, averaged in bins if there is a bin size.

    values : an array, or something that reads like one in slices, such as a file's data set. float32 arrays that
    are used as they are are shared, not copied. A `source_dtype` tells what the numbers were measured in, where
    that is not the type they are read in.
    """
    if treatment.counts_events:
        raise ValueError(
            f"the treatment ({treatment}) counts events, and these are samples: pass the spike times. Counts that "
            "are in bins already go in as an array: ascribo.Recording(counts, time=...)."
        )
    time = np.asarray(time, dtype=np.float64)
    back = np.flatnonzero(~(np.diff(time) >= 0))  # NaN too
    if len(back):
        raise ValueError(
            f"time goes from {time[back[0]]:g} to {time[back[0] + 1]:g} s at sample {back[0] + 1}; expected them "
            "in order of time. Sort them, or read the parts one by one."
        )
    owner = np.searchsorted(intervals[:, 0], time, "right") - 1
    inside = np.flatnonzero((owner >= 0) & (time <= intervals[owner, 1]))
    if not len(inside):
        raise ValueError(
            f"no sample lies within the epochs: samples run from {time[0]:g} to {time[-1]:g} s, epochs from "
            f"{intervals[0, 0]:g} to {intervals[-1, 1]:g} s."
            if len(time)
            else "there are no samples."
        )
    if (size := treatment.bin_size) is not None:
        sampling = float(np.median(np.diff(time))) if len(time) > 1 else 0.0
        if size < 0.999 * sampling:
            raise ValueError(f"bin_size={size:g} s is shorter than the interval between samples, {sampling:g} s.")
        rows, bins = average_samples(values, time, make_bins(intervals, size, int(values.shape[1])))
        treatment = replace(treatment, counts_events=False)
        # where no sample falls there is no bin, and the steps before and after are not neighbours
        apart = np.diff(bins.interval, prepend=-1) != 0
        apart[1:] |= bins.start[1:] - bins.stop[:-1] > size / 2
        epochs = np.cumsum(apart) - 1
        first = np.flatnonzero(apart)
        last = np.append(first[1:], len(bins)) - 1
        support = intervals[bins.interval[first]].copy()
        cut = np.diff(bins.interval[first]) == 0
        support[1:][cut, 0], support[:-1][cut, 1] = bins.start[first[1:]][cut], bins.stop[last[:-1]][cut]
        stamps, interval = bins.centre, size
    else:
        stamps, epochs = time[inside], owner[inside]
        support = intervals[np.unique(epochs)]
        interval = None if treatment.smooth is None else find_interval(stamps, epochs)
        rows = lambda a, b: _take_rows(values, inside[a:b])  # noqa: E731
    if treatment == Treatment() and len(inside) == len(time) and isinstance(values, np.ndarray):
        X = values
    else:
        source = np.dtype(getattr(values, "source_dtype", None) or values.dtype)
        double = needs_float64(rows, (len(epochs), int(values.shape[1])), source)
        dtype = np.float64 if double else np.float32
        X, treatment = treat(rows, int(values.shape[1]), epochs, treatment, interval, dtype=dtype)
    options = {"how": how, "period": period, "max_gap": max_gap}
    return _recording(X, names, stamps, epochs, support, treatment, units, variables, **options)


def _take_rows(values: Any, index: np.ndarray) -> np.ndarray:
    """Some rows, in order, of what is read in slices."""
    part = np.asarray(values[int(index[0]) : int(index[-1]) + 1])
    return part if len(part) == len(index) else part[index - index[0]]


def _recording(
    X: np.ndarray,
    names: Sequence[object] | None,
    time: np.ndarray,
    epochs: np.ndarray,
    support: np.ndarray,
    treatment: Treatment,
    units: pd.DataFrame | None,
    variables: Any,
    **options: Any,
) -> Recording:
    table = _variables(variables, time, epochs, support, options)
    named = X if names is None else xr.DataArray(X, dims=("time", "channel"), coords={"channel": list(names)})
    return Recording(named, table, epochs=epochs, time=time, units=units, treatment=treatment, support=support)


def _variables(
    variables: Any, time: np.ndarray, epochs: np.ndarray, support: np.ndarray, options: Mapping[str, Any]
) -> Any:
    """The variables with a row for each time step.

    Those with time stamps of their own are aligned, functions of time are called; the others have the rows already.
    """
    if is_sampled(variables):
        return align_variables(variables, time, epochs, support=support, **options)
    if not isinstance(variables, Mapping):
        align_variables({}, time, epochs, support=support, **options)  # refuses options for unknown variables
        return variables
    sampled = {name: value for name, value in variables.items() if is_sampled(value)}
    aligned = align_variables(sampled, time, epochs, support=support, **options)
    rest = {name: value for name, value in variables.items() if name not in sampled}
    return {**aligned, **{name: value(time) if callable(value) else value for name, value in rest.items()}}
