"""What must hold of the facts and tensors of a run folder, so that the model that is made of them gives numbers.

Checksums tell whether a folder is as it was written. Whoever writes one anew, with good checksums, may still write
tensors of other sizes, NaN, or a scale of zero: these are refused here, before anything is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data.preprocessing import Treatment
from ..networks.model_stack import LOG_TEMPERATURE
from ..spaces.base import Space
from ..support.stored_types import is_of, name_of
from ..training.decoders import decoder_shapes

__all__ = [
    "check_facts",
    "check_landmarks",
    "check_parameter_types",
    "check_seeds",
    "check_session",
    "check_session_facts",
    "check_spaces",
    "check_tensors",
    "check_types",
    "expected_tensors",
]

AGAIN = "Fit and save the model again."
MOST_CHANNELS = 10**6
SINGLE, EITHER = (torch.float32,), (torch.float32, torch.float64)
TEXTS = list[str]

TYPES: dict[str, Any] = {
    **dict.fromkeys(("parameters", "goodness_of_fit"), dict),
    **dict.fromkeys(("channels", "objectives"), TEXTS),
    **dict.fromkeys(("feature_names", "channel_names"), TEXTS | None),
    **dict.fromkeys(("features", "batch_size", "alignment_reference"), int),
    "kept_channels": list[int],
    "lambda": list[float],
    "random_state": int | None,
}
"""What the facts of one recording's model are."""
GOODNESS: dict[str, Any] = {
    "space": TEXTS,
    **dict.fromkeys(("bits", "infonce", "chance", "bits_low", "bits_high"), list[float | None]),
    "left_out": list[int],
    **dict.fromkeys(("held_out", "collapsed"), list[bool]),
}
"""What the columns of the goodness of fit are: a value for each space."""
SOURCE: dict[str, Any] = {"path": str, "how": dict}
"""Where the recording came from, if that is known, and what `ascribo.read` is told about it."""
HOW: dict[str, Any] = {
    "channels": str | TEXTS | None,
    "variables": TEXTS | None,
    **dict.fromkeys(("epochs", "time", "unpack"), str | None),
}
NOTED: dict[str, Any] = {"notes": TEXTS, "stack": TEXTS}
"""What a sweep keeps of a fit."""
PARAMETERS: dict[str, Any] = {
    **dict.fromkeys(("hybrid", "device"), str),
    **dict.fromkeys(("seeds", "steps"), int | str),
    **dict.fromkeys(("exact_penalty", "drop_constant", "progress"), bool | int),
    **dict.fromkeys(("learning_rate", "validation_fraction"), float),
    "batch_size": int,
    "early_stop": float | None,
    "n_jobs": int | None,
    "memory": str | int | None,
    "checkpoint": str | None,
}
"""What the parameters of an estimator are, but for those that are objects of their own."""
SPENT: dict[str, Any] = {"seeds": int, "why_seeds": str, "steps": list[int], "why_steps": TEXTS}
SESSIONS: dict[str, Any] = {
    **dict.fromkeys(("parameters", "measures"), dict),
    "overlap": dict,
    "sessions": list,
    "seeds": list[int],
    "measures_as_arrays": TEXTS,
    "random_state": int | None,
}
"""What the facts of several sessions' model are."""
SESSION: dict[str, Any] = {"name": str | int, "sha256": str, "variables": TEXTS, "labels": dict}
OVERLAP: dict[str, Any] = {"space": TEXTS, "session": list, "other": list, "share": list[float]}


@dataclass(frozen=True)
class Expected:
    """What a tensor must be. shape : None for an axis of any length. above_zero : the part of it that must be."""

    shape: tuple[int | None, ...]
    types: tuple[torch.dtype, ...]
    finite: bool = True
    above_zero: int | slice | None = None


