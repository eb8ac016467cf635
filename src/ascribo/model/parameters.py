"""The parameters that the estimators share: their names, types and default values in one place.

Both estimators are dataclasses, so that a parameter is written down once: `ContrastiveEmbedding` and
`SharedEmbedding` inherit it, and scikit-learn reads it from the constructor that the dataclass makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import nn

from ..spaces.base import Space
from ..support.names import suggest
from ..training.penalty_weight import Schedule

__all__ = ["ContrastiveEstimator"]

NESTED = "spaces__"


class BuildsEncoder(Protocol):
    """A description of an encoder, such as `ascribo.MLP`."""

    def build(self, channels: int, dim: int) -> nn.Module:
        """The encoder of recordings of `channels` channels, with an embedding of `dim` dimensions."""
        ...


@dataclass(eq=False, repr=False)
class ContrastiveEstimator(BaseEstimator):
    """What `ContrastiveEmbedding` and `SharedEmbedding` are told. The former explains each parameter.

    The spaces' own parameters are nested ones, as scikit-learn calls them: `spaces__position__dim` is the `dim` of
    the space "position", for `set_params` and for a grid search.

    >>> from ascribo import ContrastiveEmbedding, Time
    >>> model = ContrastiveEmbedding({"rest": Time(dim=2)})
    >>> model.get_params()["spaces__rest__dim"]
    2
    >>> model.set_params(spaces__rest__dim=4).spaces["rest"].dim
    4
    """

    spaces: Mapping[str, Space] | None = None
    _: KW_ONLY
    hybrid: Literal["whole", "separate"] = "whole"
    seeds: int | Literal["auto"] = "auto"
    steps: int | Literal["auto"] = "auto"
    batch_size: int = 512
    penalty: float | Literal["auto"] | Schedule = "auto"
    encoder: Literal["mlp", "convolution"] | BuildsEncoder | nn.Module = "mlp"
    device: str | torch.device = "auto"
    random_state: int | np.random.RandomState | None = None
    learning_rate: float = 1e-3
    exact_penalty: bool = False
    early_stop: float | None = 1e-3
    validation_fraction: float = 0.1
    drop_constant: bool = False
    checkpoint: str | Path | None = None
    progress: bool = True

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with deep=True also each space, and each space's own parameters."""
        parameters = super().get_params(deep=deep)
        if deep and isinstance(self.spaces, Mapping):
            for name, space in self.spaces.items():
                parameters[f"{NESTED}{name}"] = space
                parameters |= {f"{NESTED}{name}__{own}": getattr(space, own) for own in _own(space)}
        return parameters

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name. A space is replaced, never changed: the dict that was passed stays as it is."""
        nested = {name: value for name, value in params.items() if name.startswith(NESTED)}
        super().set_params(**{name: value for name, value in params.items() if name not in nested})
        if nested:
            self.spaces = _with_nested(self.spaces, nested)
        return self


def _own(space: Any) -> list[str]:
    """Names of a space's own parameters."""
    return [field.name for field in fields(space) if field.init] if is_dataclass(space) else []


def _with_nested(spaces: Any, nested: Mapping[str, Any]) -> dict[str, Any]:
    """The spaces with some of them, or some of their parameters, replaced."""
    if not isinstance(spaces, Mapping):
        raise ValueError(
            f"{next(iter(nested))} cannot be set: spaces={spaces!r} names no space. Pass spaces as a dict first."
        )
    out = dict(spaces)
    changes: dict[str, dict[str, Any]] = {}
    for key, value in nested.items():
        rest = key.removeprefix(NESTED)
        if rest in out:
            out[rest] = value
            continue
        name, _, own = rest.rpartition("__")
        if name not in out:
            raise ValueError(f"{key} cannot be set: there is no space {name or rest!r}{suggest(name or rest, out)}")
        changes.setdefault(name, {})[own] = value
    for name, values in changes.items():
        for own in values:
            if own not in _own(out[name]):
                kind = type(out[name]).__name__
                raise ValueError(
                    f"{NESTED}{name}__{own} cannot be set: {kind} has no parameter {own!r}"
                    f"{suggest(own, _own(out[name]))}"
                )
        out[name] = replace(out[name], **values)
    return out
