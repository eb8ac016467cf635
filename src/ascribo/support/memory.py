"""How much memory may be taken: the budget of `memory=`, and the sizes of blocks that follow from it.

A budget bounds what a call takes in addition to what the process has already. It never changes a result: it decides
how far is read ahead, how much of a file is mapped at once and what is done at the same time. What cannot be done
within it is refused before the work begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

__all__ = [
    "bytes_mapped",
    "bytes_read_ahead",
    "limited",
    "memory_budget",
    "parse_memory",
    "refuse_memory",
    "require_memory",
    "said",
]

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {name[0] + "I" + name[1]: 2 ** (10 * k) for k, name in enumerate(("KB", "MB", "GB", "TB"), start=1)}
MAPPED, READ_AHEAD = 2**24, 2**26
"""Bytes of a file that a reader maps at once, and that are read ahead of the training, if there is no budget."""
SHARE_MAPPED, SHARE_READ_AHEAD = 32, 8
"""Parts of a budget that they take at most: there are four readers."""

_budgets: list[int] = []
"""Those of the calls under way, the innermost last; of the process, as memory is."""


def parse_memory(memory: Any) -> int | None:
    """A budget in bytes: "2GB", "500 MB", "1.5GiB", a number of bytes, or None for none.

    >>> parse_memory("2GB"), parse_memory("500 MB"), parse_memory("1GiB"), parse_memory(10**9), parse_memory(None)
    (2000000000, 500000000, 1073741824, 1000000000, None)
    """
    if memory is None:
        return None
    found = None
    if isinstance(memory, str) and (match := re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([A-Za-z]*)\s*", memory)):
        unit = UNITS.get(match[2].upper())
        found = None if unit is None else int(float(match[1]) * unit)
    elif isinstance(memory, Integral) and not isinstance(memory, bool):
        found = int(memory)
    if found is None or found < 1:
        raise ValueError(
            f"memory={memory!r}: expected a size such as '2GB' or '500MB', a number of bytes, or None."
        )
    return found


@contextmanager
def memory_budget(memory: Any) -> Iterator[None]:
    """Within the block all work keeps to a budget; None leaves things as they are.

    >>> with memory_budget("80MB"):
    ...     bytes_read_ahead()
    10000000
    """
    budget = parse_memory(memory)
    if budget is None:
        yield
        return
    _budgets.append(budget)
    try:
        yield
    finally:
        _budgets.remove(budget)


def limited() -> bool:
    """Whether a budget is to be kept to."""
    return bool(_budgets)


def bytes_mapped() -> int:
    """Bytes of a mapped file that a reader may have as memory of the process at once."""
    return min(MAPPED, _budgets[-1] // SHARE_MAPPED) if _budgets else MAPPED


def bytes_read_ahead() -> int:
    """Bytes of batches that may be read before they are needed."""
    return min(READ_AHEAD, _budgets[-1] // SHARE_READ_AHEAD) if _budgets else READ_AHEAD


def refuse_memory(memory: Any, what: str, instead: str = "use model.set_params(memory=None)") -> None:
    """Refuse a budget where it is not kept to. what, instead : named in the error: the work, and what to do."""
    if parse_memory(memory) is not None:
        raise ValueError(f"memory={memory!r}: {what} does not keep to a budget of memory; {instead}.")


def require_memory(needed: int, what: str, instead: str) -> None:
    """Refuse what would not fit into the budget. what, instead : named in the error: what, and what else to do."""
    if _budgets and needed > _budgets[-1]:
        raise ValueError(
            f"memory={said(_budgets[-1])!r} is too little: {what} takes about {said(needed)}. Give at least "
            f"memory={said(needed)!r}, or {instead}."
        )


def said(size: int) -> str:
    """A size in words, rounded up to what `parse_memory` reads again.

    >>> said(2_000_000_000), said(123_456_789)
    ('2GB', '124MB')
    """
    unit, name = (10**9, "GB") if size >= 10**10 or size % 10**9 == 0 else (10**6, "MB")
    return f"{-(-size // unit)}{name}"
