"""Do disentangled units look at different pixels? (Crabbé & van der Schaar 2022, figures 6 and 8.)

β-VAEs and TC-VAEs with β 1, 5 and 10, twenty runs each, on MNIST (3 units) and on images like those of dSprites (6
units, `ascribo.simulate.sprites`). Gradient-SHAP of each unit: Pearson correlation between units, the entropy of a
pixel's saliency over units, and Spearman's correlation of both with β. All VAEs of one data set train as one stack.
"""

from __future__ import annotations

import time
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn.functional import pad

from ascribo import explain, figures, simulate
from ascribo.support.compute import resolve_device
from ascribo.support.progress import say
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one
from experiments.shared.stack_training import train

from .data import images
from .networks import VAE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "PUBLISHED", "QUICK", "draw", "run", "tables"]

BETAS, KINDS = (1.0, 5.0, 10.0), ("beta", "tc")
UNITS = {"mnist": 3, "sprites": 6}
PUBLISHED = {"mnist": (-0.15, -0.56), "sprites": (0.43, -0.76)}
"""Spearman's correlation of β with Pearson's between units, and with the entropy."""
FULL = {
    "data": ("mnist", "sprites"),
    "runs": 20,
    "images": 60_000,
    "sprites": 60_000,
    "test": 1_000,
    "epochs": 100,
    "samples": 50,
    "together": 120,
    "budget": 86_400,
}
"""`sprites` : images of an epoch, drawn anew from nine tenths of the grid. `together` : models in a stack.
`budget` bounds the seconds of the training of one stack."""
QUICK = {"runs": 1, "images": 256, "sprites": 128, "test": 50, "epochs": 1, "samples": 5}
BATCH = 64


def cases(plan: Plan) -> list[Case]:
    """One case for each stack of `together` models."""
    shared = {key: value for key, value in plan.items() if key not in ("data", "runs", "together")}
    models = [(kind, beta, seed) for seed, kind, beta in product(range(plan["runs"]), KINDS, BETAS)]
    return [
        {**shared, "name": name, "models": models[k : k + plan["together"]]}
        for name in plan["data"]
        for k in range(0, len(models), plan["together"])
    ]


def _line(row: Row) -> str:
    return f"{row['name']}: {len(row['models'])} models, {row['epochs']} epochs, {row['seconds']:.0f} s"


