"""Checks of single numbers that a user passes: the error says the name, what was passed and what was expected."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

__all__ = ["check_integer", "check_number"]


def check_integer(name: str, value: Any, least: int) -> int:
    """The value as an int, if it is a whole number of at least `least`; True and False are none.

    >>> check_integer("dim", 3, 1)
    3
    >>> check_integer("dim", 2.5, 1)
    Traceback (most recent call last):
    ...
    ValueError: dim=2.5: expected an integer of at least 1.
    """
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or number < least:
        raise ValueError(f"{name}={value!r}: expected an integer of at least {least}.")
    return number


def check_number(
    name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf, why: str = ""
) -> float:
    """The value as a float, if it is a finite number above `above` and not below `least`.

    why : what else the error says.

    >>> check_number("scale", 0.5, above=0)
    0.5
    >>> check_number("scale", -1, above=0, why="it is the width of a distribution")
    Traceback (most recent call last):
    ...
    ValueError: scale=-1: expected a number above 0; it is the width of a distribution.
    """
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not (math.isfinite(number) and number > above and number >= least):
        wanted = (
            f" above {above:g}" if math.isfinite(above) else f" of at least {least:g}" if least > -math.inf else ""
        )
        raise ValueError(f"{name}={value!r}: expected a number{wanted}{'; ' + why if why else ''}.")
    return number
