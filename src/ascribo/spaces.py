"""A space is a named block of embedding dimensions, its geometry, and what drives its positive pairs.

The papers split the output of one encoder into groups (001, section 3). Here a group is one of four small
records; they hold what the user said and nothing else. `ascribo.pairs` turns them into samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from .losses import Similarity, similarity_of

__all__ = ["Discrete", "Follow", "Regress", "Space", "Time", "layout", "reported"]


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


@dataclass(frozen=True)
class Follow(Space):
    """Positives follow the changes of continuous variables: c' = c(t) + Δ, Δ drawn from the recording.

    Parameters
    ----------
    variables : one name or several. Together they are one vector c; distances are taken after dividing each
        by its standard deviation.
    dim : number of embedding dimensions of this space.
    circular : True if all variables are angles, or the names of those that are. Differences and distances
        are then taken on the circle.
    period : full turn of the circular variables, in their own unit (radians by default; 360 for degrees).
    offset : Δ is the change over this many time steps.
    similarity, temperature : geometry of the space, see `ascribo.losses`.
    nuisance : True to account for the space without reporting it: see `Space`.

    Examples
    --------
    >>> Follow(["x", "y"], dim=3).variables
    ('x', 'y')
    >>> Follow("heading", dim=2, circular=True).circular
    ('heading',)
    """

    variables: tuple[str, ...]
    dim: int
    _: KW_ONLY
    circular: tuple[str, ...] = ()
    period: float = 2 * np.pi
    offset: int = 1
    similarity: str | Similarity = "squared_l2"
    temperature: float | str = 1.0
    nuisance: bool = False

    def __post_init__(self):
        self._check()
        names = _names(self, self.variables)
        object.__setattr__(self, "variables", names)
        _set_circular(self, names)
        if not isinstance(self.offset, int | np.integer) or self.offset < 1:
            raise ValueError(f"Follow(offset={self.offset!r}): expected an integer of at least 1.")


@dataclass(frozen=True)
class Time(Space):
    """Positives are neighbours in time: what remains when no variable is given.

    Parameters
    ----------
    dim : number of embedding dimensions of this space.
    offsets : the positive of step t is step t + o, with o drawn uniformly from these.
    similarity, temperature, nuisance : as of `Follow`.

    Examples
    --------
    >>> Time(dim=3, offsets=(1, 2)).offsets
    (1, 2)
    """

    dim: int
    _: KW_ONLY
    offsets: tuple[int, ...] = (1,)
    similarity: str | Similarity = "squared_l2"
    temperature: float | str = 1.0
    nuisance: bool = False
    variables: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self):
        self._check()
        given: Any = self.offsets
        offsets = (given,) if isinstance(given, int | np.integer) else tuple(given)
        if not offsets or any(not isinstance(o, int | np.integer) or o < 1 for o in offsets):
            raise ValueError(f"Time(offsets={self.offsets!r}): expected one or more integers of at least 1.")
        object.__setattr__(self, "offsets", offsets)


@dataclass(frozen=True)
class Discrete(Space):
    """Positives share the label of one discrete variable (numbers, strings or categories).

    similarity, temperature, nuisance : as of `Follow`.

    Examples
    --------
    >>> Discrete("stimulus", dim=2)
    Discrete(variable='stimulus', dim=2, similarity='squared_l2', temperature=1.0, nuisance=False)
    """

    variable: str
    dim: int
    _: KW_ONLY
    similarity: str | Similarity = "squared_l2"
    temperature: float | str = 1.0
    nuisance: bool = False

    def __post_init__(self):
        self._check()
        if not isinstance(self.variable, str):
            raise ValueError(f"Discrete({self.variable!r}): expected the name of one variable.")

        object.__setattr__(self, "variables", (self.variable,))


@dataclass(frozen=True)
class Regress(Space):
    """The supervised baseline: the block predicts the standardised variables under mean squared error.

    One dimension per variable (two, cosine and sine, per circular one); `dim` may be left out.

    circular, period, nuisance : as of `Follow`.

    Examples
    --------
    >>> Regress(["x", "y"]).dim
    2
    """

    variables: tuple[str, ...]
    dim: int = 0
    _: KW_ONLY
    circular: tuple[str, ...] = ()
    period: float = 2 * np.pi
    nuisance: bool = False
    similarity: ClassVar[str] = "squared_l2"
    temperature: ClassVar[float] = 1.0

    def __post_init__(self):
        names = _names(self, self.variables)
        object.__setattr__(self, "variables", names)
        needed = len(names) + len(_set_circular(self, names))
        if not self.dim:
            object.__setattr__(self, "dim", needed)
        self._check()
        if self.dim != needed:
            raise ValueError(
                f"Regress({list(names)}, dim={self.dim}): a regression has one dimension per variable and "
                f"two per circular one, here {needed}. Leave dim out or set it to {needed}."
            )


def _names(space: Space, names) -> tuple[str, ...]:
    names = (names,) if isinstance(names, str) else tuple(names)
    if not names or any(not isinstance(name, str) for name in names):
        raise ValueError(f"{type(space).__name__}({names!r}): expected the names of one or more variables.")
    if len(set(names)) < len(names):
        raise ValueError(f"{type(space).__name__}({list(names)}): a variable is named twice.")
    return names


def _set_circular(space: Follow | Regress, names: tuple[str, ...]) -> tuple[str, ...]:
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

    >>> reported({"position": Follow("x", 1), "speed": Follow("v", 1, nuisance=True)})
    ['position']
    """
    return [name for name, space in spaces.items() if not space.nuisance]
