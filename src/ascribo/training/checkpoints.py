"""The state of a training run in one file, so that a killed run can go on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ..support.files import write_atomically

__all__ = []


def write_checkpoint(path: Path, done: int, fingerprint: str, parameters, optimizer, curves) -> None:
    """The state of a training run after `done` steps, in one file."""
    tensors = {f"curve.{name}": torch.from_numpy(np.concatenate(value)) for name, value in curves.items()}
    for name, value in parameters.items():
        tensors[f"parameter.{name}"] = value.detach().cpu()
        for key, state in optimizer.state[value].items():
            tensors[f"adam.{name}.{key}"] = state.cpu()
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    facts = {"done": str(done), "fingerprint": fingerprint}
    write_atomically(path, lambda temporary: save_file(tensors, temporary, metadata=facts))


def read_checkpoint(path: Path, fingerprint: str, parameters, optimizer, chunk: int) -> tuple[int, dict]:
    """Put a checkpoint's state into parameters and optimizer; returns the steps done and the curves so far."""
    from safetensors import safe_open

    try:
        with safe_open(path, "pt") as file:
            facts = file.metadata()
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"the checkpoint {path} cannot be read ({error}): delete it to start anew.") from error
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
