"""A fitted estimator to a run folder and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
import xarray as xr

from .alignment import Alignment
from .encoders import build_encoder
from .estimator import ContrastiveEmbedding
from .model import FittedModel
from .store import decode, encode, read_run, write_run
from .version import __version__

__all__ = ["load", "save"]

KIND_SESSIONS = "sessions"
"""What a folder says that holds several sessions: see `sessions.saving`."""
CURVES = ("infonce", "mse", "penalty", "lambda")


def save(estimator: ContrastiveEmbedding, folder: str | Path, **facts) -> Path:
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


def load(folder: str | Path, encoder=None) -> ContrastiveEmbedding:
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
