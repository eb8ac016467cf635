"""Label-free explanations beside dattri, the public SimplEx and captum behind a hand-written wrapper.

    python -m venv PEER && PEER/bin/pip install -c constraints.txt torch captum dattri==0.3.0
    python -m benchmarks.explain --peer-python PEER/bin/python

The denoising autoencoder of MNIST (experiments.labelfree), trained briefly, on one thread. Times are processor
time: waiting for a core is no property of a program. Each side computes the same thing on the same numbers; what
each is off from the definition is measured on a few pairs. dattri is given one batch for all examples: with
several it computes the gradients of the test examples again for each. Two things about dattri 0.3.0: its TracIn
projects gradients on 512 random directions, with an error of up to a tenth of the largest score, and no argument
turns that off (here it is turned off by hand); and its conjugate gradients take a fixed number of iterations, and
return NaN if they are done before.
Writes benchmarks/results/explain.json and exits with 0 only if every bar holds.
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.func import functional_call, hessian, jvp, vjp, vmap

from ascribo import explain
from experiments.labelfree.data import images
from experiments.labelfree.networks import Reconstruction
from experiments.labelfree.tasks import pretext_models
from experiments.shared.results import code, machine, write_json

HERE = Path(__file__).parent
DAMPING, ITERATIONS = 1.0, 4
"""Of influence beside dattri: above the size of the Hessian's negative eigenvalues, and enough for that damping."""
SAMPLES = 400
"""Of gradient-SHAP, enough for scores of every example to add up to within 1%."""
FEW = 20
"""Training examples for which the influence is compared with its definition."""
console = Console(stderr=True)


def clocked(work: Callable[[], Any]) -> tuple[Any, float]:
    """What some work returns, and the seconds of processor time it took."""
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


