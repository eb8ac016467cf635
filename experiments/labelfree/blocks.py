"""Does the influence of a block of time tell what training without it does? And do explanations find the channels?

Contrastive influence (`explain.contrastive_examples`) beside retraining: the recording is cut into blocks, one
model is trained without each, all as one stack on a CPU with the same batches up to the block, and the loss of
every block under every model is compared with that of models trained on everything. On simulated box data, where
the truth is known, and on a real rat on a linear track.

On the box data also the label-free explanation of time steps: its mean size over time is a score for each channel
and space, whose auROC against the truth stands beside those of the library's own maps.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch import Tensor

import ascribo as asc
from ascribo import explain
from ascribo.data.segments import segment_bounds
from ascribo.explain.example_contrastive import ContrastiveLoss, draw_comparisons
from ascribo.metrics import auroc
from ascribo.model.fitting import prepare
from ascribo.spaces.pairs import Pairs
from ascribo.support.compute import resolve_device
from ascribo.support.progress import say
from ascribo.training.dispatch import train_source
from ascribo.training.penalty import Constant
from ascribo.training.settings import Settings
from ascribo.training.source_recordings import RecordingSource
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one
from experiments.validation import track

__all__ = ["FULL", "QUICK", "cases", "draw", "leave_out", "run", "tables"]

FULL = {
    "parts": ("box", "track", "channels"),
    "blocks": 24,
    "length": 6_000,
    "steps": 2_000,
    "batch": 512,
    "repeats": 4,
    "references": 2_400,
    "widths": (32, 32),
    "box_steps": 3_000,
    "orders": 10_000,
}

QUICK = {"parts": ("box",), "blocks": 6, "length": 900, "steps": 60, "batch": 128, "repeats": 1, "references": 240}
QUICK |= {"widths": (8,), "orders": 200, "box_steps": 60}


def cases(plan: Plan) -> list[Case]:
    """One case for each part."""
    return [{**plan, "part": part, "parts": None} for part in plan["parts"]]


def _line(row: Row) -> str:
    return f"{row['part']}: {row['seconds']:.0f} s"


def _part(part: str, **plan: Any) -> Row:
    began = time.monotonic()
    found = _channels(**plan) if part == "channels" else _influence(part, **plan)
    return {"part": part, **found, "seconds": round(time.monotonic() - began, 1)}


def _problem(part: str, length: int):
    """A recording and its spaces."""
    if part == "box":
        data = asc.simulate.box(observed=2, hidden=2, steps=length, seed=0)
        return data, {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
    laps = track.laps().treat(smooth=track.SMOOTH, transform="sqrt")
    return laps, track.spaces()


class _Without(Pairs):
    """Pairs without a block of time, drawn as those of the whole recording but where the block is hit.

    Models of one seed then see the same batches up to the block, and differ by it rather than by chance.
    """

    def __init__(self, whole: Pairs, spaces: Any, variables: pd.DataFrame, segments: np.ndarray):
        super().__init__(spaces, variables, segments)
        self.whole, self.gone = whole, segments < 0

    def draw(self, rng: np.random.Generator, steps: int, batch: int) -> np.ndarray:
        """See `Pairs`."""
        first, second = rng.spawn(2)
        out, other = self.whole.draw(first, steps, batch), super().draw(second, steps, batch)
        negatives = sorted({row[2] for row in self.rows.values() if row[2] is not None})
        pairs = [row for row in range(out.shape[1]) if row not in negatives]
        hit = self.gone[out]
        # a reference goes with its positives
        hit[:, pairs] = hit[:, pairs].any(1, keepdims=True)
        return np.where(hit, other, out)


def leave_out(
    data: Any,
    spaces: Any,
    blocks: np.ndarray,
    *,
    steps: int,
    batch: int,
    seeds: list[int],
    widths: Any,
) -> tuple[Any, dict[str, Tensor], list[tuple[int, int]]]:
    """One model without each block and one with all, for each seed, trained as one stack.

    Returns the prepared problem, the stacked parameters, and for each model its (block left out or -1, seed).
    Models of one seed begin alike.
    """
    prepared = prepare(data, spaces, encoder=asc.MLP(widths, limit="tanh"), validation_fraction=0.0)
    whole = prepared.problem
    everything = Pairs(spaces, data.variables, np.where(blocks >= 0, data.epochs, -1))
    names = [-1, *np.unique(blocks[blocks >= 0]).tolist()]
    problems, stack = [], []
    for name in names:
        segments = np.where((blocks != name) & (blocks >= 0), data.epochs, -1)
        pairs = _Without(everything, spaces, data.variables, segments)
        problems += [replace(whole, pairs=pairs)] * len(seeds)
        stack += [(name, seed) for seed in seeds]
    # on the host, where batches are drawn by the pairs themselves
    settings = Settings(steps, batch, 1e-3, Constant(0.0), device="cpu")
    trained = train_source(RecordingSource(problems, [seed for _, seed in stack]), settings)
    return prepared, trained.parameters, stack


def _influence(part: str, device: str, **plan: Any) -> Row:
    where = resolve_device(device)
    data, spaces = _problem(part, plan["length"])
    count = plan["blocks"]
    blocks = np.minimum(np.arange(len(data)) * count // len(data), count - 1)
    seeds = list(range(plan["repeats"]))
    say(f"{part}: {len(data)} time steps, {(count + 1) * len(seeds)} models")
    options = {"steps": plan["steps"], "batch": plan["batch"], "widths": tuple(plan["widths"])}
    prepared, parameters, stack = leave_out(data, spaces, blocks, seeds=seeds, **options)
    problem = prepared.problem
    X = torch.as_tensor(problem.X).to(where)
    comparisons = draw_comparisons(data, spaces, blocks, references=plan["references"], random_state=1)
    edges = [torch.from_numpy(edge).to(where) for edge in segment_bounds(data.epochs)]
    own = torch.from_numpy(blocks[comparisons.references])
    changes, predicted = [], []
    for seed in seeds:
        losses = {}
        for k, (name, other) in enumerate(stack):
            if other == seed:
                mine = {n: value[k].to(where) for n, value in parameters.items()}
                loss = ContrastiveLoss(
                    *(problem.module, spaces, problem.objectives, mine),
                    lambda index: _gather(problem, X, index, edges),
                    comparisons,
                )
                with torch.no_grad():
                    each = loss.losses(loss.theta).cpu()
                losses[name] = np.array([float(each[own == b].mean()) for b in range(count)])
        changes.append(np.stack([losses[b] - losses[-1] for b in range(count)], 1))
        model = _as_fitted(prepared, {n: v[[stack.index((-1, seed))]].to(where) for n, v in parameters.items()})
        scores = explain.contrastive_examples(model, data, blocks=blocks, references=plan["references"])
        predicted.append(scores.values)
    truth, guess = np.mean(changes, 0), np.mean(predicted, 0)
    return {
        "time_steps": len(data),
        "models": len(stack),
        "own": _correlation(np.diag(guess), np.diag(truth), plan["orders"]),
        "all": _matrix_correlation(guess, truth, plan["orders"]),
        "others": _matrix_correlation(guess, truth, plan["orders"], diagonal=False),
        "predicted": guess.tolist(),
        "retrained": truth.tolist(),
    }


def _gather(problem: Any, X: Tensor, index: np.ndarray, edges: list[Tensor]) -> Tensor:
    from ascribo.networks.stack import Embedder

    return Embedder(problem.module, problem.spaces).gather(X, torch.from_numpy(index).to(X.device), *edges)


def _as_fitted(prepared: Any, parameters: dict[str, Tensor]) -> Any:
    """Trained parameters as a fitted model, with nothing that the influence does not need."""
    from ascribo.model.fitted import FittedModel
    from ascribo.networks.alignment import Alignment

    dim, device = (
        sum(space.dim for space in prepared.problem.spaces.values()),
        next(iter(parameters.values())).device,
    )
    eye = torch.eye(dim, device=device)[None]
    return FittedModel(
        prepared.problem.spaces,
        prepared.problem.module,
        tuple(prepared.recording.channel_names),
        prepared.mean,
        prepared.scale,
        parameters,
        {},
        Alignment(torch.zeros(1, dim, device=device), eye, eye, 0),
        np.ones((1, len(prepared.problem.spaces)), bool),
    )


def _correlation(guess: np.ndarray, truth: np.ndarray, orders: int) -> dict[str, float]:
    """Spearman's correlation over blocks, and its p-value from random orders of the blocks."""
    spearman: Any = stats.spearmanr
    rho = float(spearman(guess, truth).statistic)
    rng = np.random.default_rng(0)
    null = [spearman(rng.permutation(guess), truth).statistic for _ in range(orders)]
    return {"rho": rho, "p": float((1 + np.sum(np.array(null) >= rho)) / (1 + orders)), "n": len(guess)}


