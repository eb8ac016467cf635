"""Decoders of an attribution that are done, kept in a folder, so that one that is killed does not fit them again.

A stack of decoders is known by all that it is made of: the numbers it learns from, its seeds, how it is trained. So
those of another model or recording are never taken for it, and an attribution that goes on ends with the same bits.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..version import __version__
from .checkpoints import DECODERS, discard_checkpoints, read_state, write_state
from .decoders import decoder_shapes, fit_decoders
from .interruption import Interrupted

__all__ = ["decoders_kept", "kept_or_fitted"]

_blocks: list[tuple[Path, set[Path]]] = []
"""The folders of the blocks under way, the innermost last, and the files they have used; of the process, since
stacks are fitted in threads."""


@contextmanager
def decoders_kept(folder: Path) -> Iterator[None]:
    """Within the block stacks of decoders are kept in a folder as soon as they are finished, and taken from there.

    They are removed when the block is done. If it is interrupted or fails they stay, and the next block that needs
    them takes them. Nothing is kept where nobody may write.
    """
    above = next(path for path in (folder, *folder.parents) if path.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        yield
        return
    block: tuple[Path, set[Path]] = folder, set()
    _blocks.append(block)
    try:
        yield
    except KeyboardInterrupt as stop:
        if not block[1] or str(stop):
            raise
        raise Interrupted(
            f"stopped; decoders that are done are kept in {folder}, and the same command goes on."
        ) from None
    else:
        with suppress(OSError):
            discard_checkpoints(block[1])
            folder.rmdir()
    finally:
        _blocks.remove(block)


def kept_or_fitted(
    inputs: Sequence[Tensor],
    goals: Sequence[Tensor],
    which: Sequence[tuple[int, int]],
    seeds: Sequence[int],
    **how: Any,
) -> dict[str, Tensor]:
    """What `fit_decoders` gives, or gave before: within `decoders_kept` it is looked for in the folder."""
    if not _blocks:
        return fit_decoders(inputs, goals, which, seeds, **how)
    folder, used = _blocks[-1]
    digest = _digest(inputs, goals, which, seeds, how)
    file = folder / DECODERS.replace("*", digest[:20])
    shapes = decoder_shapes(inputs[0].shape[1], goals[0].shape[1])
    found = _read(file, digest, {name: (len(seeds), *shape) for name, shape in shapes.items()})
    if found is None:
        found = fit_decoders(inputs, goals, which, seeds, **how)
        _write(file, digest, found)
    used.add(file)
    return {name: value.to(inputs[0].device) for name, value in found.items()}


def _read(file: Path, digest: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor] | None:
    """The decoders in a file; None if it is not there, or is damaged."""
    if not file.exists():
        return None
    with suppress(ValueError):
        tensors, _ = read_state(file, digest)
        whole = {name: tuple(value.shape) for name, value in tensors.items()} == shapes
        return tensors if whole and all(value.dtype == torch.float32 for value in tensors.values()) else None
    return None


def _write(file: Path, digest: str, decoders: dict[str, Tensor]) -> None:
    """Keep decoders. A disk that is full does not end the attribution."""
    try:
        write_state(file, digest, {name: value.cpu().contiguous() for name, value in decoders.items()}, {})
    except OSError as error:
        warnings.warn(
            f"decoders that are done could not be kept in {file.parent} ({error.__cause__ or error}); the "
            "attribution goes on, but fits them again if it is interrupted now.",
            stacklevel=2,
        )


def _digest(
    inputs: Sequence[Tensor],
    goals: Sequence[Tensor],
    which: Sequence[tuple[int, int]],
    seeds: Sequence[int],
    how: dict[str, Any],
) -> str:
    """SHA-256 of all that a stack of decoders depends on."""
    plain = {name: how[name] for name in sorted(how) if name not in ("rows", "mask", "progress", "name")}
    place = inputs[0].device.type
    said = [__version__, torch.__version__, place, [*map(list, which)], list(seeds), plain]
    digest = hashlib.sha256(repr(said).encode())
    mask = [] if how.get("mask") is None else [how["mask"]]
    arrays = [value.detach().cpu().numpy() for value in (*inputs, *goals, *mask)]
    for array in (*arrays, *(how.get("rows") or ())):
        digest.update(repr((str(array.dtype), array.shape)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
