"""From a run folder back to the fitted estimator that `ascribo.model.saving` wrote there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from torch import Tensor, nn

from ..networks.encoders import build_encoder
from ..networks.seed_alignment import Alignment
from ..support.stored_parameters import decode
from .estimator import ContrastiveEmbedding
from .fitted import FittedModel
from .run_folder import damage_explained, read_run
from .saving import CURVES, KIND_SESSIONS, MODULE
from .sessions.embedding import SharedEmbedding
from .sessions.kept_time_steps import landmarks_from

__all__ = ["load", "load_with_facts"]

TYPES = {
    **dict.fromkeys(("parameters", "spaces", "goodness_of_fit"), dict),
    **dict.fromkeys(("channels", "objectives", "lambda"), list),
    **dict.fromkeys(("features", "batch_size", "alignment_reference"), int),
    **dict.fromkeys(("feature_names", "channel_names"), list | None),
    "random_state": int | None,
}
"""What the facts of one recording's model are."""


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
    facts, tensors = read_run(folder)
    with damage_explained(folder):
        if facts.get("kind") != KIND_SESSIONS:
            return _one(folder, facts, tensors, encoder), facts
        return _several(folder, facts, tensors, encoder), facts


def _several(
    folder: str | Path, facts: dict[str, Any], tensors: dict[str, Tensor], encoder: nn.Module | None
) -> SharedEmbedding:
    """The fitted model of several sessions."""
    parts, marks = {}, {}
    for k, session in enumerate(facts["sessions"]):
        place = Path(folder) / f"session-{k}"
        of_session, own = read_run(place)
        if of_session["sha256"] != session["sha256"]:
            raise ValueError(f"{place} does not belong to {folder}, which is half-written: save the model again.")
        parts[session["name"]] = _one(place, of_session, own, encoder)
        marks[session["name"]] = landmarks_from(session, _under(f"{k}.", tensors))
    estimator = SharedEmbedding(**_parameters(folder, facts, encoder))
    estimator.spaces_, estimator.seeds_ = decode(facts["spaces"]), facts["seeds"]
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
    for name, kind in TYPES.items():
        if not isinstance(facts[name], kind):
            raise TypeError(f"{name} is {str(facts[name])[:40]!r}")
    estimator = ContrastiveEmbedding(**_parameters(folder, facts, encoder))
    spaces, weights, aligned = decode(facts["spaces"]), _under("encoder.", tensors), _under("alignment.", tensors)
    module = build_encoder(estimator.encoder, len(facts["channels"]), sum(s.dim for s in spaces.values()))
    expected = {name: tuple(value.shape) for name, value in module.named_parameters()}
    stored = {n: tuple(v.shape[1:]) for n, v in weights.items() if n in expected}
    if expected != stored:
        raise ValueError(f"{folder}: the encoder's weights do not fit the architecture: {stored} for {expected}.")
    for name, value in {**weights, "mean": tensors["mean"], "scale": tensors["scale"]}.items():
        if not value.isfinite().all():
            raise ValueError(f"{folder} holds NaN or infinity in {name}: the fit had failed, or it was changed.")
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
        treatment=decode(facts["treatment"]),
    )
    estimator.goodness_of_fit_ = pd.DataFrame(facts["goodness_of_fit"])
    dims = {"infonce": ("step", "seed", "space"), "mse": ("step", "seed", "regression")}
    curves = {name: tensors[f"history.{name}"] for name in CURVES if f"history.{name}" in tensors}
    estimator.history_ = xr.Dataset(
        {name: (dims.get(name, ("step", "seed")), value.numpy()) for name, value in curves.items()},
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
    if isinstance(stored, dict) and stored["type"] == MODULE:
        if encoder is None:
            raise ValueError(
                f"{folder} was fitted with an encoder of your own ({stored['name']}), of which it has the weights "
                "alone: pass the same architecture, ascribo.load(folder, encoder=module)."
            )
        given["encoder"] = None
    elif encoder is not None:
        raise ValueError(f"{folder} knows its encoder, {stored!r}: leave encoder out.")
    try:
        parameters = {name: decode(value) for name, value in given.items()}
    except ValueError as error:
        raise ValueError(f"{folder} cannot be loaded: {error}") from error
    return {
        **parameters,
        **({} if encoder is None else {"encoder": encoder}),
        "random_state": facts["random_state"],
    }


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
