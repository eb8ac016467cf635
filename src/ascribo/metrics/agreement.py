"""How far two embeddings agree: R² after the best affine map, on the same time steps or in bins of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..support.array_shapes import Array, Float, shaped

__all__ = ["check_embedding", "mean_over_pairs", "means_by_label", "pairwise_r2"]

DEAD = 1e-6
"""Spread of a direction, relative to the widest one, under which it is rounding."""


def means_by_label(
    embeddings: Mapping[Any, Any], labels: Sequence[Any], bins: int | None, least: int
) -> dict[Any, np.ndarray]:
    """Mean embeddings in the bins of the labels that all recordings visit: name -> (bin, dim).

    Arguments as of `consistency_by_label`.
    """
    checked, tables = [], []
    for (name, z), label in zip(embeddings.items(), labels, strict=True):
        checked.append(check_embedding(z, name))
        tables.append(pd.DataFrame(np.asarray(label)))
        if len(checked[-1]) != len(tables[-1]):
            raise ValueError(f"embedding {name!r} has {len(checked[-1])} time steps, its labels {len(tables[-1])}.")
    if len({table.shape[1] for table in tables}) > 1:
        raise ValueError(
            f"labels with {[t.shape[1] for t in tables]} variables: expected the same ones everywhere."
        )
    if bins is not None:
        tables = _binned(tables, bins)
    stacked = pd.concat(tables, ignore_index=True)
    # steps whose labels are missing belong to no bin
    codes = stacked.groupby(list(stacked.columns)).ngroup().fillna(-1).to_numpy(dtype=int)
    parts = np.split(codes, np.cumsum([len(z) for z in checked])[:-1])
    counts = np.stack([np.bincount(part[part >= 0], minlength=codes.max() + 1) for part in parts])
    shared = (counts >= least).all(0)
    means = {}
    for name, z, part, count in zip(embeddings, checked, parts, counts, strict=True):
        total = np.zeros((len(count), z.shape[1]))
        np.add.at(total, part[part >= 0], z[part >= 0])
        means[name] = total[shared] / count[shared, None]
    return means


@shaped
def check_embedding(z: Any, name: Any) -> Float[Array, "time dim"]:
    """An embedding (time, dim) in float64, all of it finite. name : of the embedding, in messages."""
    values = np.asarray(z, dtype=np.float64)
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        raise ValueError(f"embedding {name!r} has shape {values.shape}: expected (time, dim), all of it finite.")
    return values


@shaped
def pairwise_r2(embeddings: Sequence[Float[Array, "time _"]], weight: str) -> Float[Array, "n n"]:
    """R² (n, n) of target (column) from source (row), by one product of orthonormal bases."""
    centred = [z - z.mean(0) for z in embeddings]
    bases = [_basis(z) for z in centred]
    targets = bases if weight == "direction" else centred
    squares = np.square(np.concatenate(bases, 1).T @ np.concatenate(targets, 1))
    rows, columns = (
        np.repeat(np.eye(len(side)), [part.shape[1] for part in side], axis=0) for side in (bases, targets)
    )
    explained = rows.T @ squares @ columns  # summed by embedding
    total = np.array([z.shape[1] if weight == "direction" else np.square(z).sum() for z in centred])
    varies = np.array([basis.shape[1] > 0 for basis in bases])
    return explained / np.where(varies, total, np.nan)


def _basis(z: np.ndarray) -> np.ndarray:
    """Orthonormal columns that span those of z; fewer where some directions do not vary."""
    u, spread, _ = np.linalg.svd(z, full_matrices=False)
    return u[:, spread > max(DEAD * spread[0], 1e-12)]


@shaped
def mean_over_pairs(matrix: Float[Array, "n n"]) -> float:
    """Mean over pairs of different models."""
    return float(matrix[~np.eye(len(matrix), dtype=bool)].mean())


def _binned(tables: Sequence[pd.DataFrame], bins: int) -> list[pd.DataFrame]:
    """Values as numbers of bins, NaN where unknown or outside of the range that all tables share."""
    try:
        tables = [table.astype(float) for table in tables]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"bins={bins!r} need numbers as labels ({error}): use bins=None for discrete ones."
        ) from error
    low = np.max([table.min() for table in tables], axis=0)
    high = np.min([table.max() for table in tables], axis=0)
    if not (high > low).all():
        raise ValueError(f"the recordings share the range {low} to {high} of the labels: expected them to overlap.")
    out = []
    for table in tables:
        place = (table - low) / (high - low)
        inside = ((place >= 0) & (place <= 1)).all(axis=1)
        out.append(np.minimum(np.floor(place * bins), bins - 1).where(inside))
    return out
