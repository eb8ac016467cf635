"""Parameters as JSON and back: plain values, and records (dataclasses) that were registered."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

__all__ = ["decode", "encode", "record"]
REGISTERED: dict[str, type] = {}
"""By the name that stands in a file, the record of that name."""

Record = TypeVar("Record", bound=type)


def record(cls: Record) -> Record:
    """Register a dataclass (as a decorator) so that it can be written to a file and read back.

    Records of this package go by their class name, others by module and class name. A model that holds a record of
    yours can be loaded wherever the module that registers it has been imported.

    >>> @record
    ... @dataclasses.dataclass(frozen=True)
    ... class Wave:
    ...     height: float
    >>> decode(encode(Wave(2.0)))
    Wave(height=2.0)
    """
    kind: type = cls
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"{cls.__name__} is not a dataclass: only the fields of one can be written to a file.")
    REGISTERED[_name(cls)] = cls
    return cls


def _name(cls: type) -> str:
    inside = cls.__module__.partition(".")[0] == __name__.partition(".")[0]
    return cls.__name__ if inside else f"{cls.__module__}.{cls.__qualname__}"


def encode(value: Any) -> Any:
    """JSON form of a parameter: plain values as they are, our own records as {"type": name, fields...}.

    >>> encode({"steps": np.int64(3)})
    {'type': 'dict', 'items': [['steps', 3]]}
    """
    if REGISTERED.get(name := _name(type(value))) is type(value):
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
        return {"type": name, **fields}
    if isinstance(value, dict):
        return {"type": "dict", "items": [[key, encode(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Path):
        return str(value)
    return {"type": "custom", "name": type(value).__name__}


def decode(value: Any) -> Any:
    """The inverse of `encode`; something of the user's own comes back as None.

    >>> decode(encode({"steps": (1, 2)}))
    {'steps': (1, 2)}
    """
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    if isinstance(value, dict):
        kind = value["type"]
        if kind == "dict":
            return {key: decode(item) for key, item in value["items"]}
        if kind == "custom":
            return None
        if kind not in REGISTERED:
            raise ValueError(f"{kind!r} is unknown to this version of ascribo.")
        return REGISTERED[kind](**{key: decode(item) for key, item in value.items() if key != "type"})
    return value