def _matrix_correlation(guess: np.ndarray, truth: np.ndarray, orders: int, *, diagonal: bool = True):
    """The same for all pairs of blocks, the blocks left out put into random order as a whole.

    Each test block's row is taken relative to its mean, so that blocks that all models find hard do not count.
    """
    kept = np.ones(guess.shape, bool) if diagonal else ~np.eye(len(guess), dtype=bool)

    def ranks(matrix: np.ndarray) -> np.ndarray:
        values = np.where(kept, matrix, np.nan)
        return stats.rankdata((values - np.nanmean(values, 1, keepdims=True))[kept])

    rho = float(np.corrcoef(ranks(guess), ranks(truth))[0, 1])
    rng, wanted = np.random.default_rng(0), ranks(truth)
    null = []
    for _ in range(orders):
        order = rng.permutation(len(guess))
        # both axes together: who is left out keeps who it is
        null.append(np.corrcoef(ranks(guess[order][:, order] if not diagonal else guess[:, order]), wanted)[0, 1])
    return {"rho": rho, "p": float((1 + np.sum(np.array(null) >= rho)) / (1 + orders)), "n": int(kept.sum())}


def _channels(device: str, **plan: Any) -> Row:
    """auROC of the mean size of label-free scores against the truth, beside the maps' own."""
    data = asc.simulate.box(observed=2, hidden=2, steps=max(plan["length"], 10_000), seed=1)
    spaces = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
    model = asc.ContrastiveEmbedding(
        spaces, seeds=2, steps=plan["box_steps"], random_state=0, device=device, progress=False
    ).fit(data)
    index = np.linspace(0, len(data) - 1, 1_000).astype(int)
    found: dict[str, float] = {}
    assert data.truth is not None
    truth = data.truth.sel(space="position").values  # every channel carries the rest
    for method in ("integrated_gradients", "gradient_shap", "saliency", "deeplift", "feature_ablation"):
        scores: Any = explain.features(model, data, index=index, method=method, space="position")
        found[f"label-free {method}"] = float(auroc(np.abs(scores).mean("time").values, truth))
    for method in ("inverted_neuron_gradient", "neuron_gradient", "unique_variance"):
        found[f"map: {method}"] = model.attribute(data, method=method).auroc(data.truth, "position")
    return {"auroc": found}


