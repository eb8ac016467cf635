"""The state of a training run in one file, so that a killed run can go on.

The file says that it is a checkpoint of ascribo: no other file is read, written over or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from ..support.files import write_atomically

__all__ = ["checkpoint_file", "discard_checkpoints", "read_checkpoint", "write_checkpoint"]

MARK = {"ascribo": "checkpoint"}
"""What stands in the metadata of the files."""


def checkpoint_file(folder: Path, seeds: Sequence[int]) -> Path:
    """Where the state of models that train together is kept."""
    return folder / f"seeds-{seeds[0]}.safetensors"


def discard_checkpoints(files: Iterable[Path]) -> None:
    """Remove those of the files that are checkpoints: the fit is done, or is not to go on."""
    for file in files:
        if file.is_file() and MARK.items() <= _metadata(file).items():
            file.unlink()


def _metadata(file: Path) -> dict[str, str]:
    """What a file of tensors says of itself; nothing if it is no such file."""
    try:
        with safe_open(file, "pt") as content:
            return content.metadata() or {}
    except (SafetensorError, OSError):
        return {}


def write_checkpoint(path: Path, done: int, fingerprint: str, parameters, optimizer, curves) -> None:
    """The state of a training run after `done` steps, in one file."""
    tensors = {f"curve.{name}": torch.from_numpy(np.concatenate(value)) for name, value in curves.items()}
    for name, value in parameters.items():
        tensors[f"parameter.{name}"] = value.detach().cpu()
        for key, state in optimizer.state[value].items():
            tensors[f"adam.{name}.{key}"] = state.cpu()
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    facts = {**MARK, "done": str(done), "fingerprint": fingerprint}
    write_atomically(path, lambda temporary: save_file(tensors, temporary, metadata=facts))


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
