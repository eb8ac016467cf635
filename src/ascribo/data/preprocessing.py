"""What is done to channels before a model sees them: bins, a square root, smoothing, z-scores.

It is done in chunks of time, never across an epoch's edge, and written down, so that new data get the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.ndimage
import scipy.signal

from ..support.stored_parameters import storable
from .float_precision import Rows
from .standardised_channels import channel_statistics, time_chunks
from .validation import number_epochs

__all__ = ["Rows", "Treatment", "find_interval", "smooth", "treat"]

ENTRIES_TREATED_AT_ONCE = 2**22
"""Entries of the channels that are worked on together."""
REACH = 4.0
"""Standard deviations at which a Gaussian ends."""
LONGEST = 10.0
"""How many times as wide as the longest epoch is long a Gaussian may be: all that is left are the epochs' means."""
DIRECT = 64
"""Time steps on either side up to which a Gaussian is summed directly; a wider one by Fourier transform."""


@storable
@dataclass(frozen=True)
class Treatment:
    """How the channels of a recording were made from what was measured.

    In this order: events are counted, or samples averaged, in bins; the square root is taken, which gives counts an
    even noise; a Gaussian smooths within each epoch; the z-score is taken.

    Parameters
    ----------
    bin_size : seconds, or None: as sampled.
    smooth : standard deviation of the Gaussian in seconds, or None.
    transform : None, "sqrt" or "zscore".
    counts_events : whether bins count events (True) or average samples (False); None: there are no bins, or it is
        not known yet.
    mean, spread : one number per channel, learnt by the z-score; None before. New data are scored with them.

    Examples
    --------
    >>> Treatment(bin_size=0.1, smooth=0.2, transform="sqrt")
    Treatment(bin_size=0.1, smooth=0.2, transform='sqrt', counts_events=None)
    >>> print(Treatment(bin_size=0.1, smooth=0.2, transform="sqrt"))
    bins of 0.1 s, square root, smoothed over 0.2 s
    """

    bin_size: float | None = None
    smooth: float | None = None
    transform: str | None = None
    counts_events: bool | None = None
    mean: tuple[float, ...] | None = field(default=None, repr=False)
    spread: tuple[float, ...] | None = field(default=None, repr=False)

    def __post_init__(self):
        for name in ("bin_size", "smooth"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
                raise ValueError(f"{name}={value!r}: expected a positive number of seconds, or None.")
            object.__setattr__(self, name, float(value))
        if self.transform not in (None, "sqrt", "zscore"):
            raise ValueError(f"transform={self.transform!r}: expected 'sqrt', 'zscore' or None.")
        if (self.mean is None) != (self.spread is None) or (self.mean is not None and self.transform != "zscore"):
            raise ValueError("mean and spread belong to transform='zscore': pass both, or neither.")
        for name in ("mean", "spread"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(float(v) for v in value))

    def __str__(self) -> str:
        said = {"sqrt": "square root", "zscore": "z-score"}
        parts = [
            f"bins of {self.bin_size:g} s" if self.bin_size else "",
            said["sqrt"] if self.transform == "sqrt" else "",
            f"smoothed over {self.smooth:g} s" if self.smooth else "",
            said["zscore"] if self.transform == "zscore" else "",
        ]
        return ", ".join(part for part in parts if part) or "as measured"

    def take(self, channels: Sequence[int]) -> Treatment:
        """The treatment of some of the channels, by their positions.

        >>> Treatment(transform="zscore", mean=(0.0, 5.0), spread=(1.0, 2.0)).take([1]).mean
        (5.0,)
        """
        if self.mean is None or self.spread is None:
            return self
        return replace(
            self, mean=tuple(self.mean[k] for k in channels), spread=tuple(self.spread[k] for k in channels)
        )


def treat(
    rows: Rows,
    channels: int,
    epochs: np.ndarray,
    treatment: Treatment,
    interval: float | None = None,
    *,
    dtype: type | np.dtype = np.float32,
) -> tuple[np.ndarray, Treatment]:
    """Square root, smoothing and z-score of channels that are binned already.

    Parameters
    ----------
    rows : reads time steps a to b, (b - a, channel); nothing longer than a chunk is asked for at once.
    channels : how many there are.
    epochs : (time,) labels, an epoch being a run of one label.
    treatment : a z-score without statistics learns them here.
    interval : seconds between time steps, for smoothing.
    dtype : float32, or float64 for channels that need it: see `ascribo.data.float_precision`.

    Returns
    -------
    The channels (time, channel) in that type, z-scores always in float32; and the treatment with its statistics.

    >>> counts = np.array([[0.0], [4.0], [9.0]])
    >>> treat(lambda a, b: counts[a:b], 1, np.zeros(3), Treatment(transform="sqrt"))[0].ravel()
    array([0., 2., 3.], dtype=float32)
    """
    steps = len(epochs)
    out = np.empty((steps, channels), dtype=dtype)
    edges = np.flatnonzero(np.diff(epochs)) + 1
    longest = int(np.diff(edges, prepend=0, append=steps).max())
    kernel = None if treatment.smooth is None else _gaussian(treatment.smooth, interval, longest)
    reach = 0 if kernel is None else len(kernel) // 2
    size = max(1, ENTRIES_TREATED_AT_ONCE // channels, 2 * reach)
    for a in range(0, steps, size):
        b = min(steps, a + size)
        low, high = max(0, a - reach), min(steps, b + reach)
        part = np.asarray(rows(low, high), dtype=dtype)
        if treatment.transform == "sqrt":
            if (part < 0).any():
                raise ValueError(
                    "transform='sqrt' is for counts and rates: some channels are negative. Use transform='zscore'."
                )
            part = np.sqrt(part)
        if kernel is not None:
            part = _smoothed(part, edges - low, kernel)
        out[a:b] = part[a - low : b - low]
    if treatment.transform == "zscore":
        if treatment.mean is None:
            mean, spread = channel_statistics(out)
            spread = np.where(spread > 0, spread, 1.0)  # a channel that never changes stays at zero
            treatment = replace(treatment, mean=tuple(mean), spread=tuple(spread))
        out = _scored(out, treatment)
    return out, treatment


def smooth(values: np.ndarray, width: float, epochs: Any = None) -> np.ndarray:
    """Gaussian smoothing of values (time, channel) along time, within epochs: float32.

    width : standard deviation in time steps. At an epoch's edges the weights that are left add up to one.

    >>> smooth(np.array([[0.0], [0.0], [1.0], [7.0], [7.0]]), 1.0, [0, 0, 0, 1, 1]).ravel().round(2)
    array([0.08, 0.27, 0.57, 7.  , 7.  ], dtype=float32)
    """
    plan = Treatment(smooth=width)
    return treat(lambda a, b: values[a:b], values.shape[1], number_epochs(epochs, len(values)), plan, 1.0)[0]


def find_interval(time: np.ndarray, epochs: np.ndarray) -> float:
    """Seconds between time steps, refused if some are missing or doubled.

    >>> find_interval(np.array([0.0, 0.1, 0.2, 5.0, 5.1]), np.array([0, 0, 0, 1, 1]))
    0.1
    """
    between = np.diff(time)[np.diff(epochs) == 0]
    if not len(between):
        raise ValueError("no epoch has two time steps, so their interval is not known: smoothing needs it.")
    interval = float(np.median(between))
    odd = np.flatnonzero((between < 0.5 * interval) | (between > 1.5 * interval))
    if len(odd):
        raise ValueError(
            f"time steps are {interval:g} s apart, but {len(odd)} of them are not (one is {between[odd[0]]:g} s): "
            "smoothing needs an even rate. Pass a bin_size, or make the parts between gaps epochs of their own."
        )
    return interval


def _gaussian(width: float, interval: float | None, longest: int) -> np.ndarray:
    """Weights at -reach, ..., reach time steps. longest : time steps of the longest epoch; they end there."""
    if interval is None:
        raise ValueError(f"smooth={width:g} s needs the interval between time steps.")
    deviation = width / interval
    if deviation > LONGEST * longest:
        raise ValueError(
            f"smooth={width:g} s is {deviation / longest:.2g} times as long as the longest epoch, "
            f"{longest * interval:g} s: nothing but the mean of each epoch would be left. Is smooth in seconds?"
        )
    reach = int(REACH * deviation + 0.5)
    if reach == 0:
        raise ValueError(
            f"smooth={width:g} s does nothing at time steps of {interval:g} s: expected at least "
            f"{interval / 4:g} s."
        )
    reach = min(reach, longest)
    return np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)


def _smoothed(values: np.ndarray, edges: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Smooth each part between two edges on its own."""
    inside = edges[(edges > 0) & (edges < len(values))]
    out = np.empty_like(values)
    for a, b in zip([0, *inside], [*inside, len(values)], strict=True):
        part, ones = values[a:b], np.ones(b - a)
        if len(kernel) // 2 <= DIRECT:
            total = scipy.ndimage.convolve1d(part, kernel, axis=0, mode="constant")
            weight = scipy.ndimage.convolve1d(ones, kernel, mode="constant")
        else:
            total = scipy.signal.oaconvolve(part, kernel[:, None].astype(values.dtype), "same", axes=0)
            weight = scipy.signal.oaconvolve(ones, kernel, "same")
        out[a:b] = total / weight[:, None]
    return out


def _scored(values: np.ndarray, treatment: Treatment) -> np.ndarray:
    """Z-scores with the treatment's statistics, float32; in place where the values are."""
    mean, spread = np.array(treatment.mean), np.array(treatment.spread)
    if len(mean) != values.shape[1]:
        raise ValueError(
            f"the z-score was learnt from {len(mean)} channels, and there are {values.shape[1]}: pass the "
            "same ones."
        )
    out = values if values.dtype == np.float32 else np.empty(values.shape, dtype=np.float32)
    for part in time_chunks(values):
        out[part] = (values[part] - mean) / spread
    return out
