"""Small networks from the embedding, or from variables, back to the channels; many of them fitted as one stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import stack_module_state

from ..support.array_shapes import Float, shaped
from ..support.progress import bar
from .adam import Adam, differentiate
from .steps import STEPS_PER_CHUNK

__all__ = ["decode", "decoder_jacobian", "decoder_shapes", "fit_decoders", "losses"]

WIDTHS = (128, 128)
LAYERS = ("0", "2", "4")
FLAT = 0.01
"""Share of its fall so far by which the loss must fall over a hundred steps, or it is flat."""
RANDOM = Lock()
"""Held while torch's own generator is used: stacks may be fitted in threads."""
HIGHEST = 15.0
"""Largest log rate of a Poisson decoder, against overflow in the first steps."""


def _network(dim: int, channels: int) -> nn.Module:
    first, second = WIDTHS
    return nn.Sequential(
        nn.Linear(dim, first),
        nn.GELU(),
        nn.Linear(first, second),
        nn.GELU(),
        nn.Linear(second, channels),
    )


def decoder_shapes(dim: int, channels: int) -> dict[str, tuple[int, ...]]:
    """Name -> shape of the parameters of one decoder.

    >>> decoder_shapes(2, 5)["4.weight"]
    (5, 128)
    """
    with torch.device("meta"):
        return {name: tuple(value.shape) for name, value in _network(dim, channels).named_parameters()}


def fit_decoders(
    inputs: Sequence[Tensor],
    goals: Sequence[Tensor],
    which: Sequence[tuple[int, int]],
    seeds: Sequence[int],
    *,
    rows: Sequence[np.ndarray] | None = None,
    mask: Tensor | None = None,
    loss: str = "squared",
    steps: int = 1500,
    batch: int = 512,
    learning_rate: float = 2e-3,
    until_flat: bool = False,
    progress: bool = True,
    name: str = "decoding",
) -> dict[str, Tensor]:
    """Fit decoders of one shape as one stack.

    Parameters
    ----------
    inputs : arrays (time, dim). goals : arrays (time, channel), standardised, or counts if loss="poisson".
    which : for each decoder the number of its inputs and of its goals; they have the same time steps.
    seeds : for each decoder the seed of its initial values and batches. A decoder does not depend on the others of
        its stack, except that all batches are as small as the fewest rows of any of them.
    rows : for each decoder the time steps it learns from; None for all.
    mask : (decoder, dim), 0 for inputs that a decoder does not get to see.
    steps : of training. until_flat : these are the most; training ends sooner if the mean loss of the stack has
        stopped falling, after half as many steps again in which the learning rate falls.

    Returns
    -------
    Stacked parameters (decoder, ...), where the inputs are.

    Examples
    --------
    >>> u = torch.randn(500, 2)
    >>> parameters = fit_decoders([u], [u @ torch.ones(2, 3)], [(0, 0)], [0], steps=200, progress=False)
    >>> bool((decode(parameters, u[None])[0] - u.sum(1, keepdim=True)).square().mean() < 0.1)
    True
    """
    device, dim, channels = inputs[0].device, inputs[0].shape[1], goals[0].shape[1]
    modules = []
    for seed in seeds:
        with RANDOM, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            modules.append(_network(dim, channels))
    stacked, _ = stack_module_state(modules)
    parameters = {name: value.detach().to(device).requires_grad_() for name, value in stacked.items()}
    # Recordings end to end: a row of a decoder's batch is a row of both arrays, each from its own start.
    u, x = (parts[0] if len(parts) == 1 else torch.cat(list(parts)) for parts in (inputs, goals))
    starts = [np.cumsum([0, *(len(a) for a in parts)]) for parts in (inputs, goals)]
    shift = torch.tensor([[starts[0][i], starts[1][j]] for i, j in which], device=device).T[..., None]
    whole = {len(u): np.arange(len(u)) for u in inputs}
    own = [whole[len(inputs[i])] for i, _ in which] if rows is None else list(rows)
    batches = _Batches(own, seeds, min(batch, min(len(r) for r in own)), device)
    rate, level = torch.tensor(learning_rate, device=device), torch.zeros((), device=device)
    optimizer = Adam(parameters.values(), rate)
    # what differs from step to step is in rows of tensors, found by a counter: so a step can be a CUDA graph
    rates, counter = torch.zeros(STEPS_PER_CHUNK, device=device), torch.zeros(1, dtype=torch.long, device=device)
    drawn = batches.draw(0)

    def step() -> None:
        rate.copy_(rates.index_select(0, counter)[0])
        index = batches.rows(drawn.index_select(1, counter)[:, 0])
        value = nn.functional.embedding(index + shift[0], u)  # whole rows: faster than u[...] on a CPU
        value = value if mask is None else value * mask[:, None]
        goal = nn.functional.embedding(index + shift[1], x)
        total = _mean_losses(decode(parameters, value), goal, loss)
        optimizer.step(differentiate(total, parameters))
        level.add_(total.detach())
        counter.add_(1)

    course, start, again = _Course(steps, learning_rate, until_flat), 0, step
    with bar(name, steps, progress) as shown:
        while start < course.total:
            some = min(STEPS_PER_CHUNK, course.total - start)
            if start:
                drawn.copy_(batches.draw(start))
            rates[:some] = torch.tensor([course.rate(start + k) for k in range(some)], device=device)
            level.zero_()
            counter.zero_()
            for _ in range(some):
                again()
            start += some
            if until_flat:
                course.observe(start, float(level) / (some * len(seeds)))
                shown.total = course.total
            shown.advance(some)
            if device.type == "cuda" and again is step:  # the first chunk has set up what is set up at first use
                again = _captured(step)
    return {name: value.detach() for name, value in parameters.items()}