def _stack(name: str, models: list[tuple[str, float, int]], device: str, **plan: Any) -> Row:
    began, where = time.monotonic(), resolve_device(device)
    said, x, test, count_of_images = _mnist(where, **plan) if name == "mnist" else _sprites(where, **plan)
    units, count = UNITS[name], len(models)
    built: list[torch.nn.Module] = []
    for _, _, seed in models:
        torch.manual_seed(seed)
        built.append(VAE(units, test.shape[-1], count_of_images))
    beta = torch.tensor([float(b) for _, b, _ in models], device=where)
    total = torch.tensor([float(kind == "tc") for kind, _, _ in models], device=where)

    def inputs(own: Tensor, draws: torch.Generator) -> tuple[Tensor, ...]:
        return own, torch.randn(count, own.shape[1], units, generator=draws, device=where), beta, total

    done = train(
        built,
        plan["images" if name == "mnist" else "sprites"],
        lambda index, draws: inputs(x(index, draws), draws),
        lambda draws: [
            inputs(part.expand(count, *part.shape), draws) for part in test.split(BATCH)[: len(test) // BATCH or 1]
        ],
        epochs=plan["epochs"],
        batch_size=BATCH,
        weight_decay=1e-5,
        device=where,
        budget=plan["budget"],
        short=True,
        progress=lambda text: say(f"{name} {text}"),
    )
    found = []
    for (kind, b, seed), model, loss in zip(models, done.models, np.min(done.test_losses, axis=0), strict=True):
        shap = {"method": "gradient_shap", "samples": plan["samples"], "unit": "all"}
        encoder: Any = model.encoder
        scores = explain.features(encoder, test, **shap, batch_size=len(test))
        between, entropy = explain.unit_correlation(scores), explain.unit_entropy(scores)
        found.append(
            {
                "kind": kind,
                "beta": b,
                "seed": seed,
                "test_loss": float(loss),
                "correlation": None if np.isnan(between) else between,
                "entropy": entropy,
            }
        )
    spent = round(time.monotonic() - began, 1)
    return {"name": name, "data": said, "models": found, "epochs": len(done.test_losses), "seconds": spent}


def _mnist(where: torch.device, **plan: Any):
    """Name, training images by their numbers, test images framed to 32 x 32, and how many to train on there are."""
    data = images(plan["images"], plan["test"])
    own, test = (pad(torch.from_numpy(v), [2] * 4).to(where) for v in (data.train, data.test))
    return data.name, lambda index, draws: own[index], test, len(own)


def _sprites(where: torch.device, **plan: Any):
    """The same for sprites, drawn at random from nine tenths of the grid whatever their numbers."""
    grid = simulate.sprites(where)
    order = torch.randperm(len(grid), generator=torch.Generator().manual_seed(0)).to(where)
    split = len(grid) * 9 // 10
    factors = grid.factors(order[:split])

    def draw_images(index: Tensor, draws: torch.Generator) -> Tensor:
        return grid.draw(factors[torch.randint(split, index.shape, generator=draws, device=where)])

    test = grid.render(grid.factors(order[split : split + plan["test"]]))
    return "dSprites-like (ascribo.simulate.sprites)", draw_images, test, split


def _by_data(result: dict[str, Any]) -> dict[str, pd.DataFrame]:
    names = dict.fromkeys(row["name"] for row in result["rows"])
    return {
        n: pd.DataFrame([m for row in result["rows"] if row["name"] == n for m in row["models"]]) for n in names
    }


def tables(result: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Figures 6 and 8 in numbers, and Spearman's correlations beside the printed ones."""
    shown, lines = {}, []
    for name, table in _by_data(result).items():
        means = table.groupby(["kind", "beta"])[["correlation", "entropy"]].agg(["mean", "std"]).round(3)
        means.columns = [f"{a} ({b})" for a, b in means.columns]
        shown[f"{name}: units of VAEs"] = means.reset_index()
        known = table.dropna()
        for k, what in enumerate(("correlation", "entropy")):
            found: Any = spearmanr(known["beta"], known[what])
            rho = found.statistic
            lines.append({"data": name, "β with": what, "ours": f"{rho:.2f}", "paper": f"{PUBLISHED[name][k]:.2f}"})
    shown["Spearman's correlation"] = pd.DataFrame(lines)
    return shown


def draw(result: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Correlation of units by β, a dot for each model; without axes, entropy too and all data sets, in a figure."""
    data = _by_data(result)
    if ax is not None:
        return _panel(next(iter(data.values())), "correlation", ax)
    figure = figures.new_figure((4.6 * len(data), 6))
    grid = figure.add_gridspec(2, len(data))
    for j, (name, table) in enumerate(data.items()):
        for k, what in enumerate(("correlation", "entropy")):
            ax = _panel(table, what, figure.add_subplot(grid[k, j]), name)
    assert ax is not None
    return ax


def _panel(table: pd.DataFrame, what: str, ax: Axes, title: str | None = None) -> Axes:
    groups, series = [f"β = {b:g}" for b in BETAS], {}
    for kind in KINDS:
        own = table[table["kind"] == kind].dropna()
        names = [f"β = {b:g}" for b in own["beta"]]
        series[kind] = {"group": names, "value": np.asarray(own[what], dtype=float)}
    return figures.dots(series, groups, ax, label=f"{what} of units", upright=True, title=title)


run = experiment(
    *("labelfree-vae", FULL, QUICK),
    cases=cases,
    rows=one_by_one(_stack, _line),
    draw=draw,
    protocol={"betas": BETAS, "kinds": KINDS},
)
