"""The classical scores of cells in a navigating animal, each with a shuffle test, for all cells at once.

Rate maps, spatial information (Skaggs et al., 1996), grid score (Sargolini et al., 2006), head-direction vector
length and speed score. Cells are channels; their values are rates or counts.

The shuffle test shifts the behaviour in time against the cells, by at least `min_shift` seconds, what is pushed out
at the end coming back in at the start. Each keeps its own course, and what they have to do with each other is lost.
Time steps at which the behaviour is missing are left out of both first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from scipy.ndimage import gaussian_filter

from ..data.recording import Recording
from ..support.circle import check_period
from .grid_scores import score_grids

__all__ = [
    "Binned",
    "assign_bins",
    "cell_scores",
    "grid_score",
    "head_direction_score",
    "rate_maps",
    "smooth_maps",
    "spatial_information",
    "speed_score",
]


def rate_maps(
    recording: Recording,
    variables: Sequence[str] = ("x", "y"),
    *,
    bins: int = 20,
    smooth: float = 1.0,
) -> xr.DataArray:
    """Mean of every channel in each bin of one or two variables, occupancy normalised: DataArray (channel, x, y).

    bins : number along each variable, over its range.
    smooth : standard deviation, in bins, of the Gaussian that the sums and the occupancy are both smoothed with.

    NaN where the animal has not been. The coordinates are the centres of the bins.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> place = rng.uniform(0, 1, (4000, 2))
    >>> cell = np.exp(-((place - 0.25) ** 2).sum(1) / 0.02)
    >>> maps = rate_maps(Recording(cell[:, None], {"x": place[:, 0], "y": place[:, 1]}), bins=8)
    >>> [int(i) for i in np.unravel_index(maps[0].values.argmax(), (8, 8))]
    [1, 1]
    """
    kept, values, names = _known(recording, variables, (1, 2))
    bin_numbers, edges = assign_bins(values, bins)
    shape = (bins,) * len(names)
    weights = Binned(bin_numbers, bins ** len(names))
    maps = smooth_maps(weights.sums(recording.X[kept]), weights.counts, shape, smooth)
    centres = {name: (own[1:] + own[:-1]) / 2 for name, own in zip(names, edges, strict=True)}
    return xr.DataArray(
        maps, dims=("channel", *names), coords={"channel": recording.channel_names, **centres}, name="rate"
    )


def spatial_information(
    recording: Recording,
    variables: Sequence[str] = ("x", "y"),
    *,
    bins: int = 20,
    smooth: float = 1.0,
    shuffles: int = 200,
    min_shift: float = 20.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Spatial information in bits per spike: DataFrame with channel, score, p and chance.

    Σ P r/r̄ log₂ r/r̄ over bins of position, where P is the share of time in a bin, r the rate there and r̄ the mean
    rate. variables : one, as on a track, or two. A rate cannot be negative: a channel that goes below 0 is raised
    so that its least value is 0. A few spikes lie in few bins whatever the cell does: `chance` is the mean of the
    score over the shuffles, which that alone explains.

    >>> rng = np.random.default_rng(0)
    >>> place = rng.uniform(0, 1, 2000)
    >>> cells = np.stack([(place > 0.8).astype(float), rng.uniform(0, 1, 2000)], 1)
    >>> data = Recording(cells, {"x": place}, time=np.arange(2000) / 10)
    >>> spatial_information(data, ["x"], bins=10, smooth=0, shuffles=99)[["score", "p"]].round(2)
       score     p
    0   2.28  0.01
    1   0.00  0.67
    """
    kept, values, names = _known(recording, variables, (1, 2))
    bin_numbers, _ = assign_bins(values, bins)
    X, shape = _raised(recording.X[kept]), (bins,) * len(names)

    def score(X: np.ndarray, shift: int) -> np.ndarray:
        weights = Binned(np.roll(bin_numbers, shift), bins ** len(names))
        return _information(smooth_maps(weights.sums(X), weights.counts, shape, smooth), weights.counts)

    return _test_by_shifts(recording, X, score, kept, shuffles, min_shift, seed)


