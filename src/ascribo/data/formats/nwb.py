"""Recordings from NWB files: units or a series as channels, behaviour by path, tables of intervals as epochs.

Only what is asked for is read, and a series a chunk of time at a time. One that lies in the file as plain float32
is not read at all but memory-mapped.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...support.names import first_few, suggest
from ..binning import check_intervals
from ..format_registry import file_format
from ..preprocessing import Treatment
from ..recording import Recording
from ..variables import MAX_GAP
from .hdf5_arrays import place_in_file
from .hdf5_safety import check_hdf5
from .timed_series import choose_treatment, events_recording, samples_recording

__all__ = ["read_nwb"]


@file_format(".nwb")
def read_nwb(
    path: str | Path,
    *,
    channels: str | None = None,
    variables: Any = None,
    epochs: Any = None,
    bin_size: float | None = None,
    smooth: float | None = None,
    transform: str | None = None,
    treatment: Treatment | None = None,
    how: Mapping[str, str] | None = None,
    period: Mapping[str, float] | None = None,
    max_gap: float | Mapping[str, float] = MAX_GAP,
) -> Recording:
    """A recording from an NWB file. `ascribo.data.read` calls this for files ending in .nwb.

    Anything in the file is named by its path, such as "processing/behavior/Position/head", or by as much of its end
    as is needed to tell it from others: "head". The name of a group, "Position", stands for the only series in it.

    Parameters
    ----------
    path : str or Path
    channels : "units", or the path of a series (time, channel). Default: the units, if the file has any, or the
        only response series.
    variables : path, list of paths, or dict name -> path
        Series, called by the last part of their path unless a dict gives them names, or columns of a table of
        intervals: "trials/side" has its value from a trial's start to its end. Default: all series in
        processing/behavior. The k columns of a matrix become name0, name1, ...
    epochs : path of a table of intervals, such as "trials", or (n, 2) starts and ends. Default: all there is.
    bin_size : seconds. Needed for units; samples are averaged in bins.
    smooth, transform, treatment : see `ascribo.from_pynapple`.
    how, period, max_gap : see `ascribo.align_variables`. Series in a CompassDirection have their period, and those
        in BehavioralEvents are counted, unless said otherwise.

    What is known of the units, or of a series' electrodes or regions of interest, becomes the recording's `units`.
    """
    plan = choose_treatment(treatment, bin_size=bin_size, smooth=smooth, transform=transform)
    NWBHDF5IO = _pynwb().NWBHDF5IO
    check_hdf5(path, whole=True)
    with warnings.catch_warnings():  # of versions of the schema, which are not the reader's to change
        warnings.simplefilter("ignore")
        with NWBHDF5IO(str(path), mode="r", load_namespaces=True) as io:
            file = _File.scan(io.read())
            found, how, period = _variables(file, variables, dict(how or {}), dict(period or {}))
            behaviour = {"variables": found, "how": how, "period": period, "max_gap": max_gap}
            intervals = None if epochs is None else _intervals(file, epochs)
            if channels == "units" or (channels is None and file.nwb.units is not None):
                return _from_units(file, intervals, plan, behaviour)
            series = file.responses() if channels is None else file.series(channels)
            return _from_series(series, intervals, plan, behaviour)


@dataclass(frozen=True)
class _File:
    """What an NWB file holds: the path of every series and of every table of intervals."""

    nwb: Any
    all_series: dict[str, Any]
    tables: dict[str, Any]

    @classmethod
    def scan(cls, nwb: Any) -> _File:
        pynwb = _pynwb()
        series, tables = {}, {}
        for item in nwb.objects.values():
            if isinstance(item, pynwb.TimeSeries):
                series[_find_path(nwb, item)] = item
            elif isinstance(item, pynwb.epoch.TimeIntervals):
                tables[_find_path(nwb, item)] = item
        return cls(nwb, series, tables)

    def series(self, name: str) -> Any:
        """The series of a path or the end of one."""
        return self.all_series[_resolve(name, self.all_series, "series")]

    def table(self, name: str) -> Any:
        """The table of intervals of a path or the end of one."""
        return self.tables[_resolve(name, self.tables, "table of intervals")]

    def behaviour(self) -> dict[str, str]:
        """name -> path of all series of numbers in the processing module of that name."""
        paths = [
            path
            for path, series in self.all_series.items()
            if path.startswith("processing/behavior/")
            and len(series.data.shape) in (1, 2)
            and np.dtype(series.data.dtype).kind in "biuf"
        ]
        return _named(paths)

    def responses(self) -> Any:
        """The only series that could be the channels."""
        kinds = ("RoiResponseSeries", "ElectricalSeries")
        found = [path for path, series in self.all_series.items() if type(series).__name__ in kinds]
        found = found or [path for path in self.all_series if path.startswith("acquisition/")]
        if len(found) != 1:
            raise ValueError(
                f"the file has no units and {'no' if not found else 'more than one'} series that could be the "
                "channels; give its path as channels=. There are: "
                f"{first_few(found or self.all_series, 10) or 'no series'}."
            )
        return self.all_series[found[0]]


def _find_path(nwb: Any, item: Any) -> str:
    """Where an object lies in the file."""
    parts = [item.name]
    while item.parent is not None and item.parent is not nwb:
        item = item.parent
        parts.append(item.name)
    groups = {
        "acquisition": nwb.acquisition,
        "processing": nwb.processing,
        "intervals": nwb.intervals,
        "stimulus/presentation": nwb.stimulus,
        "analysis": nwb.analysis,
    }
    # trials and epochs have a place of their own beside the other intervals
    top = "intervals" if type(item).__name__ == "TimeIntervals" else ""
    for group, members in groups.items():
        if members is not None and members.get(item.name) is item:
            top = group
    return "/".join([*([top] if top else []), *reversed(parts)])


def _resolve(name: str, paths: Mapping[str, Any], what: str) -> str:
    """The one path that ends in these parts, or that leads through a group that does."""
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is a {type(name).__name__}; expected the path of a {what} in the file.")
    if name.strip("/") in paths:
        return name.strip("/")
    ends = [path for path in paths if f"/{path}".endswith(f"/{name.strip('/')}")]
    found = ends or [path for path in paths if f"/{name.strip('/')}/" in f"/{path}"]
    if not found:
        known = [*dict.fromkeys(part for path in paths for part in reversed(path.split("/"))), *paths]
        close = suggest(name, known) if paths else f"; the file has no {what}."
        raise ValueError(f"no {what} called {name!r}{close if 'did you mean' in close else suggest('', paths)}")
    if len(found) > 1:
        raise ValueError(f"{name!r} is more than one {what}: {first_few(found, 10)}. Give more of the path.")
    return found[0]


def _named(paths: list[str]) -> dict[str, str]:
    """Short names for paths: the last part, or the group's name if the last is only that of its type."""
    last = [path.split("/")[-2] if path.endswith(("/SpatialSeries", "/TimeSeries")) else path for path in paths]
    names = [name.split("/")[-1] for name in last]
    return {
        name if names.count(name) == 1 else "/".join(path.split("/")[-2:]): path
        for name, path in zip(names, paths, strict=True)
    }


