"""Does the influence of a block of time tell what training without it does? And do explanations find the channels?

Contrastive influence (`explain.contrastive_examples`) beside retraining: the recording is cut into blocks, one
model is trained without each, all as one stack on a CPU with the same batches up to the block, and the loss of
every block under every model is compared with that of models trained on everything. On simulated box data, where
the truth is known, and on a real rat on a linear track. Beside it ECIF (Hu et al. 2024, arXiv:2411.11667), which
follows the two roles of an example, in a positive pair and as a negative, apart and to first order; and each role
alone.

On the box data also the label-free explanation of time steps: its mean size over time is a score for each channel
and space, whose auROC against the truth stands beside those of the library's own maps.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import ascribo as asc
from ascribo import explain, figures
from ascribo.data.segments import segment_bounds
from ascribo.explain.example_contrastive import ContrastiveLoss, draw_comparisons, solve
from ascribo.metrics import auroc
from ascribo.model.fitting import prepare
from ascribo.spaces.pairs import Pairs
from ascribo.support.compute import resolve_device
from ascribo.support.progress import say
from ascribo.training.dispatch import train_source
from ascribo.training.penalty_weight import Constant
from ascribo.training.recording_batches import RecordingSource
from ascribo.training.settings import Settings
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one
from experiments.validation import track

from .block_agreement import matrix_correlation, rank_correlation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "by_role", "cases", "conclude", "draw", "leave_out", "problem", "run", "tables"]

ROLES = ("reference", "positive", "negative")
SMALL = 1e-4
"""Change of a weight that derivatives are taken with, in double precision."""
SPACES = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}

FULL = {
    "recordings": (
        {"part": "box", "seed": 1, "length": 1_200},
        {"part": "box", "seed": 2, "length": 1_200},
        {"part": "box", "seed": 3, "length": 1_200},
        {"part": "box", "seed": 1, "length": 6_000},
        {"part": "track", "seed": 0, "length": 11_047},
    ),
    "steps": 500,
    "batch": 128,
    "widths": (16,),
    "blocks": 24,
    "groups": 4,
    "repeats": 4,
    "references": 1_200,
    "box_steps": 3_000,
    "box_seeds": (1, 2, 3),
    "orders": 10_000,
}
"""`groups` of `repeats` seeds of the model: each group is a retraining of its own, and how well groups agree bounds
how well any prediction could. Steps, batch and widths were chosen on other recordings (box 100) and other seeds of
the model (100 and above) than these: with three times the steps models of one seed drift apart, and two retrainings
agree less. `box_steps` and `box_seeds`: training, and recordings, for the explanation of time
steps."""
QUICK = {
    "recordings": ({"part": "box", "seed": 1, "length": 600},),
    **{"steps": 30, "batch": 64, "widths": (8,)},
    **{
        "blocks": 5,
        "groups": 2,
        "repeats": 1,
        "references": 100,
        "box_steps": 100,
        "box_seeds": (),
        "orders": 100,
    },
}


def cases(plan: Plan) -> list[Case]:
    """One case for each group of models of each recording, and one for each box whose time steps are explained."""
    shared = {key: plan[key] for key in ("device", "blocks", "references", "steps", "batch", "widths")}
    return [
        *(
            {**one, **shared, "seeds": [group * plan["repeats"] + k for k in range(plan["repeats"])]}
            for group in range(plan["groups"])
            for one in plan["recordings"]
        ),
        *(
            {"part": "channels", "seed": s, "steps": plan["box_steps"], "device": plan["device"]}
            for s in plan["box_seeds"]
        ),
    ]


def _line(row: Row) -> str:
    return f"{row['part']} {row['seed']}: {row['seconds']:.0f} s"


def _part(**case: Any) -> Row:
    began = time.monotonic()
    found = _channels(**case) if case["part"] == "channels" else _influence(**case)
    return {**case, **found, "seconds": round(time.monotonic() - began, 1)}


def problem(part: str, seed: int, length: int, count: int):
    """A recording, its spaces, and the block of each time step: as many as `count`; on the track whole laps."""
    if part == "box":
        data = asc.simulate.box(observed=2, hidden=2, steps=length, seed=seed)
        return data, SPACES, np.arange(length) * count // length
    laps = track.laps().treat(smooth=track.SMOOTH, transform="sqrt")
    return laps, track.spaces(), laps.epochs * count // (int(laps.epochs.max()) + 1)


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


def _influence(
    part: str,
    seed: int,
    length: int,
    seeds: list[int],
    blocks: int,
    references: int,
    device: str,
    **training: Any,
) -> Row:
    """What influence predicts, and what retraining does, to the loss of each block (row) without each (column)."""
    where = resolve_device(device)
    data, spaces, labels = problem(part, seed, length, blocks)
    say(f"{part} {seed}: {len(data)} time steps, {(blocks + 1) * len(seeds)} models")
    prepared, parameters, stack = leave_out(data, spaces, labels, seeds=seeds, **training)
    known = prepared.problem
    X = torch.as_tensor(known.X).to(where)
    # the losses of a retrained model are measured on other draws than the influence is computed from
    comparisons = draw_comparisons(data, spaces, labels, references=references, random_state=1)
    edges = [torch.from_numpy(edge).to(where) for edge in segment_bounds(data.epochs)]
    own = torch.from_numpy(labels[comparisons.references])
    retrained, predicted, roles = [], [], []
    for model_seed in seeds:
        losses = {}
        for k, (name, other) in enumerate(stack):
            if other == model_seed:
                mine = {n: value[k].to(where) for n, value in parameters.items()}
                loss = ContrastiveLoss(
                    *(known.module, spaces, known.objectives, mine),
                    lambda index: _gather(known, X, index, edges),
                    comparisons,
                )
                with torch.no_grad():
                    each = loss.losses(loss.theta).cpu()
                losses[name] = np.array([float(each[own == b].mean()) for b in range(blocks)])
        retrained.append(np.stack([losses[b] - losses[-1] for b in range(blocks)], 1))
        whole = {n: v[[stack.index((-1, model_seed))]].to(where) for n, v in parameters.items()}
        scores = explain.contrastive_examples(
            _as_fitted(prepared, whole), data, blocks=labels, references=references
        )
        predicted.append(scores.values)
        own_draws = draw_comparisons(data, spaces, labels, references=references)
        whole_loss = ContrastiveLoss(
            *(known.module, spaces, known.objectives, {n: v[0] for n, v in whole.items()}),
            lambda index: _gather(known, X, index, edges),
            own_draws,
        )
        roles.append(by_role(whole_loss, labels))
    return {
        "time_steps": len(data),
        "models": len(stack),
        "predicted": _rounded(np.mean(predicted, 0)),
        "retrained": _rounded(np.mean(retrained, 0)),
        "by_role": {role: _rounded(np.mean([one[role] for one in roles], 0)) for role in ROLES},
    }


def by_role(loss: ContrastiveLoss, blocks: np.ndarray) -> dict[str, np.ndarray]:
    """What the influence of blocks is in each of their roles, to first order: each (test block, block left out).

    The loss with the weight of a block at 1 - ε in one role, as references, as positives or as negatives, and its
    derivative by ε. ECIF (Hu et al. 2024, arXiv:2411.11667) is the sum of that as a pair, references and positives,
    and that as negatives.
    """
    names, own = np.unique(blocks[blocks >= 0]), blocks[loss.comparisons.references]
    every = torch.ones(len(own), dtype=torch.float64, device=loss.x.device)
    all_steps = loss.kept(np.ones(len(blocks)))
    whole = loss.gradient(every)
    change: dict[str, list[Tensor]] = {role: [] for role in ROLES}
    for name in names:
        less = loss.kept(1 - SMALL * (blocks == name))
        weight = 1 - SMALL * torch.from_numpy(own == name).to(every)
        for role, after in (
            ("reference", loss.gradient(weight)),
            ("positive", loss.gradient(every, less, all_steps)),
            ("negative", loss.gradient(every, all_steps, less)),
        ):
            change[role].append((whole - after) / SMALL)
    wanted = torch.stack([loss.gradient(torch.from_numpy(own == name).to(every)) for name in names])
    _, solved = solve(loss, wanted, None, 500, 1e-4)
    return {role: (solved @ torch.stack(rows).mT).cpu().numpy() for role, rows in change.items()}


def _rounded(matrix: np.ndarray) -> list[list[float]]:
    return [[float(f"{value:.4g}") for value in row] for row in matrix]


def _gather(problem: Any, X: Tensor, index: np.ndarray, edges: list[Tensor]) -> Tensor:
    from ascribo.networks.model_stack import Embedder

    return Embedder(problem.module, problem.spaces).gather(X, torch.from_numpy(index).to(X.device), *edges)


def _as_fitted(prepared: Any, parameters: dict[str, Tensor]) -> Any:
    """Trained parameters as a fitted model, with nothing that the influence does not need."""
    from ascribo.model.fitted import FittedModel
    from ascribo.networks.seed_alignment import Alignment

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


def _channels(device: str, seed: int, steps: int, **_: Any) -> Row:
    """auROC of the mean size of label-free scores against the truth, beside the maps' own."""
    data = asc.simulate.box(observed=2, hidden=2, steps=10_000, seed=seed)
    model = asc.ContrastiveEmbedding(SPACES, seeds=2, steps=steps, random_state=0, device=device, progress=False)
    model.fit(data)
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


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add rank correlations of influence with retraining, by recording, with p-values."""
    groups: dict[tuple, list[Row]] = {}
    for row in result["rows"]:
        if "predicted" in row:
            groups.setdefault((row["part"], row["seed"], row["length"]), []).append(row)
    orders, found = result["protocol"]["orders"], []
    for (part, seed, length), rows in groups.items():
        guess, each = np.mean([r["predicted"] for r in rows], 0), np.array([r["retrained"] for r in rows])
        truth, half = each.mean(0), len(each) // 2
        first, second = (each[:half].mean(0), each[half:].mean(0)) if half else (truth, truth)
        roles = {role: np.mean([r["by_role"][role] for r in rows], 0) for role in ROLES}
        roles |= {"pair": roles["reference"] + roles["positive"], "ECIF": np.sum(list(roles.values()), 0)}
        found.append(
            {
                **{"part": part, "seed": seed, "length": length, "time_steps": rows[0]["time_steps"]},
                "by_role": {
                    role: {
                        "own": rank_correlation(np.diag(one), np.diag(truth), orders),
                        "others": matrix_correlation(one, truth, orders, diagonal=False),
                    }
                    for role, one in roles.items()
                },
                "models": sum(r["models"] for r in rows),
                "own": rank_correlation(np.diag(guess), np.diag(truth), orders),
                "others": matrix_correlation(guess, truth, orders, diagonal=False),
                "all": matrix_correlation(guess, truth, orders),
                "halves": {
                    "own": rank_correlation(np.diag(first), np.diag(second), 1)["rho"],
                    "others": matrix_correlation(first, second, 1, diagonal=False)["rho"],
                    "all": matrix_correlation(first, second, 1)["rho"],
                },
            }
        )
    return {**result, "agreement": found}


def tables(result: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Rank correlations with retraining, and auROC of channels."""
    lines = []
    names = {"own": "the block itself", "others": "other blocks", "all": "all blocks"}
    for found in result["agreement"]:
        for pairs, name in names.items():
            value = found[pairs]
            lines.append(
                {
                    "data": f"{found['part']} {found['seed']}, {found['time_steps']} time steps",
                    "loss of": name,
                    "rank correlation": round(value["rho"], 3),
                    "p": f"{value['p']:.4f}",
                    "pairs": value["n"],
                    "of two retrainings": round(found["halves"][pairs], 3),
                }
            )
    shown = {"influence of a block beside retraining without it": pd.DataFrame(lines)}
    shown["the same by role, to first order: rank correlation for other blocks (p)"] = pd.DataFrame(
        [
            {
                "data": f"{found['part']} {found['seed']}, {found['time_steps']} time steps",
                "all roles, exactly": _shown(found["others"]),
                **{role: _shown(value["others"]) for role, value in found["by_role"].items()},
            }
            for found in result["agreement"]
        ]
    )
    scores = [{"box": row["seed"], **row["auroc"]} for row in result["rows"] if "auroc" in row]
    if scores:
        table = pd.DataFrame(scores).set_index("box").T.round(3).rename_axis("scores").reset_index()
        shown["box: channels that carry position, auROC against the truth"] = table
    return shown


