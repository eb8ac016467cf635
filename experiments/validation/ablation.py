"""What would an embedding add to calls for known variables?

The test of known variables conditions on the past of the channels, which stands for what is hidden. By default that
past is seen through principal components. Here it is seen through the embedding of a trained encoder, of the same
encoder before training, as many principal components, the raw channels, or not at all. Everything else of the test
is the same. Measured for the known variables of each recording: area under the ROC curve of the scores, power and
share of false calls at q = 0.05. The hidden latents are not asked about: only a trained embedding has a space for
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
from scipy import stats

from ascribo import figures
from ascribo.data.recording import Recording
from ascribo.metrics.scores import auroc
from ascribo.model.estimator import ContrastiveEmbedding
from ascribo.screening import ask_spaces
from ascribo.simulate.box import box
from ascribo.simulate.mixed import mixed
from ascribo.spaces.base import Space
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.time import Time
from ascribo.support.compute import one_thread
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EMBEDDINGS", "FULL", "QUICK", "RECORDINGS", "cases", "compare", "conclude", "draw", "run", "tables"]

Q = 0.05
EMBEDDINGS = ("trained", "untrained", "principal components", "raw past channels", "none")


class Known(NamedTuple):
    """A recording, its spaces with variables, and for each of them which channels carry it."""

    recording: Recording
    spaces: dict[str, Space]
    truth: dict[str, np.ndarray]


def _box(seed: int, steps: int) -> Known:
    data = box(seed, observed=2, hidden=4, steps=steps, snr=3)
    carried = cast(Any, data.truth)
    names = list(data.variables)
    (name,) = carried["space"].values.tolist()[:1]
    return Known(data, {name: Follow(names, dim=2)}, {name: carried.sel(space=name).values})


def _mixed(correlation: float) -> Callable[[int, int], Known]:
    def make(seed: int, steps: int) -> Known:
        data = mixed(seed, hidden=2, channels=40, steps=steps, snr=1.5, correlation=correlation)
        carried = cast(Any, data.truth)
        spaces: dict[str, Space] = {n: Follow(tuple(own), dim=len(own)) for n, own in data.spaces.items()}
        return Known(data, spaces, {name: carried.sel(space=name).values for name in spaces})

    return make


RECORDINGS: dict[str, Callable[[int, int], Known]] = {
    "box, 6 latents": _box,
    "mixed selectivity": _mixed(0.0),
    "mixed selectivity, correlation 0.8": _mixed(0.8),
}
FULL = {"recordings": list(RECORDINGS), "data_seeds": range(3), "steps": 10_000, "training": None}
"""`steps` : time steps of a recording. `training` : training steps of the encoder; None for the default."""
QUICK = {"recordings": ["mixed selectivity"], "data_seeds": range(1), "steps": 2_000, "training": 60}


def cases(plan: Plan) -> list[Case]:
    """The recordings."""
    return [
        {"recording": name, "data_seed": seed, "steps": plan["steps"], "training": plan["training"]}
        for name in plan["recordings"]
        for seed in plan["data_seeds"]
    ]


def compare(recording: str, data_seed: int, steps: int, training: int | None) -> Row:
    """All embeddings on one recording."""
    data = RECORDINGS[recording](50_000 + data_seed, steps)
    how: dict[str, Any] = {} if training is None else {"steps": training, "seeds": 1}
    model = ContrastiveEmbedding(
        {**data.spaces, "hidden": Time(2)}, random_state=0, device="cpu", n_jobs=1, progress=False, **how
    ).fit(data.recording)
    fitted, epochs = model.model_, data.recording.epochs
    X = fitted.standardise(data.recording.X)[:]
    initial = fitted.embedder.initial(fitted.module, [0])
    axes = torch.linalg.svd(X - X.mean(0), full_matrices=False)[2][: fitted.embedder.dim].T
    views = {
        "trained": fitted.embedder.embed(fitted.parameters, X, epochs)[0],
        "untrained": fitted.embedder.embed(initial, X, epochs)[0],
        "principal components": X @ axes,
        "raw past channels": X,
        "none": torch.zeros(len(X), 1),
    }
    rows = [{"embedding": name, **_score(data, view.numpy())} for name, view in views.items()]
    return {"recording": recording, "data_seed": data_seed, "embeddings": rows, "spent": model.spent_["steps"]}


def _score(data: Known, view: np.ndarray) -> dict[str, float]:
    """Area under the ROC curve, power and share of false calls, over all known variables."""
    with one_thread():
        tests = ask_spaces(data.recording, data.spaces, view=view)
    called = np.concatenate([stats.false_discovery_control(test.p) <= Q for test in tests])
    truth = np.concatenate([data.truth[test.space] for test in tests])
    areas = [auroc(test.score, data.truth[test.space]) for test in tests]
    return {
        "auroc": round(float(np.mean(areas)), 4),
        "power": round(float((called & truth).sum() / truth.sum()), 4),
        "fdp": round(float((called & ~truth).sum() / max(1, called.sum())), 4),
    }


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add the means of each embedding over the recordings of a kind."""
    table = pd.DataFrame(
        [{"recording": row["recording"], **one} for row in result["rows"] for one in row["embeddings"]]
    )
    grouped: Any = table.groupby(["recording", "embedding"], sort=False)[["auroc", "power", "fdp"]]
    return {**result, "summary": grouped.mean().round(4).reset_index().to_dict("records")}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: each kind of recording."""
    table = pd.DataFrame(result["summary"]).rename(columns={"auroc": "auROC", "fdp": "false discovery rate"})
    return {str(name): own.drop(columns="recording") for name, own in table.groupby("recording", sort=False)}


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Power of each embedding, a group of bars for each kind of recording."""
    ax = figures.new_axes(ax, (6.4, 3.4))
    table = pd.DataFrame(result["summary"]).pivot(index="recording", columns="embedding", values="power")
    table = table.loc[list(dict.fromkeys(row["recording"] for row in result["summary"])), list(EMBEDDINGS)]
    for k, name in enumerate(EMBEDDINGS):
        at = np.arange(len(table)) + 0.16 * (k - 2)
        ax.bar(at, table[name], width=0.15, color=figures.PALETTE[k % len(figures.PALETTE)], label=name)
    ax.set_xticks(range(len(table)), list(table.index), fontsize=8)
    ax.set(ylabel=f"power at q = {Q}", ylim=(0, 1.05))
    figures.tidy(ax)
    ax.legend(fontsize=7.5, frameon=False, loc="lower right")
    return ax


def _line(row: Row) -> str:
    found = ", ".join(f"{one['embedding']} {one['power']:.2f}" for one in row["embeddings"])
    return f"{row['recording']}, seed {row['data_seed']}: power {found}"


run = experiment(
    *("ablation", FULL, QUICK),
    cases=cases,
    rows=one_by_one(compare, _line),
    conclude=conclude,
    draw=draw,
    protocol={"q": Q, "embeddings": list(EMBEDDINGS)},
    cpu_only=True,
)
