"""The result of an attribution: scores by channel and dimension, by channel and space, and over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor

from ..metrics import auroc
from ..store import write_atomically

__all__ = ["AttributionMaps", "LocalMap", "attribution_maps"]

LocalMap = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Time steps (B,) -> maps (seed, B, channel, window, dim) in aligned coordinates, and valid (seed, B)."""


@dataclass(frozen=True)
class AttributionMaps:
    """Which channels carry which space.

    Attributes
    ----------
    by_dimension : DataArray (channel, dimension), mean over time and seeds of |entry|. Rows are standardised
        channels, columns the aligned coordinates of the spaces (principal axes, unit variance).
    by_space : DataArray (channel, space), mean over time and seeds of the length of a channel's row within the
        space. It does not depend on the basis of the block. For the generative methods the unit is standard
        deviations of the channel per standard deviation of the space.
    method : the method's name.
    refused : space -> why it has no map; its scores are NaN.
    rank_deficient : share of samples left out because the Jacobian could not be inverted.
    """

    by_dimension: xr.DataArray
    by_space: xr.DataArray
    method: str
    refused: dict[str, str] = field(default_factory=dict)
    rank_deficient: float = 0.0
    _over_time: Callable[[np.ndarray], np.ndarray] | None = field(default=None, repr=False)
    _time: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)

    def over_time(self, start: int = 0, stop: int | None = None, step: int = 1) -> xr.DataArray:
        """Scores at time steps start, start + step, ... before stop: DataArray (time, channel, space).

        Nothing is computed before it is asked for, and then in chunks: ask for the part you need. Where a
        Jacobian could not be inverted in any seed the entry is NaN.
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
        """Long table: channel, space, score, z (the score in standard deviations from its space's mean)."""
        spread = (self.by_space - self.by_space.mean("channel")) / self.by_space.std("channel")
        table = xr.Dataset({"score": self.by_space, "z": spread}).to_dataframe().reset_index()
        return table.loc[:, ["channel", "space", "score", "z"]]

    def to_netcdf(self, path: str | Path) -> Path:
        """Write both maps to one netCDF file."""
        data = xr.Dataset({"by_space": self.by_space, "by_dimension": self.by_dimension})
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
    device: Any = "cpu",
    asked: int | None = None,
) -> AttributionMaps:
    """Average local maps over `steps` and seeds, a chunk of time at a time.

    weight : (seed, space), 1 for the seeds whose space counts.
    asked : number of steps asked for, where `steps` leaves out some that are known to have no map.
    """
    dims = [f"{name}{k}" for name, where in blocks.items() for k in range(where.stop - where.start)]
    owner = np.repeat(np.arange(len(blocks)), [w.stop - w.start for w in blocks.values()])
    share = torch.from_numpy(weight).to(device, torch.float32)

    def scores(index: np.ndarray) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Chunks of |entry| (seed, B, channel, dim), block lengths (seed, B, channel, space), valid."""
        for start in range(0, len(index), chunk):
            part, valid = local(torch.from_numpy(index[start : start + chunk]).to(device))
            square = part.square().mean(-2)  # over the window, before anything else is averaged
            lengths = torch.stack([square[..., w].sum(-1) for w in blocks.values()], -1).sqrt()
            yield square.sqrt(), lengths, valid

    def over_time(index: np.ndarray) -> np.ndarray:
        out = []
        for _, lengths, valid in scores(index):
            counted = valid[:, :, None] * share[:, None]  # (seed, B, space)
            total = (torch.nan_to_num(lengths) * counted[:, :, None]).sum(0)
            out.append((total / counted.sum(0)[:, None]).cpu().numpy())
        return np.concatenate(out) if out else np.empty((0, len(channels), len(blocks)))

    by_dimension = torch.zeros(len(weight), len(channels), len(dims), dtype=torch.float64, device=device)
    by_space = torch.zeros(len(weight), len(channels), len(blocks), dtype=torch.float64, device=device)
    count = torch.zeros(len(weight), dtype=torch.float64, device=device)
    for entries, lengths, valid in scores(steps):
        if not valid.all():
            entries, lengths = (torch.where(valid[..., None, None], v, 0) for v in (entries, lengths))
        by_dimension += entries.sum(1)
        by_space += lengths.sum(1)
        count += valid.sum(1)
    means = [(total / count[:, None, None]).cpu().numpy() for total in (by_dimension, by_space)]
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = weight * (count.cpu().numpy() > 0)[:, None]
        shares = shares / shares.sum(0)
    averaged = [
        (np.nan_to_num(mean) * part[:, None]).sum(0)
        for mean, part in zip(means, (shares[:, owner], shares), strict=True)
    ]
    attrs = {"method": method}
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
        float(1 - count.sum().item() / max(1, (asked or len(steps)) * len(weight))),
        over_time,
        time,
    )
