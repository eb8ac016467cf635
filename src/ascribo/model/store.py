"""Models on disk: tensors as safetensors, everything else as JSON. No pickle: loading a model never runs code.

A run folder holds `model.json` and the tensor file it names. The tensor file is written first and `model.json`
last, each by renaming a finished temporary file, so a folder is either whole or says that it is not.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from ..support.files import write_atomically

__all__ = ["read_run", "write_run"]

FORMAT = 1


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
