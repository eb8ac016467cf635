"""What a space is: a named block of embedding dimensions, and all that the library asks of it.

Schneider et al. (2025, section 3) split the output of one encoder into groups of dimensions, each trained with
pairs of its own. Here a group is a `Space`. Everything that depends on the kind of space is a method or an
attribute of this class: which pairs it compares, how far apart in time they lie, what it predicts, how it is drawn
on a GPU, how sessions share it, how a file and the command line spell it. A new kind is one subclass in one file.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd

from ..kernels.similarity_terms import Similarity
from ..support.circle import check_period
from ..support.names import plural
from ..support.stored_parameters import storable
from .positives import CircularShift, Positives
from .sessions import Across, Member
from .similarities import as_similarity

__all__ = [
    "KINDS",
    "Option",
    "Space",
    "check_values",
    "describe_space",
    "dimension_names",
    "layout",
    "reported",
    "space_kind",
]

LARGEST = 1e100
"""Size of a variable up to which, and from the inverse of which, its squares can be summed."""
KINDS: dict[str, type[Space]] = {}
"""Registered kinds of spaces, by the module and name of their class."""

Kind = TypeVar("Kind", bound="type[Space]")


def space_kind(cls: Kind) -> Kind:
    """Register a kind of space (as a decorator above `@dataclass`): it can then be saved, loaded, and, if it has an
    `option`, be given on the command line."""
    name, option = f"{cls.__module__}.{cls.__qualname__}", vars(cls).get("option")
    for other, kind in KINDS.items():
        if option and other != name and kind.option and kind.option.flag == option.flag:
            raise ValueError(f"{name} and {other} both have the option --{option.flag}: give one another flag.")
    KINDS[name] = cls
    return storable(cls)


@dataclass(frozen=True)
class Option:
    """How the command line spells a kind of space: `--flag FORM`, with a line of help.

    dim : whether the form ends in :DIM: "yes", "no" or "maybe". many : whether it takes several variables.
    """

    flag: str
    form: str
    help: str
    dim: str = "yes"
    many: bool = False


class Space:
    """A named block of embedding dimensions. Use one of the subclasses, or write one of your own.

    A kind of space of your own is a frozen dataclass that inherits from this class and is registered:

    - It has the fields `dim` and, if it needs variables of the recording, `variables` (a tuple of names);
      `similarity`, `temperature` and `nuisance` may be fields too.
    - A contrastive kind defines `positives`, which says how the positive of a time step is drawn.
    - A kind that predicts something instead sets `contrastive = False` and defines `target_values`.

    All else has a default that can be overridden. `tests/extending/test_space.py` is a worked example.

    Attributes
    ----------
    dim : number of embedding dimensions.
    variables : names of the variables it needs; none if it follows time alone.
    similarity, temperature : geometry of the block, see `ascribo.spaces.similarities`.
    nuisance : True for what should be accounted for but not reported, such as a speed that position is to be told
        from. The space is trained, has its dimensions of the embedding and its row in the goodness of fit, and what
        others add is what they add to it; but maps, calls and scores leave it out.
    contrastive : True if positives are compared with negatives; False if the block predicts targets.
    categorical : True if the variable is a label, without distances between its values.
    comparable : True if coordinates mean the same in all sessions of a `SharedEmbedding`.
    reach : the largest number of time steps between which a pair, or a change that makes one, is taken.
    ahead : how far ahead of a time step its positive may lie in time: an encoder may have learned it by heart.
    option : how the command line spells it; None: it does not.

    >>> import ascribo as asc
    >>> space = asc.Follow(["x", "y"], dim=2)
    >>> isinstance(space, asc.Space), space.dim, space.variables, space.nuisance
    (True, 2, ('x', 'y'), False)
    """

    dim: int
    variables: tuple[str, ...]
    similarity: str | Similarity = "squared_l2"
    temperature: float | str = 1.0
    nuisance: bool = False

    contrastive: ClassVar[bool] = True
    categorical: ClassVar[bool] = False
    comparable: ClassVar[bool] = False
    option: ClassVar[Option | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # a default on this class would become the default of a field `variables` of any dataclass below it
        if not hasattr(cls, "variables") and "variables" not in inspect.get_annotations(cls):
            cls.variables = ()

    @property
    def follows_time(self) -> bool:
        """Whether the space needs no variable: time alone says what belongs together."""
        return not self.variables

    @property
    def reach(self) -> int:
        """See the class."""
        return 1

    @property
    def ahead(self) -> int:
        """See the class."""
        return 0

    @property
    def periods(self) -> tuple[float, ...]:
        """The full turn of each variable, in its own unit; 0 for a variable that is not circular."""
        return (0.0,) * len(self.variables)

    # Checks, before anything is trained

    def check_variable(self, name: str, column: pd.Series) -> None:
        """Refuse a variable that this kind cannot use; `name` is that of the variable."""
        if not pd.api.types.is_numeric_dtype(column):
            raise ValueError(
                f"variable {name!r} is {column.dtype}, but {type(self).__name__} needs numbers. Use "
                f"ascribo.Discrete({name!r}, dim=...) for labels."
            )
        values = np.abs(column.to_numpy(dtype=float))
        if np.isinf(values).any():
            raise ValueError(f"variable {name!r} holds infinity. Replace it, by NaN where it is unknown.")
        largest = np.nanmax(values, initial=0.0)
        if largest and not 1 / LARGEST < largest < LARGEST:
            raise ValueError(
                f"variable {name!r} is {largest:.3g} at its largest: expected sizes from {1 / LARGEST:g} to "
                f"{LARGEST:g}, whose squares can be computed. Give it in another unit."
            )

    def check_length(self, longest: int) -> None:
        """Refuse a recording whose longest epoch, in time steps, is too short for this space."""

    # Pairs

    def known(self, variables: pd.DataFrame) -> np.ndarray:
        """True at the time steps where all variables are known: (time,) booleans."""
        missing = variables[list(self.variables)].isna().to_numpy()
        return np.asarray(~missing.any(axis=1))

    def usable(self, segments: np.ndarray) -> np.ndarray:
        """True at the time steps that have a positive within their segment: (time,) booleans."""
        return segments >= 0

    def why_empty(self) -> str:
        """What to say where no time step can be used."""
        return f"{list(self.variables)} are missing everywhere"

    def positives(self, variables: pd.DataFrame, segments: np.ndarray) -> Positives:
        """How positives are drawn from the time steps of some segments; see `ascribo.spaces.positives`.

        variables : (time, variable). segments : (time,), -1 for time steps that are not to be used.
        """
        raise NotImplementedError(f"{type(self).__name__} is contrastive: it needs a method `positives`.")

    def shifted_positives(self, shift: CircularShift) -> Positives:
        """Positives of a recording whose variables are shifted against its channels: see `ascribo.shift_test`."""
        return self.positives(shift.variables, shift.segments)

    # Targets, of a space that predicts something

    def target_values(self, variables: pd.DataFrame) -> np.ndarray:
        """What the block predicts, in its own unit: (time, dim) float64."""
        raise NotImplementedError(f"{type(self).__name__} is not contrastive: it needs a method `target_values`.")

    def target_statistics(self, variables: pd.DataFrame, rows: np.ndarray) -> np.ndarray:
        """Mean and standard deviation of the targets over some rows: (2, dim)."""
        used = self.target_values(variables)[rows]
        spread = np.nanstd(used, axis=0)
        return np.stack([np.nanmean(used, axis=0), np.where(spread > 0, spread, 1)])

    def targets(self, variables: pd.DataFrame, statistics: np.ndarray) -> np.ndarray:
        """The targets, standardised with given statistics (2, dim): (time, dim) float32."""
        mean, spread = statistics
        return ((self.target_values(variables) - mean) / spread).astype(np.float32)

    # Variables as numbers

    def values(self, variables: pd.DataFrame) -> np.ndarray:
        """The variables as numbers, circular ones as cosine and sine, labels as one column each: (time, k)."""
        columns = []
        for name, period in zip(self.variables, self.periods, strict=True):
            value = variables[name].to_numpy(dtype=np.float64)
            if period:
                angle = 2 * np.pi * value / period
                columns += [np.cos(angle), np.sin(angle)]
            else:
                columns.append(value)
        return np.stack(columns, axis=1)

    # Several sessions

    def measure(self, tables: Sequence[pd.DataFrame]) -> Any:
        """What values of different sessions are compared by (scales, labels), from all their rows together.

        It must be fit for JSON, but for arrays; None if the sessions need nothing.
        """
        return None

    def extended_measure(self, measure: Any, table: pd.DataFrame) -> Any:
        """The measure with what one more session adds to it."""
        return measure

    def across(self, name: str, members: Mapping[int, Member], measure: Any) -> Across | None:
        """How positives are drawn across sessions; None: each session draws its own (`positives`).

        name : of the space. members : the sessions that have it, by their numbers. measure : see `measure`.
        """
        return None

    def binning_values(self, table: pd.DataFrame, measure: Any) -> np.ndarray:
        """What time steps of different sessions are matched by: (time, k) numbers, or labels if `categorical`."""
        return self.values(table)

    # The command line

    @classmethod
    def from_option(cls, variables: tuple[str, ...], dim: int | None, **others: Any) -> Space:
        """The space that an option of the command line says, see `Option`.

        others : `nuisance`, and `circular` and `period` if some of the variables are circular.
        """
        given: dict[str, Any] = {"dim": dim} if dim is not None else {}
        return cls(*([variables] if variables else []), **given, **others)  # type: ignore[call-arg]

    def _check(self) -> None:
        kind = type(self).__name__
        if not isinstance(self.nuisance, bool):
            raise ValueError(f"{kind}(nuisance={self.nuisance!r}): expected True or False.")
        dim = self.dim
        if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or dim < 1:
            raise ValueError(f"{kind}(dim={dim!r}): dim must be an integer of at least 1.")
        temperature = self.temperature
        if temperature != "learn" and not (
            isinstance(temperature, int | float) and np.isfinite(temperature) and temperature > 0
        ):
            raise ValueError(
                f"{kind}(temperature={temperature!r}): expected a positive number, or 'learn' to fit it."
            )
        as_similarity(self.similarity)

    def _set(self, **fields: Any) -> None:
        """Set fields of a frozen record while it is made."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)


