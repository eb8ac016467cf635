"""Does the shift test keep its level? Recordings whose variable has nothing to do with the channels.

Data: short recordings of `ascribo.simulate.box`, 20 noisy channels. Unrelated: the variable is taken from another
seed's box, as slow as the real one and independent of the channels. Related: the recording's own variable, of which
half of the channels carry some. Model: a space that follows the variable beside a time space, one small encoder.
Measured: p of `ascribo.evidence.shift_test` for the variable. If there is nothing, p is uniform on its grid
1/(1 + shifts), 2/(1 + shifts), ..., 1; if there is something, it is small.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

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
TARGETS = {
    "unrelated": {"at most": {"share_below": LEVEL}, "at least": {"ks_p": 0.05}},
    "related": {"at least": {"share": 0.95}},
}
FULL = {"unrelated": 200, "related": 40, "shifts": 39, "steps": 2000, "step_size": 0.1, "model": {}}
"""Recordings of each kind, and shifts for each; time steps of a recording, and how far a latent goes in one;
parameters of `ContrastiveEmbedding` that are not those of `_model`."""
QUICK = {"unrelated": 40, "related": 10, "shifts": 19}
TOGETHER = 10
"""Recordings tested together: with 39 shifts a stack of 400 models."""


def cases(plan: Plan) -> list[Case]:
    """Groups of recordings. On a GPU, processes share it."""
    given = {name: plan[name] for name in ("shifts", "steps", "step_size")}
    given["model"] = {"device": plan["device"], **plan["model"]}
    return [
        {"kind": kind, "data_seeds": list(range(first, min(first + TOGETHER, plan[kind]))), **given}
        for kind in TARGETS
        for first in range(0, plan[kind], TOGETHER)
    ]


def recording(kind: str, data_seed: int, steps: int, step_size: float) -> Recording:
    """One recording of 20 channels: with its own variable, or with that of a box of another seed."""
    options: dict[str, Any] = {"observed": 1, "hidden": 2, "channels": (10, 10), "steps": steps}
    own = box(data_seed, **options, step_size=step_size, snr=1.0)
    other = own if kind == "related" else box(1_000_000 + data_seed, **options, step_size=step_size)
    return Recording(own.X, other.variables)


def group(
    kind: str, data_seeds: Sequence[int], shifts: int, steps: int, step_size: float, model: Mapping[str, Any]
) -> Row:
    """Simulate and test several recordings together."""
    began = time.monotonic()
    recordings = [recording(kind, seed, steps, step_size) for seed in data_seeds]
    with warnings.catch_warnings():  # some recordings move slowly: that is what is tested
        warnings.filterwarnings("ignore", "space 'variable'")
        found = shift_tests(_model(model), recordings, shifts=shifts, only=["variable"], random_state=data_seeds[0])
    columns = ["bits", "bits_low", "bits_high", "null_mean", "null_high", "p"]
    rows = [
        {"kind": kind, "data_seed": seed, **{name: float(table[name].iloc[0]) for name in columns}}
        for seed, table in zip(data_seeds, found, strict=True)
    ]
    return {"kind": kind, "rows": rows, "seconds": round(time.monotonic() - began, 1)}


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
            f"p < {level}": s["share_below"],
            "KS": s["ks"],
            "its p": s["ks_p"],
            "bits": s["bits"],
            "bits, shifted": s["null_bits"],
            "bits_low > 0": s["share_bits_low_above_0"],
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
    """Share of recordings with p up to a value, for unrelated and related variables; dotted: uniform."""
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
    """Shares of small p-values. On its grid p ≤ 0.05 is as likely as 0.05 where 1 + shifts divides by 20; p < 0.05
    is less likely: it takes one rank less."""
    p = np.array([row["p"] for row in rows])
    hits = int((p <= LEVEL + 1e-9).sum())
    interval = binomtest(hits, len(p)).proportion_ci(0.95)
    statistic, ks_p = uniformity(p.tolist(), shifts)
    out = {
        "n": len(p),
        "share": hits / len(p),
        "share_ci95": [float(interval.low), float(interval.high)],
        "share_below": float((p < LEVEL - 1e-9).mean()),
        "ks": statistic,
        "ks_p": ks_p,
        "bits": float(np.mean([row["bits"] for row in rows])),
        "null_bits": float(np.mean([row["null_mean"] for row in rows])),
        # what the interval of the bits alone would say
        "share_bits_low_above_0": float(np.mean([row["bits_low"] > 0 for row in rows])),
        "target": {relation: dict(bounds) for relation, bounds in target.items()},
    }
    out["met"] = all(out[k] <= v for k, v in target.get("at most", {}).items()) and all(
        out[k] >= v for k, v in target.get("at least", {}).items()
    )
    return out


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