def expected_tensors(
    channels: int,
    spaces: Mapping[str, Space],
    seeds: int,
    encoder: Mapping[str, tuple[int, ...]],
    curves: Sequence[str] = (),
) -> dict[str, Expected]:
    """Name -> what it must be, of every tensor of a model of one recording.

    encoder : name -> shape of the parameters of one encoder. curves : names of the curves of training that there
    are; they may hold NaN, where a seed had ended sooner than others.
    """
    dim = sum(space.dim for space in spaces.values())
    learned = sum(space.contrastive and space.temperature == "learn" for space in spaces.values())
    predicted = {name: space.dim for name, space in spaces.items() if not space.contrastive}
    last = {"infonce": (len(spaces) - len(predicted),), "mse": (len(predicted),)}
    return {
        **{f"encoder.{name}": Expected((seeds, *shape), SINGLE) for name, shape in encoder.items()},
        **({f"encoder.{LOG_TEMPERATURE}": Expected((seeds, learned), SINGLE)} if learned else {}),
        **{
            f"decoder.{name}": Expected((seeds, *shape), SINGLE)
            for name, shape in decoder_shapes(dim, channels).items()
        },
        "alignment.mean": Expected((seeds, dim), SINGLE),
        **{f"alignment.{name}": Expected((seeds, dim, dim), SINGLE) for name in ("basis", "inverse")},
        "mean": Expected((channels,), EITHER),
        "scale": Expected((channels,), EITHER, above_zero=slice(None)),
        "usable": Expected((seeds, len(spaces)), (torch.bool,)),
        **{f"regression.{n}": Expected((2, own), EITHER, above_zero=1) for n, own in predicted.items()},
        **{f"history.{n}": Expected((None, seeds, *last.get(n, ())), EITHER, finite=False) for n in curves},
    }


def check_tensors(folder: str | Path, tensors: Mapping[str, Tensor], expected: Mapping[str, Expected]) -> None:
    """Refuse tensors that are not what they must be; others, or fewer of them, too."""
    if odd := sorted(expected.keys() ^ tensors.keys()):
        what = "lacks" if odd[0] in expected else "holds more than a model has:"
        raise ValueError(f"{folder} is damaged: it {what} {odd[0]}. {AGAIN}")
    for name, wanted in expected.items():
        value = tensors[name]
        shape, fits = tuple(value.shape), len(value.shape) == len(wanted.shape)
        if not fits or any(n is not None and n != own for own, n in zip(shape, wanted.shape, strict=True)):
            told = ", ".join("any" if n is None else str(n) for n in wanted.shape)
            raise ValueError(f"{folder} is damaged: {name} has shape {shape}; expected ({told}). {AGAIN}")
        if value.dtype not in wanted.types:
            told = " or ".join(str(kind).removeprefix("torch.") for kind in wanted.types)
            found = str(value.dtype).removeprefix("torch.")
            raise ValueError(f"{folder} is damaged: {name} is of type {found}; expected {told}. {AGAIN}")
        if wanted.finite and not value.isfinite().all():
            raise ValueError(f"{folder} holds NaN or infinity in {name}: the fit had failed, or it was changed.")
        if wanted.above_zero is not None and not (value[wanted.above_zero] > 0).all():
            raise ValueError(f"{folder} is damaged: {name} holds numbers that are not above zero. {AGAIN}")


def check_spaces(folder: str | Path, spaces: Any) -> dict[str, Space]:
    """The spaces of a model, if they are spaces with names."""
    good = isinstance(spaces, dict) and spaces
    if not good or not all(isinstance(n, str) and isinstance(s, Space) for n, s in spaces.items()):
        raise ValueError(f"{folder} is damaged: spaces is {_short(spaces)}; expected names and spaces. {AGAIN}")
    return spaces


