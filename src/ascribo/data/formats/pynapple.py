"""pynapple objects in and out: time series and spike trains as recordings; embeddings and maps back on them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from ..binning import check_intervals
from ..format_registry import TimeSeriesFormat, register_time_series
from ..preprocessing import Treatment
from ..recording import Recording
from ..variables import MAX_GAP
from .timed_series import choose_treatment, events_recording, samples_recording

__all__ = ["annotate", "from_pynapple", "to_pynapple"]


class HasUnits(Protocol):
    """What `annotate` needs of maps: a table with a row for each channel (`AttributionMaps` has it)."""

    def by_unit(self) -> pd.DataFrame:
        """The table."""
        ...


def from_pynapple(
    data: Any,
    variables: Any = None,
    *,
    bin_size: float | None = None,
    smooth: float | None = None,
    transform: str | None = None,
    treatment: Treatment | None = None,
    epochs: Any = None,
    how: Mapping[str, str] | None = None,
    period: Mapping[str, float] | None = None,
    max_gap: float | Mapping[str, float] = MAX_GAP,
) -> Recording:
    """A recording from a pynapple TsGroup (spike times), TsdFrame or Tsd.

    The time support becomes the epochs, the metadata the recording's `units`. Spikes are counted in bins from the
    start of each epoch; what is left at its end is less than a bin, and not used.

    Parameters
    ----------
    data : TsGroup, TsdFrame or Tsd
    variables : dict, Tsd, TsdFrame, DataFrame or array, optional
        pynapple objects and pairs (time stamps, values) have time stamps of their own and are put on the
        recording's: see `ascribo.align_variables`. Anything else has a row for each time step.
    bin_size : seconds. Needed for a TsGroup; samples are averaged in bins.
    smooth, transform : see `ascribo.Treatment`.
    treatment : a Treatment instead of the three, for new data to be treated like old: `recording.treatment`, or
        `model.treatment` of a fitted model.
    epochs : IntervalSet or (n, 2) starts and ends, in seconds: use these parts only.
    how, period, max_gap : see `ascribo.align_variables`.

    Examples
    --------
    >>> import numpy as np, pynapple as nap
    >>> spikes = {3: nap.Ts(np.arange(0, 10, 0.1)), 7: nap.Ts(np.arange(0, 10, 0.5))}
    >>> cells = nap.TsGroup(spikes, nap.IntervalSet([0, 6], [4, 10]), metadata={"region": ["CA1", "CA3"]})
    >>> speed = nap.Tsd(t=np.arange(11.0), d=np.arange(11.0))
    >>> recording = from_pynapple(cells, {"speed": speed}, bin_size=0.5)
    >>> recording
    Recording(16 time steps x 2 channels, variables: speed, 2 epochs)
    >>> recording.units.region.to_dict()
    {'3': 'CA1', '7': 'CA3'}
    """
    kind = type(data).__name__
    if not _is_pynapple(data) or kind not in ("TsGroup", "TsdFrame", "Tsd"):
        hint = " A single unit is a group, too: pynapple.TsGroup({0: ts})." if kind == "Ts" else ""
        raise TypeError(f"data is a {kind}; expected a pynapple TsGroup, TsdFrame or Tsd.{hint}")
    plan = choose_treatment(treatment, bin_size=bin_size, smooth=smooth, transform=transform)
    support = data.time_support
    if epochs is not None:
        support = support.intersect(_interval_set(epochs))
        if not len(support):
            raise ValueError("epochs and the data's time support have no time in common.")
    intervals = np.asarray(support.values, dtype=np.float64)
    behaviour = {"variables": variables, "how": how, "period": period, "max_gap": max_gap}
    if kind == "TsGroup":
        if plan.bin_size is None:
            raise ValueError(
                "a TsGroup's spikes are counted in bins: pass their size, "
                "ascribo.from_pynapple(group, variables, bin_size=0.1). The size is in seconds."
            )
        if not len(data):
            raise ValueError("the TsGroup has no units.")
        names = [str(unit) for unit in data.index]
        # the rate is pynapple's own, of the whole group, and cannot be given back to it
        units = data.metadata.drop(columns="rate", errors="ignore").set_axis(names)
        return events_recording([data[u].t for u in data.index], names, intervals, plan, units=units, **behaviour)
    values = data.d if kind == "TsdFrame" else np.asarray(data.d)[:, None]
    names, units = None, None
    if kind == "TsdFrame":
        columns = list(data.columns)
        # columns 0, 1, 2, ... are numbers, not names
        names = columns if columns == list(range(len(columns))) else [str(column) for column in columns]
        units = data.metadata.set_axis([str(column) for column in columns])
    return samples_recording(values, data.t, names, intervals, plan, units=units, **behaviour)


def to_pynapple(values: Any, recording: Recording, columns: Any = None, metadata: Any = None) -> Any:
    """Something with a row for each time step of a recording as a pynapple TsdFrame; a vector as a Tsd.

    values : (time, ...) array or DataFrame, such as an embedding.
    recording : tells the time stamps, and the epochs become the time support.
    columns : names of the columns. metadata : what is known of them, see pynapple.

    >>> recording = Recording(np.eye(4), epochs=[0, 0, 1, 1], time=[0.0, 0.1, 5.0, 5.1])
    >>> to_pynapple(recording.X, recording).time_support.values
    array([[0. , 0.1],
           [5. , 5.1]])
    """
    if columns is None and isinstance(values, pd.DataFrame):
        columns = list(values.columns)
    values = np.asarray(values)
    if len(values) != len(recording):
        raise ValueError(f"values has {len(values)} rows and the recording {len(recording)} time steps.")
    if (np.diff(recording.time) < 0).any():
        raise ValueError("time restarts within the recording, and pynapple has one time: convert its parts.")
    support = recording.support
    if support is None:
        first = np.flatnonzero(np.diff(recording.epochs, prepend=-1))
        last = np.append(first[1:], len(recording)) - 1
        support = np.stack([recording.time[first], recording.time[last]], 1)
    support = np.array(support)
    support[:, 1] = np.maximum(support[:, 1], support[:, 0] + 1e-6)  # pynapple drops what has no length
    out = _frame(values, recording.time, _interval_set(support), columns, metadata)
    if len(out) != len(recording):
        raise ValueError(
            f"pynapple keeps {len(out)} of the {len(recording)} time steps: some lie outside of the recording's "
            "epochs, or epochs are less than a microsecond apart."
        )
    return out


def annotate(data: Any, maps: HasUnits) -> Any:
    """A copy of a TsGroup or TsdFrame that has the maps among its metadata, under space_score and so on.

    See `AttributionMaps.by_unit` for the columns. Units the maps do not know, because their channel was left out,
    have NaN, and are not called.

    >>> import pynapple as nap
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=1, hidden=1, channels=(2, 2), steps=1000)
    >>> frame = nap.TsdFrame(t=data.time / 10, d=data.X, columns=data.channel_names)
    >>> small = dict(seeds=1, steps=20, batch_size=32, random_state=0, penalty=0)
    >>> model = asc.ContrastiveEmbedding({"position": asc.Follow("x", dim=1)}, **small).fit(data)
    >>> list(annotate(frame, model.attribute(data)).metadata_columns)
    ['position_score', 'position_q', 'position_called']
    """
    if not _is_pynapple(data) or not hasattr(data, "set_info") or not hasattr(data, "copy"):
        raise TypeError(f"data is a {type(data).__name__}; expected a pynapple TsGroup or TsdFrame.")
    labels = list(data.index if type(data).__name__ == "TsGroup" else data.columns)
    known, had = maps.by_unit(), [str(column) for column in data.metadata_columns]
    strange = [name for name in known.index if name not in {str(label) for label in labels}]
    if strange:
        raise ValueError(
            f"the maps are of channels {', '.join(strange[:5])}, which are not among the units "
            f"{', '.join(str(label) for label in labels[:5])}: pass the data that were attributed."
        )
    table = known.reindex([str(label) for label in labels]).drop(columns=had, errors="ignore")
    for column in table:
        if str(column).endswith("_called"):
            table[column] = table[column].eq(True)
    out = data.copy()
    out.set_info(table.set_axis(labels))
    return out


def _frame(
    values: np.ndarray, time: np.ndarray, time_support: Any, columns: Any = None, metadata: Any = None
) -> Any:
    """A TsdFrame, or a Tsd of a vector."""
    nap = _pynapple()
    if values.ndim == 1:
        return nap.Tsd(t=time, d=values, time_support=time_support)
    return nap.TsdFrame(t=time, d=values, time_support=time_support, columns=columns, metadata=metadata)


def _interval_set(intervals: Any) -> Any:
    nap = _pynapple()
    if isinstance(intervals, nap.IntervalSet):
        return intervals
    starts, ends = check_intervals(intervals).T
    with warnings.catch_warnings():  # of intervals that touch, which pynapple parts by a microsecond
        warnings.simplefilter("ignore")
        return nap.IntervalSet(starts, ends)


def _pynapple() -> Any:
    try:
        import pynapple
    except ImportError as error:
        raise ImportError("this needs pynapple: pip install 'ascribo[neuro]'") from error
    return pynapple


# The format as the rest of the package knows it


def _is_pynapple(data: Any) -> bool:
    """Whether something is an object of pynapple's, told without importing it."""
    return type(data).__module__.partition(".")[0] == "pynapple"


def _samples(data: Any) -> tuple[Any, Any, Sequence[Any] | None]:
    if not hasattr(data, "t"):
        raise TypeError(f"it is a {type(data).__name__}; expected a Tsd, Ts or TsdFrame.")
    return data.t, getattr(data, "d", None), list(data.columns) if hasattr(data, "columns") else None


def _from_embedding(
    values: np.ndarray, data: Any, recording: Recording, names: Sequence[str], spaces: Sequence[str]
) -> Any:
    return _frame(values, recording.time, data.time_support, list(names), {"space": list(spaces)})


register_time_series(
    TimeSeriesFormat(
        library="pynapple",
        recognises=_is_pynapple,
        advice="use ascribo.from_pynapple, which keeps its epochs and metadata.",
        to_recording=lambda data, variables, treatment: from_pynapple(data, variables, treatment=treatment),
        samples=_samples,
        from_embedding=_from_embedding,
    )
)
