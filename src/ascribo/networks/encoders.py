"""Encoders: from a time step of the recording, or a window around it, to the embedding.

`MLP` and `Convolution` are descriptions; `.build(channels, dim)` makes the module. A module of the user's own
takes (batch, channel), or (batch, channel, window) if it has an integer attribute `window` above 1, and returns
(batch, dim).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..support.stored_parameters import storable

__all__ = ["MLP", "Convolution", "Homogeneous", "Limit", "build_encoder", "input_window", "parameter_shapes"]

MOST_LAYERS = 100


class Limit(nn.Module):
    """Keeps the embedding in a box of half-width `scale`, as Schneider et al. (2025), definition 1, assume.

    kind : "hard" clips, "tanh" bends (scale · tanh(h / scale)), "none" leaves as is.

    >>> Limit("hard", 2.0)(torch.tensor([-5.0, 1.0]))
    tensor([-2.,  1.])
    """

    def __init__(self, kind: str = "hard", scale: float = 5.0):
        super().__init__()
        if kind not in ("hard", "tanh", "none"):
            raise ValueError(f"limit={kind!r}: expected 'hard', 'tanh' or 'none'.")
        if not scale > 0:
            raise ValueError(f"scale={scale!r}: the half-width of the box must be positive.")
        self.kind, self.scale = kind, float(scale)

    def extra_repr(self) -> str:
        """What distinguishes two limits, for people and for checkpoints."""
        return f"{self.kind!r}, {self.scale:g}"

    def forward(self, h: Tensor) -> Tensor:
        """(..., dim) -> (..., dim)."""
        if self.kind == "hard":
            return h.clamp(-self.scale, self.scale)
        return self.scale * torch.tanh(h / self.scale) if self.kind == "tanh" else h


@storable
@dataclass(frozen=True)
class MLP:
    """The encoder of Schneider et al. (2025), section 5: layers with GELU, then a linear layer and a limit.

    Examples
    --------
    >>> MLP(widths=(32, 32)).build(channels=10, dim=3)(torch.zeros(5, 10)).shape
    torch.Size([5, 3])
    """

    widths: Sequence[int] = (180, 180, 60)
    limit: str = "hard"
    scale: float = 5.0

    def __post_init__(self):
        object.__setattr__(self, "widths", _check_widths("MLP", self.widths))

    def build(self, channels: int, dim: int) -> nn.Module:
        """The module for recordings of `channels` channels and embeddings of `dim` dimensions."""
        return nn.Sequential(*_dense(channels, self.widths, dim), Limit(self.limit, self.scale))


@storable
@dataclass(frozen=True)
class Convolution:
    """A temporal convolution whose receptive field is exactly `window` time steps, centred on the step.

    The first layer mixes channels at each step, the second weighs the window, the rest is as in `MLP`.
    Step t sees t - window // 2 to t + (window - 1) // 2; at the edge of an epoch the edge step is repeated.

    Examples
    --------
    >>> Convolution(window=10).build(channels=8, dim=2)(torch.zeros(5, 8, 10)).shape
    torch.Size([5, 2])
    """

    window: int = 10
    widths: Sequence[int] = (64, 128, 60)
    limit: str = "hard"
    scale: float = 5.0

    def __post_init__(self):
        if not isinstance(self.window, int) or not 1 <= self.window <= 50:
            raise ValueError(f"Convolution(window={self.window!r}): expected an integer from 1 to 50.")
        object.__setattr__(self, "widths", _check_widths("Convolution", self.widths))
        if len(self.widths) < 2:
            raise ValueError(f"Convolution(widths={self.widths}): at least two widths are needed.")

    def build(self, channels: int, dim: int) -> nn.Module:
        """The module for recordings of `channels` channels and embeddings of `dim` dimensions."""
        first, second, *rest = self.widths
        single = [nn.Unflatten(1, (channels, 1))] if self.window == 1 else []  # one step comes without its axis
        module = nn.Sequential(
            *single,
            nn.Conv1d(channels, first, 1),
            nn.GELU(),
            nn.Conv1d(first, second, self.window),
            nn.Flatten(),
            nn.GELU(),
            *_dense(second, rest, dim),
            Limit(self.limit, self.scale),
        )
        module.window = self.window  # type: ignore[assignment]
        return module


@dataclass(frozen=True)
class Homogeneous:
    """Leaky rectifiers without biases, and no limit: h(c·x) = c·h(x) for every c > 0.

    Such an encoder may turn and fold what it sees, but cannot stretch what is near 0 and squeeze what is far.

    >>> module = Homogeneous(widths=(8, 8)).build(channels=4, dim=2)
    >>> x = torch.randn(5, 4)
    >>> bool(torch.allclose(module(3 * x), 3 * module(x), atol=1e-5))
    True
    """

    widths: Sequence[int] = (180, 180, 60)
    slope: float = 0.2

    def __post_init__(self):
        object.__setattr__(self, "widths", _check_widths("Homogeneous", self.widths))

    def build(self, channels: int, dim: int) -> nn.Module:
        """The module for observations of `channels` channels and embeddings of `dim` dimensions."""
        layers: list[nn.Module] = []
        for inputs, width in zip((channels, *self.widths), self.widths, strict=False):
            layers += [nn.Linear(inputs, width, bias=False), nn.LeakyReLU(self.slope)]
        return nn.Sequential(*layers, nn.Linear(self.widths[-1], dim, bias=False))


def _check_widths(owner: str, widths: Sequence[int]) -> tuple[int, ...]:
    if not 0 < len(widths) <= MOST_LAYERS or any(not isinstance(w, int) or w < 1 for w in widths):
        said = repr(widths) if len(widths) <= MOST_LAYERS else f"{len(widths):,} of them"
        raise ValueError(f"{owner}(widths={said}): expected 1 to {MOST_LAYERS} integers of at least 1.")
    return tuple(widths)


def _dense(inputs: int, widths: Sequence[int], outputs: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.GELU()]
        inputs = width
    return [*layers, nn.Linear(inputs, outputs)]


NAMED = {"mlp": MLP(), "convolution": Convolution()}


def input_window(module: nn.Module) -> int:
    """How many time steps a module sees at once (its attribute `window`, 1 if it has none)."""
    return int(getattr(module, "window", 1))


def build_encoder(encoder: Any, channels: int, dim: int) -> nn.Module:
    """The module behind `encoder=`: a name, a description with `.build`, or the user's own module.

    >>> type(build_encoder("mlp", 10, 3)).__name__
    'Sequential'
    """
    if isinstance(encoder, str):
        if encoder not in NAMED:
            raise ValueError(
                f"encoder={encoder!r} is unknown: use one of {sorted(NAMED)}, ascribo.MLP(...), "
                "ascribo.Convolution(...) or an nn.Module."
            )
        encoder = NAMED[encoder]
    if isinstance(encoder, nn.Module):
        if any(True for _ in encoder.buffers()):
            raise ValueError(
                "encoder: modules with buffers (batch normalisation, for instance) cannot be trained as a "
                "stack of models; use layers without running statistics."
            )
        _check_shape(encoder, channels, dim)
        return encoder
    if hasattr(encoder, "build"):
        with torch.random.fork_rng(devices=[]):  # layers draw initial values nobody uses: see Embedder.initial
            return encoder.build(channels, dim)
    raise ValueError(
        f"encoder={encoder!r}: expected 'mlp', 'convolution', ascribo.MLP(...), ascribo.Convolution(...) or "
        "an nn.Module."
    )


def parameter_shapes(encoder, channels: int, dim: int) -> dict[str, tuple[int, ...]]:
    """Name -> shape of the parameters of the module behind `encoder=`. They take no memory to be told, however
    large they are.

    >>> parameter_shapes(MLP(widths=(10**6, 10**6)), 10, 3)["2.weight"]
    (1000000, 1000000)
    """
    if isinstance(encoder, nn.Module):
        module = encoder
    else:
        try:
            with torch.device("meta"):
                module = build_encoder(encoder, channels, dim)
        except Exception:
            if isinstance(encoder, str | MLP | Convolution) or not hasattr(encoder, "build"):
                raise
            module = build_encoder(encoder, channels, dim)  # its `build` computes with its numbers
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


def _check_shape(module: nn.Module, channels: int, dim: int) -> None:
    window = input_window(module)
    shape = (2, channels) if window == 1 else (2, channels, window)
    like = next(iter(module.parameters()), torch.zeros(()))
    try:
        with torch.no_grad():
            x = torch.zeros(1, *shape, dtype=like.dtype, device=like.device)
            out = torch.vmap(module)(x)[0]  # as a stack of models will call it: no random layers
    except Exception as error:
        raise ValueError(
            f"encoder: the module failed on an input of shape {shape}, or has random layers such as dropout, "
            f"which a stack of models cannot have: {error}"
        ) from error
    if tuple(out.shape) != (2, dim):
        raise ValueError(
            f"encoder: for an input of shape {shape} the module returned {tuple(out.shape)}, but the spaces "
            f"have {dim} dimensions together: expected (2, {dim})."
        )
