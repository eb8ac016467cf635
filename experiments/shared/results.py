"""What an experiment leaves behind: a JSON that says what was measured, by which code and where, and its figure."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from joblib import effective_n_jobs

import ascribo
from ascribo import figures
from ascribo.support.files import write_atomically
from ascribo.support.sealed_json import is_whole, read_json, seal
from ascribo.support.stored_parameters import encode

__all__ = ["as_json", "code", "estimator_parameters", "finished", "machine", "publish", "write_json"]

FOLDERS = (Path(ascribo.__file__).parent, Path(__file__).parents[1])
"""The code that makes results: the package and the experiments."""


def machine() -> dict[str, Any]:
    """What times and numbers depend on: processor, cores, versions. Nothing that names the machine."""
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), cpu)
    return {
        "cpu": cpu,
        "cores": effective_n_jobs(-1),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "ascribo": ascribo.__version__,
    }


def code() -> dict[str, str]:
    """Version and digest (SHA-256) of the package's and the experiments' source: what else numbers depend on."""
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for file in sorted(folder.rglob("*.py")):
            digest.update(os.fsencode(file.relative_to(folder)) + file.read_bytes())
    return {"version": ascribo.__version__, "sha256": digest.hexdigest()}


def write_json(path: Path, content: Any) -> Path:
    """Write JSON, all of it or nothing; rows, of which there are many, a line each."""
    if not (isinstance(content, Mapping) and isinstance(content.get("rows"), list)):
        text = json.dumps(content, indent=1, allow_nan=False)
    else:
        rows = "[\n  " + ",\n  ".join(json.dumps(row, allow_nan=False) for row in content["rows"]) + "\n ]"
        parts = {
            key: rows if key == "rows" else json.dumps(content[key], indent=1, allow_nan=False) for key in content
        }
        text = "{\n " + ",\n ".join(f"{json.dumps(key)}: {part}" for key, part in parts.items()) + "\n}"
    return write_atomically(path, lambda temporary: temporary.write_text(text + "\n"))


def publish(name: str, out: Path, result: dict[str, Any], draw: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Write an experiment's JSON, with its checksum, and its figure to a folder; returns what the JSON says.

    Without matplotlib there is no figure, and a warning: what was measured is in the JSON.
    """
    result = {**result, "checksum": seal(as_json(result))["checksum"]}
    write_json(out / f"{name}.json", result)
    try:
        figures.write_png(draw(result).figure, out / f"{name}.png")
    except ImportError as error:
        warnings.warn(f"{name}.png was not drawn: {error}", stacklevel=3)
    return result


def finished(name: str, out: Path, protocol: Mapping[str, Any]) -> dict[str, Any] | None:
    """The result of an experiment in a folder, if it is whole and of this protocol, code and kind of machine.

    In how many processes it was computed does not matter.
    """
    try:
        result = read_json(out / f"{name}.json")
    except (OSError, ValueError):
        return None
    same = is_whole(result) and (result.get("code"), result.get("machine")) == (code(), as_json(machine()))
    return result if same and _without_jobs(result["protocol"]) == as_json(_without_jobs(protocol)) else None


def as_json(content: Any) -> Any:
    """Content as it comes back from JSON: tuples are lists, keys are text. NaN is refused.

    >>> as_json({1: (2, 3)})
    {'1': [2, 3]}
    """
    return json.loads(json.dumps(content, allow_nan=False))


def _without_jobs(protocol: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in protocol.items() if key != "jobs"}


def estimator_parameters(model: Any) -> dict[str, Any]:
    """The parameters of an estimator for JSON, but for its spaces and its progress bar."""
    parameters = model.get_params(deep=False)
    return {name: encode(value) for name, value in parameters.items() if name not in ("spaces", "progress")}
