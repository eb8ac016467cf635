"""JSON files that carry a checksum of what they say, so that a changed byte is noticed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from .files import check_ordinary, write_atomically

__all__ = ["is_whole", "read_json", "read_ordinary", "seal", "write_sealed"]

LARGEST = 2**28
"""Bytes of a file: more is none of ours."""
CHECKSUM = "checksum"


def seal(content: dict[str, Any]) -> dict[str, Any]:
    """The content with its checksum: SHA-256 of the rest, whatever the spaces in the file and the order of keys.

    >>> sealed = seal({"a": 1})
    >>> is_whole(sealed), is_whole({**sealed, "a": 2}), is_whole({"a": 1})
    (True, False, False)
    """
    rest = {key: value for key, value in content.items() if key != CHECKSUM}
    return {**rest, CHECKSUM: hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


def is_whole(content: dict[str, Any], needed: bool = True) -> bool:
    """Whether content matches its checksum. needed : it must have one, which files of earlier versions do not."""
    if CHECKSUM not in content:
        return not needed
    try:
        return content[CHECKSUM] == seal(content)[CHECKSUM]
    except RecursionError:  # nothing of ours is so deep
        return False


def write_sealed(path: str | Path, content: dict[str, Any]) -> None:
    """Write content and its checksum to a file, whole or not at all."""
    text = json.dumps(seal(content), indent=1)
    write_atomically(path, lambda place: place.write_text(text, encoding="utf-8"))


def read_json(path: str | Path) -> dict[str, Any]:
    """What a JSON file says: an object with keys. A ValueError says what is wrong with any other file.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.json"
    >>> write_sealed(file, {"a": 1})
    >>> is_whole(read_json(file))
    True
    """
    try:
        found = json.loads(read_ordinary(Path(path), LARGEST))
    except RecursionError as error:
        raise ValueError(f"{path} is damaged: its lists or objects are too deep in each other.") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it holds a {type(found).__name__}; expected an object with keys.")
    return found


def read_ordinary(file: Path, most: int | None = None) -> bytes:
    """The bytes of an ordinary file; refuses devices and pipes, which may never end, and what is too large."""
    check_ordinary(file)
    if most is not None and file.stat().st_size > most:
        raise ValueError(f"{file} has {file.stat().st_size:,} bytes; expected {most:,} at most.")
    return file.read_bytes()
