"""The generative gradient: learn the way back from the embedding to the channels, and differentiate that.

If f(g(z)) = Bz with B block-diagonal, then E[x | f(x)] = g(B⁻¹ f(x)), and the Jacobian of a decoder that
predicts x from the embedding is J_g B⁻¹: it has the zeros of J_g, and nothing is inverted. Each step is
predicted from the embeddings of its neighbours in time, so that a channel's own noise, which is part of its
embedding, cannot explain the channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from ..alignment import Alignment
from ..pairs import same_segment
from ..progress import bar
from ..spaces import Space, layout

__all__ = ["decoder_embedding", "decoder_inputs", "decoder_jacobian", "fit_decoder", "generative_gradient"]

WIDTHS = (128, 128)
RELATED = 0.1
"""Squared correlation of a step's embedding with its neighbours' from which the neighbours are used."""


def _decoder(dim: int, channels: int) -> nn.Module:
    first, second = WIDTHS
    return nn.Sequential(
        nn.Linear(dim, first),
        nn.GELU(),
        nn.Linear(first, second),
        nn.GELU(),
        nn.Linear(second, channels),
    )


def decoder_inputs(epochs: np.ndarray, most: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Steps to predict, (steps,), and the neighbours each is predicted from, (steps, 2).

    Steps without a neighbour on both sides in their epoch are not used; where no step has (epochs of one or
    two steps), each stands for itself.

    >>> decoder_inputs(np.array([0, 0, 0, 1]), 10, np.random.default_rng(0))
    (array([1]), array([[0, 2]]))
    """
    inner = np.flatnonzero(same_segment(epochs, 2)) + 1
    if len(inner):
        steps = np.sort(rng.choice(inner, most, replace=False)) if len(inner) > most else inner
        return steps, np.stack([steps - 1, steps + 1], axis=1)
    steps = np.sort(rng.choice(len(epochs), min(most, len(epochs)), replace=False))
    return steps, np.stack([steps, steps], axis=1)


def decoder_embedding(own: Tensor, around: Tensor, spaces: Mapping[str, Space]) -> Tensor:
    """What each step is predicted from: for every space its neighbours' embedding, if that tells of its own.

    own, around : (seed, steps, dim) embeddings of the steps themselves and the mean of their neighbours'. Where
    neighbouring steps are unrelated, as with stimuli drawn anew at every step, a space's own embedding is used.
    """
    blocks = []
    for where in layout(spaces).values():
        a, b = (z[..., where] - z[..., where].mean(1, keepdim=True) for z in (own, around))
        shared = (a * b).sum((1, 2)).square() / (a.square().sum((1, 2)) * b.square().sum((1, 2))).clamp_min(1e-12)
        blocks.append(around[..., where] if shared.median() > RELATED else own[..., where])
    return torch.cat(blocks, -1)


def fit_decoder(
    u: Tensor,
    x: Tensor,
    seeds: Sequence[int],
    *,
    steps: int = 1500,
    batch: int = 512,
    learning_rate: float = 2e-3,
    progress: bool = True,
) -> dict[str, Tensor]:
    """Fit x (time, channel), standardised, from aligned embeddings u (seed, time, dim); all seeds at once.

    x may have a leading seed axis, for models of different recordings. Returns stacked parameters (seed, ...), on
    the CPU.
    """
    modules = []
    for seed in seeds:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            modules.append(_decoder(u.shape[-1], x.shape[-1]))
    stacked, _ = stack_module_state(modules)
    parameters = {name: value.detach().to(u.device).requires_grad_() for name, value in stacked.items()}
    skeleton = modules[0].to("meta")
    call = vmap(lambda p, v: functional_call(skeleton, p, (v,)))
    rate = torch.tensor(learning_rate, device=u.device)
    optimizer = torch.optim.Adam(parameters.values(), lr=rate, fused=True)
    x = x if x.ndim == 3 else x[None]
    batch, chunk, length = min(batch, x.shape[1]), 50, x.shape[1]
    rows = torch.arange(len(seeds), device=u.device)[:, None]
    with bar("decoding", steps, progress) as shown:
        for start in range(0, steps, chunk):
            draws = [np.random.default_rng([s, start]).integers(0, length, (chunk, batch)) for s in seeds]
            index = torch.from_numpy(np.stack(draws, axis=1)).to(u.device)
            for k in range(min(chunk, steps - start)):
                rate.fill_(learning_rate * (1 - (start + k) / steps))
                goal = x[rows if len(x) > 1 else 0, index[k]]
                loss = (call(parameters, u[rows, index[k]]) - goal).square().mean((1, 2)).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            shown.advance(chunk)
    return {name: value.detach().cpu() for name, value in parameters.items()}


@torch.no_grad()
def decoder_jacobian(parameters: Mapping[str, Tensor], u: Tensor) -> Tensor:
    """∂x/∂u of every seed's decoder at aligned embeddings u (seed, B, dim): (seed, B, channel, dim).

    Forward mode, one tangent per embedding dimension, carried through the layers beside the values.
    """
    value, tangent = u, torch.eye(u.shape[-1], device=u.device).expand(*u.shape, -1)
    names = sorted({int(name.split(".")[0]) for name in parameters})
    for layer in names:
        weight, bias = parameters[f"{layer}.weight"], parameters[f"{layer}.bias"]
        value = torch.baddbmm(bias[:, None], value, weight.mT)
        tangent = (tangent.flatten(1, 2) @ weight.mT).unflatten(1, u.shape[1:])
        if layer != names[-1]:
            # d gelu(a) = Φ(a) + a φ(a)
            slope = torch.special.ndtr(value) + value * torch.exp(-0.5 * value**2) / np.sqrt(2 * np.pi)
            tangent = tangent * slope.unsqueeze(2)
            value = nn.functional.gelu(value)
    return tangent.mT


def generative_gradient(decoder: Mapping[str, Tensor], alignment: Alignment, z: Tensor) -> tuple[Tensor, Tensor]:
    """The decoder's Jacobian at embeddings z (seed, B, dim): (seed, B, channel, 1, dim), all valid."""
    jacobian = decoder_jacobian(decoder, alignment.to_aligned(z))
    return jacobian.unsqueeze(-2), torch.ones(z.shape[:2], dtype=torch.bool, device=z.device)
