"""A paragraph for the methods section of a paper, and how to get the same numbers again."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from ..attribution.maps import AttributionMaps
from ..data.recording import Recording
from ..data.standardised_channels import time_chunks
from ..model.estimator import ContrastiveEmbedding
from ..spaces.base import describe_space
from ..support.names import plural
from ..version import __version__
from .words import percent

__all__ = ["REFERENCES", "fingerprint", "methods_paragraph", "reproduce_code", "versions"]

REFERENCES = (
    "Schneider, S., González Laiz, R., Filippova, A., Frey, M. & Mathis, M. W. (2025). Time-series "
    "attribution maps with regularized contrastive learning. AISTATS, PMLR 258.",
    "Zimmermann, R. S., Sharma, Y., Schneider, S., Bethge, M. & Brendel, W. (2021). Contrastive learning "
    "inverts the data generating process. ICML, PMLR 139.",
    "Benjamini, Y. & Hochberg, Y. (1995). Controlling the false discovery rate: a practical and powerful "
    "approach to multiple testing. Journal of the Royal Statistical Society B 57, 289-300.",
)


def fingerprint(recording: Recording) -> str:
    """SHA-256 of all that a recording holds: channels and their names, variables, epochs, time. Hexadecimal.

    Two recordings with the same fingerprint are the same data.

    >>> a = Recording(np.zeros((3, 2)), {"x": [1, 2, 3]})
    >>> fingerprint(a) == fingerprint(a[0:3]), fingerprint(a) == fingerprint(a[0:2])
    (True, False)
    """
    digest = hashlib.sha256()
    said = [list(map(str, recording.channel_names)), list(recording.X.shape), str(recording.X.dtype)]
    digest.update(repr(said).encode("utf-8", "backslashreplace"))
    for rows in time_chunks(recording.X):
        digest.update(np.ascontiguousarray(recording.X[rows]).tobytes())
    for array in (recording.time, recording.epochs):
        digest.update(np.ascontiguousarray(array).tobytes())
    for name, column in recording.variables.items():
        digest.update(repr((str(name), str(column.dtype))).encode("utf-8", "backslashreplace"))
        codes: Any = pd.util.hash_pandas_object(column, index=False)  # type: ignore[attr-defined]
        digest.update(codes.to_numpy().tobytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Of ascribo and what its numbers depend on."""
    return {
        "ascribo": __version__,
        "Python": platform.python_version(),
        "PyTorch": str(torch.__version__),
        "NumPy": np.__version__,
    }


def methods_paragraph(
    model: ContrastiveEmbedding, recording: Recording, maps: AttributionMaps, *, q: float, data_fingerprint: str
) -> str:
    """What was done, ready to paste. data_fingerprint : the fingerprint of the recording."""
    spaces = model.model_.spaces
    steps = np.unique((getattr(model, "spent_", None) and model.spent_["steps"]) or [model.history_.sizes["step"]])
    taken = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    weights = np.unique([round(float(w), 6) for w in model.history_.attrs["lambda"]])
    seeds = model.model_.seeds
    parts = [
        f"We analysed {len(model.kept_channels_)} channels over {len(recording):,} time steps"
        + (f" in {recording.epochs[-1] + 1} epochs" if recording.epochs[-1] else "")
        + (f" ({recording.treatment})" if recording.treatment is not None and str(recording.treatment) else "")
        + " with ascribo "
        + f"{__version__} (PyTorch {torch.__version__}).",
        f"{_number(seeds)} encoder{plural(seeds)} ({_encoder(model)}) {'was' if seeds == 1 else 'were'} trained "
        "with the InfoNCE loss and a penalty on the squared norm of the encoder's Jacobian (Schneider et al., "
        f"2025; Zimmermann et al., 2021), in {taken} steps of {model.batch_size_} references, λ = "
        + ", ".join(f"{w:.3g}" for w in weights)
        + f", random state {model.random_state}.",
        "The embedding has the spaces "
        + "; ".join(f"{name} ({describe_space(space)})" for name, space in spaces.items())
        + ".",
    ]
    if np.all(model.goodness_of_fit_["held_out"]):
        parts.append(
            f"Goodness of fit was measured on {percent(model.validation_fraction)} of the recording, blocks "
            "of time that were held out from training."
        )
    if maps.tests is not None:
        parts.append(
            "For spaces with measured variables, each channel (ranks turned into normal scores) and features of "
            "the variables' innovation were regressed on all else that is known: the other spaces, the past of all "
            "channels, slow drift. The products of what is left were compared with those after turning the signs "
            "of blocks of time at random. The score is the share of the channel's variance that only the space "
            "explains."
        )
    if maps.blocks is not None:
        parts.append(
            "For spaces without variables the score is the unique variance: the share of a channel's held-out "
            "variance that only the space explains, given all other spaces, with decoders fitted to one half "
            "of the time and scored on the other."
        )
    if maps.tested:
        parts.append(
            "Intervals are 95% confidence intervals over blocks of time (and seeds, where decoders are used). "
            f"Channels were called at a false discovery rate of {percent(q)} within each space (Benjamini and "
            "Hochberg, 1995)."
        )
    else:
        parts.append(f"Attribution maps were computed by the method {maps.method.replace('_', ' ')}.")
    parts.append(f"The data have the SHA-256 fingerprint {data_fingerprint}.")
    return " ".join(parts)


def reproduce_code(model: ContrastiveEmbedding, maps: AttributionMaps) -> str:
    """Python that fits the same model to the same recording and writes this report."""
    given = model.get_params(deep=False)
    default = {field.name: field.default for field in fields(type(model))}
    hidden = {"spaces", "progress", "checkpoint", "n_jobs", "device", "memory"}
    options = {k: v for k, v in given.items() if k not in hidden and not _same(v, default.get(k))}
    lines = ["import ascribo as asc", "", "recording = asc.read(...)  # its fingerprint is above", "spaces = {"]
    lines += [f"    {name!r}: {_code(space)}," for name, space in model.model_.spaces.items()]
    settings = "".join(f", {name}={_code(value)}" for name, value in options.items())
    method = "" if maps.method == "unique_variance" else f", method={maps.method!r}"
    return "\n".join(
        [
            *lines,
            "}",
            f"model = asc.ContrastiveEmbedding(spaces{settings})",
            "model.fit(recording)",
            f"maps = model.attribute(recording{method})",
            'model.report(recording, "report.html", maps=maps)',
        ]
    )


def _number(count: int) -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return (words[count] if count < len(words) else str(count)).capitalize()


def _encoder(model: ContrastiveEmbedding) -> str:
    encoder = model.encoder if isinstance(model.encoder, str) else type(model.encoder).__name__
    return {"mlp": "a multilayer perceptron", "convolution": "a convolutional network"}.get(encoder, encoder)


def _code(value: Any) -> str:
    """A value as Python that makes it, where this is known; only what differs from the default is spelled out."""
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    kind = type(value)
    prefix = "asc." if kind.__module__.startswith("ascribo.") else ""
    own = [
        f"{field.name}={_code(getattr(value, field.name))}"
        for field in fields(value)
        if field.init and not _same(getattr(value, field.name), field.default)
    ]
    return f"{prefix}{kind.__name__}({', '.join(own)})"


def _same(value: Any, other: Any) -> bool:
    try:
        return bool(value == other)
    except (TypeError, ValueError):
        return value is other
