"""A space is a named block of embedding dimensions, its geometry, and what drives its positive pairs.

The papers split the output of one encoder into groups (001, section 3). Here a group is one of four small
records; they hold what the user said and nothing else. `ascribo.spaces.pairs` turns them into samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..kernels.terms import Similarity
from .similarities import similarity_of

__all__ = ["Space", "layout", "reported"]


class Space:
    """What every space has: its size, its geometry, the variables it needs. Use one of the subclasses.

    nuisance : True for what should be accounted for but not reported, such as a speed that position is to be told
        from. The space is trained, has its dimensions of the embedding and its row in the goodness of fit, and what
        others add is what they add to it; but maps, calls and scores leave it out.
    """

    dim: int
    variables: tuple[str, ...]
    similarity: str | Similarity
    temperature: float | str
    nuisance: bool

    def _check(self) -> None:
        if not isinstance(self.nuisance, bool):
            raise ValueError(f"{type(self).__name__}(nuisance={self.nuisance!r}): expected True or False.")
        dim = self.dim
        if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or dim < 1:
            raise ValueError(f"{type(self).__name__}(dim={dim!r}): dim must be an integer of at least 1.")
        temperature = self.temperature
        if temperature != "learn" and not (
            isinstance(temperature, int | float) and np.isfinite(temperature) and temperature > 0
        ):
            raise ValueError(
                f"{type(self).__name__}(temperature={temperature!r}): expected a positive number, or "
                "'learn' to fit it."
            )
        similarity_of(self.similarity)


def _names(space: Space, names) -> tuple[str, ...]:
    names = (names,) if isinstance(names, str) else tuple(names)
    if not names or any(not isinstance(name, str) for name in names):
        raise ValueError(f"{type(space).__name__}({names!r}): expected the names of one or more variables.")
    if len(set(names)) < len(names):
        raise ValueError(f"{type(space).__name__}({list(names)}): a variable is named twice.")
    return names


def _set_circular(space: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    given: Any = space.circular
    circular = names if given is True else _names(space, given) if given else ()
    if extra := set(circular) - set(names):
        raise ValueError(
            f"{type(space).__name__}: circular={sorted(extra)} are not among its variables {list(names)}."
        )
    if not space.period > 0:
        raise ValueError(f"{type(space).__name__}(period={space.period!r}): the full turn must be positive.")
    object.__setattr__(space, "circular", circular)
    return circular


def layout(spaces: Mapping[str, Space]) -> dict[str, slice]:
    """Where each space lies among the embedding dimensions, in the order given.

    >>> from ascribo import Time
    >>> layout({"a": Time(dim=2), "b": Time(dim=3)})
    {'a': slice(0, 2, None), 'b': slice(2, 5, None)}
    """
    slices, start = {}, 0
    for name, space in spaces.items():
        slices[name] = slice(start, start + space.dim)
        start += space.dim
    return slices


def reported(spaces: Mapping[str, Space]) -> list[str]:
    """Names of the spaces that maps and scores are about: all but the nuisances.

    >>> from ascribo import Follow
    >>> reported({"position": Follow("x", 1), "speed": Follow("v", 1, nuisance=True)})
    ['position']
    """
    return [name for name, space in spaces.items() if not space.nuisance]
