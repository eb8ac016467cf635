"""The state of a training run in a folder, so that a killed run can go on.

A file for each stack of models, and `fit.json` for what was decided when the fit began: the seeds, if the user gave
none, and the command. The files say that they are of ascribo: no other file is read, written over or removed.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from ..support.files import check_ordinary, only_writer, write_atomically
from ..support.sealed_json import is_whole, read_json, write_sealed
from .adam import Adam
from .data_parallel import rank
from .interruption import STOP

__all__ = [
    "DECODERS",
    "check_seeds",
    "checkpoint_file",
    "discard_checkpoints",
    "forget",
    "is_readable",
    "one_fit",
    "read_checkpoint",
    "read_state",
    "remember",
    "remembered",
    "tidy",
    "write_checkpoint",
    "write_state",
]

MARK = {"ascribo": "checkpoint"}
"""What stands in the metadata of the files."""
FORMAT = 1
"""Goes up by one whenever what is written changes; files of earlier versions have none, and are read as well."""
HEAD = {**MARK, "format": FORMAT}
DECISIONS = "fit.json"
DECODERS = "decoders-*.safetensors"
"""Names of the files that `kept_decoders` writes."""
ANEW = "Delete it to start anew, or choose another folder."


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
        discard_checkpoints(folder.glob(DECODERS))  # of a model that is to be another
        yield


def checkpoint_file(folder: Path, seeds: Sequence[int]) -> Path:
    """Where the state of models that train together is kept."""
    return folder / f"seeds-{seeds[0]}.safetensors"


def check_seeds(folder: Path, seeds: Sequence[int]) -> None:
    """Refuse to fit models of these seeds in a folder that has the state of others: it would never be used, and
    stay there."""
    own = {checkpoint_file(folder, [seed]) for seed in seeds}
    others = sorted(
        file for file in folder.glob("seeds-*.safetensors") if file not in own and _is_ours(_metadata(file))
    )
    if others:
        raise ValueError(
            f"{folder} has the state of an interrupted fit of other seeds ({others[0].name}): another "
            "random_state, or more seeds. Go on with those of that fit, delete the folder to start anew, or "
            "choose another."
        )


def discard_checkpoints(files: Iterable[Path]) -> None:
    """Remove those of the files that are checkpoints: the fit is done, or is not to go on."""
    for file in files:
        if file.is_file() and _is_ours(_metadata(file)):
            file.unlink()


def remembered(folder: Path) -> dict[str, Any]:
    """What was decided when the fit began whose state is in the folder; nothing if there is none."""
    file = folder / DECISIONS
    if not file.exists():
        return {}
    try:
        found = read_json(file)
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read ({error}): delete it to start anew.") from error
    if not _is_ours(found):
        raise ValueError(f"{file} is not a file of ascribo: choose another folder for the checkpoints.")
    if not is_whole(found):
        raise ValueError(f"{file} is damaged: it does not match its checksum. Delete it to start anew.")
    _check_format(file, found.get("format", FORMAT))
    return {key: value for key, value in found.items() if key != "checksum"}


def remember(folder: Path, key: str, value: Any, *, anew: bool = False) -> Any:
    """What was decided before under a key; if nothing was, the value, which is kept from now on.

    anew : keep the value whatever was decided before.
    """
    known = remembered(folder)
    if key not in known or (anew and known[key] != value):
        known = {**known, **HEAD, key: value}
        write_sealed(folder / DECISIONS, known)
    return known[key]


def forget(folder: Path, keys: Iterable[str]) -> None:
    """Remove decisions, and the file if there are no others: the fit is done, or is not to go on."""
    known = remembered(folder)
    left = {key: value for key, value in known.items() if key not in set(keys)}
    file = folder / DECISIONS
    if known and left.keys() <= HEAD.keys():
        file.unlink()
    elif left != known:
        write_sealed(file, left)


def tidy(folder: Path, files: Iterable[Path], keys: Iterable[str]) -> None:
    """Remove the state of a fit that is done. A disk that fails now is a warning: what was fitted is not lost."""
    try:
        discard_checkpoints(files)
        forget(folder, keys)
    except (OSError, ValueError) as error:
        warnings.warn(f"the fit is done, but its state could not be removed from {folder}: {error}", stacklevel=2)


def _is_ours(facts: Mapping[str, Any]) -> bool:
    """Whether a file says that it belongs to a fit of ascribo's."""
    return all(facts.get(key) == value for key, value in MARK.items())


def is_readable(facts: Mapping[str, Any]) -> bool:
    """Whether the metadata of a file are those of a state that this version reads."""
    return _is_ours(facts) and facts.get("format", str(FORMAT)) == str(FORMAT)


