"""A monkey that reaches, recorded for real: which of 171 units of M1 carry the position and velocity of the hand?

The data (Stevenson et al. 2011, from the spykesML repository, MIT licence) are not part of the repository: the
setting `ASCRIBO_DATA` names the folder that has `m1_reach_stevenson.npz`, spike counts in bins of 50 ms beside the
hand's position and velocity in a plane. Measured: the calls of `ascribo.screen` beside those of a cross-validated
GLM, calls of decoys and for unrelated walks, and how well an embedding and the counts themselves decode position
and velocity in time that neither has seen.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from ascribo import figures
from ascribo.data.preprocessing import Treatment
from ascribo.data.recording import Recording
from ascribo.model.estimator import ContrastiveEmbedding
from ascribo.spaces.base import Space
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.time import Time
from experiments.shared.environment import data_file
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one
from experiments.validation.real_recordings import compare_with_glm, count_decoys, count_walks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "cases", "conclude", "draw", "reaches", "run", "tables"]

FILE = "m1_reach_stevenson.npz"
VARIABLES = {"position": ["x", "y"], "velocity": ["vx", "vy"]}
SMOOTH, NEIGHBOURS, FOLDS, AHEAD = 0.1, 25, 5, 3
"""Seconds of the Gaussian over the counts that are decoded from; neighbours of the decoder; folds of time; time
steps between a reference and its positive."""
FULL = {"steps": 1_000, "seeds": 1, "shifts": (0.3, 0.6), "walks": 10, "folds": range(FOLDS)}
QUICK = {"steps": 100, "shifts": (0.3,), "walks": 2, "folds": range(1)}


def reaches() -> Recording:
    """Counts (time, unit) with the hand's position (m) and velocity (m/s)."""
    with np.load(data_file(FILE), allow_pickle=False) as file:
        counts, stamps = file["spikes"], file["time"].astype(float)
        hand = np.concatenate([file["hand_position"][:, :2], file["hand_velocity"][:, :2]], axis=1)
    names = [name for group in VARIABLES.values() for name in group]
    channels = pd.DataFrame(counts, columns=[f"unit{k}" for k in range(counts.shape[1])])
    return Recording(channels, pd.DataFrame(hand, columns=names), time=stamps - stamps[0])


def spaces(names: list[str]) -> dict[str, Space]:
    """Those of the spaces position and velocity."""
    return {name: Follow(VARIABLES[name], dim=2, offset=AHEAD) for name in names}


def cases(plan: Plan) -> list[Case]:
    """Calls with one space and with two, decoys, walks, and decoding in each fold of time."""
    data_file(FILE)  # before any process starts: is it there?
    both = list(VARIABLES)
    return [
        *({"part": "calls", "spaces": names} for names in (both, *([name] for name in both))),
        *({"part": "decoys", "spaces": both, "shifts": [share]} for share in plan["shifts"]),
        {"part": "walks", "walks": plan["walks"]},
        *(
            {"part": "decoding", "fold": fold, **{key: plan[key] for key in ("steps", "seeds", "device")}}
            for fold in plan["folds"]
        ),
    ]


def measure(part: str, **case: Any) -> Row:
    """One part of the experiment."""
    began = time.monotonic()
    if part == "calls":
        found = compare_with_glm(reaches(), spaces(case["spaces"]))
    elif part == "decoys":
        found = {"decoys": count_decoys(reaches(), spaces(case["spaces"]), case["shifts"])}
    elif part == "walks":
        found = {"unrelated": count_walks(reaches(), case["walks"])}
    else:
        found = {"r2": _decoding(**case)}
    return {"part": part, **case, **found, "wall_seconds": round(time.monotonic() - began, 1)}