# Variables and epochs


def _variables(file: _File, variables: Any, how: dict[str, str], period: dict[str, float]):
    """name -> samples, and how they are taken by default."""
    if variables is None:
        wanted = file.behaviour()
    elif isinstance(variables, Mapping):
        wanted = {str(name): where for name, where in variables.items()}
    else:
        asked = [variables] if isinstance(variables, str) else list(variables)
        wanted = _named([_whole_path(file, name) for name in asked])
    found: dict[str, Any] = {}
    for name, where in wanted.items():
        column = _column(file, where)
        if column is not None:
            found[name] = column
            continue
        series = file.series(where)
        group = type(series.parent).__name__
        stamps = _stamps(series)
        if group == "BehavioralEvents" and name not in how:
            found[name] = (stamps, None)
            continue
        values = np.asarray(_scaled(series)[:])
        if type(series).__name__ == "IntervalSeries":
            values = values > 0  # where intervals begin and end
        if group == "CompassDirection" and name not in how and series.unit in _CIRCLES and values.ndim == 1:
            period.setdefault(name, _CIRCLES[series.unit])
        if name == "xy" and values.ndim == 2 and values.shape[1] == 2:
            found |= {"x": (stamps, values[:, 0]), "y": (stamps, values[:, 1])}
        else:
            found[name] = (stamps, values)
    return found, how, period


_CIRCLES = {"radians": 2 * np.pi, "radian": 2 * np.pi, "rad": 2 * np.pi, "degrees": 360.0, "degree": 360.0}


def _whole_path(file: _File, name: str) -> str:
    """The path of a series, or what names a column of a table."""
    return name.strip("/") if _column(file, name) is not None else _resolve(name, file.all_series, "series")


def _column(file: _File, name: str) -> Callable[[np.ndarray], pd.Series] | None:
    """A column of a table of intervals as a function of time; None if the name is not a table's and a column's."""
    table, _, column = name.strip("/").rpartition("/")
    ends = [path for path in file.tables if f"/{path}".endswith(f"/{table}")]
    if len(ends) != 1:
        return None
    found = file.tables[ends[0]]
    if column not in found.colnames:
        raise ValueError(f"{ends[0]} has no column called {column!r}{suggest(column, found.colnames)}")
    bounds = np.stack([found["start_time"][:], found["stop_time"][:]], 1)
    order = np.argsort(bounds[:, 0], kind="stable")
    starts, ends_ = check_intervals(bounds, ends[0]).T
    values = pd.Series(np.asarray(found[column][:])[order]).infer_objects()

    def at(time: np.ndarray) -> pd.Series:
        row = np.searchsorted(starts, time, "right") - 1
        return values.reindex(np.where((row >= 0) & (time <= ends_[row]), row, -1)).reset_index(drop=True)

    return at