def variable_names(kind: str, names: str | Iterable[str]) -> tuple[str, ...]:
    """One name or several as a tuple, refused if they are no names or one occurs twice."""
    given = (names,) if isinstance(names, str) else tuple(names)
    if not given or any(not isinstance(name, str) for name in given):
        raise ValueError(f"{kind}({given!r}): expected the names of one or more variables.")
    if len(set(given)) < len(given):
        raise ValueError(f"{kind}({list(given)}): a variable is named twice.")
    return given


def circular_names(
    kind: str, names: tuple[str, ...], circular: bool | str | Iterable[str], period: float
) -> tuple[str, ...]:
    """The variables that are circular, of those of a space; True stands for all of them."""
    chosen = names if circular is True else variable_names(kind, circular) if circular else ()
    if extra := set(chosen) - set(names):
        raise ValueError(f"{kind}: circular={sorted(extra)} are not among its variables {list(names)}.")
    if not period > 0:
        raise ValueError(f"{kind}(period={period!r}): the full turn must be positive.")
    if not chosen and period != 2 * np.pi:
        raise ValueError(
            f"{kind}(period={period!r}): the period is that of circular variables, and none of {list(names)} is "
            "one. Pass circular=True, or the names of those that are angles; or leave period out."
        )
    return chosen


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


