"""Run folders: `model.json`, and the file of tensors (safetensors) that it names. No pickle: reading runs no code.

The tensors are written first and `model.json` last, each by renaming a finished temporary file, so a folder holds
either a whole model or none. Files that are not ours are never touched.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from ..support.compute import check_memory
from ..support.files import check_ordinary, this_process_writes, write_atomically
from ..support.sealed_json import is_whole, read_json, read_ordinary, write_sealed
from ..version import __version__

__all__ = ["check_folder", "damage_explained", "read_run", "remove_run", "write_run"]

FORMAT = 4
"""Goes up by one whenever what is written changes."""
READABLE = (2, 3, 4)
"""Formats that can be read. 3 has a checksum of model.json; in 4 the file of tensors, too, says its format, so that
model.json cannot be made an older one, without a checksum."""
STATED_FROM = 4
"""The first format that the file of tensors states."""
LONGEST_HEADER = 10**8
"""Bytes of the header of a file of tensors, at most: safetensors reads no longer one."""


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

    A model that was there before stays whole until the new one is; then its file of tensors is removed. A folder
    that another process is writing to is refused.
    """
    folder = check_folder(folder)
    with this_process_writes(folder):
        return _write(folder, facts, tensors)


def _write(folder: Path, facts: dict[str, Any], tensors: dict[str, torch.Tensor]) -> str:
    before = _ours(folder)
    metadata = {"format": str(FORMAT)}  # one entry: several come in another order in every process
    data = save({name: value.contiguous() for name, value in tensors.items()}, metadata=metadata)
    digest = hashlib.sha256(data).hexdigest()
    file = f"model-{digest[:12]}.safetensors"
    known = {"format": FORMAT, "ascribo": __version__, "tensors": file, "sha256": digest}
    try:
        write_atomically(folder / file, lambda path: path.write_bytes(data))
        write_sealed(folder / "model.json", {**known, **facts, **known})  # what is known here comes first
    except BaseException:
        if file not in (before, _ours(folder)):  # the last step of writing model.json may fail when it is there
            (folder / file).unlink(missing_ok=True)
        raise
    if before not in (None, file):
        (folder / str(before)).unlink(missing_ok=True)
    return digest


def read_run(folder: str | Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """What model.json says and the tensors of a run folder, or an error that says what is wrong with it."""
    folder = Path(folder)
    if not (folder / "model.json").exists():
        if folder.is_file():
            raise ValueError(
                f"{folder} is a file: expected the folder of a fitted model, as `ascribo fit --out FOLDER` or "
                "model.save(folder) writes it."
            )
        if not folder.is_dir():
            raise ValueError(f"{folder} is not an ascribo run: there is no such folder.")
        hint = "If a fit was interrupted, run it again with the same --out to resume."
        raise ValueError(f"{folder} is not a finished ascribo run: it has no model.json. {hint}")
    with damage_explained(folder):
        facts = read_json(folder / "model.json")
        name, form = facts["tensors"], facts["format"]
        if form not in READABLE:
            raise ValueError(
                f"{folder} was written in format {form} by ascribo {facts.get('ascribo', '(unknown)')}, but "
                f"ascribo {__version__} reads formats {', '.join(map(str, READABLE))}: fit and save the model "
                "again, or load it with the version that wrote it."
            )
        if not is_whole(facts, needed=form > 2):
            raise ValueError(f"{folder}/model.json is damaged or was changed: it does not match its checksum.")
        file = folder / Path(name).name
        if not file.exists():
            raise ValueError(f"{folder} is half-written: {file.name} is missing. Fit and save the model again.")
        data = read_ordinary(file, _declared_size(file))
        if hashlib.sha256(data).hexdigest() != facts["sha256"]:
            raise ValueError(
                f"{file} is damaged: its contents do not match model.json. Fit and save the model again."
            )
        tensors = load(data)
        stated = _metadata(data).get("format")
        if stated != (str(form) if form >= STATED_FROM else None):
            raise ValueError(
                f"{folder} is damaged, or its model.json was changed by hand: that says format {form}, and "
                f"{file.name} format {stated or 'unknown'}. Fit and save the model again."
            )
    return facts, tensors


def _declared_size(file: Path) -> int:
    """Bytes of a file of tensors by the header that it begins with; refuses more than memory could hold.

    A file may be of any length at no cost where nothing is in it, so it is not read before this is known.
    """
    check_ordinary(file)
    with open(file, "rb") as content:
        length = int.from_bytes(content.read(8), "little")
        header = content.read(length) if length <= LONGEST_HEADER else b""
    try:
        tensors = [value for name, value in json.loads(header).items() if name != "__metadata__"]
        size = 8 + length + max((int(value["data_offsets"][1]) for value in tensors), default=0)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{file} is damaged: its header cannot be read. Fit and save the model again.") from error
    check_memory(size, "cpu", f"{file} says that its tensors", "a machine with more memory")
    return size


def _metadata(data: bytes) -> dict[str, str]:
    """What a file of tensors says of itself, in the JSON header that it begins with."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return header.get("__metadata__", {})


@contextmanager
def damage_explained(folder: str | Path) -> Iterator[None]:
    """Whatever goes wrong while a run folder is read is said to be its damage, in one sentence."""
    try:
        yield
    except (ImportError, MemoryError):
        raise
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
            raise _damaged(folder, error) from error
        if not re.match(
            re.escape(str(folder)) + r"[ /\\:]", str(error)
        ):  # of what is in it, which does not know where it lies
            raise ValueError(f"{folder} cannot be loaded: {error}") from error
        raise
    except Exception as error:  # a missing key, a number where a list belongs, lists a thousand deep, a wrong size
        raise _damaged(folder, error) from error


def _damaged(folder: str | Path, error: Exception) -> ValueError:
    return ValueError(
        f"{folder} is damaged, or its model.json was changed by hand ({type(error).__name__}: {error}): fit and "
        "save the model again."
    )


def remove_run(folder: str | Path) -> None:
    """Remove a model of ours from a folder, and the folder if nothing else is in it."""
    folder = Path(folder)
    if (tensors := _ours(folder)) is not None:
        (folder / "model.json").unlink()
        (folder / tensors).unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()


def _ours(folder: Path) -> str | None:
    """Name of the file of tensors that a model.json of ours, of any format, names; None if there is no such."""
    try:
        facts = read_json(folder / "model.json")
        name = facts["tensors"]
        ours = {"format", "ascribo", "sha256"} <= facts.keys() and re.fullmatch(
            r"model-[0-9a-f]{12}\.safetensors", name
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return name if ours else None
