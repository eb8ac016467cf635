"""Many latents: how far a matched model finds 10, 20 and 50 of them.

Not in the papers' tables. Latents uniform on a sphere, von Mises-Fisher pairs, and a model that matches both
(Zimmermann et al. 2021, theorem 2). The mixing has two layers, as in Zimmermann et al. (2020). The concentration is
20 for each latent: wider pairs tell too little in many dimensions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ascribo import figures
from ascribo.model.generative_process_inversion import invert_process
from ascribo.simulate.generative_process import process
from ascribo.spaces.similarities import Dot
from ascribo.training.generative_process_batches import best_temperature
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, combinations, experiment, one_by_one

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "cases", "draw", "run", "tables"]

FULL = {
    **{"dims": (10, 20, 50), "seeds": 2, "layers": 2, "concentration_per_latent": 20.0, "width": 20},
    **{"steps": 6_000, "batch_size": 4096, "learning_rate": 5e-3, "pieces": 3},
}
"""pieces : the steps are taken in that many runs, each from where the last one ended, and scored after each. The
last one has the model's own temperature, and a tenth of the learning rate."""
TAKES = "about 2 minutes on an H200, hours on two cores"
QUICK = {"dims": (3, 6), "seeds": 1, "steps": 600, "batch_size": 512, "learning_rate": 1e-2}


def cases(plan: Plan) -> list[Case]:
    return combinations(plan, (*[key for key in FULL if key != "dims"], "device"), dim="dims")


def measure(**case: Any) -> Row:
    """Train and score the models of one number of latents."""
    dim, began, curve, found = case["dim"], time.monotonic(), [], None
    kappa = case["concentration_per_latent"] * dim
    first = process("sphere", dim=dim, concentration=kappa, layers=case["layers"])
    processes = [first.with_seed(seed) for seed in range(case["seeds"])]
    for piece in range(case["pieces"]):
        last = piece == case["pieces"] - 1
        found = invert_process(
            processes,
            similarity="dot",
            output="sphere",
            temperature=1 / kappa if last else best_temperature(first, Dot()),
            steps=case["steps"] // case["pieces"],
            batch_size=case["batch_size"],
            learning_rate=case["learning_rate"] / (10 if last else 1),
            widths=(case["width"] * dim,) * 3,
            start=found,
            device=case["device"],
            progress=False,
        )
        curve.append(found.scores["r2"].tolist())
    assert found is not None
    scores = {name: found.scores[name].tolist() for name in ("r2", "mcc", "identity_r2")}
    return {**case, **scores, "r2_of_pieces": curve, "seconds": round(time.monotonic() - began, 1)}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: R² by number of latents."""
    percent = lambda values: f"{100 * np.mean(values):.2f}"  # noqa: E731
    rows = [
        {
            "latents": row["dim"],
            "identity R²": percent(row["identity_r2"]),
            "R²": percent(row["r2"]),
            "after each piece": ", ".join(percent(own) for own in row["r2_of_pieces"]),
            "seconds": row["seconds"],
        }
        for row in result["rows"]
    ]
    return {"R² of matched models on a sphere, in percent": pd.DataFrame(rows)}


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """R² after each piece of training, a line for each number of latents."""
    ax = figures.new_axes(ax, (4.6, 3.4))
    for k, row in enumerate(result["rows"]):
        y = 100 * np.mean([row["identity_r2"], *row["r2_of_pieces"]], 1)
        steps = np.linspace(0, row["steps"], len(y))
        ax.plot(
            steps, y, marker="o", color=figures.PALETTE[k % len(figures.PALETTE)], label=f"{row['dim']} latents"
        )
    ax.set(xlabel="training steps (0: the observations)", ylabel="R² of the latents, in percent")
    figures.tidy(ax)
    ax.legend(fontsize=8, frameon=False)
    return ax


def _line(row: Row) -> str:
    return f"{row['dim']} latents: R² {np.mean(row['r2']):.4f} ({row['seconds']} s)"


run = experiment(
    *("inversion-dimensions", FULL, QUICK),
    cases=cases,
    rows=one_by_one(measure, _line),
    draw=draw,
    protocol={"process": "uniform on a sphere, von Mises-Fisher pairs; the model matches them"},
)
