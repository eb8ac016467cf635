"""Published experiments by name, in a folder for each line of papers: protocol, published numbers, `run`."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["EXPERIMENTS", "find"]

EXPERIMENTS = {
    "box": "which channels carry the observed latents of a simulated box (001, sections 5 and B)",
    "table1": "training modes, penalty and attribution methods, beside the printed numbers (001, table 1)",
    "table1-batches": "table1 with the papers' batches of 5,000 and a learning rate that is held",
    "table2": "table1 for latents that were not observed (000 and 001, table 2)",
    "fig3": "auROC against the number of latents, up to 20 (001, figure 3)",
    "noise": "auROC of every method against observation noise",
    "samples": "auROC and bits against the length of the recording",
    "lambda": "the self-tuned penalty beside fixed ones",
    "dimension": "which size of a space is consistent across seeds (001, figure 6)",
    "calibration": "whether calls keep their false discovery rate, and their power",
    "peers": "calls beside tuning curves, linear models and a decoder",
    "nulls": "whether the shift test keeps its promise on unrelated variables",
    "track": "units of a real rat on a linear track: position and running direction",
    "navigation": "cells of a rat in a box: position, head direction and speed (001, table 3, figure 4)",
    "navigation-noise": "the same with noise on every cell, by every method (001, figure 10)",
    "navigation-timing": "training and attribution times beside cebra and captum (001, tables 4 and 5)",
}
MODULES = {
    "lambda": "penalties",
    "navigation-noise": "navigation_noise",
    "navigation-timing": "navigation_timing",
    "table1-batches": "table1_batches",
}
"""Names that no module can have."""


def find(name: str) -> ModuleType:
    """The module of an experiment; it has `run(out, quick, jobs, fresh, progress)` and `tables(result)`.

    >>> find("box").__name__, find("lambda").__name__
    ('experiments.regcl.box', 'experiments.regcl.penalties')
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"no experiment is called {name!r}; there are: {', '.join(EXPERIMENTS)}.")
    return import_module(f"{__name__}.regcl.{MODULES.get(name, name)}")
