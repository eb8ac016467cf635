"""How a fitted model reaches the report, which stands above it: the report registers its writer here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["report_writer", "written"]

Writer = Callable[..., Path]
WRITERS: list[Writer] = []


def report_writer(function: Writer) -> Writer:
    """Register what writes reports (as a decorator): (model, recording, path, **options) -> path."""
    WRITERS[:] = [function]
    return function


def written(*given: Any, **options: Any) -> Path:
    """Write a report with the writer that is registered."""
    if not WRITERS:
        raise RuntimeError("nothing here can write reports: import ascribo.report first.")
    return WRITERS[0](*given, **options)
