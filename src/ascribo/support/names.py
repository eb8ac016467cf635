"""Names in messages: the closest match, the first few, an s, control characters made visible."""

from __future__ import annotations

import difflib
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def suggest(name: object, names: Iterable[object]) -> str:
    """What to say after "no such name": the closest of `names`, or some of them.

    >>> suggest("sped", ["speed", "position"])
    "; did you mean 'speed'?"
    >>> suggest("q", ["speed", "position"])
    '; there are: speed, position.'
    """
    known = [str(n) for n in names]
    if not known:
        return "; there are none."
    by_lower = {n.lower(): n for n in known}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else f"; there are: {first_few(known)}."


def by_name(parameter: str, value: Any, known: Mapping[str, Any], method: str, example: str) -> Any:
    """What a user gave by name, or as an object of its own: one that has the method.

    parameter, example : named in the error: what was asked for, and what an object would be.

    >>> by_name("digit", "two", {"one": 1, "two": 2}, "bit_length", "7")
    2
    """
    if isinstance(value, str) and value in known:
        return known[value]
    if isinstance(value, str) or not hasattr(value, method):
        raise ValueError(f"{parameter}={value!r}: expected one of {sorted(known)}, or an object such as {example}.")
    return value


def plural(count: int) -> str:
    """An s, unless there is one."""
    return "" if count == 1 else "s"


def first_few(names: Iterable[object], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    names = [str(n) for n in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def check_unique(names: Iterable[str], what: str) -> None:
    """Refuse names that occur twice."""
    twice = [f"{name!r}" for name, n in Counter(names).items() if n > 1]
    if twice:
        raise ValueError(f"{what} names must differ; more than one is called {first_few(twice)}.")


def check_options(method: str, function: Callable[..., Any], options: Iterable[str]) -> None:
    """Refuse options of a method that its function does not take by keyword."""
    known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise TypeError(f"method={method!r} has no option {name!r}{suggest(name, known)}")


def visible(text: str) -> str:
    """The text with what a terminal would obey or hide, such as an escape character, written out.

    >>> visible("cell" + chr(27) + "[31m") == "cell" + chr(92) + "x1b[31m"
    True
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
