"""Remove and retrain (Hooker et al. 2019): do autoencoders do worse without the features called important?

Crabbé & van der Schaar (2022), figure 7: the most important pixels of each MNIST image are made black, by scores of
a denoising autoencoder, and new autoencoders are trained on what is left. The more the new test loss rises above
that for random pixels, the better the scores. All new models train as one stack, each on its own masks; a mask
stays with its image (in the public code the loader is shuffled between making masks and using them).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ascribo import explain, figures
from ascribo.support.compute import resolve_device
from ascribo.support.progress import say
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one
from experiments.shared.stack_training import train

from .data import images
from .networks import Autoencoder
from .tasks import NOISE, corrupted, pretext_models

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "cases", "draw", "run", "tables"]

METHODS = ("integrated_gradients", "gradient_shap", "saliency", "deeplift", "random")
FULL = {
    "train": 60_000,
    "test": 10_000,
    "epochs": 100,
    "sizes": (10, 20, 50, 100, 200),
    "runs": 1,
    "budget": 86_400,
}
"""`budget` bounds the seconds of each of the two trainings of a run."""
BATCH = 200
QUICK = {"train": 600, "test": 200, "epochs": 2, "sizes": (20, 100)}


def cases(plan: Plan) -> list[Case]:
    """One case for each run."""
    return [{**plan, "seed": seed} for seed in range(plan["runs"])]


def _line(row: Row) -> str:
    return f"run {row['seed']}: {row['data']}, {row['seconds']:.0f} s"


def _one(seed: int, device: str, **plan: Any) -> Row:
    began, where = time.monotonic(), resolve_device(device)
    data = images(plan["train"], plan["test"])
    options = {"epochs": plan["epochs"], "batch_size": BATCH, "device": where, "budget": plan["budget"]}
    first = pretext_models(["denoising"], data, [seed], **options, progress=lambda text: say(f"first {text}"))
    encoder = first.models[0].encoder
    parts = [torch.from_numpy(x).to(where) for x in (data.train, data.test)]
    ranks = [torch.stack([_ranks(encoder, x, method, seed) for method in METHODS]) for x in parts]
    stack = [(m, size) for m in range(len(METHODS)) for size in plan["sizes"]]
    which = torch.tensor([m for m, _ in stack], device=where)
    sizes = torch.tensor([size for _, size in stack], device=where)

    def masked(part: int, index: Tensor) -> Tensor:
        """Images (model, batch), each without the pixels that its model's scores put first."""
        own = parts[part][index]
        kept = ranks[part][which[:, None], index] >= sizes[:, None, None]
        return own * kept.view(own.shape)

    def batch(index: Tensor, draws: torch.Generator) -> tuple[Tensor, ...]:
        x = masked(0, index)
        return x, corrupted("denoising", x, draws)

    def test(draws: torch.Generator) -> list[tuple[Tensor, ...]]:
        found = []
        for rows in torch.arange(len(parts[1]), device=where).split(200):
            x = masked(1, rows.expand(len(stack), -1))
            found.append((x, corrupted("denoising", x, draws)))
        return found

    torch.manual_seed(seed)
    start = Autoencoder().state_dict()
    models = [Autoencoder() for _ in stack]
    for model in models:  # they differ in their masks alone
        model.load_state_dict(start)
    done = train(
        models,
        len(parts[0]),
        batch,
        test,
        epochs=plan["epochs"],
        batch_size=BATCH,
        weight_decay=1e-5,
        seed=seed,
        device=where,
        budget=plan["budget"],
        progress=lambda text: say(f"again {text}"),
    )
    best = np.min(done.test_losses, axis=0)
    losses: dict[str, dict[str, float]] = {method: {} for method in METHODS}
    for (m, size), loss in zip(stack, best.tolist(), strict=True):
        losses[METHODS[m]][str(size)] = loss
    whole = min(v[0] for v in first.test_losses)
    spent = round(time.monotonic() - began, 1)
    return {"seed": seed, "data": data.name, "losses": losses, "whole": whole, "seconds": spent}


def _ranks(encoder: Any, x: Tensor, method: str, seed: int) -> Tensor:
    """Place of each pixel in the order of importance, 0 for the first: (image, pixel) int16."""
    scores: Any
    if method == "random":
        scores = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)).to(x)
    else:
        scores = explain.features(encoder, x, method=method, batch_size=2048)
    return scores.flatten(1).argsort(1, descending=True).argsort(1).to(torch.int16)


def tables(result: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Figure 7 in numbers: the mean test loss after retraining."""
    rows = result["rows"]
    table = pd.DataFrame(
        [
            {
                "method": method,
                **{size: f"{np.mean([r['losses'][method][size] for r in rows]):.4f}" for size in values},
            }
            for method, values in rows[0]["losses"].items()
        ]
    )
    return {f"{rows[0]['data']}: test loss after retraining without so many pixels": table}


def draw(result: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Test loss against the number of pixels removed."""
    series = {}
    for method, values in result["rows"][0]["losses"].items():
        mean = [np.mean([row["losses"][method][size] for row in result["rows"]]) for size in values]
        look = {"linestyle": "--", "color": figures.INK} if method == "random" else {}
        series[method.replace("_", " ")] = {"x": [int(size) for size in values], "y": mean, **look}
    labels: dict[str, Any] = {"xlabel": "most important pixels removed", "ylabel": "test loss of a new autoencoder"}
    return figures.curves(series, ax, **labels)


run = experiment(
    *("labelfree-roar", FULL, QUICK),
    cases=cases,
    rows=one_by_one(_one, _line),
    draw=draw,
    protocol={"noise": NOISE},
)
