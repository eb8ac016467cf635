"""How much a fitted space tells about its pairs on held-out time: bits above chance (001, theorem 1).

A space that has nothing to do with its variable ends at chance, log N: it has collapsed, and its map means
nothing. The InfoNCE here counts the positive among the N candidates, so that the bits are a lower bound of the
information at any N (see `ascribo.losses.infonce`), and each space is judged on its own dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ..embedder import Embedder
from ..losses import chance, infonce, similarity_of
from ..pairs import Pairs, segment_bounds
from ..spaces import Regress, Space, layout

__all__ = ["Fit", "goodness_of_fit"]

FLOOR = 0.01
"""Bits under which a space counts as collapsed whatever its standard error."""


@dataclass(frozen=True)
class Fit:
    """Per seed and space: InfoNCE in nats, bits above chance, whether collapsed; each (seed, space).

    `table()` gives one row per space, averaged over seeds.
    """

    spaces: tuple[str, ...]
    infonce: np.ndarray
    chance: np.ndarray
    bits: np.ndarray
    collapsed: np.ndarray
    left_out: np.ndarray

    def table(self) -> pd.DataFrame:
        """One row per space: space, infonce, chance, bits, collapsed (all seeds), left_out (time steps)."""
        return pd.DataFrame(
            {
                "space": list(self.spaces),
                "infonce": self.infonce.mean(0),
                "chance": self.chance,
                "bits": self.bits.mean(0),
                "collapsed": self.collapsed.all(0),
                "left_out": self.left_out,
            }
        )


@torch.no_grad()
def goodness_of_fit(
    embedder: Embedder,
    parameters: Mapping[str, Tensor],
    spaces: Mapping[str, Space],
    X: Tensor,
    segments: np.ndarray,
    pairs: Pairs,
    targets: Mapping[str, np.ndarray],
    *,
    batch: int,
    batches: int = 20,
    seed: int = 0,
) -> Fit:
    """Judge every space of every seed on `batches` fresh batches of pairs.

    X (time, channel) is standardised; `pairs` draws from the steps to be judged. A Regress space has no
    InfoNCE; its bits are the Gaussian information of its prediction, -½ log₂(1 - R²) summed over dimensions.
    """
    first, last = (torch.from_numpy(edge).to(X.device) for edge in segment_bounds(segments))
    index = torch.from_numpy(pairs.draw(np.random.default_rng(seed), batches, batch)).to(X.device)
    slices, names = layout(spaces), tuple(spaces)
    seeds = next(iter(parameters.values())).shape[0]
    values = np.full((batches, seeds, len(names)), np.nan)
    bits = np.empty_like(values)
    for b in range(batches):
        x = embedder.gather(X, index[b], first, last).flatten(0, 1)
        z = embedder(parameters, x.expand(seeds, *x.shape))
        rows = embedder.tempered(parameters, z).split(batch, 1)
        for k, name in enumerate(names):
            space, where = spaces[name], slices[name]
            reference, positive, negative = pairs.rows[name]
            block = rows[reference][..., where]
            if isinstance(space, Regress):
                goal = torch.from_numpy(targets[name]).to(X)[index[b, reference]]
                error = (block - goal).square().mean(1)
                information = 0.5 * torch.log2(goal.var(0, correction=0).clamp_min(1e-12) / error).sum(-1)
                bits[b, :, k] = information.cpu().numpy()
                continue
            assert positive is not None and negative is not None
            terms = [(similarity_of(space.similarity), slice(0, space.dim))]
            value = infonce(
                block,
                rows[positive][..., where],
                rows[negative][..., where],
                terms,
                count_positive=True,
            )
            values[b, :, k] = value.cpu().numpy()
            bits[b, :, k] = (chance(batch) - values[b, :, k]) / np.log(2)
    error = bits.std(0, ddof=1) / np.sqrt(batches)
    mean = bits.mean(0)
    regress = np.array([isinstance(space, Regress) for space in spaces.values()])
    return Fit(
        names,
        values.mean(0),
        np.where(regress, np.nan, chance(batch)),
        mean,
        mean <= np.maximum(FLOOR, 2 * error),
        np.array([pairs.left_out[name] for name in names]),
    )