def _shown(value: dict[str, float]) -> str:
    return f"{value['rho']:.2f} ({value['p']:.4f})"


def draw(result: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Predicted against retrained changes of the loss; without axes, of all cases in a figure."""
    found = result["agreement"]
    if ax is not None:
        return _panel(result, found[0], ax)
    figure = figures.new_figure((4.8 * min(3, len(found)), 3.4 * -(-len(found) // 3)))
    for k, one in enumerate(found):
        ax = _panel(result, one, figure.add_subplot(-(-len(found) // 3), min(3, len(found)), k + 1))
        if k:
            ax.legend().remove()
    assert ax is not None
    return ax


def _panel(result: dict[str, Any], one: dict[str, Any], ax: Axes) -> Axes:
    same = ("part", "seed", "length")
    rows = [row for row in result["rows"] if "predicted" in row and all(row[k] == one[k] for k in same)]
    guess, truth = (np.mean([row[what] for row in rows], 0) for what in ("predicted", "retrained"))
    own = np.eye(len(guess), dtype=bool)
    series = {
        "loss of other blocks": {"x": guess[~own], "y": truth[~own], "s": 4},
        "loss of the block itself": {"x": guess[own], "y": truth[own], "s": 22},
    }
    title = f"{one['part']} {one['seed']}, {one['time_steps']} time steps: ρ = {one['all']['rho']:.2f}"
    labels: dict[str, Any] = {"xlabel": "influence (nats)", "ylabel": "change after retraining (nats)"}
    ax = figures.points(series, ax, title=title, **labels)
    ax.legend(fontsize=7, frameon=False)
    return ax


run = experiment(
    *("labelfree-blocks", FULL, QUICK),
    cases=cases,
    rows=one_by_one(_part, _line),
    draw=draw,
    protocol={},
    conclude=conclude,
)
