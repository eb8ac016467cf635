"""Does the shift test keep its level, and does it find what a plain ridge regression finds?

Data, all short and slow. Boxes of `ascribo.simulate.box`, 20 noisy channels. *Unrelated*: the variable is taken
from another seed's box, as slow as the real one and independent of the channels. *Related*: the recording's own
variable, of which half of the channels carry some. And channels that wander on their own, each an autoregression
of 0.9 a step, beside a variable of 0.98 a step. *Wandering*: the variable has nothing to do with them. *Weak*: six
of the twenty have 0.17 of it. *Nonlinear*: six are tuned to some value of it, by a bell curve of 0.3 standard
deviations.

Measured: p of `ascribo.evidence.shift_test` for the variable, by decoders (the default) and, for the first
recordings of each kind, by the bits of an embedding: a space that follows the variable beside a time space, one
small encoder. Beside it p of a plain ridge regression of the variable, by the same rank of its held-out R² among
the same number of shifted copies. If there is nothing, p is uniform on its grid 1/(1 + shifts), 2/(1 + shifts),
..., 1; if there is something, it is small.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from scipy.stats import binomtest
from sklearn.linear_model import Ridge

from ascribo import figures
from ascribo.data.recording import Recording
from ascribo.evidence.shifted_variables import shift_tests
from ascribo.model.estimator import ContrastiveEmbedding
from ascribo.networks.encoders import MLP
from ascribo.simulate.box import box
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.time import Time
from experiments.shared.results import estimator_parameters
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "cases", "conclude", "draw", "group", "recording", "run", "tables", "uniformity"]

LEVEL = 0.05
NOTHING = {"at most": {"share": 0.08}, "at least": {"ks_p": 0.05}}
"""0.08 is what the upper end of chance allows in 200 recordings, if the level is kept."""
TARGETS = {
    "unrelated": NOTHING,
    "wandering": NOTHING,
    "related": {"at least": {"share": 0.95}},
    "weak": {"at least": {"over_ridge": 0.0}},
    "nonlinear": {"at least": {"over_ridge": 0.0}},
}
NUMBERS = {"unrelated": 200, "wandering": 200, "related": 40, "weak": 48, "nonlinear": 24}
FULL = {**NUMBERS, "embedded": 48, "shifts": 19, "steps": 2000, "step_size": 0.1, "model": {}}
"""Recordings of each kind; of how many of each kind embeddings are trained, too; shifts; time steps of a recording,
and how far a latent of a box goes in one; parameters of `ContrastiveEmbedding` that are not those of `_model`."""
QUICK = {"unrelated": 40, "wandering": 40, "related": 10, "weak": 10, "nonlinear": 10, "embedded": 10}
TOGETHER = 10
"""Recordings tested together: with 19 shifts a stack of 200 models."""


def cases(plan: Plan) -> list[Case]:
    """Groups of recordings. On a GPU, processes share it."""
    given = {name: plan[name] for name in ("shifts", "steps", "step_size", "embedded")}
    given["model"] = {"device": plan["device"], **plan["model"]}
    return [
        {"kind": kind, "data_seeds": list(range(first, min(first + TOGETHER, plan[kind]))), **given}
        for kind in TARGETS
        for first in range(0, plan[kind], TOGETHER)
    ]


def recording(kind: str, data_seed: int, steps: int, step_size: float) -> Recording:
    """One recording of 20 channels: a box with its own variable or another's, or channels that wander."""
    if kind not in ("related", "unrelated"):
        return _wandering(kind, data_seed, steps)
    options: dict[str, Any] = {"observed": 1, "hidden": 2, "channels": (10, 10), "steps": steps}
    own = box(data_seed, **options, step_size=step_size, snr=1.0)
    other = own if kind == "related" else box(1_000_000 + data_seed, **options, step_size=step_size)
    return Recording(own.X, other.variables)


def _wandering(kind: str, data_seed: int, steps: int) -> Recording:
    rng = np.random.default_rng([data_seed, *map(ord, kind)])
    x = autoregression(rng, steps, 1, 0.98)
    X = autoregression(rng, steps, 20, 0.9)
    if kind == "weak":
        X[:, :6] += 0.17 * x
    if kind == "nonlinear":
        bells = np.exp(-2 * np.square(x - np.linspace(-1.5, 1.5, 6)))
        X[:, :6] += 0.3 * (bells - bells.mean(0)) / bells.std(0)
    return Recording(X, pd.DataFrame({"x": x[:, 0]}))