def grid_score(
    recording: Recording,
    variables: Sequence[str] = ("x", "y"),
    *,
    bins: int = 20,
    smooth: float = 1.0,
    shuffles: int = 200,
    min_shift: float = 20.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Grid score, how much a map looks like itself turned by 60° rather than 30°: channel, score, p and chance.

    The autocorrelogram of the rate map, in a ring around its central peak, is correlated with itself turned. The
    score is the smaller of the correlations at 60 and 120 degrees less the greatest of those at 30, 90 and 150; the
    best of several outer edges of the ring counts. NaN for a channel whose autocorrelogram has no such ring.

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.uniform(0, 1, (2, 4000))
    >>> turns = np.deg2rad([0, 60, 120])[:, None]
    >>> grid = np.cos(20 * (np.cos(turns) * x + np.sin(turns) * y)).sum(0)
    >>> data = Recording(np.stack([grid, x], 1), {"x": x, "y": y}, time=np.arange(4000) / 10)
    >>> found = grid_score(data, shuffles=19)
    >>> bool(found["score"][0] > 0.8), float(found["p"][0])
    (True, 0.05)
    """
    kept, values, _ = _known(recording, variables, (2,))
    bin_numbers, _ = assign_bins(values, bins)

    def score(X: np.ndarray, shift: int) -> np.ndarray:
        weights = Binned(np.roll(bin_numbers, shift), bins**2)
        return score_grids(smooth_maps(weights.sums(X), weights.counts, (bins, bins), smooth))

    return _test_by_shifts(recording, recording.X[kept], score, kept, shuffles, min_shift, seed)


def head_direction_score(
    recording: Recording,
    variable: str = "head_direction",
    *,
    period: float = 2 * np.pi,
    bins: int = 60,
    shuffles: int = 200,
    min_shift: float = 20.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Length of the mean vector of the tuning curve, 0 to 1: DataFrame with channel, score, p and chance.

    The curve is occupancy normalised, so that directions the animal prefers do not count more. A channel that goes
    below 0 is raised so that its least value is 0. period : full turn of the variable, 360 for degrees.

    >>> rng = np.random.default_rng(0)
    >>> direction = rng.uniform(0, 360, 2000)
    >>> cells = np.stack([np.exp(4 * np.cos(np.deg2rad(direction - 90))), rng.uniform(0, 1, 2000)], 1)
    >>> data = Recording(cells, {"head_direction": direction}, time=np.arange(2000) / 10)
    >>> head_direction_score(data, period=360, shuffles=99)[["score", "p"]].round(2)
       score     p
    0   0.86  0.01
    1   0.02  0.34
    """
    kept, values, _ = _known(recording, [variable], (1,))
    check_period(variable, values[:, 0], period)
    bin_numbers = np.minimum((values[:, 0] / period % 1 * bins).astype(np.int64), bins - 1)
    circle = np.exp(2j * np.pi * (np.arange(bins) + 0.5) / bins)
    X = _raised(recording.X[kept])

    def score(X: np.ndarray, shift: int) -> np.ndarray:
        weights = Binned(np.roll(bin_numbers, shift), bins)
        curve = weights.sums(X) / np.maximum(weights.counts, 1)
        total = curve.sum(1)
        return np.abs(curve @ circle) / np.where(total > 0, total, np.nan)

    return _test_by_shifts(recording, X, score, kept, shuffles, min_shift, seed)


def speed_score(
    recording: Recording,
    variable: str = "speed",
    *,
    shuffles: int = 200,
    min_shift: float = 20.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Size of the correlation with speed, whatever its sign: DataFrame with channel, score, p and chance.

    >>> rng = np.random.default_rng(0)
    >>> speed = rng.uniform(0, 30, 2000)
    >>> cells = np.stack([-speed + rng.normal(0, 5, 2000), rng.normal(size=2000)], 1)
    >>> data = Recording(cells, {"speed": speed}, time=np.arange(2000) / 10)
    >>> speed_score(data, shuffles=99)[["score", "p"]].round(2)
       score     p
    0   0.87  0.01
    1   0.02  0.42
    """
    kept, values, _ = _known(recording, [variable], (1,))
    X = recording.X[kept] - recording.X[kept].mean(0)
    speed = values[:, 0] - values[:, 0].mean()
    norm = np.linalg.norm(X, axis=0) * np.linalg.norm(speed)

    def score(X: np.ndarray, shift: int) -> np.ndarray:
        return np.abs(np.roll(speed, shift) @ X) / np.where(norm > 0, norm, np.nan)

    return _test_by_shifts(recording, X, score, kept, shuffles, min_shift, seed)


def cell_scores(
    recording: Recording,
    *,
    position: Sequence[str] = ("x", "y"),
    head_direction: str | None = "head_direction",
    speed: str | None = "speed",
    period: float = 2 * np.pi,
    bins: int = 20,
    smooth: float = 1.0,
    shuffles: int = 200,
    min_shift: float = 20.0,
    seed: int = 0,
) -> pd.DataFrame:
    """All scores of all channels, one row each: spatial_information, grid, head_direction, speed, each with its p.

    head_direction, speed : names of the variables, None to leave the score out. period : full turn of the head
    direction, 360 for degrees. The rest is as of the single scores.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y, speed = rng.uniform(0, 1, (3, 2000))
    >>> data = Recording(np.stack([speed, x**4], 1), {"x": x, "y": y, "speed": speed}, time=np.arange(2000) / 10)
    >>> scores = cell_scores(data, head_direction=None, shuffles=99)
    >>> [float(v) for v in scores["speed"].round(1)], float(scores["spatial_information_p"][1])
    ([1.0, 0.0], 0.01)
    """
    asked: dict[str, Callable[..., pd.DataFrame]] = {
        "spatial_information": lambda **o: spatial_information(recording, position, bins=bins, smooth=smooth, **o),
        "grid": lambda **o: grid_score(recording, position, bins=bins, smooth=smooth, **o),
    }
    if head_direction is not None:
        asked["head_direction"] = lambda **o: head_direction_score(recording, head_direction, period=period, **o)
    if speed is not None:
        asked["speed"] = lambda **o: speed_score(recording, speed, **o)
    table = pd.DataFrame({"channel": recording.channel_names})
    for name, score in asked.items():
        found = score(shuffles=shuffles, min_shift=min_shift, seed=seed)
        table[name], table[f"{name}_p"] = found["score"], found["p"]
    return table


class Binned:
    """Time steps sorted by bin: a sum over a bin is then a sum over neighbours, which is fast for many channels.

    bin_numbers : (time,) number of the bin of each time step. bins : how many there are.
    """

    def __init__(self, bin_numbers: np.ndarray, bins: int):
        self.order = np.argsort(bin_numbers, kind="stable")
        self.counts = np.bincount(bin_numbers, minlength=bins).astype(float)
        self.used = np.flatnonzero(self.counts)
        self.starts = np.r_[0, np.cumsum(self.counts[self.used]).astype(int)[:-1]]

    def sums(self, X: np.ndarray) -> np.ndarray:
        """(time, channel) -> sums over the time steps of each bin: (channel, bin)."""
        out = np.zeros((len(self.counts), X.shape[1]))
        out[self.used] = np.add.reduceat(X[self.order], self.starts, axis=0, dtype=np.float64)
        return out.T


def smooth_maps(sums: np.ndarray, counts: np.ndarray, shape: tuple[int, ...], smooth: float) -> np.ndarray:
    """Maps (channel, *shape) of sums (channel, bin) over counts (bin,), both smoothed; NaN where a count is 0."""
    occupied = counts.reshape(shape)
    values = sums.reshape(-1, *shape)
    if smooth:
        spread = lambda part, sigma: gaussian_filter(part, sigma, mode="constant")  # noqa: E731
        values = spread(values, (0, *(smooth for _ in shape)))
        weight = spread(occupied, smooth)
    else:
        weight = occupied
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(occupied > 0, values / weight, np.nan)


def _information(maps: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Spatial information in bits per spike, from maps (cell, bin, bin) and the occupancy (bins²,)."""
    maps = maps.reshape(len(maps), -1)
    share = np.where(np.isfinite(maps), counts, 0.0)
    share = share / share.sum(1, keepdims=True)
    rate = np.nan_to_num(maps)
    mean = (share * rate).sum(1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        over = rate / np.where(mean > 0, mean, np.nan)
        return np.nansum(np.where(over > 0, share * over * np.log2(over), 0.0), 1) * np.where(
            mean[:, 0] > 0, 1, np.nan
        )


def _raised(X: np.ndarray) -> np.ndarray:
    """Channels that go below 0 raised so that their least value is 0: a rate cannot be negative."""
    return X - np.minimum(X.min(0), 0)


def _known(
    recording: Recording, variables: str | Sequence[str], wanted: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The time steps at which all variables are known, their values there, and their names: (n,), (n, k).

    wanted : how many variables there may be.
    """
    names = [variables] if isinstance(variables, str) else list(variables)
    if len(names) not in wanted:
        several = "s" * (max(wanted) > 1)
        raise ValueError(f"expected {' or '.join(map(str, wanted))} variable{several}, got {names}.")
    missing = [name for name in names if name not in recording.variables]
    if missing:
        raise ValueError(f"the recording has no variable {missing[0]!r}; it has {list(recording.variables)}.")
    values = recording.variables.loc[:, names].to_numpy(float)
    kept = np.flatnonzero(np.isfinite(values).all(1))
    if not len(kept):
        raise ValueError(f"{names} are missing at all time steps.")
    return kept, values[kept], names


def assign_bins(values: np.ndarray, bins: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """The bin of each time step, (n,), numbered along the last variable first, and the edges along each."""
    edges = [np.linspace(column.min(), max(column.max(), column.min() + 1e-12), bins + 1) for column in values.T]
    each = [
        np.minimum((column - own[0]) / (own[-1] - own[0]) * bins, bins - 1).astype(np.int64)
        for column, own in zip(values.T, edges, strict=True)
    ]
    return np.asarray(np.ravel_multi_index(each, (bins,) * len(each))), edges


def _test_by_shifts(
    recording: Recording,
    X: np.ndarray,
    score: Callable[[np.ndarray, int], np.ndarray],
    kept: np.ndarray,
    shuffles: int,
    min_shift: float,
    seed: int,
) -> pd.DataFrame:
    """Scores, with their p and chance from the shuffles.

    score : (channels, shift) -> scores, the behaviour being shifted by so many time steps.

    p is the share of shuffles that reach the score, (1 + reached) / (1 + shuffles); chance is their mean.
    """
    real = score(X, 0)
    shifted = [score(X, int(shift)) for shift in _shifts(recording, kept, shuffles, min_shift, seed)]
    table = pd.DataFrame({"channel": recording.channel_names, "score": real, "p": np.nan, "chance": np.nan})
    if shifted:
        others = np.nan_to_num(np.stack(shifted), nan=-np.inf)
        table["p"] = np.where(np.isfinite(real), (1 + (others >= real).sum(0)) / (1 + len(others)), np.nan)
        table["chance"] = np.where(np.isfinite(real), np.where(np.isfinite(others), others, 0.0).mean(0), np.nan)
    return table


def _shifts(recording: Recording, kept: np.ndarray, number: int, least: float, seed: int) -> np.ndarray:
    """Shifts in time steps, at least `least` seconds (by the median time step) either way round."""
    if not number:
        return np.empty(0, dtype=int)
    inside = np.diff(recording.epochs) == 0
    step = float(np.median(np.diff(recording.time)[inside])) if inside.any() else 1.0
    shortest = max(1, int(np.ceil(least / step)))
    if 2 * shortest >= len(kept):
        raise ValueError(
            f"min_shift={least:g} is {shortest} time steps, and {len(kept)} are known: too few to shift them by "
            "that in both directions. Use a shorter min_shift or a longer recording."
        )
    return np.random.default_rng(seed).integers(shortest, len(kept) - shortest + 1, number)
