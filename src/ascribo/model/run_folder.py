"""Run folders: `model.json`, and the file of tensors (safetensors) that it names. No pickle: reading runs no code.

The tensors are written first and `model.json` last, each by renaming a finished temporary file, so a folder holds
either a whole model or none. Files that are not ours are never touched.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from ..support.files import write_atomically
from ..version import __version__

__all__ = ["check_folder", "read_run", "write_run"]

FORMAT = 2
"""Goes up by one when older folders can no longer be read."""


def check_folder(folder: str | Path) -> Path:
    """The folder, if a model may be saved there: not where a file, or the model.json of another program, is."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"cannot save to {folder}: it is a file. Pass the path of a folder.")
    if (folder / "model.json").exists() and _ours(folder) is None:
        raise ValueError(
            f"cannot save to {folder}: it holds a model.json that ascribo did not write. Pass another folder."
        )
    return folder


def write_run(folder: str | Path, facts: dict[str, Any], tensors: dict[str, torch.Tensor]) -> str:
    """Write a run folder and return the digest of its tensors.

    A model that was there before stays whole until the new one is; then its file of tensors is removed.
    """
    folder = check_folder(folder)
    before = _ours(folder)
    data = save({name: value.contiguous() for name, value in tensors.items()})
    digest = hashlib.sha256(data).hexdigest()
    file = f"model-{digest[:12]}.safetensors"
    known = {"format": FORMAT, "ascribo": __version__, "tensors": file, "sha256": digest}
    text = json.dumps({**known, **facts}, indent=1)
    write_atomically(folder / file, lambda path: path.write_bytes(data))
    try:
        write_atomically(folder / "model.json", lambda path: path.write_text(text, encoding="utf-8"))
    except BaseException:
        if file != before:
            (folder / file).unlink()
        raise
    if before not in (None, file):
        (folder / str(before)).unlink(missing_ok=True)
    return digest


def read_run(folder: str | Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """What model.json says and the tensors of a run folder, or an error that says what is wrong with it."""
    folder = Path(folder)
    if not (folder / "model.json").exists():
        if not folder.is_dir():
            raise ValueError(f"{folder} is not an ascribo run: there is no such folder.")
        hint = "If a fit was interrupted, run it again with the same --out to resume."
        raise ValueError(f"{folder} is not a finished ascribo run: it has no model.json. {hint}")
    try:
        facts = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        name = facts["tensors"]
        if facts["format"] != FORMAT:
            raise ValueError(
                f"{folder} was written in format {facts['format']} by ascribo {facts.get('ascribo', '(unknown)')}, "
                f"but ascribo {__version__} reads format {FORMAT}: fit and save the model again, or load it with "
                "the version that wrote it."
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


def _ours(folder: Path) -> str | None:
    """Name of the file of tensors that a model.json of ours, of any format, names; None if there is no such."""
    try:
        facts = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        name = facts["tensors"]
        ours = {"format", "ascribo", "sha256"} <= facts.keys() and re.fullmatch(
            r"model-[0-9a-f]{12}\.safetensors", name
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return name if ours else None
