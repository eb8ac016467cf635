"""A fitted estimator to a run folder; `ascribo.model.loading` is the way back.

A model of several sessions is a folder of run folders, session-0, session-1, ..., which `ascribo.load` and the
command line read like any other. The folder around them holds what they share and is written last; it knows the
contents of each, so a model whose saving was interrupted is not taken for a whole one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..support.records import encode
from ..version import __version__
from .store import read_run, write_run

__all__ = ["CURVES", "KIND_SESSIONS", "save", "save_sessions"]

KIND_SESSIONS = "sessions"
"""What a folder says that holds several sessions."""
CURVES = ("infonce", "mse", "penalty", "lambda")


def save(estimator: Any, folder: str | Path, **facts) -> Path:
    """Write a fitted estimator to a folder. An encoder of the user's own is stored by its weights only."""
    model, history = estimator.model_, estimator.history_
    tensors = {f"encoder.{name}": value for name, value in model.parameters.items()}
    tensors |= {f"decoder.{name}": value for name, value in model.decoder.items()}
    a = model.alignment
    tensors |= {
        "alignment.mean": a.mean,
        "alignment.basis": a.basis,
        "alignment.inverse": a.inverse,
    }
    arrays = {"mean": model.mean, "scale": model.scale, "counted": model.counted}
    arrays |= {f"regression.{name}": value for name, value in model.regressions.items()}
    arrays |= {f"history.{name}": history[name].values for name in CURVES}
    tensors |= {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()}
    parameters = {k: v for k, v in estimator.get_params(deep=False).items() if k != "random_state"}
    return write_run(
        folder,
        {
            "ascribo": __version__,
            "parameters": {name: encode(value) for name, value in parameters.items()},
            "random_state": estimator.random_state if isinstance(estimator.random_state, int) else None,
            "spaces": encode(dict(model.spaces)),
            "channels": list(model.channels),
            "features": estimator.n_features_in_,
            "feature_names": list(getattr(estimator, "feature_names_in_", [])) or None,
            "kept_channels": estimator.kept_channels_,
            "treatment": encode(model.treatment),
            "alignment_reference": a.reference,
            "goodness_of_fit": estimator.goodness_of_fit_.astype(object)
            .where(estimator.goodness_of_fit_.notna(), None)
            .to_dict("list"),
            "objectives": [str(name) for name in history["space"].values],
            "lambda": history.attrs["lambda"],
            **facts,
        },
        tensors,
    )


def save_sessions(estimator: Any, folder: str | Path) -> Path:
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
            "measures_as_arrays": [n for n, value in estimator.measures_.items() if isinstance(value, np.ndarray)],
            "overlap": estimator.overlap_.to_dict("list"),
            "sessions": sessions,
        },
        tensors,
    )


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value