def check_facts(folder: str | Path, facts: Mapping[str, Any], spaces: Mapping[str, Space], treatment: Any) -> None:
    """Refuse facts of a model of one recording that are of another type than they must be, or do not fit."""
    check_types(folder, facts)
    features, kept, channels = facts["features"], facts["kept_channels"], facts["channels"]
    inside = all(0 <= k < features for k in kept) and len(set(kept)) == len(kept) == len(channels)
    if not inside or not channels:
        told = f"kept_channels is {_short(kept)}, of {features} channels, and {len(channels)} are in use"
        raise ValueError(f"{folder} is damaged: {told}. {AGAIN}")
    for name in ("feature_names", "channel_names"):
        if facts[name] is not None and len(facts[name]) != features:
            raise ValueError(f"{folder} is damaged: {name} has {len(facts[name])} names for {features}. {AGAIN}")
    contrastive = {name for name, space in spaces.items() if space.contrastive}
    if set(facts["objectives"]) != contrastive or len(facts["objectives"]) != len(contrastive):
        told = f"objectives are {_short(facts['objectives'])}; expected {sorted(contrastive)}"
        raise ValueError(f"{folder} is damaged: {told}. {AGAIN}")
    if facts["batch_size"] < 1:
        raise ValueError(f"{folder} is damaged: batch_size is {facts['batch_size']}. {AGAIN}")
    fit = facts["goodness_of_fit"]
    if fit["space"] != list(spaces) or any(len(column) != len(spaces) for column in fit.values()):
        raise ValueError(
            f"{folder} is damaged: each column of goodness_of_fit should have a value for each of the spaces "
            f"{list(spaces)}. {AGAIN}"
        )
    if not isinstance(treatment, Treatment | None):
        raise ValueError(f"{folder} is damaged: treatment is {_short(treatment)}. {AGAIN}")


def check_types(folder: str | Path, facts: Mapping[str, Any]) -> None:
    """Refuse facts of a model of one recording that are of another type than they must be, each by itself: it needs
    no class that they name."""
    _check_types(folder, facts, TYPES)
    if facts["features"] > MOST_CHANNELS:  # all of them are listed by name
        raise ValueError(f"{folder} is damaged: features is {facts['features']}; no recording has so many. {AGAIN}")
    fit = facts["goodness_of_fit"]
    _check_types(folder, fit, {**dict.fromkeys(fit, list), **GOODNESS}, "goodness_of_fit.")
    if facts.get("spent"):
        _check_types(folder, facts, {"spent": dict})
        _check_types(folder, facts["spent"], SPENT, "spent.")
        if len(facts["spent"]["steps"]) != len(facts["spent"]["why_steps"]):
            raise ValueError(f"{folder} is damaged: spent.steps and spent.why_steps differ in length. {AGAIN}")
    if facts.get("data") is not None:
        _check_types(folder, facts, {"data": dict})
        _check_types(folder, facts["data"], SOURCE, "data.")
        how = facts["data"]["how"]
        _check_types(folder, how, {name: kind for name, kind in HOW.items() if name in how}, "data.how.")
    _check_types(folder, facts, {name: kind for name, kind in NOTED.items() if name in facts})


def check_parameter_types(folder: str | Path, parameters: Mapping[str, Any]) -> None:
    """Refuse parameters of an estimator that are of another type than they must be."""
    known = {name: kind for name, kind in PARAMETERS.items() if name in parameters}
    _check_types(folder, parameters, known, "parameters.")