def _check_format(file: Path, form: Any) -> None:
    """Refuse a file of another format; in the metadata of tensors it is a text."""
    if str(form) != str(FORMAT):
        raise ValueError(
            f"{file} was written in format {form!r}, and this version of ascribo reads format {FORMAT}: go on with "
            "the version that wrote it, or delete the file to start anew."
        )


def _checksum(facts: Mapping[str, str], tensors: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 of all that a checkpoint holds."""
    digest = hashlib.sha256(repr(sorted((k, v) for k, v in facts.items() if k != "checksum")).encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(repr((name, str(value.dtype), tuple(value.shape))).encode())
        digest.update(value.contiguous().numpy().data)
    return digest.hexdigest()


def _metadata(file: Path) -> dict[str, str]:
    """What a file of tensors says of itself; nothing if it is no such file."""
    try:
        return _said(file)
    except (SafetensorError, OSError, ValueError):
        return {}


def _said(file: Path) -> dict[str, str]:
    check_ordinary(file)
    with safe_open(file, "pt") as content:
        return content.metadata() or {}


def write_checkpoint(
    path: Path,
    done: int,
    fingerprint: str,
    parameters: Mapping[str, Tensor],
    optimizer: Adam,
    curves: Mapping[str, Sequence[np.ndarray]],
    said: Mapping[str, object],
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
    try:
        write_state(path, fingerprint, tensors, {"done": str(done), **{k: str(value) for k, value in said.items()}})
    except (OSError, SafetensorError) as error:
        why = error.__cause__ or error
        warnings.warn(
            f"the state after step {done} could not be written to {path.parent} ({why}); training goes on, but a "
            "fit that is interrupted now goes on from an earlier step.",
            stacklevel=2,
        )


def write_state(path: Path, fingerprint: str, tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> None:
    """Write tensors and facts, with their checksum. fingerprint : of what they belong to."""
    head = {**MARK, "format": str(FORMAT), "fingerprint": fingerprint}
    known = {**head, **facts}
    known["checksum"] = _checksum(known, tensors)
    # not save_file: it writes to a file of a name of its own, which a killed process would leave behind
    write_atomically(path, lambda temporary: temporary.write_bytes(save(dict(tensors), metadata=known)))


def read_state(path: Path, fingerprint: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and facts of a file that is whole and belongs to what has this fingerprint."""
    try:
        facts, tensors = _said(path), load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"the checkpoint {path} cannot be read ({error}). {ANEW}") from error
    if not _is_ours(facts):
        raise ValueError(f"{path} is not a checkpoint of ascribo: choose another folder for the checkpoints.")
    _check_format(path, facts.get("format", FORMAT))
    if facts.get("fingerprint") != fingerprint:
        raise ValueError(
            f"the checkpoint {path} belongs to another model or other data: delete it, or choose another folder."
        )
    if facts.get("checksum") != _checksum(facts, tensors):
        raise ValueError(f"the checkpoint {path} is damaged: it does not match its checksum. {ANEW}")
    return tensors, facts


def read_checkpoint(
    path: Path,
    fingerprint: str,
    parameters: Mapping[str, Tensor],
    optimizer: Adam,
    kept: Iterable[str],
    chunk: int,
) -> tuple[int, dict[str, list[np.ndarray]]]:
    """Put a checkpoint's state into parameters and optimizer; returns the steps done and the curves so far.

    kept : names of the curves. They come in parts of `chunk` steps.
    """
    tensors, facts = read_state(path, fingerprint)
    wanted = {f"adam.{name}.{key}" for name, value in parameters.items() for key in optimizer.state[value]}
    if missing := sorted(wanted - tensors.keys()):
        raise ValueError(f"the checkpoint {path} lacks {', '.join(missing)}. {ANEW}")
    try:
        done, curves = int(facts["done"]), {}
        with torch.no_grad():
            for name, value in parameters.items():
                value.copy_(tensors[f"parameter.{name}"])
                for key, state in optimizer.state[value].items():
                    state.copy_(tensors[f"adam.{name}.{key}"])
        for name in kept:
            curve = tensors[f"curve.{name}"].numpy()
            if len(curve) != done:
                raise ValueError(f"the curve of {name} has {len(curve)} steps, not {done}")
            curves[name] = np.split(curve, range(chunk, done, chunk))
    except (KeyError, RuntimeError, TypeError, ValueError) as error:  # though its checksum is right
        raise ValueError(f"the checkpoint {path} is damaged ({type(error).__name__}: {error}). {ANEW}") from error
    return done, curves
