"""What a fitted model keeps of its sessions: some time steps, their variables and their embedding.

They are what a session that is added later is trained against, and what sessions are compared by; the recordings
themselves are not needed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ...metrics.agreement import means_by_label, pairwise_r2
from ...spaces.base import Space, layout
from ..fitted import FittedModel
from ..fitting import Prepared
from .session_pairs import Measures

__all__ = ["Landmarks", "keep_landmarks", "landmarks_from", "session_consistency"]

MOST = 20_000
"""Most time steps that are kept of a session, up to half of them from held-out time."""
PER_BIN = 20
"""Time steps that a bin of the variables should have, on average."""
FEWEST = 5
"""Time steps that a bin must have in both sessions."""
MOST_BINS = 20
"""Most bins per variable."""


@dataclass(frozen=True)
class Landmarks:
    """Some time steps of a session.

    variables : DataFrame, a row for each. z : (seed, row, dim) their embedding, on the CPU. held_out : (row,)
    whether the encoders were trained without them. kept : by space, what was kept beside
    them (`Across.keep`), such as the changes of its variables.
    """

    variables: pd.DataFrame
    z: Tensor
    held_out: np.ndarray
    kept: dict[str, np.ndarray]

    def tempered(self, model: FittedModel) -> Tensor:
        """The embedding at temperature 1, where the model is."""
        return model.embedder.tempered(model.parameters, self.z.to(model.device)).detach()

    def facts(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """As JSON and tensors: labels as numbers beside the list of them; `landmarks_from` is the inverse."""
        labels, tensors = {}, {"z": self.z, "held_out": torch.from_numpy(self.held_out)}
        tensors |= {f"change.{name}": torch.from_numpy(value) for name, value in self.kept.items()}
        for name, column in self.variables.items():
            if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
                values = column.to_numpy(dtype=np.float64, na_value=np.nan)
            else:
                values, distinct = pd.factorize(column.astype(object))
                labels[name] = [label.item() if isinstance(label, np.generic) else label for label in distinct]
                if odd := [label for label in labels[name] if not isinstance(label, str | int | float | bool)]:
                    raise ValueError(
                        f"variable {name!r} has labels of type {type(odd[0]).__name__}, which cannot be stored: "
                        "make them text or numbers before fitting."
                    )
            tensors[f"variable.{name}"] = torch.from_numpy(np.array(values))
        return {"variables": [str(name) for name in self.variables], "labels": labels}, tensors


def landmarks_from(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Landmarks:
    """Landmarks from what `Landmarks.facts` gave."""
    columns = {}
    for name in facts["variables"]:
        values = tensors[f"variable.{name}"].numpy()
        if name in facts["labels"]:
            labels = np.array([*facts["labels"][name], None], dtype=object)  # -1: missing
            values = labels[values]
        columns[name] = values
    changes = {n.removeprefix("change."): v.numpy() for n, v in tensors.items() if n.startswith("change.")}
    return Landmarks(pd.DataFrame(columns), tensors["z"], tensors["held_out"].numpy(), changes)


def keep_landmarks(model: FittedModel, prepared: Prepared, kept: Mapping[str, np.ndarray]) -> Landmarks:
    """Choose time steps of a session, evenly spaced, and embed them.

    model : on the device to use. kept : by space, what is kept beside single time steps.
    """
    recording = prepared.recording
    held = (prepared.validation_segments >= 0) & prepared.held_out
    tested = _thin(np.flatnonzero(held), MOST // 2)
    rows = np.sort(np.r_[tested, _thin(np.flatnonzero(~held), MOST - len(tested))])
    X = model.standardise(recording.X)
    z = model.embedder.embed(model.parameters, X, recording.epochs, rows).cpu()
    names = list(dict.fromkeys(v for space in model.spaces.values() for v in space.variables))
    table = recording.variables.loc[:, names].iloc[rows].reset_index(drop=True)
    return Landmarks(table, z, held[rows], {name: _thin(value, MOST) for name, value in kept.items()})


def _thin(items: np.ndarray, most: int) -> np.ndarray:
    if len(items) <= most:
        return items
    return items[np.linspace(0, len(items) - 1, most).astype(np.int64)]


def session_consistency(
    models: Mapping[str, FittedModel],
    tables: Mapping[str, pd.DataFrame],
    embeddings: Mapping[str, np.ndarray],
    spaces: Mapping[str, Space],
    measures: Measures,
) -> pd.DataFrame:
    """How far the sessions' embeddings agree where their variables do; see `SharedEmbedding.consistency`.

    tables, embeddings : for each session the variables, and the embedding (time, dim) in its own layout.
    """
    rows = []
    for name, space in spaces.items():
        having = [s for s, model in models.items() if name in model.spaces and space.comparable]
        blocks, labels = {}, {}
        for session in having:
            present = space.known(tables[session])
            blocks[session] = embeddings[session][present, layout(models[session].spaces)[name]]
            labels[session] = space.binning_values(tables[session].loc[present], measures.get(name))
        for pair in combinations(having, 2):
            means = _means({s: blocks[s] for s in pair}, [labels[s] for s in pair], space.categorical)
            bins = len(means[0])
            with np.errstate(invalid="ignore", divide="ignore"):
                affine = pairwise_r2(means, "variance") if bins >= space.dim + 2 else np.full((2, 2), np.nan)
                apart = np.square(means[0] - means[1]).sum()
                plain = [1 - apart / np.square(m - m.mean(0)).sum() if bins > 1 else np.nan for m in means]
            for a, b in ((0, 1), (1, 0)):
                rows.append((name, pair[a], pair[b], float(affine[a, b]), float(plain[b]), bins))
    return pd.DataFrame(rows, columns=["space", "source", "target", "r2", "r2_unaligned", "bins"])


def _means(blocks: Mapping[str, np.ndarray], labels: Sequence[np.ndarray], discrete: bool) -> list[np.ndarray]:
    """Mean embeddings of two sessions in the bins that both visit, (bin, dim) each; no bins if they do not meet."""
    fewest, variables = min(len(v) for v in labels), labels[0].shape[1]
    bins = None if discrete else int(np.clip((fewest / PER_BIN) ** (1 / variables), 2, MOST_BINS))
    try:
        return list(means_by_label(blocks, labels, bins, FEWEST).values())
    except ValueError:  # no range in common
        return [np.empty((0, z.shape[1])) for z in blocks.values()]