def check_seeds(folder: str | Path, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> int:
    """The number of seeds, by the tensors; refuses facts that are of another number."""
    usable = tensors.get("usable")
    if usable is None or usable.ndim != 2 or not len(usable):
        found = "missing" if usable is None else f"of shape {tuple(usable.shape)}"
        raise ValueError(f"{folder} is damaged: usable is {found}; expected (seed, space). {AGAIN}")
    seeds, reference = len(usable), facts["alignment_reference"]
    if not 0 <= reference < seeds:
        raise ValueError(f"{folder} is damaged: alignment_reference is {reference}, of {seeds} seeds. {AGAIN}")
    if len(facts["lambda"]) != seeds:
        raise ValueError(
            f"{folder} is damaged: lambda has {len(facts['lambda'])} values, of {seeds} seeds. {AGAIN}"
        )
    return seeds


def check_session_facts(folder: str | Path, facts: Mapping[str, Any], spaces: Mapping[str, Space]) -> None:
    """Refuse facts of a model of several sessions that are of another type than they must be, or do not fit."""
    _check_types(folder, facts, SESSIONS)
    for k, session in enumerate(facts["sessions"]):
        _check_types(folder, facts, {"sessions": list[dict]})
        _check_types(folder, session, SESSION, f"sessions[{k}].")
        _check_types(folder, session["labels"], dict.fromkeys(session["labels"], list), f"sessions[{k}].labels.")
        if not session["labels"].keys() <= set(session["variables"]):
            raise ValueError(f"{folder} is damaged: sessions[{k}] has labels of what is no variable. {AGAIN}")
    names = [session["name"] for session in facts["sessions"]]
    if len(names) < 2 or len(set(names)) < len(names) or not facts["seeds"]:
        raise ValueError(
            f"{folder} is damaged: the sessions are called {_short(names)}, with {len(facts['seeds'])} seeds; "
            f"expected two or more names, and a seed. {AGAIN}"
        )
    measures = facts["measures"]
    _check_types(folder, measures, dict.fromkeys(measures, list), "measures.")
    if unknown := sorted({*measures, *facts["measures_as_arrays"]} - spaces.keys()):
        raise ValueError(f"{folder} is damaged: there is a measure of {unknown[0]!r}, which is no space. {AGAIN}")
    for name in facts["measures_as_arrays"]:
        _check_types(folder, measures, {name: list[float]}, "measures.")
    overlap = facts["overlap"]
    _check_types(folder, overlap, OVERLAP, "overlap.")
    if len({len(column) for column in overlap.values() if isinstance(column, list)}) > 1:
        raise ValueError(f"{folder} is damaged: the columns of overlap differ in length. {AGAIN}")


def check_session(
    folder: str | Path, name: Any, own: Mapping[str, Space], seeds: int, spaces: Mapping[str, Space], shared: int
) -> None:
    """Refuse a session whose spaces are not among those of the model, or that has another number of seeds.

    own, seeds : of the session. spaces, shared : those of the model.
    """
    strange = [n for n, space in own.items() if n not in spaces or spaces[n].dim != space.dim]
    if strange or seeds != shared:
        why = f"its space {strange[0]!r} is none of the model's" if strange else f"{seeds} seeds for {shared}"
        raise ValueError(f"{folder} is damaged: session {name!r} does not belong to it ({why}). {AGAIN}")


def check_landmarks(
    folder: str | Path, session: Mapping[str, Any], tensors: Mapping[str, Tensor], seeds: int, dim: int
) -> None:
    """Refuse what was kept of a session if it does not fit together. dim : of the session's embedding."""
    wanted = {"z": Expected((seeds, None, dim), SINGLE), "held_out": Expected((None,), (torch.bool,))}
    for name in session["variables"]:
        types = (torch.int64,) if name in session["labels"] else EITHER
        wanted[f"variable.{name}"] = Expected((None,), types, finite=False)
    changes = [name for name in tensors if name.startswith("change.")]
    wanted |= dict.fromkeys(changes, Expected((None, None), EITHER, finite=False))
    check_tensors(folder, tensors, wanted)
    steps = {tensors["z"].shape[1], *(len(value) for name, value in tensors.items() if name not in ("z", *changes))}
    codes = [(tensors[f"variable.{n}"], len(labels)) for n, labels in session["labels"].items()]
    if len(steps) > 1 or any(((code < -1) | (code >= most)).any() for code, most in codes):
        told = f"what was kept of session {session['name']!r} does not fit together"
        raise ValueError(f"{folder} is damaged: {told}. {AGAIN}")


def _check_types(folder: str | Path, facts: Mapping[str, Any], types: Mapping[str, Any], where: str = "") -> None:
    for name, kind in types.items():
        if name not in facts:
            raise ValueError(f"{folder} is damaged: its model.json lacks {where}{name}. {AGAIN}")
        if not is_of(facts[name], kind):
            told = f"{where}{name} is {_short(facts[name])}; expected {name_of(kind)}"
            raise ValueError(f"{folder} is damaged: {told}. {AGAIN}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
