"""Many latents: how far a matched model finds 10, 20, 50 and 100 of them.

Not in the papers' tables. Latents uniform on a sphere, von Mises-Fisher pairs, and a model that matches both
(Zimmermann et al. 2021, theorem 2). The mixing has two layers, as in Zimmermann et al. (2020).

The pairs of every number of latents share the same information, about half of what a batch can tell (log 4,096 is
8.3 nats): if they share more, observations as they are already tell most positives from all negatives, and next to
nothing is left to learn from. Negatives are independent, so that the pairs' own temperature has the least loss.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq, minimize_scalar
from torch import Tensor
from torch.nn.functional import normalize

from ascribo import figures
from ascribo.metrics import missed_directions
from ascribo.model.generative_process_inversion import Inversion, invert_process
from ascribo.networks.alignment_uniformity import alignment_uniformity
from ascribo.simulate.generative_process import Process, process
from ascribo.spaces.similarities import Dot
from ascribo.training.generative_process_batches import ProcessSource
from experiments.inversion.theory import sphere_limit
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, combinations, experiment, one_by_one

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "cases", "draw", "run", "tables"]

FULL = {
    **{"dims": (10, 20, 50, 100), "seeds": 2, "layers": 2, "information": 4.5, "width": 20},
    **{"steps_per_latent": 600, "batch_size": 4096, "learning_rate": 6e-3, "pieces": 2},
    **{"decorrelate": True, "last_steps": 2000, "last_learning_rate": 3e-4},
}
"""information : that a latent and its positive share, in nats. width : hidden units for each latent, in each of
three layers. pieces : the steps are taken in that many runs, each from where the last one ended, and scored after
each. decorrelate : whether they are taken with decorrelated outputs. last_steps : steps that follow without it, so
that the model is the theorem's. Of all runs the models with the least loss on new pairs are kept: no truth is
needed."""
TAKES = "about 5 minutes on an H200 up to 50 latents, and 10 more for 100; days on two cores"
QUICK = {
    **{"dims": (3, 6), "seeds": 1, "information": 3.0, "steps_per_latent": 100, "batch_size": 512},
    **{"learning_rate": 1e-2, "pieces": 1, "last_steps": 50},
}


def cases(plan: Plan) -> list[Case]:
    return combinations(plan, (*[key for key in FULL if key != "dims"], "device"), dim="dims")


def concentration(dim: int, information: float) -> float:
    """κ of von Mises-Fisher pairs, uniform on a sphere, that share so much information, in nats.

    >>> round(concentration(10, 2.4845), 2), round(concentration(50, 4.5), 1)
    (10.0, 24.2)
    """
    found: Any = brentq(lambda kappa: -sphere_limit(dim, kappa) - information, 1e-3, 1e4)
    return float(found)


def to_learn(made: Process, negatives: str, batch_size: int = 4096) -> float:
    """How much lower the InfoNCE of the latents is than that of whitened observations, in nats, at the temperature
    that is best for each: what an encoder can be trained by.

    made : on a sphere. negatives : "references" of the batch, each with itself too, or "independent" ones.

    >>> close, wide = (process("sphere", dim=50, concentration=kappa, layers=2) for kappa in (1000, 25))
    >>> round(to_learn(close, "references", 1024), 1), round(to_learn(wide, "independent", 1024), 1)
    (0.1, 2.1)
    """
    latents, positives = made.sample_pairs((1, batch_size), 1)
    others = latents if negatives == "references" else made.sample((1, batch_size), 2)
    source = ProcessSource([made], [0], widths=(1,), similarity=Dot())
    observed = [normalize(source.observe(row), dim=-1) for row in (latents, positives, others)]
    return _least_loss(*observed) - _least_loss(latents, positives, others)


def _least_loss(reference: Tensor, positive: Tensor, negative: Tensor) -> float:
    """InfoNCE of points on a sphere, less log N, at the temperature at which it is least."""

    def loss(log_kappa: float) -> float:
        size = float(np.exp(log_kappa / 2))
        return float(
            sum(
                alignment_uniformity(size * reference, size * positive, size * negative, Dot(), count_positive=True)
            )
        )

    found: Any = minimize_scalar(loss, bounds=(-1.0, 8.5), method="bounded")
    return float(found.fun)


def measure(**case: Any) -> Row:
    """Train and score the models of one number of latents."""
    dim, began, course, found = case["dim"], time.monotonic(), [], None
    kappa = concentration(dim, case["information"])
    first = process("sphere", dim=dim, concentration=kappa, layers=case["layers"])
    processes = [first.with_seed(seed) for seed in range(case["seeds"])]
    each = case["steps_per_latent"] * dim // case["pieces"], case["learning_rate"], case["decorrelate"]
    last = [(case["last_steps"], case["last_learning_rate"], False)] if case["last_steps"] else []
    for number, (steps, rate, decorrelate) in enumerate([each] * case["pieces"] + last):
        found = invert_process(
            processes,
            similarity="dot",
            output="sphere",
            temperature=1 / kappa,
            negatives="independent",
            steps=steps,
            batch_size=case["batch_size"],
            learning_rate=rate,
            widths=(case["width"] * dim,) * 3,
            decorrelate=decorrelate,
            start=found,
            random_state=number,
            device=case["device"],
            progress=False,
        )
        scores = {name: found.scores[name].tolist() for name in ("r2", "mcc", "identity_r2")}
        loss = float(found.scores[["alignment", "uniformity"]].sum(axis=1).mean())
        course.append({"steps": steps, **scores, "most_missed": _most_missed(found), "loss": loss})
    return {
        **case,
        **min(course, key=lambda run: run["loss"]),
        "concentration": kappa,
        "to_learn": to_learn(first, "independent"),
        "course": course,
        "seconds": round(time.monotonic() - began, 1),
    }


def _most_missed(found: Inversion) -> list[list[float]]:
    """Of each model the shares of the five directions of the latents that it misses most."""
    each = zip(found.embedding, found.latents, strict=True)
    return [missed_directions(embedding, latents)[:5].round(4).tolist() for embedding, latents in each]


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: R² by number of latents."""
    percent = lambda values: f"{100 * np.mean(values):.2f}"  # noqa: E731
    rows = [
        {
            "latents": row["dim"],
            "κ": f"{row['concentration']:.1f}" if "concentration" in row else "",
            "identity R²": percent(row["identity_r2"]),
            "R²": percent(row["r2"]),
            "after each piece": ", ".join(percent(piece["r2"]) for piece in row["course"]),
            "directions lost": sum(share > 0.5 for own in row["most_missed"] for share in own),
            "seconds": row["seconds"],
        }
        for row in result["rows"]
    ]
    return {"R² of matched models on a sphere, in percent": pd.DataFrame(rows)}


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """R² after each piece of training, a line for each number of latents."""
    ax = figures.new_axes(ax, (4.6, 3.4))
    for k, row in enumerate(result["rows"]):
        y = 100 * np.mean([row["identity_r2"], *(piece["r2"] for piece in row["course"])], 1)
        steps = np.cumsum([0, *(piece["steps"] for piece in row["course"])])
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