def autoregression(rng: np.random.Generator, steps: int, columns: int, kept: float) -> np.ndarray:
    """Columns of variance 1 that keep a share of their value from step to step: (steps, columns).

    >>> walk = autoregression(np.random.default_rng(0), 20_000, 1, 0.9)[:, 0]
    >>> round(walk.std(), 1), round(np.corrcoef(walk[1:], walk[:-1])[0, 1], 1)
    (np.float64(1.0), np.float64(0.9))
    """
    new = rng.normal(size=(steps + 500, columns))
    return np.asarray(lfilter([np.sqrt(1 - kept**2)], [1, -kept], new, axis=0))[500:]


def ridge_p(data: Recording, shifts: int) -> float:
    """p of a plain ridge regression of the variable, in five held-out blocks of time, against even shifts."""
    x, steps = data.variables["x"].to_numpy(), len(data)
    lags = np.linspace(0.05 * steps, 0.95 * steps, shifts).astype(int)
    real, *copies = (_ridge_r2(np.asarray(data.X), np.roll(x, lag)) for lag in (0, *lags))
    return float((1 + np.sum(np.array(copies) >= real)) / (1 + shifts))


def _ridge_r2(X: np.ndarray, x: np.ndarray) -> float:
    found = []
    for block in np.array_split(np.arange(len(x)), 5):
        rest = np.delete(np.arange(len(x)), block)
        missed = x[block] - Ridge(10).fit(X[rest], x[rest]).predict(X[block])
        found.append(1 - np.mean(missed**2) / x.var())
    return float(np.mean(found))


def group(
    kind: str,
    data_seeds: Sequence[int],
    shifts: int,
    steps: int,
    step_size: float,
    embedded: int,
    model: Mapping[str, Any],
) -> Row:
    """Simulate and test several recordings together."""
    began = time.monotonic()
    recordings = [recording(kind, seed, steps, step_size) for seed in data_seeds]
    few = recordings[: max(0, embedded - data_seeds[0])]
    asked: dict[str, Any] = {"shifts": shifts, "only": ["variable"], "random_state": data_seeds[0]}
    with warnings.catch_warnings():  # some recordings move slowly: that is what is tested
        warnings.filterwarnings("ignore", "space 'variable'")
        decoded = shift_tests(_model(model), recordings, **asked)
        trained = shift_tests(_model(model), few, statistic="embedding", **asked) if few else []
    rows: list[Row] = [
        {"kind": kind, "data_seed": seed, **_numbers(table, ["p", "score", "r2", "null_mean", "null_high"])}
        for seed, table in zip(data_seeds, decoded, strict=True)
    ]
    for row, data in zip(rows, recordings, strict=True):
        row["ridge_p"] = ridge_p(data, shifts)
    for row, table in zip(rows, trained, strict=False):
        row["embedding"] = _numbers(table, ["p", "score", "score_low", "score_high", "null_mean", "null_high"])
    return {"kind": kind, "rows": rows, "seconds": round(time.monotonic() - began, 1)}


def _numbers(table: pd.DataFrame, columns: Sequence[str]) -> dict[str, float]:
    return {name: float(table[name].iloc[0]) for name in columns}