def tables(result: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Rank correlations with retraining, and auROC of channels."""
    shown, lines = {}, []
    for row in result["rows"]:
        if "auroc" in row:
            shown["box: channels that carry position, against the truth"] = pd.DataFrame(
                [{"scores": name, "auROC": round(value, 3)} for name, value in row["auroc"].items()]
            )
        else:
            for pairs in ("own", "others", "all"):
                value = row[pairs]
                lines.append(
                    {
                        "data": row["part"],
                        "loss of": {"own": "the block itself", "others": "other blocks", "all": "all blocks"}[
                            pairs
                        ],
                        "rank correlation": round(value["rho"], 3),
                        "p": f"{value['p']:.4f}",
                        "pairs": value["n"],
                    }
                )
    return {"influence of a block beside retraining without it": pd.DataFrame(lines), **shown}


def draw(result: dict[str, Any]):
    """Predicted against retrained changes of the loss; returns a matplotlib axis."""
    from matplotlib import pyplot as plt

    rows = [row for row in result["rows"] if "predicted" in row]
    _, axes = plt.subplots(
        1, max(1, len(rows)), figsize=(5 * max(1, len(rows)), 4), squeeze=False, layout="constrained"
    )
    for axis, row in zip(axes[0], rows, strict=False):
        guess, truth = np.array(row["predicted"]), np.array(row["retrained"])
        own = np.eye(len(guess), dtype=bool)
        axis.plot(guess[~own], truth[~own], ".", ms=2, label="loss of other blocks")
        axis.plot(guess[own], truth[own], "o", label="loss of the block itself")
        axis.set(title=row["part"], xlabel="influence (nats)", ylabel="change after retraining (nats)")
        axis.legend()
    return axes[0, 0]


run = experiment(
    *("labelfree-blocks", FULL, QUICK), cases=cases, rows=one_by_one(_part, _line), draw=draw, protocol={}
)
