"""Transitions of natural objects from plain arrays: tracks of place and size, and sequences of masks.

Klindt et al. (2021) measure how objects in videos move, and let sprites move so. The public files of such
measurements are not part of ascribo, and some are pickles, which can run any code and are never opened here.
Convert them once, where you trust them, to an .npz file of plain arrays:

    tracks : object (n,), time (n,), x (n,), y (n,), scale (n,), a row for each object and time
    masks  : masks (n, height, width) of 0 and 1, sequence (n,), time (n,)
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ..support.array_shapes import Array, Float, Int, Num, shaped

__all__ = ["MaskPairs", "mask_pairs", "read_arrays", "track_transitions"]

TRACK_NAMES, MASK_NAMES = ("object", "time", "x", "y", "scale"), ("masks", "sequence", "time")


def read_arrays(path: str | Path, names: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
    """The arrays of an .npz file of tracks or of masks, by name; pickled contents are refused.

    names : that it must have. None: masks, sequence and time if it has masks, else object, time, x, y and scale.

    >>> import tempfile
    >>> tracks = {"object": [0, 0], "time": [0, 1], "x": [0.0, 1.0], "y": [2.0, 3.0], "scale": [1.0, 2.0]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/tracks.npz", **tracks)
    ...     found = read_arrays(f"{folder}/tracks.npz")
    >>> track_transitions(**found).shape
    torch.Size([1, 2, 3])
    """
    file = Path(path)
    if file.suffix != ".npz":
        expected = [names] if names else [TRACK_NAMES, MASK_NAMES]
        said = ", or ".join(", ".join(own) for own in expected)
        raise ValueError(f"{file.name}: expected an .npz file of plain arrays {said}.")
    try:
        with np.load(file, allow_pickle=False) as content:
            names = names or (MASK_NAMES if "masks" in content.files else TRACK_NAMES)
            missing = [name for name in names if name not in content.files]
            if missing:
                raise ValueError(
                    f"{file.name} has no array {missing[0]!r}: expected {', '.join(names)}, and found "
                    f"{', '.join(content.files) or 'none'}."
                )
            return {name: content[name] for name in names}
    except ValueError as error:
        if "pickle" in str(error).lower():
            raise ValueError(
                f"{file.name} holds pickled objects, which can run any code and are not opened: save plain numbers."
            ) from error
        raise


@shaped
def track_transitions(
    object: ArrayLike, time: ArrayLike, x: ArrayLike, y: ArrayLike, scale: ArrayLike, lag: int = 1
) -> Float[Tensor, "pair 2 3"]:
    """Pairs of scale, x and y of the same object, `lag` time steps apart: (pair, 2, 3), each from 0 to 1.

    object, time : (n,) whole numbers, one row for each object and time. x, y, scale : (n,) in any unit; each is
        mapped to 0 to 1 by its smallest and largest value over all rows.

    >>> pairs = track_transitions([0, 0, 0, 1], [0, 1, 3, 1], [0, 5, 7, 10], [0, 1, 2, 1], [1, 2, 2, 3])
    >>> pairs[0].tolist()  # times 0 and 1 of object 0; its time 3 has no time 2 before it, object 1 one time only
    [[0.0, 0.0, 0.0], [0.5, 0.5, 0.5]]
    """
    columns = [np.asarray(values) for values in (object, time, scale, x, y)]
    if any(column.ndim != 1 or len(column) != len(columns[0]) for column in columns):
        raise ValueError(f"tracks have shapes {[c.shape for c in columns]}: expected one length, (n,), for all.")
    measured = np.stack(columns[2:], 1).astype(np.float64)
    if not np.isfinite(measured).all():
        raise ValueError("tracks: x, y and scale must be finite; leave out rows in which an object was not seen.")
    least, most = measured.min(0), measured.max(0)
    if (most == least).any():
        name = ("scale", "x", "y")[int(np.argmax(most == least))]
        raise ValueError(f"tracks: {name} has one value only; there is no transition to learn from.")
    first, second = _apart(columns[0], columns[1], lag)
    unit = (measured - least) / (most - least)
    return torch.from_numpy(np.stack([unit[first], unit[second]], 1).astype(np.float32))


class MaskPairs(NamedTuple):
    """Masks of objects and which of them follow each other.

    images : (n, 1, 64, 64) float32 of 0 and 1. first, second : (pair,) their numbers.

    >>> found = mask_pairs(np.ones((3, 8, 8)), sequence=[0, 0, 0], time=[0, 1, 2])
    >>> found.images[found.first].shape, found.second.tolist()
    (torch.Size([2, 1, 64, 64]), [1, 2])
    """

    images: Float[Tensor, "n 1 side side"]
    first: Int[Tensor, " pair"]
    second: Int[Tensor, " pair"]


def mask_pairs(masks: ArrayLike, sequence: ArrayLike, time: ArrayLike, lag: int = 1, side: int = 64) -> MaskPairs:
    """Masks of 0 and 1 as images of side x side pixels, and pairs of one sequence that are `lag` time steps apart.

    masks : (n, height, width). sequence, time : (n,) whole numbers. An image is stretched to a square, and a pixel
    is 1 where at least half of it is covered.

    >>> found = mask_pairs(np.ones((3, 128, 128)), [0, 0, 1], [4, 5, 6])
    >>> found.images.shape, found.first.tolist(), found.second.tolist()
    (torch.Size([3, 1, 64, 64]), [0], [1])
    """
    pixels = np.asarray(masks)
    if pixels.ndim != 3 or not np.isin(pixels, (0, 1)).all():
        raise ValueError(f"masks have shape {pixels.shape}: expected (n, height, width) of 0 and 1.")
    sequences, times = np.asarray(sequence), np.asarray(time)
    if sequences.shape != (len(pixels),) or times.shape != (len(pixels),):
        raise ValueError(f"sequence {sequences.shape} and time {times.shape}: expected ({len(pixels)},) for both.")
    first, second = _apart(sequences, times, lag)
    whole = torch.from_numpy(pixels.astype(np.float32))[:, None]
    images = (torch.nn.functional.interpolate(whole, (side, side), mode="area") >= 0.5).float()
    return MaskPairs(images, torch.from_numpy(first), torch.from_numpy(second))


@shaped
def check_transitions(transitions: Tensor | ArrayLike) -> Float[Tensor, "pair 2 3"]:
    """Transitions as a float tensor (pair, 2, 3), or an error that says what is wrong with their shape."""
    measured = torch.as_tensor(transitions, dtype=torch.float32)
    if measured.ndim != 3 or measured.shape[1:] != (2, 3) or not len(measured):
        raise ValueError(
            f"transitions have shape {tuple(measured.shape)}: expected (pair, 2, 3), scale, x and y at two times."
        )
    return measured


@shaped
def _apart(
    group: Num[Array, " row"], time: Num[Array, " row"], lag: int
) -> tuple[Int[Array, " pair"], Int[Array, " pair"]]:
    """Numbers of rows of one group that are `lag` time steps apart: earlier and later ones."""
    if not isinstance(lag, int) or lag < 1:
        raise ValueError(f"lag={lag!r}: expected a whole number of time steps, at least 1.")
    row = {key: k for k, key in enumerate(zip(group.tolist(), time.tolist(), strict=True))}
    if len(row) < len(group):
        raise ValueError("two rows have the same object (or sequence) and time: expected one row for each.")
    pairs = [(k, row[name, at + lag]) for (name, at), k in row.items() if (name, at + lag) in row]
    if not pairs:
        raise ValueError(f"no two rows of one object (or sequence) are {lag} time steps apart: there are no pairs.")
    both = np.asarray(pairs, dtype=np.int64)
    return both[:, 0], both[:, 1]
