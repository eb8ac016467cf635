"""Sprites: is a contrastive encoder disentangled, and does weighing uniformity more make it so?

Zimmermann et al. (2020), appendix A.6, tables 2 to 4. Pairs of dSprites-like images (`ascribo.simulate.sprites`) in
which factors change by Laplace probabilities (LAP), or some of them at random (UNI); and pairs that move along
tracks, on the grid (table 3) and between its points (table 4). The papers' tracks are measured in videos and cannot
be had here: simulated tracks stand in, so those two tables are not comparable number by number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from scipy.stats import spearmanr

from ascribo import figures, simulate
from ascribo.support.compute import resolve_device
from ascribo.support.files import write_atomically
from ascribo.support.progress import say
from experiments.images.sprite_models import DATA, Encoders, sample_pairs, train_models
from experiments.images.sprite_scores import (
    SCORES,
    correlation_between,
    score_codes,
    score_dci,
    score_encoder,
)
from experiments.shared.rows import Case, Row, read_row, row_files, start_over, write_row
from experiments.shared.runner import Plan, experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "PUBLISHED", "QUICK", "cases", "conclude", "draw", "run", "tables"]

PUBLISHED = {
    ("LAP", "SlowVAE"): (100.0, 98.32, 27.8, 65.3, 97.0, 6.1, None),
    ("LAP", "AU(0.999, 1)"): (100.0, 96.0, 24.9, 45.6, 92.9, 9.6, None),
    ("LAP", "AU(0.99, 1)"): (100.0, 94.5, 17.4, 54.0, 94.7, 7.0, None),
    ("LAP", "AU(0.9, 1)"): (100.0, 89.5, 18.1, 54.4, 90.5, 6.7, None),
    ("UNI", "SlowVAE"): (90.4, 81.35, 35.7, 52.1, 87.6, 5.1, None),
    ("UNI", "AU(0.9999, 1)"): (82.5, 62.9, 7.8, 22.2, 98.8, 4.9, None),
    ("UNI", "AU(0.9, 1)"): (80.2, 61.0, 20.5, 42.4, 100.0, 7.6, None),
    ("discrete tracks", "β-VAE"): (78.1, 60.6, 4.6, 10.3, 87.8, 2.1, 41.7),
    ("discrete tracks", "SlowVAE"): (82.6, 76.2, 11.7, 18.9, 88.1, 4.4, 52.6),
    ("discrete tracks", "AU(0.5, 1)"): (72.2, 62.1, 9.4, 18.1, 96.5, 5.1, 33.4),
    ("discrete tracks", "AU(0.5, 2)"): (55.7, 44.1, 1.7, 3.2, 91.2, 0.7, 22.4),
    ("continuous tracks", "β-VAE"): (*[None] * 6, 42.6),
    ("continuous tracks", "SlowVAE"): (*[None] * 6, 49.1),
    ("continuous tracks", "AU(0.5, 1)"): (*[None] * 6, 41.7),
    ("continuous tracks", "AU(0.5, 2)"): (*[None] * 6, 25.8),
}
"""(data, model) -> scores in percent, in the order of `SCORES`: tables 2 (medians), 3 and 4 (means)."""
FULL = {
    "data": DATA,
    "dci_seeds": 2,
    "alphas": (0.5, 0.9, 0.99, 0.999, 0.9999),
    "width": 32,
    "wide": 64,
    "seeds": range(2),
    "baseline_seeds": range(2),
    "steps": (3_000, 4_000),
    "batch_size": 256,
    "budget": 300.0,
    "whole_grid": True,
    "points": 10_000,
    "pairs": 64,
    "samples": 100_000,
    "fitted": 10_000,
    "dci": 2_000,
    "workers": 8,
}
"""width, wide, steps : see `train_models`. budget : seconds of training of all stacks, each of which has its share.
whole_grid : encode every image once, and look codes up. points, pairs, samples, fitted, dci : see `score_encoder`
and `score_dci`. dci_seeds : models of a kind that DCI is computed of. workers : processes that compute scores."""
TAKES = "5 minutes of training on an H200 (`budget`), then scores on 8 cores for about as long"
QUICK = {
    **{"data": ("LAP", "continuous tracks"), "alphas": (0.5, 0.99), "seeds": range(1), "baseline_seeds": range(1)},
    **{
        "steps": (2, 3),
        "width": 8,
        "wide": 16,
        "batch_size": 8,
        "points": 20,
        "pairs": 2,
        "samples": 200,
        "fitted": 100,
        "dci": 0,
    },
    **{"whole_grid": False, "workers": 1},
}
SHARES = {"LAP": 20.0, "UNI": 5.0, "other": 5.0, "tracks": 1.5, "VAE": 1.2, "supervised": 0.7}
"""How the budget is shared: stacks of many α by data, the same with other negatives, contrastive stacks on tracks,
VAEs, supervised."""
COUNTS = ("points", "pairs", "samples", "fitted", "dci")
AT_ONCE = {"cpu": 500, "cuda": 60_000}
"""Images that the models of a stack encode together, counted once for each model."""


def cases(plan: Plan) -> Sequence[Case]:
    """One case for each stack."""
    found: list[dict[str, Any]] = []
    for data in plan["data"]:
        if data in ("LAP", "UNI"):
            common = {"kind": "AU", "data": data, "exponent": 1.0}
            found.append({**common, "alphas": plan["alphas"], "share": data})
            if data == "LAP":  # with more weight on the uniformity these have no lower bound
                found.append({**common, "alphas": [0.5], "independent": True, "share": "other"})
        else:
            found += [
                {"kind": "AU", "data": data, "exponent": p, "alphas": [0.5], "share": "tracks"} for p in (1.0, 2.0)
            ]
        found.append({"kind": "VAE", "data": data, "share": "VAE"})
    found.append({"kind": "supervised", "data": plan["data"][0], "share": "supervised"})
    whole = sum(SHARES[case["share"]] for case in found)
    for case in found:
        many = case["share"] in ("LAP", "UNI", "other")
        case |= {"seeds": plan["seeds"] if many else plan["baseline_seeds"]}
        case |= {"seconds": plan["budget"] * SHARES[case.pop("share")] / whole}
        case |= {
            key: plan[key]
            for key in ("steps", "batch_size", "width", "wide", "whole_grid", "workers", "dci_seeds", *COUNTS)
        }
    return found


def _rows(
    wanted: Sequence[Case], state: Path, /, *, jobs: int, fresh: bool, progress: bool, device: str
) -> tuple[list[Row], int]:
    """Train one stack after the other, and score all models at the end: a GPU is then not kept waiting.

    The row and the codes of a stack are kept in `state` when it is trained, its scores when they are there.
    """
    if fresh:
        start_over(state)
    files, grid, there = row_files(wanted, state), simulate.sprites(resolve_device(device)), 0
    rows: list[Row] = []
    for case, file in zip(wanted, files, strict=True):
        if (row := read_row(file)) is not None:
            rows.append(row)
            there += 1
            continue
        row, codes = _train(grid, **case)
        if codes is not None:
            write_atomically(_codes(file), lambda path, codes=codes: _save(path, codes))
        rows.append(write_row(file, row))
        say(f"{row['data']} {row['kind']}: {row['steps']} steps, {row['seconds']:.0f} s", enabled=progress)
    del grid
    for score in (score_codes, score_dci):  # what was found is kept before the slowest score is begun
        for row, file, case in zip(rows, files, wanted, strict=True):
            if _codes(file).is_file():
                _score(score, row, np.load(_codes(file), mmap_mode="r"), case)
                write_row(file, row)
    return rows, there


def _codes(file: Path) -> Path:
    """Where the codes of a stack are kept, beside its row."""
    return file.with_suffix(".npy")


def _save(path: Path, codes: np.ndarray) -> None:
    with path.open("wb") as out:
        np.save(out, codes)


def _score(score: Callable[..., dict[str, float]], row: Row, codes: np.ndarray, case: Case) -> None:
    """Add to the models of a row the scores that they do not have yet, over processes."""
    slow, counts = score is score_dci, {key: case[key] for key in COUNTS}
    if slow and not case["dci"]:
        return
    todo = [
        (k, model)
        for k, model in enumerate(row["models"])
        if ("DCI" if slow else "MIG") not in model.get("scores", {})
        and (not slow or model["seed"] < case["dci_seeds"])
    ]
    found: Any = Parallel(n_jobs=case["workers"], max_nbytes=None)(
        delayed(score)(np.ascontiguousarray(codes[:, k]), **counts) for k, _ in todo
    )
    for (_, model), scores in zip(todo, found, strict=True):
        model["scores"] = {**model.get("scores", {}), **scores}


def _train(grid: simulate.Sprites, **case: Any) -> tuple[Row, np.ndarray | None]:
    """The row of a stack, and the codes (737280, model, dimension) of its models where they are to be scored."""
    began = time.monotonic()
    keys = ("kind", "data", "seeds", "steps", "batch_size", "width", "wide", "seconds")
    keys = (*keys, "alphas", "exponent", "independent")
    made = train_models(grid, **{key: case[key] for key in keys if key in case})
    for model in made.models:
        model["name"] = model.get("kind") or (
            "supervised" if case["kind"] == "supervised" else f"AU({model['alpha']:g}, {case['exponent']:g})"
        )
        model["name"] += ", other negatives" if case.get("independent") else ""
    codes, counts = None, {key: case[key] for key in COUNTS}
    if case["data"] == "continuous tracks":
        draws = torch.Generator(grid.stamps.device).manual_seed(1)
        latents, _ = sample_pairs(grid, case["data"], seed=1)((min(10_000, case["samples"]),), draws)
        for model, mcc in zip(made.models, correlation_between(grid, made.encode, latents), strict=True):
            model["scores"] = {"MCC": mcc}
    elif case["whole_grid"]:
        count, most = len(made.models), AT_ONCE[grid.stamps.device.type]
        flat = grid.codes(lambda images: made.encode(images).flatten(1), max(64, most // count))
        codes = flat.view(len(flat), count, -1).numpy()
    else:
        for k, model in enumerate(made.models):
            model["scores"] = score_encoder(lambda factors, k=k: _encode(grid, made, factors, k), **counts)
    spent = round(time.monotonic() - began, 1)
    said = {key: case[key] for key in ("kind", "data", "batch_size", "exponent", "independent") if key in case}
    return {**said, "steps": made.steps, "models": made.models, "seconds": spent}, codes


def _encode(grid: simulate.Sprites, made: Encoders, factors: np.ndarray, model: int) -> np.ndarray:
    """Codes (n, dimension) of one model of a stack, some images after the other."""
    with torch.no_grad():
        parts = [
            made.encode(grid.render(some))[:, model] for some in torch.from_numpy(factors).split(AT_ONCE["cpu"])
        ]
    return torch.cat(parts).cpu().numpy()


def _table(result: Mapping[str, Any]) -> pd.DataFrame:
    """A line for each model: data, name, α, seed, both terms of the loss, and the scores it has."""
    return pd.DataFrame(
        [
            {"data": row["data"], **{k: v for k, v in model.items() if k != "scores"}, **model["scores"]}
            for row in result["rows"]
            for model in row["models"]
        ]
    )


def _by_alpha(table: pd.DataFrame) -> pd.DataFrame:
    """The models that differ in α alone, by data."""
    alike = table["name"].str.startswith("AU") & ~table["name"].str.contains("other")
    return table.loc[alike & table["data"].isin(["LAP", "UNI"])]


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add medians, the bars, and Spearman's correlation of each score with α, by data set."""
    table, found = _table(result), []
    summary = []
    groups: Any = table.groupby(["data", "name"], sort=False)
    for (data, name), own in groups:
        line: dict[str, Any] = {"data": data, "model": name, "models": len(own)}
        for score in (*SCORES, "alignment", "uniformity"):
            values = own[score].dropna() if score in own else []
            middle = float(np.median(values)) if len(values) else np.nan
            line[score] = [middle, float(np.abs(values - middle).mean())] if len(values) else None
        summary.append(line)
    contrastive: Any = _by_alpha(table)
    for data, own in contrastive.groupby("data", sort=False):
        if own["alpha"].nunique() < 2:
            continue
        for score in (name for name in SCORES[:6] if name in own):
            known = own[own[score].notna()]
            rho = p = np.nan
            if known[score].nunique() > 1 and known["alpha"].nunique() > 1:
                test: Any = spearmanr(known["alpha"], known[score])
                rho, p = float(test.statistic), float(test.pvalue)
            found.append(
                {
                    **{"data": data, "score": score, "models": len(known)},
                    **{"rho": rho if np.isfinite(rho) else None, "p": p if np.isfinite(p) else None},
                }
            )
    laplace = [line for line in summary if line["data"] == "LAP" and line["model"].startswith("AU")]
    bars = {
        "BetaVAE 1.00 (LAP, best α)": max((line["BetaVAE"][0] for line in laplace), default=None),
        "FactorVAE 0.95 (LAP, best α)": max((line["FactorVAE"][0] for line in laplace), default=None),
    }
    return {**result, "summary": summary, "uniformity": found, "bars": bars}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: scores beside the printed ones for each data set, and whether they rise with α."""
    shown: dict[str, pd.DataFrame] = {}
    numbers = {"LAP": "table 2", "UNI": "table 2", "discrete tracks": "table 3", "continuous tracks": "table 4"}
    for data, where in numbers.items():
        lines = []
        for line in (line for line in result["summary"] if line["data"] == data):
            printed = PUBLISHED.get((data, line["model"]), (None,) * len(SCORES))
            cells = {}
            for score, other in zip(SCORES, printed, strict=True):
                if line[score] is not None:
                    own = f"{100 * line[score][0]:.1f}"
                    cells[score] = own if other is None else f"{own} ({other:g})"
            terms = {name: f"{line[name][0]:.3f}" for name in ("alignment", "uniformity") if line[name] is not None}
            lines.append({"model": line["model"], "models": line["models"], **cells, **terms})
        if lines:
            stand_in = ", on simulated tracks" if "tracks" in data else ""
            shown[f"{data}{stand_in}: medians in percent (printed: {where})"] = (
                pd.DataFrame(lines).astype(object).fillna("")
            )
    if result["uniformity"]:
        shown["do scores rise with the weight of uniformity? Spearman's correlation with α"] = pd.DataFrame(
            [
                {
                    **{"data": one["data"], "score": one["score"], "models": one["models"]},
                    "ρ": "" if one["rho"] is None else f"{one['rho']:.2f}",
                    "p": "" if one["p"] is None else f"{one['p']:.4f}",
                }
                for one in result["uniformity"]
            ]
        )
    return shown


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Every score against α, for both kinds of pairs, a dot for each model; into axes only the first score."""
    table = _by_alpha(_table(result))
    scores = [name for name in SCORES if name in table]
    if ax is not None:
        return _panel(table, scores[0], ax)
    figure = figures.new_figure((11, 6))
    grid = figure.add_gridspec(2, 3)
    drawn = [_panel(table, score, figure.add_subplot(grid[k // 3, k % 3])) for k, score in enumerate(scores[:6])]
    return drawn[0]


def _panel(table: pd.DataFrame, score: str, ax: Axes) -> Axes:
    groups = [f"{alpha:g}" for alpha in sorted(table["alpha"].astype(float).unique())]
    series = {
        str(data): {"group": [f"{alpha:g}" for alpha in own["alpha"].astype(float)], "value": 100 * own[score]}
        for data, own in table.groupby("data", sort=False)
    }
    ax = figures.dots(series, groups, ax, label="percent", upright=True, title=score)
    ax.set_xlabel("α")
    return ax


run = experiment(
    *("sprites", FULL, QUICK),
    cases=cases,
    rows=_rows,
    conclude=conclude,
    draw=draw,
    protocol={
        "images": "dSprites-like (ascribo.simulate.sprites)",
        "tracks": "simulated; they stand in for those of natural videos, which cannot be had",
        "uniformity": "each image is compared with itself, too; without this the loss has no bound, and diverges",
        "DCI": "from fewer samples than published (10,000 to fit, 5,000 to test)",
    },
    in_one_process=True,
)