class Peer:
    """The other side: one process for each job, only the job itself is timed."""

    def __init__(self, python: str, folder: Path, threads: int):
        self.python, self.folder, self.threads = python, folder, threads

    def __call__(self, job: str, **options: Any) -> tuple[np.ndarray, float]:
        command = [self.python, str(HERE / "explain_peer.py"), str(self.folder), job, json.dumps(options)]
        done = subprocess.run([*command, str(self.threads)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the peer failed at {job}: {done.stderr[-1000:]}")
        return np.load(self.folder / f"peer-{job}.npy"), json.loads(done.stdout.splitlines()[-1])["seconds"]


def gradients(model: Any, x: torch.Tensor) -> torch.Tensor:
    """Gradients of the reconstruction loss of each example, one after the other, by the definition."""
    rows = []
    for one in x:
        model.zero_grad()
        (model.decoder(model.encoder(one[None])) - one[None]).square().mean().backward()
        rows.append(torch.cat([p.grad.flatten() for p in model.encoder.parameters()]))
    model.zero_grad(set_to_none=True)
    return torch.stack(rows)


def influence_by_definition(model: Any, train: torch.Tensor, test: torch.Tensor, damping: float) -> np.ndarray:
    """⟨∇ℓ(x), (H + δ)⁻¹ ∇ℓ(xⁿ)⟩ / N in float64, H the Gauss-Newton matrix as products, by conjugate gradients."""
    double = copy.deepcopy(model).double().eval()
    train, test = train.double(), test.double()
    named = {name: p.detach() for name, p in double.encoder.named_parameters()}
    sizes = [p.numel() for p in named.values()]
    theta = torch.cat([p.flatten() for p in named.values()])

    def encode(vector: torch.Tensor) -> torch.Tensor:
        parts = vector.split(sizes)
        given = {n: v.view(p.shape) for (n, p), v in zip(named.items(), parts, strict=True)}
        return functional_call(double.encoder, given, (train,))

    def loss(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (double.decoder(z[None])[0] - x).square().mean()

    values, axes = torch.linalg.eigh(vmap(hessian(loss))(encode(theta).detach(), train))
    second = (axes * values.clamp_min(0)[:, None]) @ axes.mT  # without its negative part

    def product(v: torch.Tensor) -> torch.Tensor:
        change = jvp(encode, (theta,), (v,))[1]
        pulled = vjp(encode, theta)[1](torch.einsum("nab,nb->na", second, change))[0]
        return pulled / len(train) + damping * v

    rows = []
    for gradient in gradients(double, test):
        x, residual = torch.zeros_like(gradient), gradient.clone()
        direction, size = residual.clone(), residual @ residual
        while size > 1e-14 * (gradient @ gradient):
            turned = product(direction)
            step = size / (direction @ turned)
            x, residual = x + step * direction, residual - step * turned
            size, before = residual @ residual, size
            direction = residual + size / before * direction
        rows.append(x)
    return (torch.stack(rows) @ gradients(double, train).mT / len(train)).detach().numpy()


def off(scores: np.ndarray, wanted: np.ndarray) -> float:
    """Largest difference, relative to the largest entry."""
    few = tuple(slice(0, n) for n in wanted.shape)
    return float(np.abs(scores[few] - wanted).max() / np.abs(wanted).max())


def main() -> int:
    """Measure, print, write; 0 if every bar holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--examples", type=int, default=1000, help="training, and test, examples")
    parser.add_argument("--peer-examples", type=int, default=500, help="the same for what is compared with dattri")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", default=str(HERE / "results" / "explain.json"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data = images(max(5000, args.examples), args.examples)
    model: Any = pretext_models(["denoising"], data, [0], epochs=args.epochs, device=torch.device("cpu")).models[0]
    train, test = torch.from_numpy(data.train[: args.examples]), torch.from_numpy(data.test)
    n = args.peer_examples
    loss = Reconstruction(model.decoder)
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        state = {f"state/{name}": value.numpy() for name, value in model.state_dict().items()}
        np.savez(Path(folder) / "problem.npz", train=train.numpy(), test=test.numpy(), **state)
        peer = Peer(args.peer_python, Path(folder), args.threads)

        console.print("TracIn")
        wanted = (gradients(model, test[:8]) @ gradients(model, train[:8]).mT).numpy()
        own = {"method": "tracin", "loss": loss}
        ours, seconds = clocked(lambda: explain.examples(model.encoder, train[:n], test[:n], **own))
        theirs, their_seconds = peer("tracin", examples=n, batch=n, projected=False)
        found["tracin"] = {"seconds": seconds, "peer": their_seconds, "off": off(ours.values, wanted)}
        found["tracin"] |= {"peer_off": off(theirs, wanted), "bar": 2.0}
        projected, _ = peer("tracin", examples=100, batch=100, projected=True)
        found["tracin"]["peer_projected_off"] = off(projected, wanted)

        console.print("influence, conjugate gradients on the Hessian, 4 test examples")
        few = {"method": "influence", "curvature": "hessian", "damping": DAMPING, "loss": loss, "batch_size": 1000}
        ours, seconds = clocked(lambda: explain.examples(model.encoder, train[:n], test[:4], **few))
        theirs, their_seconds = peer(
            "influence", examples=n, batch=n, damping=DAMPING, iterations=ITERATIONS, tests=4
        )
        found["influence, Hessian"] = {"seconds": seconds, "peer": their_seconds, "bar": 2.0}
        apart = off(theirs, ours.values)
        found["influence, Hessian"]["difference"] = apart if np.isfinite(apart) else None

        console.print("all examples: TracIn and influence, within three minutes each")
        for name, options in (("tracin", own), ("influence", {"method": "influence", "loss": loss})):
            _, seconds = clocked(lambda options=options: explain.examples(model.encoder, train, test, **options))
            found[f"{name}, {args.examples} x {args.examples}"] = {"seconds": seconds, "limit": 180.0}
        some = explain.examples(model.encoder, train[:FEW], test[:2], method="influence", loss=loss)
        found[f"influence, {args.examples} x {args.examples}"]["off"] = off(
            some.values, influence_by_definition(model, train[:FEW], test[:2], some.attrs["damping"])
        )

        console.print("SimplEx")
        mine, seconds = clocked(lambda: explain.examples(model.encoder, train, test, method="simplex"))
        theirs, their_seconds = peer("simplex")
        found["simplex"] = {"seconds": seconds, "peer": their_seconds, "bar": 50.0}
        found["simplex"] |= {"mean": float(mine.distance.mean()), "peer_mean": float(theirs.mean())}
        found["simplex"] |= {"largest": float(mine.distance.max()), "peer_largest": float(theirs.max())}
        found["simplex"]["never_worse"] = bool((mine.distance.values <= theirs + 1e-6).all())

        console.print("features")
        for method, theirs_name in (
            ("integrated_gradients", "IntegratedGradients"),
            ("gradient_shap", "GradientShap"),
        ):
            options = {"method": method, "batch_size": 256}
            ours, seconds = clocked(lambda options=options: explain.features(model.encoder, test[:n], **options))
            theirs, their_seconds = peer("features", examples=n, method=theirs_name)
            found[method] = {"seconds": seconds, "peer": their_seconds, "bar": 1.0}
            for side, scores in (("residual", ours), ("peer_residual", theirs)):
                missing = explain.completeness_residual(model.encoder, test[:n], scores)
                found[method][side] = float(np.median(missing))
                found[method][f"{side}_99"] = float(np.quantile(missing, 0.99))
                found[method][f"{side}_largest"] = float(missing.max())
        enough = explain.features(model.encoder, test[:n], method="gradient_shap", samples=SAMPLES)
        missing = explain.completeness_residual(model.encoder, test[:n], enough)
        found["gradient_shap"]["enough_samples"] = SAMPLES
        found["gradient_shap"]["residual_with_enough_largest"] = float(missing.max())
        found["integrated_gradients"]["complete"] = found["integrated_gradients"]["residual_largest"] < 0.0101
        found["gradient_shap"]["complete"] = found["gradient_shap"]["residual_with_enough_largest"] < 0.01
    held = verdict(found)
    given = {name: value for name, value in vars(args).items() if name not in ("peer_python", "out")}
    write_json(
        Path(args.out),
        {"machine": machine(), "code": code(), "arguments": given, "found": found, "held": held},
    )
    return 0 if all(held.values()) else 1


def verdict(found: dict[str, dict[str, Any]]) -> dict[str, bool]:
    """Print what was measured, and say which bars hold."""
    table = Table("", "seconds", "peer", "ratio", "bar", "more")
    held = {}
    for name, row in found.items():
        ratio = row["peer"] / row["seconds"] if "peer" in row else None
        fast = ratio >= row["bar"] if ratio is not None else row["seconds"] <= row["limit"]
        right = row.get("never_worse", True) and row.get("off", 0) < 1e-5 and (row.get("difference") or 0) < 1e-3
        right = right and row.get("complete", True)
        held[name] = bool(fast and right)
        more = ", ".join(
            f"{k} {v:.2g}" for k, v in row.items() if v is not None and k not in ("seconds", "peer", "bar", "limit")
        )
        shown = ("", "") if ratio is None else (f"{row['peer']:.2f}", f"{ratio:.1f}")
        table.add_row(name, f"{row['seconds']:.2f}", *shown, str(row.get("bar", row.get("limit"))), more)
    console.print(table)
    return held


if __name__ == "__main__":
    sys.exit(main())
