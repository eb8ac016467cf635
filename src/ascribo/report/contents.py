"""All that a report says and shows, as plain data: words and small numbers, and arrays to be packed."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..attribution.maps import AttributionMaps
from ..data.mapped_files import take_rows
from ..data.recording import Recording
from ..data.segments import evenly
from ..model.estimator import ContrastiveEmbedding
from ..spaces.base import Space, layout
from ..support.compute import one_thread, side_by_side
from .activity import SIDE, Shown, envelope, shown_variables, tuning, variable_envelope
from .agreement import seed_agreement
from .blobs import quantise
from .methods_text import REFERENCES, fingerprint, methods_paragraph, reproduce_code, versions
from .problems import LOOKED_FOR, find_problems
from .stretches import scores_in_blocks
from .words import answer, fit_verdict, overall, question

__all__ = ["Contents", "gather"]

POINTS = 3000
"""Time steps that the picture of the embedding shows, at most."""
ENVELOPE_ENTRIES, MOST_BINS, FEWEST_BINS = 2_000_000, 2000, 200
ACTIVITY_ENTRIES = 1_200_000
CURVE_POINTS = 200
COLUMNS = ("score", "level", "p", "q", "ci_low", "ci_high")


@dataclass(frozen=True, eq=False)
class Contents:
    """What the page is made of.

    words : what the template writes: plain text and numbers. facts : what the script needs beside the arrays, fit
    for JSON. arrays : name -> array, as `blobs.pack` takes them.
    """

    words: dict[str, Any]
    facts: dict[str, Any]
    arrays: dict[str, np.ndarray]


def gather(
    model: ContrastiveEmbedding,
    recording: Recording,
    maps: AttributionMaps,
    *,
    title: str | None = None,
    q: float = 0.05,
    shift: pd.DataFrame | None = None,
    assumed: Sequence[str] = (),
    when: datetime.datetime | None = None,
) -> Contents:
    """Everything of a report. recording : the channels that the model uses, in its order."""
    spaces, calls = model.model_.spaces, _calls(maps, q)
    names = [str(name) for name in maps.by_space["space"].values]
    rows = evenly(len(recording), POINTS)
    fitted = model.model_
    z = fitted.embedder.embed(fitted.parameters, fitted.standardise(recording.X), recording.epochs, rows)
    consensus = fitted.consensus(z).cpu().numpy()
    agreement = seed_agreement(model, recording, maps)
    variables = shown_variables(recording, spaces)

    def look() -> tuple[list[dict[str, str]], str]:
        return find_problems(model, recording, maps, calls, agreement), fingerprint(recording)

    def draw() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        with one_thread():  # each thread has a number of its own
            return _pictures(model, recording, maps, calls, variables, rows, consensus)

    # of a large recording both take seconds
    (problems, data_fingerprint), (facts, arrays) = side_by_side(look, draw)
    of_spaces = [_space(name, spaces[name], model, maps, calls, recording) for name in names]
    for space in of_spaces:
        space["answer"] = answer(space, maps.by_space.sizes["channel"], q)
    grade, why = overall(of_spaces, problems, model.model_.seeds)
    title = title or question(of_spaces)
    words = {
        "title": title,
        "when": (when or datetime.datetime.now()).strftime("%Y-%m-%d %H:%M"),
        "channels": len(recording.channel_names),
        "steps": len(recording),
        "epochs": int(recording.epochs[-1]) + 1,
        "method": maps.method.replace("_", " "),
        "tested": calls is not None,
        "q": q,
        "grade": grade,
        "why": why,
        "spaces": of_spaces,
        "fit": [
            {**row, "verdict": fit_verdict(row), "most": float(np.log2(model.batch_size_))}
            for row in model.goodness_of_fit_.astype(object).to_dict("records")
        ],
        "problems": problems,
        "looked_for": LOOKED_FOR,
        "assumed": list(assumed),
        "agreement": agreement,
        "seeds": model.model_.seeds,
        "shift": None if shift is None else shift.to_dict("records"),
        "spent": getattr(model, "spent_", None),
        "methods": methods_paragraph(model, recording, maps, q=q, data_fingerprint=data_fingerprint),
        "references": REFERENCES,
        "code": reproduce_code(model, maps),
        "versions": versions(),
        "fingerprint": data_fingerprint,
    }
    facts["spaces"] = [_brief(space) for space in of_spaces]
    facts |= {"method": maps.method, "shift": None if shift is None else _shift(shift)}
    return Contents(words, facts, arrays)


def _calls(maps: AttributionMaps, q: float) -> pd.DataFrame | None:
    return maps.calls(q) if maps.tested else None


def _space(
    name: str,
    space: Space,
    model: ContrastiveEmbedding,
    maps: AttributionMaps,
    calls: pd.DataFrame | None,
    recording: Recording,
) -> dict[str, Any]:
    """What was found of one space. strongest : the first channels, called ones if there are any."""
    scores = maps.by_space.sel(space=name)
    own: Any = None if calls is None else calls[calls["space"] == name]
    tested = own is not None and len(own) > 0
    if tested and own is not None:
        some = own[own["called"]] if own["called"].any() else own
        first = some.sort_values("score", ascending=False, kind="stable").head(5)
        best = first[["channel", "score", "ci_low", "ci_high", "q", "called"]].to_dict("records")
    else:
        ranked = scores.sortby(-scores)[:5]
        best = [
            {"channel": str(c), "score": float(v)}
            for c, v in zip(ranked["channel"].values, ranked.values, strict=True)
        ]
    truth = None
    if recording.truth is not None and name in recording.truth["space"].values and tested and own is not None:
        known = recording.truth.sel(space=name, channel=own["channel"].to_numpy()).values.astype(bool)
        called = own["called"].to_numpy()
        truth = {
            "right": int((known & called).sum()),
            "wrong": int((~known & called).sum()),
            "all": int(known.sum()),
        }
    row = model.goodness_of_fit_.set_index("space").loc[name]
    usable = model.model_.usable[:, list(model.model_.spaces).index(name)]
    return {
        "name": name,
        "kind": type(space).__name__,
        "variables": list(space.variables),
        "dim": space.dim,
        "refused": maps.refused.get(name, ""),
        "undecided": maps.undecided.get(name, ""),
        "tested": tested,
        "called": int(own["called"].sum()) if tested and own is not None else 0,
        "strongest": [b for b in best if np.isfinite(b["score"])],
        "bits": float(row["bits"]),
        "collapsed": bool(row["collapsed"]),
        "unclear": not (row["bits_low"] > 0 and usable.all()),
        "truth": truth,
    }


def _brief(space: Mapping[str, Any]) -> dict[str, Any]:
    """What the script needs of a space."""
    return {key: space[key] for key in ("name", "variables", "tested", "refused", "undecided", "called")}


def _shift(shift: pd.DataFrame) -> list[dict[str, Any]]:
    """What the script draws of a shift test."""
    numbers = ["score", "score_low", "score_high", "null_mean", "null_high", "p"]
    copies = shift.attrs.get("copies", {})  # a table that was read from a file may have none
    return [
        {
            "space": str(row["space"]),
            "unit": "bits" if row["statistic"] == "embedding" else "SD",
            **{key: _number(row[key]) for key in numbers},
            "copies": [float(value) for value in copies.get(row["space"], []) if np.isfinite(value)],
        }
        for row in shift.to_dict("records")
    ]


def _pictures(
    model: ContrastiveEmbedding,
    recording: Recording,
    maps: AttributionMaps,
    calls: pd.DataFrame | None,
    variables: list[Shown],
    rows: np.ndarray,
    z: np.ndarray,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the script draws: facts and arrays."""
    spaces, length, channels = model.model_.spaces, len(recording), recording.X.shape[1]
    names = [str(name) for name in maps.by_space["space"].values]
    bins = int(min(length, np.clip(ENVELOPE_ENTRIES // (2 * channels), FEWEST_BINS, MOST_BINS)))
    starts = np.arange(bins) * length // bins
    arrays: dict[str, np.ndarray] = {}
    extremes = np.concatenate(list(envelope(recording.X, bins)), axis=1)  # (channel, 2 · bins)
    arrays["envelope"], arrays["envelope_range"] = quantise(extremes)
    behaviour = variable_envelope(variables, bins, length)
    arrays["behaviour"], arrays["behaviour_range"] = quantise(np.concatenate(list(behaviour), axis=1))
    arrays["bin_time"] = recording.time[starts].astype(np.float64)

    few = evenly(len(rows), int(np.clip(ACTIVITY_ENTRIES // channels, 100, len(rows))))
    arrays["activity"], arrays["activity_range"] = quantise(take_rows(recording.X, rows[few]).T)
    arrays["activity_points"] = few.astype(np.uint32)
    arrays["points"] = np.ascontiguousarray(z.T, dtype=np.float32)
    arrays["point_time"] = recording.time[rows].astype(np.float64)
    arrays["point_values"] = np.array([v.values[rows] for v in variables], dtype=np.float32).reshape(-1, len(rows))
    arrays["point_step"] = rows.astype(np.uint32)

    place = {v.name: k for k, v in enumerate(variables)}
    pairs = [tuple(place[v] for v in s.variables[:2] if v in place) for s in spaces.values() if not s.categorical]
    pairs = [p for p in dict.fromkeys(pairs) if len(p) == 2]
    curves = tuning(recording, variables, pairs)  # type: ignore[arg-type]
    if curves.curves:
        together = np.concatenate([c.transpose(1, 0, 2).reshape(channels, -1) for c in curves.curves], axis=1)
        arrays["tuning"], arrays["tuning_range"] = quantise(together, np.uint16)
    for k, one in enumerate(curves.maps):
        arrays[f"rate_map_{k}"], arrays[f"rate_map_{k}_range"] = quantise(one.reshape(channels, -1))

    table = np.full((len(COLUMNS), len(names), channels), np.nan, dtype=np.float32)
    table[0] = maps.by_space.transpose("space", "channel").values
    called = np.zeros((len(names), channels), dtype=np.uint8)
    for k, name in enumerate(names):
        own: Any = None if calls is None else calls[calls["space"] == name]
        if own is not None and len(own):
            for c, column in enumerate(COLUMNS):
                if column in own:
                    table[c, k] = own[column].to_numpy(dtype=float)
            called[k] = own["called"].to_numpy()
    arrays["table"], arrays["called"] = table, called
    by_block, edges = scores_in_blocks(maps, model, recording)
    if edges:
        arrays["blocks"], arrays["blocks_range"] = quantise(by_block, np.uint16)

    history, steps = _history(model)
    arrays["history"] = history
    facts = {
        "channels": [str(name) for name in recording.channel_names],
        "units": _units(recording),
        "variables": [
            {
                "name": v.name,
                "kind": v.kind,
                "labels": list(v.labels),
                "period": v.period,
                "range": list(v.range),
                "bins": v.bins,
            }
            for v in variables
        ],
        "dims": {name: [where.start, where.stop] for name, where in layout(spaces).items()},
        "maps": [{"variables": list(p), "side": SIDE} for p in pairs],
        "bins": bins,
        "steps": length,
        "blocks": edges,
        "columns": list(COLUMNS),
        "history": {
            "steps": steps,
            "curves": [str(name) for name in model.history_["space"].values],
            "chance": [_number(c) for c in model.goodness_of_fit_["chance"]],
            "spaces": [str(s) for s in model.goodness_of_fit_["space"]],
        },
    }
    return facts, arrays


def _history(model: ContrastiveEmbedding) -> tuple[np.ndarray, list[int]]:
    """The contrastive loss in training, thinned: (space, seed, point) float32; and the steps of the points."""
    curves = model.history_["infonce"].transpose("space", "seed", "step").values
    total = curves.shape[-1]
    points = min(CURVE_POINTS, total)
    if not points or not curves.size:
        return np.zeros((0, 0, 0), dtype=np.float32), []
    edges = np.arange(points) * total // points
    sums = np.add.reduceat(curves, edges, axis=-1)
    return (sums / np.diff(np.r_[edges, total])).astype(np.float32), (edges + 1).tolist()


def _units(recording: Recording) -> list[dict[str, Any]]:
    """What is known of the channels, as text."""
    return [
        {"name": str(name), "values": ["" if pd.isna(v) else str(v) for v in column]}
        for name, column in recording.units.items()
    ]


def _number(value: object) -> float | None:
    number = float(value)  # type: ignore[arg-type]
    return number if np.isfinite(number) else None
