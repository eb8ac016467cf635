"""What a training step and a map cost on one GPU, beside cebra in the same run.

    python -m benchmarks.gpu [--cebra FOLDER] [--out benchmarks/results/gpu.json]

FOLDER holds cebra 0.6.1 and its pure-Python dependencies, to be put on the path (an empty module stands in for
cvxpy, which its attribution imports and this does not use).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import ascribo as asc
from ascribo.model.fitted import FittedModel
from ascribo.model.fitting import Prepared, finish, prepare
from ascribo.networks.encoders import build_encoder
from ascribo.networks.infonce_loss import infonces
from ascribo.networks.model_stack import Embedder
from ascribo.training.adam import Adam
from ascribo.training.loop import run_steps
from ascribo.training.objective import contrastive_objectives
from ascribo.training.penalty_weight import Constant, Ramp
from ascribo.training.recording_batches import RecordingSource
from ascribo.training.settings import Settings
from ascribo.training.steps import STEPS_PER_CHUNK
from ascribo.training.steps_cuda_graph import GraphSteps
from benchmarks.problems import problem_of, spaces_of
from experiments.shared.results import code, machine, write_json

BARS = {
    "one model, batch 5000": 1.5,
    "one model, batch 512": 0.5,
    "stack of 32, batch 5000": 0.40,
    "stack of 128, batch 512": 0.030,
    "map of 100,000 samples, seconds": 0.15,
    "cold process to auROC 0.98, seconds": 15.0,
    "cold process, no kernel compiled, seconds": 15.0,
}
"""Milliseconds per model-step, but for the last three."""

COLD = """
import sys, time
began = time.time() - float(sys.argv[2])
import numpy as np
import ascribo as asc
from ascribo.metrics import auroc
with np.load(sys.argv[1]) as file:
    X, y, truth = file["X"], file["y"], file["truth"]
loaded = time.time()
model = asc.ContrastiveEmbedding(
    {"position": asc.Follow(["y0", "y1"], dim=2), "rest": asc.Time(dim=4)}, seeds=1, steps=int(sys.argv[3]),
    device="cuda", random_state=0, progress=False)
model.fit(X, y)
fitted = time.time()
maps = model.attribute(X, method="generative_gradient")
score = maps.auroc(truth, "position")
papers = model.attribute(X, method="inverted_neuron_gradient").auroc(truth, "position")
zero = float(sys.argv[2])
print(began, loaded - zero, fitted - zero, time.time() - zero, score, papers)
"""


def milliseconds(data: asc.Recording, models: int, batch: int, chunks: int = 6) -> dict[str, float]:
    """Per step and per model-step, hybrid with penalty, pairs drawn on the device, steady state."""
    observed = data.variables.shape[1]
    spaces = spaces_of("hybrid contrastive", observed, data.latents.shape[1] - observed)  # type: ignore[attr-defined]
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    settings = Settings(10**6, batch, 1e-3, Constant(0.1), device="cuda")
    source = RecordingSource([problem_of(data, spaces)] * models, range(models), device="cuda")
    steps = GraphSteps(source, settings)
    weights = np.full((STEPS_PER_CHUNK, models), 0.1)
    steps.run(0, weights)
    torch.cuda.synchronize()
    ready, taken = time.perf_counter() - began, []
    for k in range(chunks):
        began = time.perf_counter()
        steps.run((k + 1) * STEPS_PER_CHUNK, weights)
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - began) / STEPS_PER_CHUNK * 1e3)
    step = statistics.median(taken)
    return {
        "ms_per_step": step,
        "ms_per_model_step": step / models,
        "set_up_s": ready,
        "memory_gb": torch.cuda.max_memory_allocated() / 1e9,
    }


def attribution(data: asc.Recording) -> dict[str, float]:
    """Seconds for a map of all 100,000 samples by the papers' method, and for the generative gradient."""
    spaces = spaces_of("hybrid contrastive", 3, 3)
    model = asc.ContrastiveEmbedding(spaces, seeds=1, steps=500, device="cuda", random_state=0, progress=False)
    model.fit(data)
    out = {}
    for method in ("inverted_neuron_gradient", "generative_gradient"):
        taken = []
        for _ in range(4):
            torch.cuda.synchronize()
            began = time.perf_counter()
            maps = model.attribute(data, method=method, samples="all")
            torch.cuda.synchronize()
            taken.append(time.perf_counter() - began)
        out[method] = statistics.median(taken[1:])
        out[f"{method}, auROC"] = maps.auroc(data, "position")
    return out