def _captured(step: Callable[[], None]) -> Callable[[], None]:
    """A step on a GPU that is launched as a whole: its kernels are small, and launching them takes longest."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


class _Course:
    """How the learning rate falls to 0, and when training ends.

    total : number of steps, as far as is known.
    """

    def __init__(self, steps: int, learning_rate: float, until_flat: bool):
        self.total, self.most, self.until_flat = steps, steps, until_flat
        self.turn, self.high = 0, learning_rate
        self.losses: list[float] = []

    def rate(self, step: int) -> float:
        """The learning rate of a step: it falls along a line."""
        return self.high * (1 - (step - self.turn) / (self.total - self.turn))

    def observe(self, done: int, loss: float) -> None:
        """The mean loss of the last chunk of steps; when it is flat, half as many steps again are left.

        >>> course = _Course(1000, 1.0, True)
        >>> for chunk, loss in enumerate([4.0, 2.0, 1.0, 1.0, 1.0, 1.0]):
        ...     course.observe(50 * (chunk + 1), loss)
        >>> course.total, course.rate(course.total - 1) < 0.01
        (450, True)
        """
        self.losses.append(loss)
        flat = len(self.losses) >= 4 and np.mean(self.losses[-4:-2]) - np.mean(self.losses[-2:]) < FLAT * (
            self.losses[0] - min(self.losses)
        )
        if self.until_flat and flat and 1.5 * done < self.total:
            self.high, self.turn = self.rate(done), done
            self.total, self.until_flat = done + done // 2, False


class _Batches:
    """The rows that decoders learn from, step after step.

    What a decoder draws depends on its seed and on how many rows it has, and many decoders have both in common. So
    each different draw is made once, and on the device every decoder takes its own.
    """

    def __init__(self, own: Sequence[np.ndarray], seeds: Sequence[int], batch: int, device: torch.device):
        self.batch, self.device = batch, device
        distinct = {id(r): r for r in own}
        longest = max(map(len, distinct.values()))
        padded = np.stack([np.pad(r, (0, longest - len(r))) for r in distinct.values()])
        self.own = torch.from_numpy(padded).to(device)
        draws = [(seed, len(r)) for seed, r in zip(seeds, own, strict=True)]
        self.draws = list(dict.fromkeys(draws))
        number, place = list(distinct), {key: k for k, key in enumerate(self.draws)}
        self.which = torch.tensor([[number.index(id(r)), place[d]] for r, d in zip(own, draws, strict=True)]).T
        self.which = self.which.to(device)

    def draw(self, start: int) -> Tensor:
        """What is drawn in the steps from `start` on: (different draws, STEPS_PER_CHUNK, batch)."""
        every = [
            np.random.default_rng([s, start]).integers(0, n, (STEPS_PER_CHUNK, self.batch)) for s, n in self.draws
        ]
        return torch.from_numpy(np.stack(every)).to(self.device)

    def rows(self, drawn: Tensor) -> Tensor:
        """The rows of every decoder, (decoder, batch), from what is drawn at one step."""
        sets, places = self.which
        return self.own[sets[:, None], drawn[places]]


def _mean_losses(predicted: Tensor, goal: Tensor, loss: str) -> Tensor:
    """The mean loss of each decoder, summed: (). The squared error by torch's kernel, which writes less down."""
    if loss == "squared":
        return nn.functional.mse_loss(predicted, goal, reduction="sum") / predicted[0].numel()
    return losses(predicted, goal, loss).mean((1, 2)).sum()


def losses(predicted: Tensor, goal: Tensor, loss: str) -> Tensor:
    """Loss of every entry: the squared error, or half the Poisson deviance up to a term of the goal alone."""
    if loss == "squared":
        return (predicted - goal).square()
    predicted = predicted.clamp_max(HIGHEST)
    return predicted.exp() - goal * predicted


@shaped
def decode(
    parameters: Mapping[str, Tensor], u: Float[Tensor, "decoder B dim"]
) -> Float[Tensor, "decoder B channel"]:
    """Channels from inputs u (decoder, B, dim): (decoder, B, channel); log rates if fitted to counts."""
    for layer in LAYERS:
        u = torch.baddbmm(parameters[f"{layer}.bias"][:, None], u, parameters[f"{layer}.weight"].mT)
        u = u if layer == LAYERS[-1] else nn.functional.gelu(u)
    return u


@shaped
@torch.no_grad()
def decoder_jacobian(
    parameters: Mapping[str, Tensor], u: Float[Tensor, "decoder B dim"]
) -> Float[Tensor, "decoder B channel dim"]:
    """∂x/∂u of every decoder at inputs u (decoder, B, dim): (decoder, B, channel, dim).

    Forward mode, one tangent per input dimension, carried through the layers beside the values.
    """
    value, tangent = u, torch.eye(u.shape[-1], dtype=u.dtype, device=u.device).expand(*u.shape, -1)
    for layer in LAYERS:
        weight, bias = parameters[f"{layer}.weight"], parameters[f"{layer}.bias"]
        value = torch.baddbmm(bias[:, None], value, weight.mT)
        tangent = (tangent.flatten(1, 2) @ weight.mT).unflatten(1, u.shape[1:])
        if layer != LAYERS[-1]:
            slope = torch.ops.aten.gelu_backward(torch.ones_like(value), value)
            tangent = tangent * slope.unsqueeze(2)
            value = nn.functional.gelu(value)
    return tangent.mT
