"""Do encoders of different tasks see the same? (Crabbé & van der Schaar 2022, tables 1 and 2.)

Reconstruction, denoising and inpainting autoencoders and a classifier of MNIST, five runs each: Pearson correlation
of their gradient-SHAP maps over test images, and of the nearest-neighbour scores of 1,000 training for 1,000 test
images. Spearman's is shown beside it: the inverse distance has a heavy tail, which Pearson's follows.

The paper's public code takes the size of the scores of features, without their sign, and shows pixels from 0 to 255
to encoders trained on 0 to 1 when it looks for neighbours. Both are measured here, too, to see what they change.
"""

from __future__ import annotations

import time
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from ascribo import explain, figures
from ascribo.support.compute import resolve_device
from ascribo.support.progress import say
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one

from .data import images
from .tasks import NOISE, TASKS, pretext_models

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "PUBLISHED", "QUICK", "draw", "run", "tables"]

FULL = {
    "train": 60_000,
    "test": 10_000,
    "explained": 1_000,
    "epochs": 100,
    "runs": 5,
    "batch": 300,
    "noise": 0.0,
    "budget": 86_400,
}
"""`batch` as in the public code: the paper does not say. `noise` is that of gradient-SHAP; `budget` bounds the
seconds of the training of a stack: the autoencoders are one, the classifiers another."""
QUICK = {"train": 600, "test": 200, "explained": 100, "epochs": 2, "runs": 2}
PUBLISHED = {
    "reconstruction-denoising": (0.39, 0.10),
    "reconstruction-inpainting": (0.31, 0.11),
    "denoising-inpainting": (0.32, 0.12),
    "reconstruction-classification": (0.44, 0.07),
    "denoising-classification": (0.40, 0.06),
    "inpainting-classification": (0.32, 0.07),
}
"""Features and examples, table 1 and table 2 of the paper."""
OTHERWISE = {"features": "absolute", "examples": "0-255"}
"""What the public code does otherwise."""


def cases(plan: Plan) -> list[Case]:
    """One case alone: the tasks are compared with each other."""
    return [plan]


def _line(row: Row) -> str:
    return f"{row['data']}: {row['seconds']:.0f} s"


def _all(device: str, runs: int, noise: float, explained: int, **plan: Any) -> Row:
    began, where = time.monotonic(), resolve_device(device)
    data = images(plan["train"], plan["test"])
    rng = np.random.default_rng(0)
    train = torch.from_numpy(data.train[rng.permutation(len(data.train))[:explained]]).to(where)
    few = torch.from_numpy(data.test[:explained]).to(where)
    test = torch.from_numpy(data.test).to(where)
    # other seeds for each task: encoders that begin alike stay alike, whatever they are trained for
    every = [(task, 1000 * k + run) for k, task in enumerate(TASKS) for run in range(runs)]
    stacks = [[one for one in every if (one[0] == "classification") == labelled] for labelled in (False, True)]
    models: dict[str, list[Any]] = {task: [] for task in TASKS}
    losses: dict[str, list[float]] = {task: [] for task in TASKS}
    epochs = []
    for stack in stacks:
        tell = lambda text, name=stack[-1][0]: say(f"stack with {name}: {text}")  # noqa: E731
        options = {"epochs": plan["epochs"], "device": where, "budget": plan["budget"], "progress": tell}
        done = pretext_models(
            [task for task, _ in stack], data, [seed for _, seed in stack], batch_size=plan["batch"], **options
        )
        epochs.append(len(done.test_losses))
        best = np.min(done.test_losses, axis=0).tolist()
        for (task, _), model, loss in zip(stack, done.models, best, strict=True):
            models[task].append(model)
            losses[task].append(loss)
    shap = {"method": "gradient_shap", "noise": noise, "batch_size": 2048}
    maps = {t: [explain.features(m.encoder, test, **shap) for m in own] for t, own in models.items()}
    scores = {t: [explain.examples(m.encoder, train, few).values for m in own] for t, own in models.items()}
    bright = {
        t: [explain.examples(m.encoder, 255 * train, 255 * few).values for m in own] for t, own in models.items()
    }
    found = {}
    for a, b in combinations(TASKS, 2):
        found[f"{a}-{b}"] = {
            f"{what} {kind}": [
                explain.map_correlation(kept[a][k][:most], kept[b][k][:most], kind=kind) for k in range(runs)
            ]
            for what, kept in (("features", maps), ("examples", scores))
            for kind, most in (("pearson", None), ("spearman", explained))
        }
        found[f"{a}-{b}"] |= {
            "features absolute": [
                explain.map_correlation(*(maps[t][k].abs() for t in (a, b))) for k in range(runs)
            ],
            "examples 0-255": [explain.map_correlation(bright[a][k], bright[b][k]) for k in range(runs)],
        }
    same = {
        task: [explain.map_correlation(maps[task][j], maps[task][k]) for j, k in combinations(range(runs), 2)]
        for task in TASKS
    }
    spent = round(time.monotonic() - began, 1)
    return {
        "data": data.name,
        "epochs": epochs,
        "test_loss": losses,
        "pairs": found,
        "same_task": same,
        "seconds": spent,
    }


def tables(result: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Tables 1 and 2 beside the printed numbers."""
    row = result["rows"][0]
    lines = []
    for pair, values in row["pairs"].items():
        line: dict[str, Any] = {"encoders": pair}
        for k, what in enumerate(("features", "examples")):
            own = values[f"{what} pearson"]
            line[what] = f"{np.mean(own):.2f} ± {np.std(own):.2f}"
            line[f"{what}, paper"] = f"{PUBLISHED[pair][k]:.2f}"
            line[f"{what}, Spearman"] = f"{np.mean(values[f'{what} spearman']):.2f}"
            line[f"{what}, {OTHERWISE[what]}"] = f"{np.mean(values[f'{what} {OTHERWISE[what]}']):.2f}"
        lines.append(line)
    same = pd.DataFrame(
        [{"task": task, "features": f"{np.mean(v):.2f}"} for task, v in row["same_task"].items() if v]
    )
    return {
        f"{row['data']}: correlation of explanations between tasks": pd.DataFrame(lines),
        "the same task in two runs": same,
    }


def draw(result: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Correlations of each pair of tasks, a dot for each run, beside the paper's; without axes, of examples too."""
    if ax is not None:
        return _panel(result, "features", ax)
    figure = figures.new_figure((11, 3.6))
    for k, what in enumerate(("features", "examples")):
        ax = _panel(result, what, figure.add_subplot(1, 2, k + 1))
    assert ax is not None
    return ax


def _panel(result: dict[str, Any], what: str, ax: Axes) -> Axes:
    pairs = result["rows"][0]["pairs"]
    values = {pair: np.ravel(found[f"{what} pearson"]).tolist() for pair, found in pairs.items()}
    names = {pair: pair.replace("-", " - ") for pair in pairs}
    ours = {
        "group": [names[pair] for pair, own in values.items() for _ in own],
        "value": [value for own in values.values() for value in own],
        "lane": 0,
    }
    column = ("features", "examples").index(what)
    paper = [PUBLISHED[pair][column] for pair in pairs]
    printed = {"group": list(names.values()), "value": paper, "marker": "|", "color": figures.INK, "lane": 0}
    label = f"Pearson correlation, {what}"
    return figures.dots({"ours": ours, "paper": printed}, list(names.values()), ax, label=label)


run = experiment(
    *("labelfree-pretext", FULL, QUICK),
    cases=cases,
    rows=one_by_one(_all, _line),
    draw=draw,
    protocol={"noise_of_denoising": NOISE},
)
