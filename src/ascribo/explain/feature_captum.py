"""Captum's attribution classes for label-free scores, with each example's anchor beside it.

Captum's methods repeat a batch in ways of their own (examples first or copies first), and repeat the further
arguments of the model in the same way. The anchors therefore travel as a further argument; a wrapper that keeps
them to itself pairs examples with the anchors of others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .encoders import Encoder, represent

__all__ = ["captum_scores", "is_captum"]


class Anchored(nn.Module):
    """g(x̃) = ⟨a, f(x̃)⟩ as a model of two arguments: (batch, ...) and (batch, dim) -> (batch,)."""

    def __init__(self, encoder: Encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor, anchor: Tensor) -> Tensor:
        """One number for each example."""
        return (represent(self.encoder, x) * anchor).sum(1)


def is_captum(method: object) -> bool:
    """Whether a method is one of captum's attribution classes (captum need not be installed to ask)."""
    return isinstance(method, type) and any(c.__module__.startswith("captum.") for c in method.__mro__)


def captum_scores(method: Any, options: dict[str, Any]) -> Callable[..., Tensor]:
    """Scores of a captum class, as a function of encoder, inputs, baselines and anchors (one question each)."""
    known = inspect.signature(method.attribute).parameters
    for name in options:
        if name not in known or name in ("inputs", "target", "additional_forward_args", "baselines"):
            raise TypeError(f"captum's {method.__name__} has no option {name!r} that can be set here.")
    if "additional_forward_args" not in known:
        raise ValueError(f"captum's {method.__name__} explains layers or examples, not the features of an input.")

    def scores(f: Encoder, x: Tensor, base: Tensor, anchors: Tensor) -> Tensor:
        explainer = method(Anchored(f).eval())
        given = dict(options)
        if "baselines" in known:
            given["baselines"] = base
            if method.__name__.endswith("Shap"):  # theirs are a distribution, drawn from for every example
                if not bool((base == base[:1]).all()):
                    raise ValueError(f"captum's {method.__name__} needs one baseline for all examples.")
                given["baselines"] = base[:1]
        rows = [
            explainer.attribute(x.clone(), additional_forward_args=(anchors[:, k],), **given)
            for k in range(anchors.shape[1])
        ]
        return torch.stack(rows, 1).to(x)

    return scores
