"""Local maps as scores of channels, aggregated over time and averaged over the seeds that can be used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = ["LocalMap", "LocalScores"]

LocalMap = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Time steps (B,) -> maps (seed, B, channel, window, dim) in aligned coordinates, and valid (seed, B)."""


@dataclass(frozen=True, eq=False)
class LocalScores:
    """Scores at single time steps, computed a chunk of time at a time.

    spaces : the spaces of the map and where their dimensions are; other dimensions are left out.
    weight : (seed, space), 1 for the seeds whose space is usable, 0 for the others.
    """

    local: LocalMap
    spaces: Mapping[str, slice]
    weight: np.ndarray
    channels: int
    steps_at_once: int
    device: torch.device | str = "cpu"

    def chunks(self, index: np.ndarray) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """For chunks of time steps: |entry| (seed, B, channel, dim), the length of a channel's row within a space
        (seed, B, channel, space), and valid (seed, B)."""
        chosen = np.r_[tuple(self.spaces.values())]
        for start in range(0, len(index), self.steps_at_once):
            maps, valid = self.local(torch.from_numpy(index[start : start + self.steps_at_once]).to(self.device))
            square = maps.square().mean(-2)  # over the window, before anything else is averaged
            lengths = torch.stack([square[..., w].sum(-1) for w in self.spaces.values()], -1).sqrt()
            entries = square if len(chosen) == square.shape[-1] else square[..., chosen]
            yield entries.sqrt(), lengths, valid

    def over_time(self, index: np.ndarray) -> np.ndarray:
        """Lengths at time steps, averaged over usable seeds: (time, channel, space); NaN where none is valid."""
        share = torch.from_numpy(self.weight).to(self.device, torch.float32)
        out = []
        for _, lengths, valid in self.chunks(index):
            weight = valid[:, :, None] * share[:, None]  # (seed, B, space)
            total = (torch.nan_to_num(lengths) * weight[:, :, None]).sum(0)
            out.append((total / weight.sum(0)[:, None]).cpu().numpy())
        return np.concatenate(out) if out else np.empty((0, self.channels, len(self.spaces)))

    def aggregate(self, index: np.ndarray, how: str) -> tuple[np.ndarray, np.ndarray, int]:
        """Scores by dimension (channel, dim) and by space (channel, space), and the number of valid maps.

        how : "mean", "median" or "maximum" over time steps.
        """
        sizes = [where.stop - where.start for where in self.spaces.values()]
        means, count = _over_steps(self.chunks(index), how)
        if not means:  # no time step has a map
            means = [np.zeros((len(self.weight), self.channels, size)) for size in (sum(sizes), len(sizes))]
            count = np.zeros(len(self.weight))
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = self.weight * (count > 0)[:, None]
            shares = shares / shares.sum(0)
        by_dimension, by_space = (
            (np.nan_to_num(mean) * share[:, None]).sum(0)
            for mean, share in zip(means, (np.repeat(shares, sizes, axis=1), shares), strict=True)
        )
        return by_dimension, by_space, int(count.sum())


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
            here = [v.amax(1) for v in values]
            total = [torch.maximum(a, b) for a, b in zip(total, here, strict=True)] if total else here
        else:
            here = [v.sum(1, dtype=torch.float64) for v in values]
            total = [a + b for a, b in zip(total, here, strict=True)] if total else here
    number = count.cpu().numpy()
    if aggregate == "median":
        total = [torch.cat(part, 1).nanmedian(1).values for part in kept if part]
    elif aggregate == "mean":
        total = [value / count[:, None, None] for value in total]
    return [value.cpu().double().numpy() for value in total], number
