"""The result of an attribution: scores by channel and dimension, by channel and space, and over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor

from ..metrics.scores import auroc
from ..support.files import write_atomically
from .calls import CROSS_FITTED, call_channels

__all__ = ["AttributionMaps", "LocalMap", "TooFewSteps", "attribution_maps"]

LocalMap = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Time steps (B,) -> maps (seed, B, channel, window, dim) in aligned coordinates, and valid (seed, B)."""


TAKEN = {
    *("channel", "space", "dimension", "seed", "block", "time", "epoch", "score", "z", "ci_low", "ci_high"),
    *("p", "q", "called"),
}
"""Names that maps and tables of calls use themselves."""


class TooFewSteps(ValueError):
    """Some time steps are too few for a map of their own."""


@dataclass(frozen=True)
class AttributionMaps:
    """Which channels carry which space.

    Attributes
    ----------
    by_space : DataArray (channel, space). Unique variance: the share of the channel's variance that only the space
        explains. The other methods: mean over time and seeds of the length of a channel's row within the space,
        which does not depend on the basis of the block; for the generative gradient the unit is standard deviations
        of the channel per standard deviation of the space.
    by_dimension : DataArray (channel, dimension), mean over time and seeds of |entry|. Rows are standardised
        channels, columns the aligned coordinates of the spaces (principal axes, unit variance). None for the unique
        variance, which is a matter of whole spaces.
    method : the method's name.
    refused : space -> why it has no map; its scores are NaN.
    rank_deficient : share of samples left out because the Jacobian could not be inverted.
    blocks : DataArray (seed, space, channel, block) or None; the unique variance in blocks of time, which `calls`
        judges.
    """

    by_dimension: xr.DataArray | None
    by_space: xr.DataArray
    method: str
    refused: dict[str, str] = field(default_factory=dict)
    rank_deficient: float = 0.0
    blocks: xr.DataArray | None = None
    _over_time: Callable[[np.ndarray], np.ndarray] | None = field(default=None, repr=False)
    _time: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    _epochs: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    _at: Callable[[np.ndarray], AttributionMaps] | None = field(default=None, repr=False)

    def calls(self, q: float = 0.05) -> pd.DataFrame:
        """Which channels carry which space, at a false discovery rate of q within each space.

        Columns: channel, space, score, ci_low and ci_high (95%, over seeds and blocks of time), p (that the space
        adds nothing), q (p adjusted by Benjamini and Hochberg's method), called. Only for method="unique_variance",
        whose scores are measured on held-out time. Spaces that have no map have no p and are not called.
        """
        if self.blocks is None:
            raise ValueError(
                f"a {self.method} map has no test that knows what an unconnected channel scores: use "
                "model.attribute(recording, method='unique_variance').calls()."
            )
        return call_channels(self.blocks, q, refused=list(self.refused), dependence=CROSS_FITTED)

    def by_unit(self) -> pd.DataFrame:
        """A row for each channel: what is known of it, and for each space its score.

        Columns: those of the recording's `units`, then `<space>_score` and, for a unique variance, `<space>_q` and
        `<space>_called`.
        """
        about = [c for c in self.by_space.coords if c != "channel" and self.by_space[c].dims == ("channel",)]
        channels = self.by_space.indexes["channel"]
        table = pd.DataFrame({str(c): self.by_space[c].values for c in about}, index=channels)
        calls = None if self.blocks is None else self.calls().set_index(["space", "channel"])
        for space in self.by_space["space"].values.tolist():
            table[f"{space}_score"] = self.by_space.sel(space=space).values
            for column in () if calls is None else ("q", "called"):
                table[f"{space}_{column}"] = calls.loc[space, column]  # type: ignore[union-attr]
        return table

    def with_units(self, units: pd.DataFrame) -> AttributionMaps:
        """These maps with what is known of the channels as coordinates along them: a column of `units` each.

        A column that has the name of something else in a map or a table of calls is called unit_<name>.
        """
        if not units.shape[1]:
            return self
        coords, whole = {}, self._at
        for name in units:
            values = units.loc[self.by_space["channel"].values.tolist(), name]
            if not pd.api.types.is_numeric_dtype(values):
                values = values.astype(object).where(values.notna(), "").astype(str)
            coords[f"unit_{name}" if name in TAKEN else str(name)] = ("channel", np.asarray(values))
        parts = {
            part: None if (value := getattr(self, part)) is None else value.assign_coords(coords)
            for part in ("by_space", "by_dimension", "blocks")
        }
        at = None if whole is None else lambda steps: whole(steps).with_units(units)
        return replace(self, **parts, _at=at)

    def where(self, condition) -> AttributionMaps:
        """The maps of the time steps at which a condition holds, for example maps.where(speed > 5).

        condition : (time,) booleans, one for each time step of the recording.
        """
        chosen = np.asarray(condition)
        if chosen.dtype != bool or chosen.shape != (len(self._time),):
            raise ValueError(
                f"condition is {chosen.dtype} of shape {chosen.shape}: expected a boolean for each of the "
                f"{len(self._time)} time steps."
            )
        if not chosen.any():
            raise ValueError("the condition holds at no time step.")
        return self._again(np.flatnonzero(chosen))

    def by_epoch(self) -> xr.DataArray:
        """Scores of each epoch on its own: DataArray (epoch, channel, space); NaN where an epoch is too short."""
        labels = np.unique(self._epochs)
        parts: list[xr.DataArray] = []
        for label in labels:
            try:
                parts.append(self._again(np.flatnonzero(self._epochs == label)).by_space)
            except TooFewSteps:
                parts.append(xr.full_like(self.by_space, np.nan))
        return xr.concat(parts, dim=pd.Index(labels, name="epoch"))

    def _again(self, steps: np.ndarray) -> AttributionMaps:
        if self._at is None:
            raise ValueError("these maps were read from a file: run model.attribute(X) to get parts of them.")
        return self._at(steps)

    def over_time(self, start: int = 0, stop: int | None = None, step: int = 1) -> xr.DataArray:
        """Scores at time steps start, start + step, ... before stop: DataArray (time, channel, space).

        Nothing is computed before it is asked for, and then in chunks: ask for the part you need. Where a
        Jacobian could not be inverted in any seed the entry is NaN; so is the unique variance at steps without a
        past, a future or all their variables.
        """
        if self._over_time is None:
            raise ValueError("these maps were read from a file: run model.attribute(X) to get them over time.")
        index = np.arange(len(self._time))[start:stop:step]
        return xr.DataArray(
            self._over_time(index),
            dims=("time", "channel", "space"),
            coords={
                "time": self._time[index],
                **{c: self.by_space[c] for c in ("channel", "space")},
            },
            name="score",
            attrs=self.by_space.attrs,
        )

    def auroc(self, truth, space: str) -> float:
        """Area under the ROC curve of a space's scores against the truth.

        truth : DataArray (channel, space) of booleans, a Recording with a `.truth`, or one boolean per
            channel, in the order of the channels.
        """
        scores = self._scores(space)
        truth = getattr(truth, "truth", truth)
        if truth is None:
            raise ValueError("this recording has no truth: pass an array with one boolean per channel.")
        if isinstance(truth, xr.DataArray) and truth.ndim == 2:
            if space not in truth["space"].values:
                raise ValueError(
                    f"the truth has no space {space!r}, only {list(truth['space'].values)}: pass "
                    f"truth.sel(space=...) for the one you mean."
                )
            truth = truth.sel(space=space, channel=scores["channel"])
        return auroc(scores.values, np.asarray(truth))

    def threshold(self, z: float = 0.0) -> xr.DataArray:
        """Channels whose score lies more than z standard deviations above its space's mean (001, section 5).

        Spaces that have no map are left out: nothing is known of them.
        """
        known = self.by_space.drop_sel(space=list(self.refused))
        return (known - known.mean("channel")) / known.std("channel") > z

    def to_frame(self) -> pd.DataFrame:
        """Long table: channel, space, score, z (the score in standard deviations from its space's mean).

        That of a unique variance has ci_low, ci_high, p, q and called beside them: see `calls`.
        """
        spread = (self.by_space - self.by_space.mean("channel")) / self.by_space.std("channel")
        table = xr.Dataset({"score": self.by_space, "z": spread}).to_dataframe().reset_index()
        about = [c for c in self.by_space.coords if c not in ("channel", "space")] if self.blocks is None else []
        table = table.loc[:, ["channel", "space", "score", "z", *about]]
        if self.blocks is None:
            return table
        return table.merge(self.calls().drop(columns="score"), on=["channel", "space"])

    def to_netcdf(self, path: str | Path) -> Path:
        """Write what there is of by_space, by_dimension and blocks to one netCDF file."""
        given = {"by_space": self.by_space, "by_dimension": self.by_dimension, "blocks": self.blocks}
        data = xr.Dataset({name: value for name, value in given.items() if value is not None})
        data.attrs = {"method": self.method, "rank_deficient": self.rank_deficient}
        data.attrs |= {f"refused_{name}": why for name, why in self.refused.items()}
        return write_atomically(path, lambda temporary: data.to_netcdf(temporary, engine="h5netcdf"))

    def to_csv(self, path: str | Path) -> Path:
        """Write `to_frame` as CSV."""
        return write_atomically(path, lambda temporary: self.to_frame().to_csv(temporary, index=False))

    def _scores(self, space: str) -> xr.DataArray:
        if space not in self.by_space["space"].values:
            raise ValueError(f"no space {space!r}: this map has {list(self.by_space['space'].values)}.")
        if space in self.refused:
            raise ValueError(f"space {space!r} has no map: {self.refused[space]}")
        return self.by_space.sel(space=space)


