"""Where experiments find what the repository does not contain: real recordings, and an environment with cebra.

| setting | meaning | default |
|---|---|---|
| `ASCRIBO_DATA` | folder of real recordings | `../shared/data`, seen from the root of the checkout |
| `ASCRIBO_CEBRA_PYTHON` | the Python of an environment with cebra | `.venv-cebra/bin/python` in the checkout |
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["CHECKOUT", "cebra_python", "data_file", "data_folder"]

CHECKOUT = Path(__file__).resolve().parents[2]
"""The folder that holds `src`, `experiments` and `benchmarks`."""


def data_folder() -> Path:
    """The folder of real recordings: `$ASCRIBO_DATA`, or `../shared/data` beside the checkout. It may not exist."""
    given = os.environ.get("ASCRIBO_DATA")
    return Path(given) if given else CHECKOUT.parent / "shared" / "data"


def data_file(name: str) -> Path:
    """A real recording by its file name; FileNotFoundError, naming the setting, where it is not there."""
    path = data_folder() / name
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no such file. This experiment needs a recording that is not part of ascribo: set the "
            f"environment variable ASCRIBO_DATA to the folder that holds {name}."
        )
    return path


def cebra_python() -> Path | None:
    """The Python of an environment with cebra: `$ASCRIBO_CEBRA_PYTHON`, else that of `.venv-cebra` in the checkout.

    None where neither is there. A setting that names no file is an error.
    """
    given = os.environ.get("ASCRIBO_CEBRA_PYTHON")
    path = Path(given) if given else CHECKOUT / ".venv-cebra" / "bin" / "python"
    if given and not path.is_file():
        raise FileNotFoundError(
            f"ASCRIBO_CEBRA_PYTHON={given}: no such file. Set it to the Python of an environment with cebra, or "
            "unset it to go without cebra."
        )
    return path if path.is_file() else None
