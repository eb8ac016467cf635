"""The state of a training run in a folder, so that a killed run can go on.

A file for each stack of models, and `fit.json` for what was decided when the fit began: the seeds, if the user gave
none, and the command. The files say that they are of ascribo: no other file is read, written over or removed.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from ..support.files import only_writer, write_atomically
from .data_parallel import rank
from .interruption import STOP

__all__ = [
    "checkpoint_file",
    "discard_checkpoints",
    "forget",
    "one_fit",
    "read_checkpoint",
    "remember",
    "remembered",
    "write_checkpoint",
]

MARK = {"ascribo": "checkpoint"}
"""What stands in the metadata of the files."""
DECISIONS = "fit.json"


@contextmanager
def one_fit(folder: Path | None) -> Iterator[None]:
    """Keep other fits out of a checkpoint folder within the block; nothing happens without a folder, or where
    another process of the same fit does it (`data_parallel`).

    What a killed fit was just writing, and its wish to stop, are removed first.
    """
    if folder is None or rank() > 0:
        yield
        return
    with only_writer(folder):
        for pattern in (STOP, f".{DECISIONS}.*", ".seeds-*.safetensors.*", ".sessions.safetensors.*"):
            for file in folder.glob(pattern):
                file.unlink()
        yield


def checkpoint_file(folder: Path, seeds: Sequence[int]) -> Path:
    """Where the state of models that train together is kept."""
    return folder / f"seeds-{seeds[0]}.safetensors"


def discard_checkpoints(files: Iterable[Path]) -> None:
    """Remove those of the files that are checkpoints: the fit is done, or is not to go on."""
    for file in files:
        if file.is_file() and MARK.items() <= _metadata(file).items():
            file.unlink()


def remembered(folder: Path) -> dict[str, Any]:
    """What was decided when the fit began whose state is in the folder; nothing if there is none."""
    file = folder / DECISIONS
    if not file.exists():
        return {}
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{file} cannot be read ({error}): delete it to start anew.") from error
    if not isinstance(found, dict) or not MARK.items() <= found.items():
        raise ValueError(f"{file} is not a file of ascribo: choose another folder for the checkpoints.")
    return found


def remember(folder: Path, key: str, value: Any) -> Any:
    """What was decided before under a key; if nothing was, the value, which is kept from now on."""
    known = remembered(folder)
    if key not in known:
        known = {**MARK, **known, key: value}
        write_atomically(folder / DECISIONS, lambda path: path.write_text(json.dumps(known), encoding="utf-8"))
    return known[key]


def forget(folder: Path, keys: Iterable[str]) -> None:
    """Remove decisions, and the file if there are no others: the fit is done, or is not to go on."""
    known = remembered(folder)
    left = {key: value for key, value in known.items() if key not in set(keys)}
    file = folder / DECISIONS
    if known and left.keys() <= MARK.keys():
        file.unlink()
    elif left != known:
        write_atomically(file, lambda path: path.write_text(json.dumps(left), encoding="utf-8"))


def _metadata(file: Path) -> dict[str, str]:
    """What a file of tensors says of itself; nothing if it is no such file."""
    try:
        with safe_open(file, "pt") as content:
            return content.metadata() or {}
    except (SafetensorError, OSError):
        return {}


def write_checkpoint(
    path: Path, done: int, fingerprint: str, parameters, optimizer, curves, said: Mapping[str, object]
) -> None:
    """The state of a training run after `done` steps, in one file.

    said : facts for people who look at the file meanwhile (`ascribo watch`); training does not read them.

    A disk that is full does not end the training: there is a warning, and the last state that was written stays.
    """
    tensors = {f"curve.{name}": torch.from_numpy(np.concatenate(value)) for name, value in curves.items()}
    for name, value in parameters.items():
        tensors[f"parameter.{name}"] = value.detach().cpu()
        for key, state in optimizer.state[value].items():
            tensors[f"adam.{name}.{key}"] = state.cpu()
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    facts = {**MARK, "done": str(done), "fingerprint": fingerprint}
    facts |= {name: str(value) for name, value in said.items()}
    try:
        write_atomically(path, lambda temporary: save_file(tensors, temporary, metadata=facts))
    except (OSError, SafetensorError) as error:
        why = error.__cause__ or error
        warnings.warn(
            f"the state after step {done} could not be written to {path.parent} ({why}); training goes on, but a "
            "fit that is interrupted now goes on from an earlier step.",
            stacklevel=2,
        )


def read_checkpoint(path: Path, fingerprint: str, parameters, optimizer, chunk: int) -> tuple[int, dict]:
    """Put a checkpoint's state into parameters and optimizer; returns the steps done and the curves so far."""
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"the checkpoint {path} cannot be read ({error}): delete it to start anew, or choose another folder."
        ) from error
    facts = _metadata(path)
    if not MARK.items() <= facts.items():
        raise ValueError(f"{path} is not a checkpoint of ascribo: choose another folder for the checkpoints.")
    if facts["fingerprint"] != fingerprint:
        raise ValueError(
            f"the checkpoint {path} belongs to another model or other data: delete it, or choose another folder."
        )
    wanted = {f"adam.{name}.{key}" for name, value in parameters.items() for key in optimizer.state[value]}
    if missing := sorted(wanted - tensors.keys()):
        raise ValueError(f"the checkpoint {path} lacks {', '.join(missing)}: delete it to start anew.")
    with torch.no_grad():
        for name, value in parameters.items():
            value.copy_(tensors[f"parameter.{name}"])
            for key, state in optimizer.state[value].items():
                state.copy_(tensors[f"adam.{name}.{key}"])
    done = int(facts["done"])
    curves = {
        name.removeprefix("curve."): np.split(value.numpy(), range(chunk, done, chunk))
        for name, value in tensors.items()
        if name.startswith("curve.")
    }
    return done, curves
