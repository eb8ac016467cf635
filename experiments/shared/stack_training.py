"""Training of a stack of networks with a loss of their own: Adam, early stopping by the test loss, runs as a stack.

The library's own loop is for contrastive losses; models with other ones are trained here by the same idea:
the parameters of all runs are stacked, and one step serves all of them (`torch.func.vmap`, with convolutions as
matrix products). On a GPU a step is recorded once and played back (a CUDA graph): these networks are so small that
starting kernels would take longer than computing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from experiments.shared.convolution import as_products

__all__ = ["Batch", "Run", "train"]

Batch = Callable[[Tensor, torch.Generator], tuple[Tensor, ...]]
"""From the indices of examples (model, batch) to the model's inputs, each with the model axis first."""
KEEP_EVERY = 10
"""Epochs between the checkpoints for TracIn, as in the paper."""
PLAIN_STEPS = 3
"""Training steps before one is recorded: libraries set themselves up in the first."""


@dataclass
class Run:
    """Trained models, their test losses by epoch (epoch, model), and states every ten epochs (first model's)."""

    models: list[nn.Module]
    test_losses: list[list[float]]
    checkpoints: list[dict[str, Tensor]] = field(default_factory=list)
    seconds: float = 0.0


def train(
    models: Sequence[nn.Module],
    examples: int,
    batch: Batch,
    test: Callable[[torch.Generator], list[tuple[Tensor, ...]]],
    *,
    epochs: int,
    batch_size: int,
    patience: int = 10,
    rate: float = 1e-3,
    weight_decay: float = 0.0,
    seed: int = 0,
    device: torch.device,
    budget: float | None = None,
    short: bool = False,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam,
    progress: Callable[[str], None] = lambda text: None,
) -> Run:
    """Train models of one architecture together, each on its own batches, and keep the best epoch of each.

    examples : how many there are to train on. batch : makes the inputs of a step. test : the inputs of the test
    loss, in parts, with the model axis first. budget : seconds after which no further epoch begins. short : on a
    GPU, products and activations as bfloat16, which halves the memory that a step moves; parameters stay float32.
    """
    began = time.monotonic()
    count, draws = len(models), torch.Generator(device).manual_seed(seed)
    models = [m.to(device) for m in models]
    on_gpu = device.type == "cuda"
    skeleton = as_products(models[0])
    parameters, buffers = stack_module_state(list(models))  # type: ignore[arg-type]
    parameters = {n: p.detach().requires_grad_() for n, p in parameters.items()}
    # on a GPU Adam's count of steps must be there, too, and all is one kernel
    options = {"capturable": True, "fused": True} if on_gpu and optimizer is torch.optim.Adam else {}
    adam = optimizer(list(parameters.values()), lr=rate, weight_decay=weight_decay, **options)

    def loss(parameters, buffers, *inputs):
        with torch.autocast(device.type, torch.bfloat16, enabled=short and on_gpu, cache_enabled=False):
            if count == 1:  # recurrent layers cannot be stacked
                own = {n: p[0] for n, p in parameters.items()}, {n: b[0] for n, b in buffers.items()}
                return functional_call(skeleton, own, tuple(x[0] for x in inputs))[None]
            call = lambda p, b, *x: functional_call(skeleton, (p, b), x)  # noqa: E731
            return vmap(call, randomness="different")(parameters, buffers, *inputs)

    def step(index: Tensor) -> None:
        inputs = batch(index, draws)
        gradients = torch.autograd.grad(loss(parameters, buffers, *inputs).sum(), list(parameters.values()))
        for parameter, gradient in zip(parameters.values(), gradients, strict=True):
            parameter.grad = gradient.contiguous()
        adam.step()

    advance = _Recorded(step, draws) if on_gpu else step
    best = torch.full((count,), torch.inf, device=device)
    waited = torch.zeros(count, dtype=torch.int64, device=device)
    state = {n: v.detach().clone() for n, v in {**parameters, **buffers}.items()}
    run = Run([], [])
    for epoch in range(epochs):
        skeleton.train()
        order = torch.rand(count, examples, generator=draws, device=device).argsort(1)
        for start in range(0, examples - examples % batch_size or examples, batch_size):
            advance(order[:, start : start + batch_size])
        skeleton.eval()
        with torch.no_grad():
            same = torch.Generator(device).manual_seed(seed + 1)  # the same noise in every epoch
            parts = [loss(parameters, buffers, *inputs) for inputs in test(same)]
            now = torch.stack(parts).mean(0)
            better = (now < best) & (waited < patience)
            for name, value in {**parameters, **buffers}.items():
                shape = (count, *(1 for _ in value.shape[1:]))
                state[name] = torch.where(better.view(shape), value.detach(), state[name])
            best = torch.where(better, now, best)
            waited = torch.where(better, 0, waited + 1)
        run.test_losses.append(now.tolist())
        if epoch % KEEP_EVERY == KEEP_EVERY - 1:
            run.checkpoints.append({n: v[0].detach().clone() for n, v in {**parameters, **buffers}.items()})
        progress(f"epoch {epoch + 1}/{epochs}: test loss {float(now.mean()):.4f}")
        if bool((waited >= patience).all()) or (budget is not None and time.monotonic() - began > budget):
            break
    for k, model in enumerate(models):
        model.load_state_dict({n: v[k] for n, v in state.items()})
        run.models.append(model.eval())
    run.seconds = time.monotonic() - began
    return run


class _Recorded:
    """A training step on a GPU: a few times as it is, then recorded and played back."""

    def __init__(self, step: Callable[[Tensor], None], draws: torch.Generator):
        self.step, self.draws, self.taken = step, draws, 0
        self.graph, self.index = torch.cuda.CUDAGraph(), torch.empty(0)

    def __call__(self, index: Tensor) -> None:
        """One step on the examples with these indices, (model, batch)."""
        self.taken += 1
        if self.taken > PLAIN_STEPS + 1:
            self.index.copy_(index)
            self.graph.replay()
            return
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")  # TF32, as convolutions have it
        try:
            if self.taken <= PLAIN_STEPS:
                aside = torch.cuda.Stream()
                aside.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(aside):
                    self.step(index)
                torch.cuda.current_stream().wait_stream(aside)
                return
            self.index = index.clone()
            self.graph.register_generator_state(self.draws)
            with torch.cuda.graph(self.graph):
                self.step(self.index)
        finally:
            torch.set_float32_matmul_precision(before)
        self.graph.replay()
