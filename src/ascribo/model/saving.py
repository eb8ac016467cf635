"""From a fitted estimator to a run folder; `ascribo.model.loading` is the way back.

A model of several sessions is a folder of run folders, session-0, session-1, ..., each of which can be read on its
own. The folder around them holds what they share and is written last; it knows the digest of each, so that a model
whose saving was interrupted is not taken for a whole one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..support.files import this_process_writes
from ..support.stored_parameters import encode
from .run_folder import check_folder, remove_run, write_run

__all__ = ["CURVES", "KIND_SESSIONS", "MODULE", "save", "save_sessions"]

KIND_SESSIONS = "sessions"
"""What a folder says that holds several sessions."""
MODULE = "nn.Module"
"""What a folder says of an encoder that is a module: its weights are there, its code is not."""
CURVES = ("infonce", "mse", "penalty", "lambda", "held_out")


def save(estimator: Any, folder: str | Path, **facts: Any) -> Path:
    """Write a fitted estimator to a folder, with further facts (fit for JSON) in its model.json.

    What could not be loaded again is refused, before anything is written. Two things come back otherwise than they
    were: of an encoder that is an nn.Module only the weights are kept, so `ascribo.load` asks for the module; and a
    random_state that is no integer comes back as None.
    """
    _write(estimator, folder, facts)
    return Path(folder)


def save_sessions(estimator: Any, folder: str | Path) -> Path:
    """Write a fitted estimator of several sessions to a folder; what is said of `save` holds here, too."""
    folder, sessions, tensors = check_folder(folder), [], {}
    shared = {
        "kind": KIND_SESSIONS,
        **_parameters(estimator),
        "spaces": encode(dict(estimator.spaces_), "spaces"),
        "seeds": estimator.seeds_,
        "measures": {name: list(map(_plain, value)) for name, value in estimator.measures_.items()},
        "measures_as_arrays": [n for n, value in estimator.measures_.items() if isinstance(value, np.ndarray)],
        "overlap": estimator.overlap_.to_dict("list"),
    }
    marks = {name: landmarks.facts() for name, landmarks in estimator.landmarks_.items()}
    for k in range(len(estimator.sessions_)):
        check_folder(folder / f"session-{k}")
    with this_process_writes(folder):  # nothing was written so far
        for k, (name, part) in enumerate(estimator.sessions_.items()):
            facts, own = marks[name]
            digest = _write(part, folder / f"session-{k}", {"session": name})
            sessions.append({"name": name, **facts, "sha256": digest})
            tensors |= {f"{k}.{key}": value for key, value in own.items()}
        write_run(folder, {**shared, "sessions": sessions}, tensors)
        last = len(sessions)
        while (folder / f"session-{last}").is_dir():  # of a model with more sessions that was there before
            remove_run(folder / f"session-{last}")
            last += 1
    return folder


def _write(estimator: Any, folder: str | Path, facts: dict[str, Any]) -> str:
    """Write the estimator of one recording and return the digest of its tensors."""
    model, history, fit = estimator.model_, estimator.history_, estimator.goodness_of_fit_
    tensors = {f"encoder.{name}": value for name, value in model.parameters.items()}
    tensors |= {f"decoder.{name}": value for name, value in model.decoder.items()}
    tensors |= {f"alignment.{name}": getattr(model.alignment, name) for name in ("mean", "basis", "inverse")}
    arrays = {"mean": model.mean, "scale": model.scale, "usable": model.usable}
    arrays |= {f"regression.{name}": value for name, value in model.regressions.items()}
    arrays |= {f"history.{name}": history[name].values for name in CURVES if name in history}
    tensors |= {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()}
    known = {
        **_parameters(estimator),
        "spaces": encode(dict(model.spaces), "spaces"),
        "channels": list(model.channels),
        "features": estimator.n_features_in_,
        "feature_names": list(getattr(estimator, "feature_names_in_", [])) or None,
        "channel_names": estimator.channel_names_,
        "kept_channels": estimator.kept_channels_,
        "batch_size": estimator.batch_size_,
        "treatment": encode(model.treatment, "treatment"),
        "alignment_reference": model.alignment.reference,
        "goodness_of_fit": fit.astype(object).where(fit.notna(), None).to_dict("list"),
        "objectives": [str(name) for name in history["space"].values],
        "lambda": history.attrs["lambda"],
        "spent": getattr(estimator, "spent_", None),  # of a session, training was that of all
    }
    return write_run(folder, {**known, **facts}, tensors)


def _parameters(estimator: Any) -> dict[str, Any]:
    """What the estimator was made with."""
    given = estimator.get_params(deep=False)
    seed, encoder = given.pop("random_state"), given.pop("encoder")
    given["device"] = str(given["device"])  # it may be a torch.device
    parameters = {name: encode(value, name) for name, value in given.items()}
    if isinstance(encoder, nn.Module):
        parameters["encoder"] = {"type": MODULE, "name": type(encoder).__name__}
    else:
        parameters["encoder"] = encode(encoder, "encoder")
    return {"parameters": parameters, "random_state": int(seed) if isinstance(seed, int | np.integer) else None}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
