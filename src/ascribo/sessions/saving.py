"""A model of several sessions to a folder and back.

Each session is a run folder of its own, session-0, session-1, ..., which `ascribo.load` and the command line read
like any other. The folder around them holds what they share and is written last; it knows the contents of each, so
a model whose saving was interrupted is not taken for a whole one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ..estimator import ContrastiveEmbedding
from ..saving import KIND_SESSIONS, save
from ..saving import load as load_one
from ..spaces import Follow
from ..store import decode, encode, read_run, write_run
from ..version import __version__
from .embedding import SharedEmbedding
from .landmarks import landmarks_from

__all__ = ["load", "save_sessions"]


def save_sessions(estimator: SharedEmbedding, folder: str | Path) -> Path:
    """Write a fitted estimator to a folder."""
    folder, sessions, tensors = Path(folder), [], {}
    marks = {name: landmarks.facts() for name, landmarks in estimator.landmarks_.items()}  # may refuse: first
    for k, (name, part) in enumerate(estimator.sessions_.items()):
        facts, own = marks[name]
        save(part, folder / f"session-{k}", session=name)
        sessions.append({"name": name, **facts, "sha256": read_run(folder / f"session-{k}")[0]["sha256"]})
        tensors |= {f"{k}.{key}": value for key, value in own.items()}
    parameters = {k: v for k, v in estimator.get_params(deep=False).items() if k != "random_state"}
    return write_run(
        folder,
        {
            "ascribo": __version__,
            "kind": KIND_SESSIONS,
            "parameters": {name: encode(value) for name, value in parameters.items()},
            "random_state": estimator.random_state if isinstance(estimator.random_state, int) else None,
            "spaces": encode(dict(estimator.spaces_)),
            "seeds": estimator.seeds_,
            "measures": {name: list(map(_plain, value)) for name, value in estimator.measures_.items()},
            "overlap": estimator.overlap_.to_dict("list"),
            "sessions": sessions,
        },
        tensors,
    )


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


def load(folder: str | Path, encoder=None) -> ContrastiveEmbedding | SharedEmbedding:
    """The fitted estimator in a run folder, of one recording or of several sessions. No code is run from it.

    encoder : the architecture, if the model was fitted with an nn.Module of the user's own.
    """
    facts, tensors = read_run(folder)
    if facts.get("kind") != KIND_SESSIONS:
        return load_one(folder, encoder)
    parts, marks = {}, {}
    for k, session in enumerate(facts["sessions"]):
        place = Path(folder) / f"session-{k}"
        if read_run(place)[0]["sha256"] != session["sha256"]:
            raise ValueError(f"{place} does not belong to {folder}, which is half-written: save the model again.")
        parts[session["name"]] = load_one(place, encoder)
        own = {n.removeprefix(f"{k}."): v for n, v in tensors.items() if n.startswith(f"{k}.")}
        marks[session["name"]] = landmarks_from(session, own)
    parameters = {name: decode(value) for name, value in facts["parameters"].items()}
    parameters |= {} if encoder is None else {"encoder": encoder}
    estimator = SharedEmbedding(**parameters, random_state=facts["random_state"])
    estimator.spaces_, estimator.seeds_ = decode(facts["spaces"]), facts["seeds"]
    estimator.measures_ = {
        name: np.array(value) if isinstance(estimator.spaces_[name], Follow) else value
        for name, value in facts["measures"].items()
    }
    estimator.overlap_ = pd.DataFrame(facts["overlap"])
    estimator.sessions_, estimator.landmarks_ = parts, marks
    return estimator
