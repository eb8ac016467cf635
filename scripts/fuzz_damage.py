"""How good files are damaged: bytes, and values in JSON and tensors with good checksums; a part of `fuzz.py`."""

from __future__ import annotations

import copy
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_files import Case

__all__ = ["ODD", "damage", "damage_case", "is_untouched"]

ODD = (None, True, -1, 0, 2**70, 1e308, float("nan"), "", "../x", "\0", [], {}, [[]], {"a": None}, [None] * 3)
"""Values that do not belong where they are put."""


VICTIM, PRECIOUS = "victim.txt", "precious"
"""A file beside the copy that links lead to, and what it must still say when the copy was read."""


class Payload:
    """What a pickle in a file would do if it were opened."""

    def __reduce__(self):
        return os.mkdir, (os.environ["ASCRIBO_FUZZ_MARK"],)


def damage_case(case: Case, folder: Path, rng: np.random.Generator) -> Path:
    """A damaged copy of a case in a folder: what is to be read."""
    root, file = case.copied(folder)
    if case.damage == "tensors":
        _damage_tensors(root, file, rng)
    elif case.damage == "place":
        _put_in_place(file, folder / VICTIM, rng)
    else:
        file.write_bytes(damage(file.read_bytes(), rng, file.name))
    return root


def _put_in_place(file: Path, victim: Path, rng: np.random.Generator) -> None:
    """Something that is no ordinary file where a file belongs, or a link to one that is nobody's here."""
    victim.write_text(PRECIOUS)
    file.unlink(missing_ok=True)
    match int(rng.integers(7)):
        case 0:
            os.mkfifo(file)
        case 1:
            file.mkdir()
        case 2:
            file.hardlink_to(victim)
        case kind:
            to = {3: victim, 4: victim.with_name("nowhere"), 5: Path("/dev/zero"), 6: Path(file.name)}
            file.symlink_to(to[kind])


def is_untouched(folder: Path) -> bool:
    """Whether what links in a damaged copy lead to is as it was."""
    victim = folder / VICTIM
    return not (folder / "nowhere").exists() and (not victim.exists() or victim.read_text() == PRECIOUS)


def _damage_tensors(root: Path, part: Path, rng: np.random.Generator) -> None:
    """One to three tensors of a run folder damaged, and all checksums that depend on them made anew."""
    from ascribo.model.run_folder import read_run, write_run
    from ascribo.support.sealed_json import read_json, write_sealed

    facts, tensors = read_run(part)
    for _ in range(int(rng.integers(1, 4))):
        name = sorted(tensors)[rng.integers(len(tensors))]
        changed = _damage_tensor(tensors.pop(name), rng)
        if changed is not None:
            tensors[name if rng.integers(20) else f"{name}.other"] = changed
        if not tensors:
            break
    write_run(part, facts, tensors)
    if part != root:
        whole = read_json(root / "model.json")
        whole["sessions"][int(part.name.split("-")[1])]["sha256"] = read_json(part / "model.json")["sha256"]
        write_sealed(root / "model.json", whole)


def _damage_tensor(value: Any, rng: np.random.Generator) -> Any:
    """Another tensor; None: none."""
    import torch

    value = value.clone()
    if value.numel() and rng.integers(2):
        odd = (np.nan, np.inf, -np.inf, 0.0, -1.0)[rng.integers(5)]
        odd = odd if value.is_floating_point() else int(rng.integers(-2, 9))
        value.view(-1)[int(rng.integers(value.numel()))] = odd
        return value
    match int(rng.integers(7)):
        case 0:
            return None
        case 1:
            return value.to((torch.int64, torch.float16, torch.bool, torch.float64)[rng.integers(4)])
        case 2:
            return value[: int(rng.integers(len(value) + 1))].contiguous() if value.ndim else value[None]
        case 3:
            return torch.cat([value, value]) if value.ndim else value[None]
        case 4:
            return value.flatten()
        case 5:
            return value[..., :0] if value.ndim else value[None]
        case _:
            return torch.zeros_like(value)


def damage(data: bytes, rng: np.random.Generator, name: str = "") -> bytes:
    """The bytes, changed in one to eight places; of a .json file half the time its values, with a good checksum."""
    if name.endswith(".json") and rng.integers(2):
        return _damage_json(data, rng)
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        if not out:
            break
        place, length = int(rng.integers(len(out))), int(rng.integers(1, 40))
        match int(rng.integers(8)):
            case 0 | 1:
                out[place] ^= 1 << int(rng.integers(8))
            case 2:
                out[place : place + length] = rng.bytes(length)
            case 3:
                del out[place : place + length]
            case 4:
                out[place:place] = out[place : place + length]
            case 5:
                del out[place:]
            case 6:  # a number that is far too large, small or negative
                out[place : place + 8] = int(rng.choice([-1, 0, 2**31 - 1, 2**63 - 1])).to_bytes(
                    8, "little", signed=True
                )
            case 7:
                out[place:place] = pickle.dumps(Payload())
    return bytes(out)


def _damage_json(data: bytes, rng: np.random.Generator) -> bytes:
    """An odd value put somewhere, or something left out, as somebody would who knows how the checksum is made."""
    from ascribo.support.sealed_json import seal

    content = json.loads(data)
    sealed = "checksum" in content
    for _ in range(int(rng.integers(1, 4))):
        place: Any = content
        while place:
            key = (
                list(place)[rng.integers(len(place))] if isinstance(place, dict) else int(rng.integers(len(place)))
            )
            if not isinstance(place[key], dict | list) or not place[key] or rng.integers(3) == 0:
                break
            place = place[key]
        if not place:
            break
        if rng.integers(4) == 0 and len(place) > 1:
            del place[key]
        else:
            place[key] = copy.deepcopy(ODD[rng.integers(len(ODD))])
    return json.dumps(seal(content) if sealed else content).encode()