def attribution_maps(
    local: LocalMap,
    steps: np.ndarray,
    time: np.ndarray,
    channels: list[str],
    blocks: dict[str, slice],
    weight: np.ndarray,
    *,
    method: str,
    refused: dict[str, str],
    chunk: int,
    aggregate: str = "mean",
    device: Any = "cpu",
    asked: int | None = None,
    epochs: np.ndarray | None = None,
    at: Callable[[np.ndarray], AttributionMaps] | None = None,
) -> AttributionMaps:
    """Aggregate local maps over `steps`, a chunk of time at a time, and average over seeds.

    blocks : the spaces of the map and their dimensions; others are left out.
    weight : (seed, space), 1 for the seeds whose space counts.
    aggregate : "mean", "median" or "maximum" over time.
    asked : number of steps asked for, where `steps` leaves out some that are known to have no map.
    """
    dims = [f"{name}{k}" for name, where in blocks.items() for k in range(where.stop - where.start)]
    owner = np.repeat(np.arange(len(blocks)), [w.stop - w.start for w in blocks.values()])
    share = torch.from_numpy(weight).to(device, torch.float32)
    chosen = np.r_[tuple(blocks.values())]

    def scores(index: np.ndarray) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Chunks of |entry| (seed, B, channel, dim), block lengths (seed, B, channel, space), valid."""
        for start in range(0, len(index), chunk):
            part, valid = local(torch.from_numpy(index[start : start + chunk]).to(device))
            square = part.square().mean(-2)  # over the window, before anything else is averaged
            lengths = torch.stack([square[..., w].sum(-1) for w in blocks.values()], -1).sqrt()
            entries = square if len(chosen) == square.shape[-1] else square[..., chosen]
            yield entries.sqrt(), lengths, valid

    def over_time(index: np.ndarray) -> np.ndarray:
        out = []
        for _, lengths, valid in scores(index):
            counted = valid[:, :, None] * share[:, None]  # (seed, B, space)
            total = (torch.nan_to_num(lengths) * counted[:, :, None]).sum(0)
            out.append((total / counted.sum(0)[:, None]).cpu().numpy())
        return np.concatenate(out) if out else np.empty((0, len(channels), len(blocks)))

    means, count = _over_steps(scores(steps), aggregate)
    if not means:  # no step has a map
        means = [np.zeros((len(weight), len(channels), size)) for size in (len(dims), len(blocks))]
        count = np.zeros(len(weight))
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = weight * (count > 0)[:, None]
        shares = shares / shares.sum(0)
    averaged = [
        (np.nan_to_num(mean) * part[:, None]).sum(0)
        for mean, part in zip(means, (shares[:, owner], shares), strict=True)
    ]
    attrs = {"method": method, "aggregate": aggregate}
    return AttributionMaps(
        xr.DataArray(
            averaged[0],
            dims=("channel", "dimension"),
            coords={
                "channel": channels,
                "dimension": dims,
                "space": ("dimension", np.array(list(blocks))[owner]),
            },
            name="by_dimension",
            attrs=attrs,
        ),
        xr.DataArray(
            averaged[1],
            dims=("channel", "space"),
            coords={"channel": channels, "space": list(blocks)},
            name="by_space",
            attrs=attrs,
        ),
        method,
        refused,
        float(1 - count.sum() / max(1, (asked or len(steps)) * len(weight))),
        None,
        over_time,
        time,
        np.zeros(len(time), dtype=int) if epochs is None else epochs,
        at,
    )


def _over_steps(
    chunks: Iterator[tuple[Tensor, Tensor, Tensor]], aggregate: str
) -> tuple[list[np.ndarray], np.ndarray]:
    """Entries (seed, channel, dim) and lengths (seed, channel, space) over all valid steps, and how many there are.

    The mean and the maximum are taken as the chunks come; the median keeps them all. Of an even number of steps it
    is the lower of the two in the middle. Without chunks there are no entries and no lengths.
    """
    total: list[Tensor] = []
    kept: list[list[Tensor]] = [[], []]
    count = torch.zeros(1)
    for entries, lengths, valid in chunks:
        empty = float("nan") if aggregate == "median" else 0.0
        values = [torch.where(valid[..., None, None], v, empty) for v in (entries, lengths)]
        count = valid.sum(1) + (count.to(valid.device) if total or kept[0] else 0)
        if aggregate == "median":
            for part, value in zip(kept, values, strict=True):
                part.append(value.cpu())
        elif aggregate == "maximum":
            now = [v.amax(1) for v in values]
            total = [torch.maximum(a, b) for a, b in zip(total, now, strict=True)] if total else now
        else:
            now = [v.sum(1, dtype=torch.float64) for v in values]
            total = [a + b for a, b in zip(total, now, strict=True)] if total else now
    number = count.cpu().numpy()
    if aggregate == "median":
        total = [torch.cat(part, 1).nanmedian(1).values for part in kept if part]
    elif aggregate == "mean":
        total = [value / count[:, None, None] for value in total]
    return [value.cpu().double().numpy() for value in total], number
