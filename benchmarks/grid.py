"""The grid of paper 001, table 1, in one go: 360 models, trained as stacks, with their maps.

    python benchmarks/grid.py [--device cuda] [--steps 20000] [--state FOLDER] [--out benchmarks/results/grid.json]

Ten data sets for each total dimension from 4 to 9, two latents observed; three training modes, with and without
penalty (λ = 0.1, the papers' schedule); batch 512. Each stack's rows are written to the state folder when it is
done, and a run that is started again goes on with the stacks that are missing: no stack takes ten minutes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from problems import MODES, problem_of, spaces_of

import ascribo as asc
from ascribo.alignment import align
from ascribo.attribution import METHODS, decoder_inputs, fit_decoder
from ascribo.embedder import Embedder
from ascribo.engine.stacks import pack, train_stack
from ascribo.experiments.common import machine, summary, write_json
from ascribo.model import FittedModel
from ascribo.penalty import Constant, Ramp
from ascribo.spaces import layout
from ascribo.training import Settings

SAMPLES = 20_000
PENALTIES = {"none": Constant(0.0), "regularized": Ramp(0.1)}


def simulate(dim: int, seed: int, steps: int) -> asc.Recording:
    """A data set of the grid."""
    return asc.simulate.box(seed=100 * dim + seed, observed=2, hidden=dim - 2, steps=steps)


def run_stack(cells: list[dict], problems: list, data: dict, settings: Settings) -> dict:
    """Train the models of one stack and score all their maps."""
    began = time.perf_counter()
    schedules = [PENALTIES[cell["penalty"]] for cell in cells]
    trained = train_stack(problems, list(range(len(cells))), schedules, settings)
    fitted = time.perf_counter()
    recordings = [data[cell["dim"], cell["data_seed"]] for cell in cells]
    fits = with_decoders(problems, recordings, list(range(len(cells))), trained.parameters, settings.device)
    rows = []
    for cell, recording, fit in zip(cells, recordings, fits, strict=True):
        steps = np.linspace(0, len(recording) - 1, min(SAMPLES, len(recording))).astype(np.int64)
        rows.append(cell | {m: fit.attribute(recording, m, steps).auroc(recording, "position") for m in METHODS})
    return {"rows": rows, "seconds": {"training": fitted - began, "maps": time.perf_counter() - fitted}}


def with_decoders(
    problems: list, recordings: list, which: list[int], parameters: dict, device: str
) -> list[FittedModel]:
    """Every model of a stack ready to attribute; their decoders are fitted as one stack, too."""
    embedder = Embedder(problems[0].module, problems[0].spaces)
    blocks = layout(problems[0].spaces)
    inputs, goals, alignments = [], [], []
    for model, cell in enumerate(which):
        one = {name: value[model : model + 1].to(device) for name, value in parameters.items()}
        X, epochs = problems[cell].X.to(device), problems[cell].segments
        steps, neighbours = decoder_inputs(epochs, SAMPLES, np.random.default_rng(model))
        before, after = (embedder.embed(one, X, epochs, n) for n in neighbours.T)
        z = (before + after) / 2
        alignments.append(align(z.cpu(), blocks).to(device))
        inputs.append(alignments[-1].to_aligned(z))
        goals.append(X[torch.from_numpy(steps).to(device)])
    decoder = fit_decoder(torch.cat(inputs), torch.stack(goals), list(range(len(which))), progress=False)
    statistics = [(r.X.mean(0, dtype=np.float64), r.X.std(0, dtype=np.float64)) for r in recordings]
    return [
        FittedModel(
            spaces=problems[cell].spaces,
            module=problems[cell].module,
            channels=tuple(f"channel{k}" for k in range(problems[cell].X.shape[1])),
            mean=statistics[cell][0],
            scale=statistics[cell][1],
            parameters={k: v[model : model + 1] for k, v in parameters.items()},
            decoder={k: v[model : model + 1] for k, v in decoder.items()},
            alignment=alignments[model],
            counted=np.ones((1, len(problems[cell].spaces)), dtype=bool),
        ).to(device)
        for model, cell in enumerate(which)
    ]


def main() -> None:
    """Run what is missing, then put the rows together."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--length", type=int, default=100_000)
    parser.add_argument("--dims", type=int, nargs=2, default=(4, 9))
    parser.add_argument("--data-seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--state", type=Path, default=Path("runs/grid"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/grid.json"))
    given = parser.parse_args()
    began = time.perf_counter()
    dims, seeds = range(given.dims[0], given.dims[1] + 1), range(given.data_seeds)
    keys = [(dim, seed) for dim in dims for seed in seeds]
    made = Parallel(n_jobs=given.jobs)(delayed(simulate)(*key, given.length) for key in keys)
    data = dict(zip(keys, made, strict=True))
    simulated = time.perf_counter() - began
    print(f"{len(data)} data sets in {simulated:.1f} s", flush=True)
    cells, problems = [], []
    for mode in MODES:
        for dim, seed in keys:
            problem = problem_of(data[dim, seed], spaces_of(mode, 2, dim - 2))
            for penalty in PENALTIES:  # the same object: on the device once
                cells.append({"mode": mode, "dim": dim, "data_seed": seed, "penalty": penalty})
                problems.append(problem)
    settings = Settings(given.steps, given.batch, 1e-3, Constant(0.0), device=given.device)
    rows, seconds = [], {"simulation": simulated, "problems": time.perf_counter() - began - simulated}
    packed = pack(problems, given.batch)
    for number, members in enumerate(packed, 1):
        file = given.state / f"stack-{number}-of-{len(packed)}-{given.steps}.json"
        told = f"stack {number} of {len(packed)}, {len(members)} models ({cells[members[0]]['mode']})"
        print(f"{told}: {'done before' if file.exists() else 'training'}; finished stacks are kept", flush=True)
        if not file.exists():
            chosen = [cells[k] for k in members], [problems[k] for k in members]
            write_json(file, run_stack(*chosen, data, settings))
        part = json.loads(file.read_text())
        rows += part["rows"]
        for key, value in part["seconds"].items():
            seconds[key] = seconds.get(key, 0.0) + value
        print({key: round(value, 1) for key, value in part["seconds"].items()}, flush=True)
    table = {
        f"{mode}, {penalty}": {
            m: summary([row[m] for row in rows if (row["mode"], row["penalty"]) == (mode, penalty)])
            for m in METHODS
        }
        for mode in MODES
        for penalty in PENALTIES
    }
    gpu = torch.cuda.get_device_name() if given.device == "cuda" else None
    total = sum(seconds.values())
    content = {
        "machine": {**machine(), "gpu": gpu},
        "protocol": {
            k: str(v) if isinstance(v, Path) else v for k, v in vars(given).items() if k not in ("state", "out")
        },
        "models": len(rows),
        "seconds": {**seconds, "total": total},
        "auroc": table,
        "rows": rows,
    }
    write_json(given.out, content)
    for cell, methods in table.items():
        print(f"{cell:38s}", {m: round(100 * s["mean"], 2) for m, s in methods.items()})
    print(f"{len(rows)} models in {total:.0f} s: { ({k: round(v, 1) for k, v in seconds.items()}) }")


if __name__ == "__main__":
    main()
