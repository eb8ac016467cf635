"""A run folder back to the fitted estimator that `ascribo.model.saving` wrote there. No code is run from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from ..networks.alignment import Alignment
from ..networks.encoders import build_encoder
from ..support.records import decode
from .estimator import ContrastiveEmbedding
from .fitted import FittedModel
from .saving import CURVES, KIND_SESSIONS
from .sessions.embedding import SharedEmbedding
from .sessions.landmarks import landmarks_from
from .store import read_run

__all__ = ["load"]


def load(folder: str | Path, encoder=None) -> ContrastiveEmbedding | SharedEmbedding:
    """The fitted estimator in a run folder, of one recording or of several sessions. No code is run from it.

    encoder : the architecture, if the model was fitted with an nn.Module of the user's own.
    """
    facts, tensors = read_run(folder)
    if facts.get("kind") != KIND_SESSIONS:
        return _load_one(folder, encoder)
    parts, marks = {}, {}
    for k, session in enumerate(facts["sessions"]):
        place = Path(folder) / f"session-{k}"
        if read_run(place)[0]["sha256"] != session["sha256"]:
            raise ValueError(f"{place} does not belong to {folder}, which is half-written: save the model again.")
        parts[session["name"]] = _load_one(place, encoder)
        own = {n.removeprefix(f"{k}."): v for n, v in tensors.items() if n.startswith(f"{k}.")}
        marks[session["name"]] = landmarks_from(session, own)
    parameters = {name: decode(value) for name, value in facts["parameters"].items()}
    parameters |= {} if encoder is None else {"encoder": encoder}
    estimator = SharedEmbedding(**parameters, random_state=facts["random_state"])
    estimator.spaces_, estimator.seeds_ = decode(facts["spaces"]), facts["seeds"]
    estimator.measures_ = {
        name: np.array(value) if name in facts["measures_as_arrays"] else value
        for name, value in facts["measures"].items()
    }
    estimator.overlap_ = pd.DataFrame(facts["overlap"])
    estimator.sessions_, estimator.landmarks_ = parts, marks
    return estimator


def _load_one(folder: str | Path, encoder=None) -> ContrastiveEmbedding:
    """The fitted estimator in a run folder. No code is run from it.

    encoder : the architecture, if the model was fitted with an nn.Module of the user's own.
    """
    facts, tensors = read_run(folder)
    if facts.get("kind") == KIND_SESSIONS:
        raise ValueError(
            f"{folder} holds {len(facts['sessions'])} sessions: ascribo.load reads it whole. Each is a run of its "
            f"own, the first one, {facts['sessions'][0]['name']!r}, in {Path(folder) / 'session-0'}."
        )
    parameters = {name: decode(value) for name, value in facts["parameters"].items()}
    if isinstance(facts["parameters"]["encoder"], dict) and facts["parameters"]["encoder"]["type"] == "custom":
        if encoder is None:
            raise ValueError(
                f"{folder} was fitted with an encoder of your own ({facts['parameters']['encoder']['name']}): pass "
                "the same architecture, ascribo.load(folder, encoder=module)."
            )
        parameters["encoder"] = encoder
    elif encoder is not None:
        raise ValueError(f"{folder} knows its encoder, {parameters['encoder']!r}: leave encoder out.")
    estimator = ContrastiveEmbedding(**parameters, random_state=facts["random_state"])
    spaces = decode(facts["spaces"])
    take = lambda prefix: {  # noqa: E731
        name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)
    }
    aligned = take("alignment.")
    module = build_encoder(parameters["encoder"], len(facts["channels"]), sum(s.dim for s in spaces.values()))
    expected = {name: tuple(value.shape) for name, value in module.named_parameters()}
    stored = {n: tuple(v.shape[1:]) for n, v in take("encoder.").items() if n in expected}
    if expected != stored:
        raise ValueError(f"{folder}: the encoder's weights do not fit the architecture: {stored} for {expected}.")
    estimator.model_ = FittedModel(
        spaces=spaces,
        module=module,
        channels=tuple(facts["channels"]),
        mean=tensors["mean"].numpy(),
        scale=tensors["scale"].numpy(),
        parameters=take("encoder."),
        decoder=take("decoder."),
        alignment=Alignment(aligned["mean"], aligned["basis"], aligned["inverse"], facts["alignment_reference"]),
        counted=tensors["counted"].numpy(),
        regressions={name: value.numpy() for name, value in take("regression.").items()},
        treatment=decode(facts.get("treatment")),
    )
    estimator.goodness_of_fit_ = pd.DataFrame(facts["goodness_of_fit"])
    curves = {name: value.numpy() for name, value in take("history.").items()}
    dims = {"infonce": ("step", "seed", "space"), "mse": ("step", "seed", "regression")}
    estimator.history_ = xr.Dataset(
        {name: (dims.get(name, ("step", "seed")), curves[name]) for name in CURVES},
        coords={"space": facts["objectives"]},
        attrs={"lambda": facts["lambda"]},
    )
    estimator.n_features_in_ = facts["features"]
    estimator.kept_channels_ = facts["kept_channels"]
    if facts["feature_names"]:
        estimator.feature_names_in_ = np.array(facts["feature_names"], dtype=object)
    return estimator