def cold(folder: Path, steps: int) -> dict[str, dict[str, float]]:
    """Seconds from the start of a Python process to a map, on a data set of 6 latents, 2 observed: of the first
    process on a machine, which compiles all kernels, and of the next, which finds them."""
    data = asc.simulate.box(seed=0, observed=2, hidden=4)
    file = folder / "cold.npz"
    np.savez(file, X=data.X, y=data.variables.to_numpy(), truth=data.truth.sel(space="position").values)
    names = ["python_s", "loaded_s", "fitted_s", "done_s", "auroc", "auroc_inverted_neuron_gradient"]
    got = {}
    with tempfile.TemporaryDirectory() as kernels:
        for which in ("first", "next"):
            command = [sys.executable, "-c", COLD, str(file), str(time.time()), str(steps)]
            env = {**os.environ, "TRITON_CACHE_DIR": kernels}
            answer = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout.split()
            got[which] = {"steps": steps, **dict(zip(names, map(float, answer), strict=True))}
    file.unlink()
    return got


def precision(data: asc.Recording, models: int = 8, steps: int = 2000) -> dict[str, dict[str, float]]:
    """Mean auROC of the same models trained with products in TF32 and in float32, papers' schedule."""
    item = prepare(data, spaces_of("hybrid contrastive", 3, 3))
    settings = Settings(steps, 512, 1e-3, Ramp(0.1), device="cuda")
    out = {}
    for name, kind in (("TF32", "high"), ("float32", "highest")):
        source = RecordingSource([item.problem] * models, range(models), device="cuda")
        trained = run_steps(GraphSteps(source, settings, precision=kind), progress=False)
        out[name] = scores(item, trained.parameters, "cuda")
    return out


def scores(item: Prepared, parameters: dict[str, torch.Tensor], device: str) -> dict[str, float]:
    """Mean auROC of the observed space over the models (model, ...) of one recording, by method."""
    data, models = item.recording, len(next(iter(parameters.values())))
    each = [{name: value[k : k + 1] for name, value in parameters.items()} for k in range(models)]
    fits = finish(
        [item] * models, each, [[k] for k in range(models)], batch_size=512, device=device, progress=False
    )
    every = np.linspace(0, len(data) - 1, min(20_000, len(data))).astype(np.int64)

    def auroc(model: FittedModel, method: str) -> float:
        index = every if "samples" in asc.attribution.METHODS[method].takes else None
        return asc.attribution.attribute(model.to(device), data, method, index).auroc(data, "position")

    return {
        method: float(np.mean([auroc(model, method) for model, _ in fits]))
        for method in ("unique_variance", "generative_gradient", "inverted_neuron_gradient", "neuron_gradient")
    }


def scaling() -> list[dict[str, float]]:
    """Milliseconds per model-step as one thing at a time grows, 8 models, from batch 512 on 100,000 x 50 data."""
    base = {"models": 8, "batch": 512, "dim": 6, "channels": 50, "length": 100_000}
    rows = []
    for key, values in {
        "models": (1, 8, 32, 128, 256),
        "batch": (256, 1024, 2048, 5000, 20_000),
        "dim": (4, 9, 15),
        "channels": (100, 400),
        "length": (10_000, 1_000_000),
    }.items():
        for value in values:
            at = {**base, key: value}
            half = at["channels"] // 2
            made = asc.simulate.box(0, 2, at["dim"] - 2, (half, half), at["length"])
            step = milliseconds(made, at["models"], at["batch"], chunks=3)
            rows.append({"varied": key, **at, **step})
            print("scaling", key, value, round(step["ms_per_model_step"], 4), flush=True)
    return rows


