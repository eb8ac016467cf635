"""Parameters of a model as JSON and back: plain values, and dataclasses that were registered for it.

A class is recognised by what it is, never by its name alone. Reading makes only instances of registered classes
from their fields, and imports nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

__all__ = ["decode", "encode", "storable"]

REGISTERED: dict[str, type] = {}
"""The name that stands in a file -> the class."""

Class = TypeVar("Class", bound=type)


def storable(cls: Class) -> Class:
    """Let models that hold instances of your dataclass be saved and loaded (a decorator of the class).

    Use it for a similarity, a space, an encoder description or a penalty schedule of your own. The model's folder
    keeps the module and the name of the class with the values of its fields, not its code: before loading, import
    the module that defines it.

    >>> @storable
    ... @dataclasses.dataclass(frozen=True)
    ... class Wave:
    ...     height: float
    >>> decode(encode(Wave(2.0)))
    Wave(height=2.0)
    """
    kind: type = cls
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        raise TypeError(
            f"{getattr(cls, '__name__', cls)!r} is not a dataclass: only the fields of one can be written to a "
            "file. Put @dataclass below @ascribo.storable."
        )
    if any(field.name == "type" for field in dataclasses.fields(kind)):
        raise TypeError(f"{kind.__name__} has a field 'type', a name that files use themselves: rename the field.")
    known = REGISTERED.setdefault(_name(kind), kind)
    if known.__module__ != kind.__module__:
        raise TypeError(
            f"there are two classes {kind.__name__}: {known.__module__} has one, {kind.__module__} too."
        )
    REGISTERED[_name(kind)] = kind  # the cell of a notebook may be run again
    return cls


def _name(cls: type) -> str:
    """What stands in a file: the class's name, with its module if it is not one of ours."""
    ours = cls.__module__.partition(".")[0] == __name__.partition(".")[0]
    return cls.__qualname__ if ours else f"{cls.__module__}:{cls.__qualname__}"


def encode(value: Any, what: str = "the value") -> Any:
    """JSON form of a parameter; refuses, in a sentence about `what`, whatever `decode` could not bring back.

    >>> encode({"steps": np.int64(3)})
    {'type': 'dict', 'items': [['steps', 3]]}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [encode(item, f"{what}[{k}]") for k, item in enumerate(value)]
    if isinstance(value, Mapping):
        items = [[encode(key, f"a key of {what}"), encode(item, f"{what}[{key!r}]")] for key, item in value.items()]
        return {"type": "dict", "items": items}
    cls, name = type(value), _name(type(value))
    if REGISTERED.get(name) is not cls:
        raise ValueError(f"{what} cannot be saved: {_why_not(value)}")
    fields = [field.name for field in dataclasses.fields(value) if field.init]
    out = {"type": name, **{field: encode(getattr(value, field), f"{what}.{field}") for field in fields}}
    try:
        decode(out)
    except Exception as error:
        why = f"{cls.__name__} cannot be made again from its fields ({error})"
        raise ValueError(f"{what} cannot be saved: {why}.") from error
    return out


def _why_not(value: Any) -> str:
    cls = type(value)
    if not dataclasses.is_dataclass(cls):
        return (
            f"its class {cls.__module__}.{cls.__qualname__} is not a dataclass. Numbers, texts, lists, dicts and "
            "dataclasses that are registered with @ascribo.storable can be saved."
        )
    return (
        f"its class {cls.__module__}.{cls.__qualname__} is not registered, so it could not be loaded again. Put "
        "@ascribo.storable above the @dataclass of its definition."
    )


def decode(value: Any) -> Any:
    """The inverse of `encode`; lists come back as tuples.

    >>> decode(encode({"steps": (1, 2)}))
    {'steps': (1, 2)}
    """
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    kind = value["type"]
    if kind == "dict":
        return {decode(key): decode(item) for key, item in value["items"]}
    if kind not in REGISTERED:
        module, colon, name = str(kind).partition(":")
        if not colon:
            raise ValueError(f"{kind!r} is unknown to this version of ascribo.")
        raise ValueError(
            f"it holds an object of the class {name} of the module {module}: import {module}, where the class is "
            "registered with @ascribo.storable, before loading."
        )
    fields = {key: decode(item) for key, item in value.items() if key != "type"}
    try:
        return REGISTERED[kind](**fields)
    except TypeError as error:
        raise ValueError(f"the class {kind} has other fields than when the model was saved: {error}.") from error
