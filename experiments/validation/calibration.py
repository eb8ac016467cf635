"""Do the calls keep their promise? Realised false discovery rates at q = 0.05 and 0.20, and power.

Box data over dimension, noise, channels and length, and recordings of mixed selectivity with independent and
correlated variables, labels, Gaussian channels and counts. One model each at its defaults; the calls of its unique
variance map are compared with the truth. False discovery rates are those of spaces that some channel does not
carry: in the box every channel carries "rest", which therefore counts for power alone. A condition keeps the
promise if the 95% interval of its realised rate reaches down to the nominal one. Calls are dependent (channels of a
recording share its variables), so the interval is a bootstrap over recordings; the binomial one, which takes them
as independent, is beside it. Spaces that are refused as collapsed make no calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from ascribo import figures
from ascribo.attribution.maps import AttributionMaps
from ascribo.attribution.unique_variance import MOST_TRAINING_STEPS, unique_variance_maps
from ascribo.data.recording import Recording
from ascribo.metrics.bootstrap import bootstrap_interval
from ascribo.model.fitted import FittedModel
from ascribo.simulate.box import box
from ascribo.simulate.mixed import mixed
from ascribo.spaces.base import Space
from ascribo.spaces.kinds.discrete import Discrete
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.time import Time
from ascribo.training.penalty_weight import Auto, Schedule
from experiments.shared.many_models import TRAINING, Study, experiment
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CONDITIONS", "FULL", "QUICK", "STUDY", "draw", "run", "tables"]

LEVELS = (0.05, 0.20)
PLAIN = {
    "kind": "box",
    "dim": 6,
    "snr": 3.0,
    "channels": 50,
    "length": 20_000,
    "correlation": 0.0,
    "counts": False,
    "labels": 0,
}
MIXED = {**PLAIN, "kind": "mixed"}
CONDITIONS: dict[str, Case] = {
    **{f"{d} latents, SNR {s:g}": {**PLAIN, "dim": d, "snr": s} for d in (4, 6, 9) for s in (10.0, 3.0, 1.0)},
    **{f"{n} channels": {**PLAIN, "channels": n} for n in (25, 100, 200)},
    **{f"{n:,} steps": {**PLAIN, "length": n} for n in (5_000, 10_000, 100_000)},
    **{f"mixed, SNR {s:g}": {**MIXED, "snr": s} for s in (10.0, 3.0, 1.0)},
    **{f"mixed, correlation {r:g}": {**MIXED, "correlation": r} for r in (0.5, 0.8)},
    "mixed, 5,000 steps": {**MIXED, "length": 5_000},
    "mixed, counts": {**MIXED, "snr": None, "counts": True},
    "mixed, labels": {**MIXED, "labels": 4},
}
FULL = {
    **{key: TRAINING[key] for key in ("steps", "batch")},
    **{"conditions": list(CONDITIONS), "data_seeds": range(10)},
}
QUICK = {"conditions": ["4 latents, SNR 3", "mixed, correlation 0.5"], "data_seeds": range(2)}
FOLLOWED = {"a": 1, "b": 2}
"""Spaces of the mixed recordings with their numbers of variables; two more latents are hidden."""


def recording(case: Case) -> Recording:
    """The data of a case; seeds are not those of any other condition or experiment."""
    if case["kind"] == "box":
        half = case["channels"] // 2
        return box(
            seed=10_000 + 100 * case["number"] + case["data_seed"],
            observed=2,
            hidden=case["dim"] - 2,
            channels=(half, case["channels"] - half),
            steps=case["length"],
            snr=case["snr"],
        )
    return mixed(
        seed=10_000 + 100 * case["number"] + case["data_seed"],
        spaces=FOLLOWED,
        hidden=2,
        channels=case["channels"],
        steps=case["length"],
        correlation=case["correlation"],
        snr=case["snr"],
        counts=case["counts"],
        labels=case["labels"],
    )


def spaces(case: Case) -> dict[str, Space]:
    """One space for each that is observed, and one for the rest, of the true dimensions."""
    if case["kind"] == "box":
        return {"position": Follow(("x", "y"), dim=2), "rest": Time(case["dim"] - 2)}
    names = {name: tuple(f"{name}{k}" for k in range(size)) for name, size in FOLLOWED.items()}
    label: dict[str, Space] = {"label": Discrete("label", dim=2)} if case["labels"] else {}
    return {**{name: Follow(own, dim=len(own)) for name, own in names.items()}, **label, "rest": Time(2)}


def schedule(case: Case) -> Schedule:
    """The estimator's default."""
    return Auto()


def together(
    cases: Sequence[Case], recordings: Sequence[Recording], models: Sequence[FittedModel]
) -> list[AttributionMaps]:
    """Unique variance maps, those of counts under a Poisson loss."""
    maps: dict[int, AttributionMaps] = {}
    for counts in (False, True):
        own = [k for k, case in enumerate(cases) if case["counts"] == counts]
        loss = "poisson" if counts else "squared"
        found = unique_variance_maps(
            [models[k] for k in own],
            [recordings[k] for k in own],
            loss=loss,
            steps=min(MOST_TRAINING_STEPS, max(50, cases[0]["steps"])),
        )
        maps |= dict(zip(own, found, strict=True))
    return [maps[k] for k in range(len(cases))]