def parts(models: int, batch: int) -> dict[str, float]:
    """Milliseconds per model-step of the parts of a step on their own, 3 + 3 dimensions, 50 channels."""
    g = torch.Generator("cuda").manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, device="cuda", generator=g)  # noqa: E731
    module = build_encoder("mlp", 50, 6)
    spaces = spaces_of("hybrid contrastive", 3, 3)
    embedder = Embedder(module, spaces)
    first = embedder.initial(module, list(range(models)))
    parameters = {name: value.cuda().requires_grad_() for name, value in first.items()}
    x, u = draw(models, 4 * batch, 50), draw(models, batch, 50)
    z = [(3 * draw(models, batch, 6)).requires_grad_() for _ in range(4)]
    terms = [o.terms for o in contrastive_objectives(spaces, "whole")]
    adam = Adam(parameters.values(), torch.tensor(1e-3, device="cuda"))
    gradients = [torch.zeros_like(parameter) for parameter in parameters.values()]

    def network() -> None:
        out, tangent = embedder.with_tangents(parameters, x, u)
        (out.sum() + tangent.square().sum()).backward()

    def contrast() -> None:
        infonces(z[0], [z[1], z[2]], z[3], terms).sum().backward()

    torch.set_float32_matmul_precision("high")
    out = {}
    for name, work in (("network", network), ("InfoNCE", contrast), ("Adam", lambda: adam.step(gradients))):
        for _ in range(3):
            work()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(20):
            work()
        torch.cuda.synchronize()
        out[name] = (time.perf_counter() - began) / 20 / models * 1e3
    torch.set_float32_matmul_precision("highest")
    return out


def cebra_side(folder: Path, data: asc.Recording, batches: tuple[int, ...]) -> dict[str, object]:
    """cebra's own solver on the same data, on the same GPU, in this process."""
    sys.path.insert(0, str(folder))
    from benchmarks.peer_cebra import Peer

    out: dict[str, object] = {}
    for batch in batches:
        peer = Peer(data.X, data.variables.to_numpy(), 6, batch, 0.1, device="cuda")
        peer.steps(20)
        torch.cuda.synchronize()
        out[f"ms_per_step, batch {batch}"] = peer.steps(100)["wall_ms"]
    out["attribution of 20,000 samples"] = peer.attribute(20_000)
    return out


def main() -> int:
    """Measure, print, write; 0 if every bar holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cebra", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gpu.json"))
    parser.add_argument("--cold-steps", type=int, default=500)
    parser.add_argument("--short", action="store_true", help="leave out how the time grows")
    given = parser.parse_args()
    data = asc.simulate.box(seed=0, observed=3, hidden=3)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    measured = {}
    for name, models, batch in (
        ("one model, batch 5000", 1, 5000),
        ("one model, batch 512", 1, 512),
        ("stack of 32, batch 5000", 32, 5000),
        ("stack of 128, batch 512", 128, 512),
    ):
        measured[name] = milliseconds(data, models, batch)
        print(name, measured[name], flush=True)
    maps = attribution(data)
    print("attribution", maps, flush=True)
    start = cold(given.out.parent, given.cold_steps)
    print("cold", start, flush=True)
    alone = {"32 models, batch 5000": parts(32, 5000), "128 models, batch 512": parts(128, 512)}
    print("parts", alone, flush=True)
    digits = precision(data)
    print("precision", digits, flush=True)
    growth = [] if given.short else scaling()
    values = {name: row["ms_per_model_step"] for name, row in measured.items()}
    values["map of 100,000 samples, seconds"] = maps["inverted_neuron_gradient"]
    took = {which: row["done_s"] if row["auroc"] >= 0.98 else float("inf") for which, row in start.items()}
    values["cold process to auROC 0.98, seconds"] = took["next"]
    values["cold process, no kernel compiled, seconds"] = took["first"]
    rows = {
        name: {"measured": values[name], "bar": bar, "holds": values[name] <= bar} for name, bar in BARS.items()
    }
    content = {
        "machine": machine(),
        "code": code(),
        "rows": rows,
        "training": measured,
        "attribution": maps,
        "cold": start,
        "parts_ms_per_model_step": alone,
        "auroc_by_precision": digits,
        "scaling": growth,
    }
    write_json(given.out, content)
    if given.cebra:
        peer = cebra_side(given.cebra, data, (5000, 512))
        print("cebra", peer, flush=True)
        write_json(given.out, {**content, "cebra": peer})
    for name, row in rows.items():
        print(f"{name:40s} {row['measured']:9.4f}  bar {row['bar']:6.3f}  {'holds' if row['holds'] else 'FAILS'}")
    return 0 if all(row["holds"] for row in rows.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