def uniformity(p: Sequence[float], shifts: int, draws: int = 10_000) -> tuple[float, float]:
    """Kolmogorov-Smirnov test of p-values against uniform ones on the grid k / (1 + shifts): statistic and p.

    The largest distance of the two distribution functions is taken on the grid, where both jump. Its distribution
    under uniformity is simulated, since the textbook one is for continuous values.

    >>> uniformity([0.25, 0.5, 0.75, 1.0], shifts=3)
    (0.0, 1.0)
    """
    cells = shifts + 1
    rank = np.rint(np.asarray(p) * cells).astype(int) - 1

    def distance(counts: np.ndarray) -> np.ndarray:
        return np.abs(np.cumsum(counts, axis=-1) / len(rank) - np.arange(1, cells + 1) / cells).max(-1)

    found = float(distance(np.bincount(rank, minlength=cells)))
    chance = distance(np.random.default_rng(0).multinomial(len(rank), np.full(cells, 1 / cells), draws))
    return found, float((1 + (chance >= found - 1e-12).sum()) / (1 + draws))


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """A row for each recording instead of each group, and for each kind how often p is small."""
    rows = [row for group in result["rows"] for row in group["rows"]]
    of_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in TARGETS}
    shifts = result["protocol"]["shifts"]
    found = {kind: _summary(own, shifts, TARGETS[kind]) for kind, own in of_kind.items() if own}
    return {**result, "summary": found, "rows": rows}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: how often p is small, and how the p-values are spread."""
    shifts, level = result["protocol"]["shifts"], result["protocol"]["level"]
    shares = [
        {
            "variable": kind,
            "recordings": s["n"],
            f"p ≤ {level}": s["share"],
            "95% interval": "{:.3f} to {:.3f}".format(*s["share_ci95"]),
            "ridge": s["ridge_share"],
            "embedding": s["embedding_share"],
            "of": s["embedded"],
            "KS": s["ks"],
            "its p": s["ks_p"],
            "embedding's": s["embedding_ks_p"],
            "met": "yes" if s["met"] else "no",
        }
        for kind, s in result["summary"].items()
    ]
    edges = np.arange(11) / 10
    spread = {
        kind: np.histogram([r["p"] for r in result["rows"] if r["kind"] == kind], edges + 1e-9)[0]
        for kind in result["summary"]
    }
    tenths = [f"{a:.1f} to {b:.1f}" for a, b in pairwise(edges)]
    took = f"{len(result['rows'])} recordings in {result['seconds'] / 60:.1f} minutes"
    return {
        f"Shift test with {shifts} shifts, {took}": pd.DataFrame(shares),
        "Recordings by p": pd.DataFrame({"p above, up to": tenths, **spread}),
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Share of recordings with p up to a value, for each kind of variable; dotted: uniform."""
    cells = result["protocol"]["shifts"] + 1
    grid = np.arange(cells + 1) / cells
    series: dict[str, dict[str, Any]] = {}
    for kind, s in result["summary"].items():
        p = np.array([row["p"] for row in result["rows"] if row["kind"] == kind])
        share = (p[:, None] <= grid + 1e-9).mean(0)
        steps = {"drawstyle": "steps-post", "marker": ""}
        series[f"{kind}, {s['n']} recordings"] = {"x": grid, "y": share, **steps}
    series["uniform"] = {"x": [0, 1], "y": [0, 1], "color": figures.INK, "linestyle": ":", "marker": ""}
    labels: dict[str, Any] = {"xlabel": "p of the shift test", "ylabel": "share of recordings with at most this p"}
    ax = figures.curves(series, ax, size=(6.4, 4.0), **labels)
    ax.axvline(LEVEL, color=figures.FAINT, linewidth=1)
    ax.set(xlim=(0, 1), ylim=(0, 1.01))
    return ax


def _summary(rows: Sequence[Row], shifts: int, target: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Shares of small p-values: by decoders, by plain ridge regression, and by embeddings where there are some."""
    p = np.array([row["p"] for row in rows])
    hits = int(_small(p).sum())
    interval = binomtest(hits, len(p)).proportion_ci(0.95)
    statistic, ks_p = uniformity(p.tolist(), shifts)
    bits = [row["embedding"] for row in rows if "embedding" in row]
    out = {
        "n": len(p),
        "share": hits / len(p),
        "share_ci95": [float(interval.low), float(interval.high)],
        "ridge_share": _share([row["ridge_p"] for row in rows]),
        "ks": statistic,
        "ks_p": ks_p,
        "embedded": len(bits),
        "embedding_share": _share([row["p"] for row in bits]),
        "embedding_ks_p": uniformity([row["p"] for row in bits], shifts)[1] if bits else None,
        # what the interval of the bits alone would say
        "share_bits_low_above_0": float(np.mean([row["score_low"] > 0 for row in bits])) if bits else None,
        "target": {relation: dict(bounds) for relation, bounds in target.items()},
    }
    out["over_ridge"] = out["share"] - out["ridge_share"]
    out["met"] = all(out[k] <= v for k, v in target.get("at most", {}).items()) and all(
        out[k] >= v for k, v in target.get("at least", {}).items()
    )
    return out


def _small(p: np.ndarray) -> np.ndarray:
    return p <= LEVEL + 1e-9


def _share(p: Sequence[float]) -> float | None:
    return float(_small(np.array(p)).mean()) if p else None


def _model(changes: Mapping[str, Any]) -> ContrastiveEmbedding:
    given: dict[str, Any] = {
        "spaces": {"variable": Follow(("x",), dim=1), "rest": Time(dim=2)},
        "encoder": MLP((32, 32)),
        **{"steps": 250, "batch_size": 128, "learning_rate": 3e-3, "penalty": 0.0},  # few steps: larger ones
        **{"validation_fraction": 0.2, "progress": False},
    }
    return ContrastiveEmbedding(**{**given, **changes})


def _line(row: Row) -> str:
    p = [part["p"] for part in row["rows"]]
    return (
        f"{row['kind']}: {len(p)} recordings, smallest p {min(p):.3f}, mean {np.mean(p):.2f} ({row['seconds']} s)"
    )


def _protocol(plan: Plan) -> dict[str, Any]:
    return {
        "model": estimator_parameters(_model(cases(plan)[0]["model"])),
        "spaces": "variable: Follow(x; dim=1), rest: Time(dim=2)",
        "level": LEVEL,
    }


run = experiment(
    *("nulls", FULL, QUICK),
    cases=cases,
    rows=one_by_one(group, _line),
    conclude=conclude,
    draw=draw,
    protocol=_protocol,
)
