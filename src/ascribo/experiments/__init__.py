"""Published experiments, one module each: its protocol, the published numbers, and `run`."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["EXPERIMENTS", "find"]

EXPERIMENTS = {
    "box": "which channels carry the observed latents of a simulated box (001, sections 5 and B)",
}


def find(name: str) -> ModuleType:
    """The module of an experiment; it has `run(out, quick, jobs, fresh, progress)` and `tables(result)`.

    >>> find("box").__name__
    'ascribo.experiments.box'
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"no experiment is called {name!r}; there are: {', '.join(EXPERIMENTS)}.")
    return import_module(f"{__name__}.{name}")