def _intervals(file: _File, epochs: Any) -> np.ndarray:
    if isinstance(epochs, str):
        table = file.table(epochs)
        return check_intervals(np.stack([table["start_time"][:], table["stop_time"][:]], 1), epochs)
    return check_intervals(epochs)


def _stamps(series: Any) -> np.ndarray:
    if series.timestamps is not None:
        return np.asarray(series.timestamps[:], dtype=np.float64)
    return series.starting_time + np.arange(len(series.data)) / series.rate


# Channels


def _from_units(file: _File, intervals: np.ndarray | None, plan: Treatment, behaviour: dict[str, Any]) -> Recording:
    table = file.nwb.units
    if table is None or "spike_times" not in table.colnames or not len(table):
        raise ValueError("the file has no units with spike times; give the path of a series as channels=.")
    ends = np.asarray(table["spike_times"].data[:], dtype=np.int64)
    stamps = table["spike_times"].target.data
    # a unit at a time: what lies outside the epochs is not kept
    low, high = (-np.inf, np.inf) if intervals is None else (intervals[0, 0], intervals[-1, 1])
    times = []
    for a, b in zip([0, *ends[:-1]], ends, strict=True):
        own = np.asarray(stamps[int(a) : int(b)], dtype=np.float64)
        own = own if (np.diff(own) >= 0).all() else np.sort(own)
        times.append(own[np.searchsorted(own, low) : np.searchsorted(own, high, "right")].copy())
    if intervals is None:
        heard = [own for own in times if len(own)]
        if not heard:
            raise ValueError("the units have no spikes; give epochs, the intervals of time to count them in.")
        intervals = np.array([[min(own[0] for own in heard), max(own[-1] for own in heard)]])
    names = [str(unit) for unit in table.id[:]]
    return events_recording(times, names, intervals, plan, units=_describe(table).set_axis(names), **behaviour)


def _from_series(
    series: Any, intervals: np.ndarray | None, plan: Treatment, behaviour: dict[str, Any]
) -> Recording:
    values, stamps = _scaled(series), _stamps(series)
    if len(values.shape) == 1:
        values = np.asarray(values[:])[:, None]
    if len(values.shape) != 2:
        raise ValueError(f"{series.name} has shape {tuple(values.shape)}; expected samples, or samples x channels.")
    if intervals is None:
        # a sample lasts until the next
        step = float(np.median(np.diff(stamps))) if len(stamps) > 1 else 0.0
        intervals = np.array([[stamps[0], stamps[-1] + step]]) if len(stamps) else np.zeros((1, 2))
    names, units = None, None
    region = getattr(series, "rois", None) or getattr(series, "electrodes", None)
    if region is not None and len(region.data) == values.shape[1]:
        rows = np.asarray(region.data[:])
        names = [str(name) for name in np.asarray(region.table.id[:])[rows]]
        units = _describe(region.table).iloc[rows].set_axis(names)
    return samples_recording(values, stamps, names, intervals, plan, units=units, **behaviour)


@dataclass(frozen=True)
class _Scaled:
    """A data set in the series' unit, converted as it is read."""

    data: Any
    conversion: float | np.ndarray
    offset: float

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def source_dtype(self) -> np.dtype:
        """What the numbers were measured in: a factor changes nothing of how well float32 holds them."""
        return np.dtype(np.float64) if self.offset else np.dtype(self.data.dtype)

    def __getitem__(self, part: slice) -> np.ndarray:
        return np.asarray(self.data[part]) * self.conversion + self.offset


def _scaled(series: Any) -> Any:
    """The data of a series in its unit; memory-mapped where the file holds them as they are used."""
    conversion, offset = float(series.conversion or 1.0), float(getattr(series, "offset", 0.0) or 0.0)
    data, each = series.data, getattr(series, "channel_conversion", None)  # of electrical series
    if each is not None:
        return _Scaled(data, conversion * np.asarray(each[:], dtype=np.float64), offset)
    if (conversion, offset) != (1.0, 0.0):
        return _Scaled(data, conversion, offset)
    where = place_in_file(data) if hasattr(data, "chunks") and data.dtype == np.float32 else None
    if where is None:
        return data
    return np.memmap(data.file.filename, dtype=data.dtype, mode="r", offset=where, shape=data.shape)


def _describe(table: Any) -> pd.DataFrame:
    """The columns of a table that hold one number or word a row."""
    ragged = {column.target.name for column in table.columns if hasattr(column, "target")}
    columns = {}
    for column in table.columns:
        plain = not hasattr(column, "target") and not hasattr(column, "table") and column.name not in ragged
        if plain and np.ndim(column.data) == 1:
            values = pd.Series(list(column[:]))
            if all(pd.api.types.is_scalar(value) for value in values):
                columns[column.name] = values
    return pd.DataFrame(columns, index=pd.RangeIndex(len(table)))


def _pynwb() -> Any:
    try:
        import pynwb
    except ImportError as error:
        raise ImportError("reading NWB files needs pynwb: pip install 'ascribo[neuro]'") from error
    return pynwb
