"""Where the experiments are: beside `src` in a checkout; they are not part of the installed package."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

__all__ = ["find_experiment", "known_experiments"]

PACKAGE = Path(__file__).parents[1]
CHECKOUT = PACKAGE.parents[1]


def _experiments() -> ModuleType | None:
    """The package `experiments` of the checkout, None where ascribo is installed without one."""
    in_checkout = CHECKOUT / "src" / "ascribo" == PACKAGE and (CHECKOUT / "experiments" / "__init__.py").is_file()
    if not in_checkout:
        return None
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    return import_module("experiments")


def known_experiments() -> dict[str, str]:
    """Name -> what the experiment shows; empty where there is no checkout."""
    package = _experiments()
    return {} if package is None else {name: entry.shows for name, entry in package.EXPERIMENTS.items()}


def find_experiment(name: str) -> ModuleType:
    """The module of an experiment, or an error that says where experiments are found."""
    package = _experiments()
    if package is None:
        raise ValueError(
            f"no experiment {name!r} here: the experiments are not part of the installed package. Get the sources "
            "of ascribo, run `pip install -e .` in their folder, and then `ascribo reproduce` there."
        )
    return package.find(name)