def dimension_names(spaces: Mapping[str, Space]) -> list[str]:
    """A name for every embedding dimension: the space's name and a number, with a dot between where two would meet.

    >>> from ascribo import Time
    >>> dimension_names({"a": Time(dim=2), "b": Time(dim=1)})
    ['a0', 'a1', 'b0']
    """
    names = [f"{name}{k}" for name, space in spaces.items() for k in range(space.dim)]
    if max(Counter(names).values(), default=1) == 1:
        return names
    return [f"{name}.{k}" for name, space in spaces.items() for k in range(space.dim)]


def check_values(name: str, space: Space, variable: str, column: pd.Series) -> None:
    """Refuse values of a variable that a space, called `name`, cannot use, or that do not fit its period.

    >>> from ascribo import Follow
    >>> degrees = pd.Series([0.0, 90.0, 180.0, 350.0])
    >>> check_values("compass", Follow("heading", dim=2, circular=True), "heading", degrees)
    Traceback (most recent call last):
    ValueError: space 'compass': variable 'heading' runs from 0 to 350, which looks like degrees, and its period ...
    """
    try:
        space.check_variable(variable, column)
        if period := dict(zip(space.variables, space.periods, strict=True))[variable]:
            check_period(variable, column.to_numpy(dtype=float), period)
    except ValueError as error:
        raise ValueError(f"space {name!r}: {error}") from error


def describe_space(space: Space) -> str:
    """A space in a few words.

    >>> from ascribo import Follow
    >>> describe_space(Follow(["x", "y"], dim=2))
    'Follow of x, y, 2 dimensions'
    """
    about = f" of {', '.join(space.variables)}" if space.variables else ""
    return f"{type(space).__name__}{about}, {space.dim} dimension{plural(space.dim)}"


def reported(spaces: Mapping[str, Space]) -> list[str]:
    """Names of the spaces that maps and scores are about: all but the nuisances.

    >>> from ascribo import Follow
    >>> reported({"position": Follow("x", 1), "speed": Follow("v", 1, nuisance=True)})
    ['position']
    """
    return [name for name, space in spaces.items() if not space.nuisance]
