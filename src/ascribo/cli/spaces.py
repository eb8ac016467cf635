"""Spaces as they stand on the command line: an option for each kind that has one (`Space.option`)."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..spaces.base import KINDS, Option, Space
from ..support.names import suggest

__all__ = ["SpaceText", "build_spaces", "options"]


@dataclass(frozen=True)
class SpaceText:
    """One space as it stands on the command line."""

    kind: type[Space]
    name: str
    variables: tuple[str, ...]
    dim: int | None


def options() -> Iterator[tuple[Option, Callable[[str], SpaceText]]]:
    """The option of each kind of space that has one, with the function that reads its text, for argparse.

    >>> read = {option.flag: parse for option, parse in options()}["follow"]
    >>> read("position=x,y:3")
    SpaceText(kind=<class 'ascribo.spaces.kinds.follow.Follow'>, name='position', variables=('x', 'y'), dim=3)
    """
    for kind in KINDS.values():
        option = vars(kind).get("option")  # not one that it inherits: that is its parent's
        if option is not None:
            yield option, _reader(kind, option)


def _reader(kind: type[Space], option: Option) -> Callable[[str], SpaceText]:
    takes_variables = "=" in option.form

    def read(text: str) -> SpaceText:
        head, colon, dim = text.rpartition(":")
        if not colon:
            head, dim = text, None
        name, equals, variables = head.partition("=")
        parts = tuple(variables.split(",")) if equals else ()
        well_formed = (
            name
            and all(parts)
            and bool(parts) == takes_variables
            and (len(parts) <= 1 or option.many)
            and (option.dim == "maybe" or (dim is not None) == (option.dim == "yes"))
            and (dim is None or dim.isdigit())
        )
        if not well_formed:
            raise argparse.ArgumentTypeError(f"{text!r} is not of the form {option.form}")
        return SpaceText(kind, name, parts, None if dim is None else int(dim))

    return read


def build_spaces(
    texts: Sequence[SpaceText], circular: Sequence[str], period: float | None, nuisance: Sequence[str]
) -> dict[str, Space]:
    """The spaces that the options say.

    circular : variables that are angles. period : their full turn; None: 2π. nuisance : names of spaces.
    """
    spaces: dict[str, Space] = {}
    for text in texts:
        if text.name in spaces:
            raise ValueError(f"two spaces are called {text.name!r}: give each its own name.")
        angles = tuple(v for v in text.variables if v in circular)
        turning: dict[str, Any] = {}
        if angles and not text.kind.categorical:
            turning = {"circular": angles, "period": 2 * np.pi if period is None else period}
        spaces[text.name] = text.kind.from_option(
            text.variables, text.dim, nuisance=text.name in nuisance, **turning
        )
    for name in nuisance:
        if name not in spaces:
            raise ValueError(f"--nuisance {name}: no space is called that{suggest(name, spaces)}")
    numbers = [v for text in texts if not text.kind.categorical for v in text.variables]
    for name in circular:
        if name not in numbers:
            raise ValueError(f"--circular {name}: no --follow or --regress uses it{suggest(name, numbers)}")
    if period is not None and not circular:
        raise ValueError(f"--period {period:g} is for circular variables: name them with --circular.")
    return spaces
