"""Where an encoder's output lies: anywhere, on a sphere, or in a box.

Zimmermann et al. (2021) compare these: theorem 2 needs a sphere, theorems 5 and 6 a convex body such as a box. An
output is applied after the last linear layer; what it learns are parameters of the stack beside those of the
network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..support.names import by_name

__all__ = ["Box", "Output", "Sphere", "Unbounded", "as_output"]


class Output(Protocol):
    """The last step of a stack of encoders."""

    def initial(self, models: int, dim: int) -> dict[str, Tensor]:
        """What is learned, by name, each with a first axis of models."""
        ...

    def __call__(self, parameters: Mapping[str, Tensor], h: Tensor) -> Tensor:
        """(model, B, dim) -> (model, B, dim)."""
        ...


@dataclass(frozen=True)
class Unbounded:
    """The output of the last layer as it is."""

    def initial(self, models: int, dim: int) -> dict[str, Tensor]:
        """See `Output`."""
        return {}

    def __call__(self, parameters: Mapping[str, Tensor], h: Tensor) -> Tensor:
        """See `Output`."""
        return h


@dataclass(frozen=True)
class Sphere:
    """Outputs on a sphere.

    radius : of the sphere. learned : whether it is only where learning starts. A model of von Mises-Fisher pairs of
        concentration κ at temperature τ learns √(τκ) (Zimmermann et al. 2021, proposition 1).

    >>> sphere = Sphere(2.0)
    >>> sphere(sphere.initial(1, 2), torch.tensor([[[3.0, 4.0]]]))
    tensor([[[1.2000, 1.6000]]])
    """

    radius: float = 1.0
    learned: bool = False

    def __post_init__(self):
        if not self.radius > 0:
            raise ValueError(f"radius={self.radius!r}: the radius of a sphere must be above 0.")

    def initial(self, models: int, dim: int) -> dict[str, Tensor]:
        """See `Output`."""
        return {"radius": torch.full((models,), self.radius)} if self.learned else {}

    def __call__(self, parameters: Mapping[str, Tensor], h: Tensor) -> Tensor:
        """See `Output`."""
        unit = torch.nn.functional.normalize(h, dim=-1)
        return unit * (parameters["radius"][:, None, None] if self.learned else self.radius)


@dataclass(frozen=True)
class Box:
    """Outputs in a box around 0, bent softly towards its sides.

    half_width : of every side. learned : whether it is only where learning starts, for each side by itself. A box
        that starts small is filled by the embedding, which then turns its axes along the sides; one that starts
        large binds nothing, and the axes stay where they were.

    >>> box = Box(2.0)
    >>> box(box.initial(1, 2), torch.tensor([[[0.0, 100.0]]]))
    tensor([[[0., 2.]]])
    """

    half_width: float = 0.7
    learned: bool = True

    def __post_init__(self):
        if not self.half_width > 0:
            raise ValueError(f"half_width={self.half_width!r}: the sides of a box must be longer than 0.")

    def initial(self, models: int, dim: int) -> dict[str, Tensor]:
        """See `Output`."""
        return {"half_width": torch.full((models, dim), self.half_width)} if self.learned else {}

    def __call__(self, parameters: Mapping[str, Tensor], h: Tensor) -> Tensor:
        """See `Output`."""
        width = parameters["half_width"][:, None] if self.learned else self.half_width
        return width * torch.tanh(h / width)


def as_output(output: str | Output) -> Output:
    """The output that a user named: "unbounded", "sphere", "box", or one given as an object such as `Sphere(2.0)`.

    >>> as_output("sphere")
    Sphere(radius=1.0, learned=False)
    """
    known = {"unbounded": Unbounded(), "sphere": Sphere(), "box": Box()}
    return by_name("output", output, known, "initial", "Sphere(2.0)")