def score(case: Case, data: Recording, model: FittedModel, maps: AttributionMaps) -> Row:
    """For each space and level: channels called, of these wrong, and how many carry it in truth."""
    assert data.truth is not None
    table = maps.calls()
    out: Row = {"spaces": {}}
    for space, own in table.groupby("space", sort=False):
        truth = data.truth.sel(space=space, channel=own["channel"].to_numpy()).values
        counted = {}
        for level in LEVELS:
            called = own["q"].to_numpy() <= level
            counted[str(level)] = {"called": int(called.sum()), "wrong": int((called & ~truth).sum())}
        out["spaces"][space] = {"carried": int(truth.sum()), "channels": len(truth), **counted}
    return out


STUDY = Study(
    *(recording, spaces, schedule, together, score),
    data=("number", "data_seed"),
    one_scale=False,
)


def cases(plan: Plan) -> list[Case]:
    """Recordings of all conditions."""
    training = {key: plan[key] for key in ("steps", "batch")}
    numbers = {name: k for k, name in enumerate(CONDITIONS)}
    return [
        {**CONDITIONS[name], "condition": name, "number": numbers[name], "data_seed": seed, **training}
        for name in plan["conditions"]
        for seed in plan["data_seeds"]
    ]


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add for each condition and level the realised false discovery rate and the power."""
    chosen = dict.fromkeys(row["condition"] for row in result["rows"])
    conditions = [
        _condition(name, [row for row in result["rows"] if name in (None, row["condition"])], level)
        for name in (*chosen, None)
        for level in LEVELS
    ]
    return {**result, "conditions": conditions}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: each condition at each level."""
    out = {}
    for level in LEVELS:
        rows = [
            {
                "condition": each["condition"],
                "FDR": each["fdr"],
                "95% interval": "{:.3f} to {:.3f}".format(*each["ci95"]),
                "wrong": f"{each['wrong']} of {each['called']}",
                "kept": "yes" if each["kept"] else "NO",
                "power": each["power"],
                "refused": each["refused"],
            }
            for each in result["conditions"]
            if each["level"] == level
        ]
        out[f"Calls at q = {level:g}, {len(result['rows'])} recordings"] = pd.DataFrame(rows)
    return out


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Realised rate and power of each condition at both levels."""
    names = list(dict.fromkeys(each["condition"] for each in result["conditions"]))
    series = {}
    for lane, level in enumerate(LEVELS):
        own = [each for each in result["conditions"] if each["level"] == level]
        low, high = np.array([each["ci95"] for each in own]).T
        at = {"group": [each["condition"] for each in own], "lane": lane}
        rates = {"value": [each["fdr"] for each in own], "low": low, "high": high}
        series[f"false discovery rate at q = {level:g}"] = {**at, **rates}
        series[f"power at q = {level:g}"] = {**at, "value": [each["power"] for each in own], "marker": "|"}
    ax = figures.dots(series, names, ax, label="false discovery rate, power")
    for lane, level in enumerate(LEVELS):
        ax.axvline(level, color=figures.PALETTE[lane], linestyle=":", linewidth=1)
    ax.set_xlim(-0.01, 1.02)
    return ax


def _condition(name: str | None, rows: Sequence[Row], level: float) -> Row:
    """Rates over the accepted spaces of some rows; name None stands for all of them.

    The rate of a recording's space is wrong / called, 0 if nothing is called; the condition's is their mean.
    """
    found = [
        {**space[str(level)], **space, "row": k}
        for k, row in enumerate(rows)
        for key, space in row["spaces"].items()
        if key not in row["collapsed"]
    ]
    mixed_truth = [each for each in found if each["carried"] < each["channels"]]
    rates = np.array([each["wrong"] / max(1, each["called"]) for each in mixed_truth])
    owner = np.array([each["row"] for each in mixed_truth])
    # spaces of one recording are drawn together
    low, high = bootstrap_interval(rates, groups=owner) if len(rates) else (0.0, 1.0)
    wrong, called = (sum(each[key] for each in mixed_truth) for key in ("wrong", "called"))
    exact = stats.binomtest(wrong, called).proportion_ci() if called else None
    hits = sum(each["called"] - each["wrong"] for each in found)
    return {
        "condition": "all" if name is None else name,
        "level": level,
        "recordings": len(rows),
        "fdr": round(float(rates.mean()), 4) if len(rates) else 0.0,
        "ci95": [round(low, 4), round(high, 4)],
        "binomial95": None if exact is None else [round(exact.low, 4), round(exact.high, 4)],
        "wrong": wrong,
        "called": called,
        "kept": bool(low <= level),
        "power": round(hits / max(1, sum(each["carried"] for each in found)), 4),
        "refused": sum(len(row["collapsed"]) for row in rows),
    }


run = experiment(
    *("calibration", STUDY, FULL, QUICK),
    cases=cases,
    protocol={"conditions_are": {name: dict(case) for name, case in CONDITIONS.items()}},
    conclude=conclude,
    draw=draw,
)
