"""From a run folder back to the fitted estimator that `ascribo.model.saving` wrote there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from torch import Tensor, nn

from ..networks.encoders import build_encoder, parameter_shapes
from ..networks.model_stack import LOG_TEMPERATURE
from ..networks.seed_alignment import Alignment
from ..support.stored_parameters import decode
from .estimator import ContrastiveEmbedding
from .fitted import FittedModel
from .run_folder import damage_explained, read_run
from .saving import CURVES, KIND_SESSIONS, MODULE
from .sessions.embedding import SharedEmbedding
from .sessions.kept_time_steps import landmarks_from
from .stored_checks import (
    check_facts,
    check_landmarks,
    check_parameter_types,
    check_seeds,
    check_session,
    check_session_facts,
    check_spaces,
    check_tensors,
    expected_tensors,
)

__all__ = ["load", "load_with_facts"]


def load(folder: str | Path, encoder: nn.Module | None = None) -> ContrastiveEmbedding | SharedEmbedding:
    """The fitted model in a folder that `save` wrote, of one recording or of several sessions.

    No code is run from the folder and nothing is imported. A model that holds classes of your own, registered with
    `ascribo.storable`, needs the modules that define them to be imported before.

    encoder : the module, if the model was fitted with an nn.Module; its weights are those of the folder.

    >>> import tempfile
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=1, hidden=1, channels=(3, 3), steps=400)
    >>> small = dict(seeds=1, steps=20, penalty=0, batch_size=32)
    >>> model = asc.ContrastiveEmbedding({"rest": asc.Time(dim=1)}, **small).fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = asc.load(model.save(folder))
    >>> bool((again.transform(data) == model.transform(data)).all())
    True
    """
    return load_with_facts(folder, encoder)[0]


def load_with_facts(
    folder: str | Path, encoder: nn.Module | None = None
) -> tuple[ContrastiveEmbedding | SharedEmbedding, dict[str, Any]]:
    """`load`, and what the folder's model.json says."""
    folder = Path(folder)
    facts, tensors = read_run(folder)
    with damage_explained(folder):
        if facts.get("kind") != KIND_SESSIONS:
            return _one(folder, facts, tensors, encoder), facts
        return _several(folder, facts, tensors, encoder), facts


def _several(
    folder: str | Path, facts: dict[str, Any], tensors: dict[str, Tensor], encoder: nn.Module | None
) -> SharedEmbedding:
    """The fitted model of several sessions."""
    spaces = check_spaces(folder, decode(facts["spaces"]))
    check_session_facts(folder, facts, spaces)
    parts, marks = {}, {}
    for k, session in enumerate(facts["sessions"]):
        place = Path(folder) / f"session-{k}"
        of_session, own = read_run(place)
        if of_session["sha256"] != session["sha256"]:
            raise ValueError(f"{place} does not belong to {folder}, which is half-written: save the model again.")
        with damage_explained(place):
            part = _one(place, of_session, own, encoder)
        model, name, kept = part.model_, session["name"], _under(f"{k}.", tensors)
        check_session(folder, name, model.spaces, model.seeds, spaces, len(facts["seeds"]))
        check_landmarks(folder, session, kept, model.seeds, model.embedder.dim)
        parts[name], marks[name] = part, landmarks_from(session, kept)
    estimator = SharedEmbedding(**_parameters(folder, facts, encoder))
    estimator.spaces_, estimator.seeds_ = spaces, facts["seeds"]
    estimator.measures_ = {
        name: np.array(value) if name in facts["measures_as_arrays"] else value
        for name, value in facts["measures"].items()
    }
    estimator.overlap_ = pd.DataFrame(facts["overlap"])
    estimator.sessions_, estimator.landmarks_ = parts, marks
    return estimator


def _one(
    folder: str | Path, facts: dict[str, Any], tensors: dict[str, Tensor], encoder: nn.Module | None
) -> ContrastiveEmbedding:
    """The fitted model of one recording."""
    spaces, treatment = check_spaces(folder, decode(facts["spaces"])), decode(facts["treatment"])
    check_facts(folder, facts, spaces, treatment)
    seeds = check_seeds(folder, facts, tensors)
    estimator = ContrastiveEmbedding(**_parameters(folder, facts, encoder))
    weights, aligned = _under("encoder.", tensors), _under("alignment.", tensors)
    sizes = len(facts["channels"]), sum(space.dim for space in spaces.values())
    shapes = parameter_shapes(estimator.encoder, *sizes)
    stored = {name: tuple(value.shape[1:]) for name, value in weights.items() if name != LOG_TEMPERATURE}
    if shapes != stored:  # before anything of that size is made
        raise ValueError(f"{folder}: the encoder's weights do not fit the architecture: {stored} for {shapes}.")
    curves = [name for name in CURVES if f"history.{name}" in tensors]
    check_tensors(folder, tensors, expected_tensors(sizes[0], spaces, seeds, shapes, curves))
    module = build_encoder(estimator.encoder, *sizes)
    estimator.model_ = FittedModel(
        spaces=spaces,
        module=module,
        channels=tuple(facts["channels"]),
        mean=tensors["mean"].numpy(),
        scale=tensors["scale"].numpy(),
        parameters=weights,
        decoder=_under("decoder.", tensors),
        alignment=Alignment(aligned["mean"], aligned["basis"], aligned["inverse"], facts["alignment_reference"]),
        usable=tensors["usable"].numpy(),
        regressions={name: value.numpy() for name, value in _under("regression.", tensors).items()},
        treatment=treatment,
    )
    estimator.goodness_of_fit_ = pd.DataFrame(facts["goodness_of_fit"])
    dims = {"infonce": ("step", "seed", "space"), "mse": ("step", "seed", "regression")}
    estimator.history_ = xr.Dataset(
        {name: (dims.get(name, ("step", "seed")), tensors[f"history.{name}"].numpy()) for name in curves},
        coords={"space": facts["objectives"]},
        attrs={"lambda": facts["lambda"]},
    )
    if facts.get("spent"):
        estimator.spent_ = facts["spent"]
    estimator.n_features_in_ = facts["features"]
    estimator.kept_channels_ = facts["kept_channels"]
    estimator.channel_names_ = facts["channel_names"]
    estimator.batch_size_ = facts["batch_size"]
    if facts["feature_names"]:
        estimator.feature_names_in_ = np.array(facts["feature_names"], dtype=object)
    return estimator


def _parameters(folder: str | Path, facts: dict[str, Any], encoder: nn.Module | None) -> dict[str, Any]:
    """What to make the estimator with."""
    given, stored = dict(facts["parameters"]), facts["parameters"]["encoder"]
    check_parameter_types(folder, given)
    if isinstance(stored, dict) and stored["type"] == MODULE:
        if encoder is None:
            raise ValueError(
                f"{folder} was fitted with an encoder of your own ({stored['name']}), of which it has the weights "
                "alone: pass the same architecture, ascribo.load(folder, encoder=module)."
            )
        given["encoder"] = None
    elif encoder is not None:
        raise ValueError(f"{folder} knows its encoder, {stored!r}: leave encoder out.")
    return {
        **{name: decode(value) for name, value in given.items()},
        **({} if encoder is None else {"encoder": encoder}),
        "random_state": facts["random_state"],
    }


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
