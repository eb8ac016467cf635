"""Which time steps are compared with which: references, positives and negatives, as indices.

References and negatives are uniform over time; how positives are drawn is a matter of the space. Everything is
drawn in bulk, many training steps at once, and nothing crosses the edge of a segment: a run of time steps that
belong together, an epoch or a part of one when some of it is held out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from .base import Space
from .positives import Positives

__all__ = ["Pairs", "Rows", "arrange"]


class Pairs:
    """Index batches for all spaces of a model, from the steps of one set of segments.

    Parameters
    ----------
    spaces : name -> Space.
    variables : DataFrame (time, variable).
    segments : (time,) integers, -1 for steps not to be used.

    make : (name of a space, its references) -> how its positives are drawn, where that is not as the space says.

    A step whose variables are missing (NaN, None) is left out of that space's references, positives and
    negatives; spaces with the same steps share references and negatives.

    rows : for each space, which rows of a drawn batch hold its references, positives and negatives.
    uniform : for each of the first rows, the steps it is drawn from uniformly.
    positive : for each contrastive space, in the order of the rows that follow, how its positives are drawn.
    left_out : for each space, the number of steps whose variables are missing.

    Examples
    --------
    >>> from ascribo import Follow, Time
    >>> table = pd.DataFrame({"x": np.linspace(0, 1, 100)})
    >>> pairs = Pairs({"x": Follow("x", 1), "rest": Time(1)}, table, np.zeros(100, int))
    >>> pairs.rows
    {'x': (0, 2, 1), 'rest': (0, 3, 1)}
    >>> pairs.draw(np.random.default_rng(0), steps=5, batch=8).shape
    (5, 4, 8)
    """

    def __init__(
        self,
        spaces: Mapping[str, Space],
        variables: pd.DataFrame,
        segments: np.ndarray,
        make: Callable[[str, np.ndarray], Positives] | None = None,
    ):
        usable = np.logical_and.reduce([segments >= 0, *(space.usable(segments) for space in spaces.values())])
        self.left_out, pools = {}, {}
        for name, space in spaces.items():
            known = space.known(variables)
            self.left_out[name] = int(((segments >= 0) & ~known).sum())
            pools[name] = np.flatnonzero(usable & known)
            if not len(pools[name]):
                raise ValueError(f"space {name!r} has no time step with a positive: {space.why_empty()}.")
        self.uniform, self.rows = arrange(spaces, pools)
        self.positive: dict[str, Positives] = {
            name: space.positives(variables, segments) if make is None else make(name, pools[name])
            for name, space in spaces.items()
            if space.contrastive
        }

    def draw(self, rng: np.random.Generator, steps: int, batch: int) -> np.ndarray:
        """Indices of time steps, (steps, rows, batch), drawn for `steps` training steps at once."""
        out = np.empty((steps, len(self.uniform) + len(self.positive), batch), dtype=np.int64)
        for row, pool in enumerate(self.uniform):
            out[:, row] = pool[rng.integers(0, len(pool), (steps, batch))]
        for name, positive in self.positive.items():
            reference, row, _ = self.rows[name]
            out[:, row] = positive.draw(rng, out[:, reference].ravel()).reshape(steps, batch)
        return out


Rows = dict[str, tuple[int, int | None, int | None]]
"""For each space the rows of a batch that hold its references, positives and negatives (None: it has none)."""


def arrange(spaces: Mapping[str, Space], pools: Mapping[str, np.ndarray]) -> tuple[list[np.ndarray], Rows]:
    """What the rows of a batch are for: the steps that the first ones are drawn from, and the rows of each space.

    pools : for each space the steps it takes references and negatives from. Spaces with the same steps share both.
    """
    uniform: list[np.ndarray] = []
    rows: Rows = {}
    shared: dict[bytes, tuple[int, int | None]] = {}
    for name, space in spaces.items():
        key = pools[name].tobytes()
        if key not in shared:
            shared[key] = (len(uniform), None)
            uniform.append(pools[name])
        reference, negative = shared[key]
        if negative is None and space.contrastive:
            negative = len(uniform)
            shared[key] = (reference, negative)
            uniform.append(pools[name])
        rows[name] = (reference, None, negative if space.contrastive else None)
    contrastive = [name for name, space in spaces.items() if space.contrastive]
    for row, name in enumerate(contrastive, start=len(uniform)):
        rows[name] = (rows[name][0], row, rows[name][2])
    return uniform, rows
