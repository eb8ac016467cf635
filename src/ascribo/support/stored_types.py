"""Whether a value that a JSON file held is of the type that belongs there."""

from __future__ import annotations

from typing import Any

__all__ = ["is_of", "name_of"]


def is_of(value: Any, kind: Any) -> bool:
    """Whether a value that JSON held is of a type such as `int`, `list[str]`, `dict[str, int]` or `int | None`.

    >>> is_of([1, 2], list[int]), is_of(True, int), is_of([1, None], list[float | None]), is_of(3, list[str] | None)
    (True, False, True, False)
    >>> is_of({"a": 1}, dict[str, int]), is_of({"a": "b"}, dict[str, int])
    (True, False)
    """
    parts: tuple[Any, ...] = getattr(kind, "__args__", ())
    origin = getattr(kind, "__origin__", None)
    if origin is list:
        return isinstance(value, list) and all(is_of(one, parts[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(is_of(one, parts[1]) for one in value.values())
    if parts:
        return any(is_of(value, part) for part in parts)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)


def name_of(kind: Any) -> str:
    """The type in words of Python.

    >>> name_of(int), name_of(list[str] | None)
    ('int', 'list[str] | None')
    """
    return kind.__name__ if type(kind) is type else str(kind)
