"""Models on disk: tensors as safetensors, everything else as JSON. No pickle: loading a model never runs code.

A run folder holds `model.json` and the tensor file it names. The tensor file is written first and `model.json`
last, each by renaming a finished temporary file, so a folder is either whole or says that it is not.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file, save, save_file

from . import encoders, losses, penalty, spaces
from .treatment import Treatment

__all__ = ["decode", "encode", "read_run", "write_atomically", "write_run"]

FORMAT = 1
KNOWN = {
    cls.__name__: cls
    for cls in (
        *(spaces.Follow, spaces.Time, spaces.Discrete, spaces.Regress),
        *(encoders.MLP, encoders.Convolution),
        *(losses.SquaredL2, losses.Dot, losses.Lp),
        *(penalty.Auto, penalty.Constant, penalty.Ramp),
        Treatment,
    )
}


def write_atomically(path: str | Path, write: Callable[[Path], Any]) -> Path:
    """Let `write` fill a temporary file beside `path`, then rename it: readers see all of it or nothing.

    >>> folder = Path(tempfile.mkdtemp())
    >>> write_atomically(folder / "a.txt", lambda p: p.write_text("done")).read_text()
    'done'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes private files
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def encode(value: Any) -> Any:
    """JSON form of a parameter: plain values as they are, our own records as {"type": name, fields...}.

    >>> encode(spaces.Time(dim=2))["type"]
    'Time'
    """
    if dataclasses.is_dataclass(value) and type(value).__name__ in KNOWN:
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, dict):
        return {"type": "dict", "items": [[key, encode(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Path):
        return str(value)
    return {"type": "custom", "name": type(value).__name__}


def decode(value: Any) -> Any:
    """The inverse of `encode`; something of the user's own comes back as None.

    >>> decode(encode({"rest": spaces.Time(dim=2)}))["rest"].dim
    2
    """
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    if isinstance(value, dict):
        kind = value["type"]
        if kind == "dict":
            return {key: decode(item) for key, item in value["items"]}
        if kind == "custom":
            return None
        if kind not in KNOWN:
            raise ValueError(f"{kind!r} is unknown to this version of ascribo.")
        return KNOWN[kind](**{key: decode(item) for key, item in value.items() if key != "type"})
    return value


def write_run(folder: str | Path, facts: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Path:
    """Write a run folder; whatever model was there before stays whole until the new one is."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"cannot save to {folder}: it is a file. Pass the path of a folder.")
    data = save({name: value.contiguous() for name, value in tensors.items()})
    digest = hashlib.sha256(data).hexdigest()
    file = f"model-{digest[:12]}.safetensors"
    write_atomically(folder / file, lambda path: path.write_bytes(data))
    text = json.dumps({"format": FORMAT, "tensors": file, "sha256": digest, **facts}, indent=1)
    write_atomically(folder / "model.json", lambda path: path.write_text(text))
    for old in folder.glob("model-*.safetensors"):
        if old.name != file:
            old.unlink()
    return folder


def read_run(folder: str | Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Facts and tensors of a run folder, or an error that says what is wrong with it."""
    folder = Path(folder)
    if not (folder / "model.json").exists():
        if not folder.is_dir():
            raise ValueError(f"{folder} is not an ascribo run: there is no such folder.")
        hint = "If a fit was interrupted, run it again with the same --out to resume."
        raise ValueError(f"{folder} is not a finished ascribo run: it has no model.json. {hint}")
    try:
        facts = json.loads((folder / "model.json").read_text())
        name = facts["tensors"]
        if facts["format"] != FORMAT:
            raise ValueError(
                f"{folder} was written in format {facts['format']}, this version reads {FORMAT}: use the "
                "version of ascribo that wrote it."
            )
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"{folder}/model.json is damaged ({error}): fit and save the model again.") from error
    file = folder / Path(name).name
    if not file.exists():
        raise ValueError(f"{folder} is half-written: {file.name} is missing. Fit and save the model again.")
    data = file.read_bytes()
    if hashlib.sha256(data).hexdigest() != facts["sha256"]:
        raise ValueError(f"{file} is damaged: its contents do not match model.json. Fit and save the model again.")
    return facts, load(data)


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
