"""Nearest neighbours on the device without a tree: a grid of cells, each with the points nearest to its centre.

A query looks up its cell and takes the nearest of the cell's candidates: two gathers and a minimum, the same
for every query, so it runs inside a CUDA graph. The cells are small against the spacing of the points, so the
candidates hold the true nearest neighbour all but always (and else one nearly as near). Above three variables a
grid would be too large and all points are searched, on a GPU by a kernel, elsewhere in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import Tensor

from ..kernels.available import on_triton

__all__ = ["NearestTable"]

CANDIDATES = 16
CELLS_PER_POINT = {1: 2, 2: 2, 3: 8}
MOST_CELLS = 2**21
MOST_IN_KERNEL = 16
"""Variables that the kernel holds in registers."""


@dataclass(frozen=True)
class NearestTable:
    """Point sets of one or several data sets, (set, point, k) padded, with a lookup table for each.

    points : (set, n, k) float32, padded with infinity. box : (k,) periods, 0 for not circular.
    candidates : (set * cells, CANDIDATES) int32 point numbers, or None to search all points.
    origin, width : (set, k) of the grid; shape : cells along each axis.
    """

    points: Tensor
    box: Tensor
    candidates: Tensor | None
    origin: Tensor
    width: Tensor
    shape: tuple[int, ...]
    circular: bool

    @classmethod
    def build(
        cls, sets: Sequence[np.ndarray], box: np.ndarray, margin: float, device: torch.device | str = "cpu"
    ) -> NearestTable:
        """Tables for several point sets (n_i, k); queries come from up to `margin` beyond the points."""
        k = sets[0].shape[1]
        most = max(map(len, sets))
        points = np.full((len(sets), most, k), np.inf, dtype=np.float32)
        for row, values in zip(points, sets, strict=True):
            row[: len(values)] = values
        low = np.stack([np.where(box > 0, 0, v.min(0) - margin) for v in sets])
        high = np.stack([np.where(box > 0, box, v.max(0) + margin) for v in sets])
        candidates, shape = None, (1,) * k
        if k in CELLS_PER_POINT:
            cells = min(MOST_CELLS, CELLS_PER_POINT[k] * most)
            shape = (max(1, round(cells ** (1 / k))),) * k
            candidates = np.concatenate(
                [_candidates(*part, shape, box) for part in zip(sets, low, high, strict=True)]
            )
            candidates = torch.from_numpy(candidates).to(device)
        width = np.maximum(high - low, 1e-12) / np.array(shape)
        to = lambda value: torch.from_numpy(np.asarray(value, dtype=np.float32)).to(device)  # noqa: E731
        return cls(to(points), to(box), candidates, to(low), to(width), shape, bool((box > 0).any()))

    def query(self, which: Tensor, target: Tensor) -> Tensor:
        """Number of the point nearest to each target (model, B, k) in the set `which` (model,): (model, B).

        >>> table = NearestTable.build([np.array([[0.0], [1.0], [5.0]])], np.zeros(1), margin=1.0)
        >>> table.query(torch.tensor([0]), torch.tensor([[[0.2], [0.9], [7.0]]]))
        tensor([[0, 1, 2]])
        """
        if self.candidates is None:
            return self._search(which, target)
        cell = ((target - self.origin[which, None]) / self.width[which, None]).floor().long()
        number = which[:, None].expand(cell.shape[:-1])
        for axis, cells in enumerate(self.shape):
            number = number * cells + cell[..., axis].clamp(0, cells - 1)
        near = self.candidates[number].long()  # (model, B, CANDIDATES)
        distance = self._distance(target.unsqueeze(-2), self.points[which[:, None, None], near])
        return near.gather(-1, distance.argmin(-1, keepdim=True)).squeeze(-1)

    def _distance(self, a: Tensor, b: Tensor) -> Tensor:
        difference = (a - b).abs()
        if self.circular:
            difference = torch.where(self.box > 0, torch.minimum(difference, self.box - difference), difference)
        return difference.square().sum(-1)

    def _search(self, which: Tensor, target: Tensor) -> Tensor:
        if on_triton(target) and target.shape[-1] <= MOST_IN_KERNEL:
            from ..kernels import nearest_triton

            return nearest_triton.nearest(self.points, which, target, self.box if self.circular else None)
        best = torch.full(target.shape[:-1], torch.inf, device=target.device)
        found = torch.zeros(target.shape[:-1], dtype=torch.long, device=target.device)
        wide = target.numel() if self.circular else best.numel()
        block = max(16, min(4096 if self.circular else 65_536, 2**26 // wide))  # at most 256 MB at once
        for start in range(0, self.points.shape[1], block):
            part = self.points[which, start : start + block]
            if self.circular:
                distance = self._distance(target.unsqueeze(-2), part.unsqueeze(-3))
            else:  # |b|² - 2ab: one product instead of a difference for each variable; |a|² is the same for all
                part = part.clamp_max(1e15)  # the padding
                with _exact_products():
                    distance = torch.baddbmm(part.square().sum(-1)[:, None], target, part.mT, alpha=-2)
            distance, number = distance.min(-1)
            closer = distance < best
            best, found = torch.where(closer, distance, best), torch.where(closer, number + start, found)
        return found


@contextmanager
def _exact_products() -> Iterator[None]:
    """Matrix products in float32: the distances are differences of large numbers."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _candidates(
    points: np.ndarray, low: np.ndarray, high: np.ndarray, shape: tuple[int, ...], box: np.ndarray | None
) -> np.ndarray:
    """For every cell of a grid the numbers of the points nearest to its centre: (cells, CANDIDATES) int32."""
    axes = [a + (np.arange(cells) + 0.5) * (b - a) / cells for a, b, cells in zip(low, high, shape, strict=True)]
    centres = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    some = min(CANDIDATES, len(points))
    # a tree of a million points is made in half the time if its cells are halved where they are, not at medians
    tree = KDTree(points, boxsize=box, balanced_tree=False, compact_nodes=False)
    _, near = tree.query(centres, k=some, workers=-1)
    near = np.asarray(near).reshape(len(centres), some)
    return np.concatenate([near, np.repeat(near[:, :1], CANDIDATES - some, axis=1)], axis=1).astype(np.int32)
