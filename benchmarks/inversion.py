"""What a training step of `ascribo.invert_process` costs beside the step of Zimmermann et al. (2021), on one GPU.

    python -m benchmarks.inversion [--out benchmarks/results/inversion.json]

The published step is written here in plain torch as the paper's code takes it: latents drawn on the device (those
of a truncated conditional by rejection), an encoder of six leaky layers, all differences of the batch as one array
(batch, batch, dim), Adam with torch's own defaults. Ours has the same batch, widths, process and loss (the
activation is GELU). One model; then a stack. `--quick` shows on a CPU that both sides run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import ascribo as asc
from ascribo.networks.outputs import Unbounded
from ascribo.spaces.similarities import as_similarity
from ascribo.training.dispatch import take_steps
from ascribo.training.generative_process_batches import ProcessSource
from ascribo.training.penalty_weight import Constant
from ascribo.training.settings import Settings
from ascribo.training.steps import STEPS_PER_CHUNK
from experiments.shared.results import code, machine, write_json

WIDTHS = (10, 50, 50, 50, 50, 10)
"""Hidden units for each latent, layer by layer."""
BARS = {"one model": 5.0, "stack, per model": 20.0}
"""How many times less our step should take."""


def published_step(dim: int, batch: int, exponent: int, device: str) -> Callable[[], float]:
    """A function that takes one training step as the published code does."""
    made = asc.simulate.process("box", dim=dim, conditional="normal", scale=0.05)
    layers: list[nn.Module] = []
    for inputs, outputs in zip((1, *WIDTHS), WIDTHS, strict=False):
        layers += [nn.Linear(dim * inputs, dim * outputs), nn.LeakyReLU()]
    encoder = nn.Sequential(*layers, nn.Linear(dim * WIDTHS[-1], dim)).to(device)
    weights = [weight.float().to(device) for weight in made.mixing.weights]  # type: ignore[attr-defined]
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-4)

    def mix(z: torch.Tensor) -> torch.Tensor:
        for k, weight in enumerate(weights):
            z = (nn.functional.leaky_relu(z, 0.2) if k else z) @ weight.T
        return z

    def around(z: torch.Tensor) -> torch.Tensor:
        drawn = z + 0.05 * torch.randn_like(z)
        while ((outside := (drawn < 0) | (drawn > 1)).any()).item():
            drawn = torch.where(outside, z + 0.05 * torch.randn_like(z), drawn)
        return drawn

    def step() -> float:
        z = torch.rand(batch, dim, device=device)
        near = around(z)
        optimizer.zero_grad()
        reference, positive = encoder(mix(z)), encoder(mix(near))
        negative = torch.roll(reference, 1, 0)
        far = torch.norm(reference.unsqueeze(1) - negative.unsqueeze(0), p=exponent, dim=-1).pow(exponent)
        close = torch.norm(reference - positive, p=exponent, dim=-1).pow(exponent)
        total = torch.logsumexp(-torch.cat((far, close.unsqueeze(1)), 1), 1)
        loss = (close + total).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def our_chunk(dim: int, batch: int, exponent: int, models: int, device: str) -> Callable[[], Any]:
    """A function that takes a chunk of our training steps, all models at once."""
    first = asc.simulate.process("box", dim=dim, conditional="normal", scale=0.05)
    source = ProcessSource(
        *([first.with_seed(seed) for seed in range(models)], range(models)),
        widths=[dim * width for width in WIDTHS],
        output=Unbounded(),
        similarity=as_similarity("squared_l2") if exponent == 2 else asc.Lp(exponent),
        device=device,
    )
    steps = take_steps(source, Settings(10**6, batch, 1e-4, Constant(0.0), device=device))
    return lambda: steps.run(0, np.zeros((STEPS_PER_CHUNK, models)))


def milliseconds(work: Callable[[], Any], pieces: int, repeats: int, device: str) -> float:
    """Median time of one of `pieces` steps that `work` takes, after a first call."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    work()
    times = []
    for _ in range(repeats):
        wait()
        began = time.perf_counter()
        work()
        wait()
        times.append(1e3 * (time.perf_counter() - began) / pieces)
    return statistics.median(times)


def measure(dim: int, batch: int, exponent: int, models: int, device: str, repeats: int) -> dict[str, Any]:
    """Both sides for one similarity, with the ratios."""
    published = milliseconds(published_step(dim, batch, exponent, device), 1, 10 * repeats, device)
    alone = milliseconds(our_chunk(dim, batch, exponent, 1, device), STEPS_PER_CHUNK, repeats, device)
    stack = milliseconds(our_chunk(dim, batch, exponent, models, device), STEPS_PER_CHUNK, repeats, device) / models
    network = 6 * 2 * batch * sum(a * b for a, b in zip((1, *WIDTHS), (*WIDTHS, 1), strict=True)) * dim**2
    return {
        **{"dim": dim, "batch": batch, "exponent": exponent, "models": models},
        **{"published_ms": published, "one_model_ms": alone, "stack_ms_per_model": stack},
        "times_less": {"one model": published / alone, "stack, per model": published / stack},
        # the least a step can do: products of the network forwards and backwards, and pairs of the batch
        **{"network_gflop": network / 1e9, "pairs": batch**2, "stack_tflop_per_second": network / stack / 1e9},
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", default="benchmarks/results/inversion.json")
    parser.add_argument("--models", type=int, default=16, help="in the stack (%(default)s)")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    how: dict[str, Any] = {"dim": 10, "batch": 6144, "models": given.models, "repeats": 5, "device": device}
    if given.quick:
        how |= {"dim": 4, "batch": 64, "models": 2, "repeats": 1}
    rows = [measure(exponent=exponent, **how) for exponent in (2, 1, 3)]
    for row in rows:
        said = ", ".join(f"{name}: {value:.1f} times less" for name, value in row["times_less"].items())
        times = f"published {row['published_ms']:.2f} ms, ours {row['one_model_ms']:.2f} ms"
        stack = f"{row['stack_ms_per_model']:.2f} ms per model of {row['models']}"
        print(f"exponent {row['exponent']}: {times}, {stack}; {said}")
    worst = {name: min(row["times_less"][name] for row in rows) for name in BARS}
    held = {name: worst[name] >= bar for name, bar in BARS.items()}
    found = {"bars": BARS, "worst": worst, "held": held, "rows": rows}
    write_json(Path(given.out), {"machine": machine(), "code": code(), **found})


if __name__ == "__main__":
    main()
