"""Where the variables of a space and those of others have been together, and whether redrawn ones are there too."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["JointHistograms"]

MOST_BINS = 20
"""Bins along each variable, at most."""
COARSE_BINS = 12
"""Bins along each variable by which distributions are compared."""


class JointHistograms:
    """For each variable of a space and each of the others the histogram of both.

    present : (n, k), the variables of the space. beside : (n, m), those of others. The bins of a variable hold as
    many time steps each.

    >>> a = torch.rand(5000, 1, generator=torch.Generator().manual_seed(0))
    >>> found = JointHistograms(a, (2 * torch.pi * a).sin())
    >>> rows = torch.arange(5000)
    >>> [bool(found.visited(rows, values).double().mean() > 0.5) for values in (a, a.flip(0))]
    [True, False]
    """

    def __init__(self, present: Tensor, beside: Tensor):
        self.present, self.beside = present, beside
        self.bins = int(np.clip(len(present) ** (1 / 3), 2, MOST_BINS))
        self.edges, self.others = _edges(present, self.bins), _digits(beside, _edges(beside, self.bins))
        codes = _digits(present, self.edges)[:, None] * self.bins + self.others[None]
        shape = (*codes.shape[:2], self.bins * self.bins)
        seen = torch.zeros(shape, dtype=torch.bool, device=present.device)
        self._visited = seen.scatter_(2, codes, torch.ones_like(codes, dtype=torch.bool))

    def visited(self, rows: Tensor, values: Tensor) -> Tensor:
        """Whether values (b, k) at rows (b,) lie, with the others there, in bins that are not empty: (b,)."""
        codes = _digits(values, self.edges)[:, None] * self.bins + self.others[None][..., rows]
        return self._visited.gather(2, codes).flatten(0, 1).all(0)

    def mismatch(self, drawn: Tensor) -> tuple[float, float]:
        """How far the joint distribution of redrawn values is from the observed one: of the worst pair of
        variables.

        drawn : (draw, n, k), two draws or more. Returns the total variation between draws and what was observed,
        and that of one draw and another, which is what chance makes of it.
        """
        edges = _edges(self.present, COARSE_BINS)
        others = _digits(self.beside, _edges(self.beside, COARSE_BINS))
        tables = []
        for values in (self.present, *drawn):
            codes = _digits(values, edges)[:, None] * COARSE_BINS + others[None]
            counts = torch.zeros((*codes.shape[:2], COARSE_BINS**2), dtype=torch.float64, device=values.device)
            tables.append(counts.scatter_add_(2, codes, torch.ones_like(codes, dtype=torch.float64)) / len(values))
        distance = lambda a, b: (a - b).abs().sum(-1) / 2  # noqa: E731
        redrawn = tables[1:]
        real = torch.stack([distance(tables[0], table) for table in redrawn]).mean(0)
        pairs = [(a, b) for k, a in enumerate(redrawn) for b in redrawn[:k]]
        chance = torch.stack([distance(a, b) for a, b in pairs]).mean(0)
        worst = (real - chance).argmax()
        return float(real.flatten()[worst]), float(chance.flatten()[worst])


def _edges(values: Tensor, bins: int) -> Tensor:
    """Inner edges of bins that hold as many entries of each column (n, k) each: (k, bins - 1)."""
    at = torch.arange(1, bins, device=values.device) * len(values) // bins
    return values.mT.contiguous().sort(1)[0][:, at].contiguous()


def _digits(values: Tensor, edges: Tensor) -> Tensor:
    """The bins that values (n, k) are in: (k, n)."""
    return torch.searchsorted(edges, values.mT.contiguous())