def _decoding(fold: int, steps: int, seeds: int, device: str) -> Row:
    """R² of position and velocity in a fold of time: from the embedding and from the counts."""
    data = reaches().treat(Treatment(smooth=SMOOTH, transform="sqrt"))
    block = np.arange(len(data)) * 4 * FOLDS // len(data)
    test = block % FOLDS == fold
    train = Recording(data.X[~test], data.variables[~test], epochs=block[~test], time=data.time[~test])
    asked = {**spaces(list(VARIABLES)), "rest": Time(2, offsets=(AHEAD,))}
    model = ContrastiveEmbedding(
        asked, seeds=seeds, steps=steps, device=device, drop_constant=True, random_state=0, progress=False
    ).fit(train)
    embedding = model.transform(data.X)[:, :4]
    hand = data.variables.to_numpy(dtype=float)
    wide = np.concatenate([np.roll(data.X, k, axis=0) for k in (0, 2, 4)], axis=1)
    decoders: dict[str, tuple[np.ndarray, Any]] = {
        "embedding, neighbours": (embedding, KNeighborsRegressor(NEIGHBOURS)),
        "counts, neighbours": (data.X, KNeighborsRegressor(NEIGHBOURS)),
        "counts of 250 ms, ridge": (wide, Ridge(100.0)),
    }
    out: Row = {}
    for name, (inputs, decoder) in decoders.items():
        error = decoder.fit(inputs[~test], hand[~test]).predict(inputs[test]) - hand[test]
        total = np.square(hand[test] - hand[~test].mean(0))
        r2 = {
            space: 1 - np.square(error[:, k : k + 2]).sum() / total[:, k : k + 2].sum()
            for k, space in zip((0, 2), VARIABLES, strict=True)
        }
        out[name] = {space: round(float(value), 4) for space, value in r2.items()}
    return out


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Calls, decoys, walks and decoding, each summed up."""
    rows = result["rows"]
    calls = [
        {"space": name, "beside": [n for n in row["spaces"] if n != name], **_numbers(each)}
        for row in rows
        if row["part"] == "calls"
        for name, each in row["spaces"].items()
    ]
    decoys = {name: {"called": 0, "decoys": 0} for name in VARIABLES}
    for row in rows:
        for name, each in row.get("decoys", {}).items():
            for key in each:
                decoys[name][key] += each[key]
    decoded = [row["r2"] for row in rows if row["part"] == "decoding"]
    decoding = {
        decoder: {
            space: round(float(np.mean([each[decoder][space] for each in decoded])), 4) for space in VARIABLES
        }
        for decoder in decoded[0]
    }
    walks = next(row["unrelated"] for row in rows if row["part"] == "walks")
    return {**result, "calls": calls, "decoys": decoys, "walks": walks, "decoding": decoding}


def _numbers(each: Mapping[str, Any]) -> Row:
    kept = {key: each[key] for key in ("question", "channels", "called", "glm", "both", "notes")}
    return {**kept, "share_of_glm": round(each["both"] / max(1, each["glm"]), 4)}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: calls, decoys, decoding."""
    calls = [
        {
            "space": row["space"],
            "beside": ", ".join(row["beside"]) or "alone",
            **{key: row[key] for key in ("question", "called", "glm", "both", "share_of_glm")},
            "notes": ", ".join(row["notes"]),
        }
        for row in result["calls"]
    ]
    decoys = [{"decoys beside real units, for": name, **each} for name, each in result["decoys"].items()]
    walks = result["walks"]
    decoys.append(
        {
            "decoys beside real units, for": "unrelated walks (real units)",
            "called": sum(walks["called"]),
            "decoys": walks["walks"] * walks["channels"],
        }
    )
    decoding = [{"from": name, **each} for name, each in result["decoding"].items()]
    return {
        "Units called, beside a cross-validated GLM": pd.DataFrame(calls),
        "Calls that should not be": pd.DataFrame(decoys),
        "Held-out R² of decoding": pd.DataFrame(decoding),
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Numbers of units called by screen, by the GLM, by both; and decoys."""
    rows = result["calls"]
    labels = {"called": "screen", "glm": "cross-validated GLM", "both": "both"}
    series = {label: [row[key] for row in rows] for key, label in labels.items()}
    shown = [row["space"] + ("\nbeside " + row["beside"][0] if row["beside"] else "\nalone") for row in rows]
    wrong = sum(each["called"] for each in result["decoys"].values())
    many = sum(each["decoys"] for each in result["decoys"].values())
    title = f"M1 units called at q = 0.05; of {many} decoys {wrong}"
    return figures.bars(series, shown, ax, ylabel="units called, of 171", title=title)


run = experiment(
    *("reaching", FULL, QUICK),
    cases=cases,
    rows=one_by_one(measure, lambda row: f"{row['part']}: {row['wall_seconds']} s"),
    conclude=conclude,
    draw=draw,
    protocol={"data": "Stevenson et al. (2011), 171 units of M1, bins of 50 ms", "level": 0.05},
)
