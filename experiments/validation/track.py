"""A rat on a linear track, recorded for real: do 31 units of CA1 carry position and running direction?

The data (nelpy's example, MIT licence) are not part of the repository: the setting `ASCRIBO_DATA` names the folder
that has `rat_ca1_lineartrack_nelpy_31.npz`, spike counts in bins of 25 ms beside the rat's place in pixels. Used
are the laps, runs along the track; each is an epoch. Measured: bits above chance with a p-value against shifted
variables, the error of decoding position from the embedding in laps that the encoder has not seen, beside the same
from the counts, the calls of units beside their spatial information, and the calls of `ascribo.screen` beside those
of a cross-validated GLM, with decoys and unrelated walks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import ndimage, stats
from sklearn.neighbors import KNeighborsRegressor

from ascribo import figures
from ascribo.cells.spatial_scores import rate_maps, spatial_information
from ascribo.data.preprocessing import Treatment
from ascribo.data.recording import Recording
from ascribo.evidence.shifted_variables import shift_test
from ascribo.model.estimator import ContrastiveEmbedding
from ascribo.spaces.base import Space
from ascribo.spaces.kinds.discrete import Discrete
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.time import Time
from experiments.shared.environment import data_file
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one
from experiments.validation.real_recordings import compare_with_glm, count_decoys, count_walks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "cases", "conclude", "draw", "laps", "run", "spaces", "tables"]

FILE = "rat_ca1_lineartrack_nelpy_31.npz"
ON_TRACK = (4440.0, 5370.0)
"""Seconds of the recording between which the rat is on the track; before and after it is carried and rests."""
SPEED, LENGTH = 10.0, 100.0
"""A lap is a run faster than this, in pixels per second, that covers this many of the track's 400 pixels."""
SMOOTH = 0.25
"""Seconds: of the Gaussian over the counts, and over the rat's place for its speed."""
STEP = 0.025
"""Seconds of a bin."""
AHEAD = 10
"""Time steps between a reference and its positive: as far apart as the counts are smoothed."""
NEIGHBOURS, FOLDS, BINS = 25, 5, 20
ORDERS = 20_000
"""Random orders that a partial rank correlation is compared with."""
FULL = {
    "steps": 1_500,
    "seeds": 4,
    "shift_steps": 500,
    "shifts": 39,
    "folds": range(FOLDS),
    "decoy_shifts": 8,
    "walks": 20,
}
QUICK = {"steps": 200, "seeds": 1, "shift_steps": 50, "shifts": 4, "folds": range(1), "decoy_shifts": 1, "walks": 1}


def laps() -> Recording:
    """The laps: counts (time, unit) of the units that fire in them, with position along the track and direction."""
    with np.load(data_file(FILE), allow_pickle=False) as file:
        counts, place, stamps = file["spikes"], file["xy"].astype(np.float64), file["time"]
        step = float(file["bin_s"])
    there = (stamps > ON_TRACK[0]) & (stamps < ON_TRACK[1])
    centred = place - place[there].mean(0)
    axis = np.linalg.svd(centred[there], full_matrices=False)[2][0]  # the track is straight
    position = centred @ (axis * np.sign(axis[0]))
    velocity = np.gradient(ndimage.gaussian_filter1d(position, SMOOTH / step), step)
    runs: Any = ndimage.label(there & (np.abs(velocity) > SPEED))[0]  # type: ignore[index]
    every = np.arange(1, runs.max() + 1)
    covered = ndimage.maximum(position, runs, every) - ndimage.minimum(position, runs, every)
    kept = np.isin(runs, every[covered > LENGTH])
    fires = counts[kept].any(0)
    return Recording(
        pd.DataFrame(counts[kept][:, fires], columns=[f"unit{k}" for k in np.flatnonzero(fires)]),
        {"position": position[kept], "direction": np.where(velocity[kept] > 0, "out", "back")},
        epochs=runs[kept],
        time=stamps[kept],
    )


def spaces() -> dict[str, Space]:
    """Position, the direction of the lap, and what else moves on smoothly."""
    return {
        "position": Follow(("position",), dim=3, offset=AHEAD),
        "direction": Discrete("direction", dim=1),
        "rest": Time(2, offsets=(AHEAD,)),
    }


def cases(plan: Plan) -> list[Case]:
    """The shift test, the calls, and decoding in each fold of laps."""
    data_file(FILE)  # before any process starts: is it there?
    shared = {key: plan[key] for key in ("device", "steps", "seeds")}
    return [
        {"part": "shifts", **shared, "steps": plan["shift_steps"], "shifts": plan["shifts"]},
        {"part": "calls", **shared},
        {"part": "screen", "decoy_shifts": plan["decoy_shifts"], "walks": plan["walks"]},
        *({"part": "decoding", **shared, "fold": fold} for fold in plan["folds"]),
    ]


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add what the data are, errors of decoding, and how calls agree with spatial information."""
    rows, data = result["rows"], laps()
    about = {
        "laps": int(data.epochs[-1]) + 1,
        "time_steps": len(data),
        "units": data.X.shape[1],
        "spikes": int(data.X.sum()),
    }
    calls = next(row for row in rows if row["part"] == "calls")
    return {
        **result,
        "data": about,
        "decoding": _decoded([row for row in rows if row["part"] == "decoding"]),
        "agreement": _agreement(calls["units"], about["time_steps"] * STEP),
    }


def measure(**case: Any) -> Row:
    """One part of the experiment."""
    began = time.monotonic()
    found = {"shifts": _shifts, "calls": _calls, "decoding": _decoding, "screen": _screen}[case["part"]](case)
    return {**case, **found, "seconds": round(time.monotonic() - began, 1)}


def _treatment() -> Treatment:
    return Treatment(smooth=SMOOTH, transform="sqrt")


def _model(case: Case) -> ContrastiveEmbedding:
    given = {key: case[key] for key in ("seeds", "steps", "device")}
    # a unit may fire in held-out laps alone
    return ContrastiveEmbedding(spaces(), drop_constant=True, random_state=0, progress=False, **given)


def _shifts(case: Case) -> Row:
    """Bits of each space with the p-value of the shift test."""
    asked: dict[str, Any] = {"only": ["position", "direction"], "statistic": "embedding", "shifts": case["shifts"]}
    found = shift_test(_model(case), laps().treat(_treatment()), **asked)
    bits = found.rename(columns=lambda name: name.replace("score", "bits")).drop(columns=["statistic", "r2"])
    return {"spaces": bits.round(4).to_dict("records")}


def _calls(case: Case) -> Row:
    """Every unit: its calls, its spikes and its spatial information; and how well the spaces fit."""
    counts = laps()
    data = counts.treat(_treatment())
    model = _model(case).fit(data)
    calls = model.attribute(data).calls()
    information = spatial_information(counts, ["position"], bins=BINS, shuffles=500, min_shift=5.0)
    units: dict[str, Row] = {
        row.channel: {
            "spikes": int(total),
            "information": round(row.score, 4),
            "information_chance": round(row.chance, 4),
            "information_p": round(row.p, 4),
        }
        for row, total in zip(_rows(information), counts.X.sum(0), strict=True)
    }
    for row in _rows(calls):
        units[row.channel][row.space] = {
            **{key: round(float(getattr(row, key)), 5) for key in ("score", "ci_low", "ci_high", "p", "q")},
            "called": bool(row.called),
        }
    maps = rate_maps(counts, ["position"], bins=BINS)
    return {
        "goodness_of_fit": model.goodness_of_fit_.round(4).to_dict("records"),
        "units": units,
        "rate_maps": {name: np.nan_to_num(maps.sel(channel=name).values).round(5).tolist() for name in units},
        "places": maps["position"].values.round(1).tolist(),
    }


def _screen(case: Case) -> Row:
    """Calls without an encoder, of the counts as they are."""
    data, asked = laps(), {name: space for name, space in spaces().items() if space.variables}
    shifts = np.linspace(0.1, 0.9, case["decoy_shifts"]).round(3).tolist()
    return {
        **compare_with_glm(data, asked),
        "decoys": count_decoys(data, asked, shifts),
        "unrelated": count_walks(data, case["walks"]),
    }


def _decoding(case: Case) -> Row:
    """Errors of position in the laps of one fold, in pixels: from the embedding, from the counts, from nothing."""
    counts = laps()
    data = counts.treat(_treatment())
    test = data.epochs % FOLDS == case["fold"]
    train = Recording(data.X[~test], data.variables[~test], epochs=data.epochs[~test], time=data.time[~test])
    model = _model(case).fit(train)
    position = data.variables["position"].to_numpy()
    smooth = data.X / np.maximum(np.linalg.norm(data.X, axis=1, keepdims=True), 1e-9)
    z = np.concatenate([model.transform(data.X[part])[:, : spaces()["position"].dim] for part in (~test, test)])
    order = np.concatenate([np.flatnonzero(~test), np.flatnonzero(test)])
    embedding = np.empty_like(z)
    embedding[order] = z
    errors = {"constant": np.abs(position[test] - np.median(position[~test]))}
    for name, inputs in {"embedding": embedding, "counts, cosine": smooth, "counts, Euclidean": data.X}.items():
        decoder = KNeighborsRegressor(NEIGHBOURS).fit(inputs[~test], position[~test])
        errors[name] = np.abs(decoder.predict(inputs[test]) - position[test])
    return {"errors": {name: value.round(2).tolist() for name, value in errors.items()}}


def _decoded(rows: list[Row]) -> dict[str, Any]:
    """Median error of each decoder over all held-out laps, in pixels and as a share of the constant's."""
    median = {
        name: float(np.median(np.concatenate([row["errors"][name] for row in rows]))) for name in rows[0]["errors"]
    }
    return {
        name: {"median_error": round(value, 2), "of_constant": round(value / median["constant"], 4)}
        for name, value in median.items()
    }


def _agreement(units: Mapping[str, Row], seconds: float) -> dict[str, Any]:
    """Spatial information of the units that are called for position and of the others, and where the two disagree.

    In bits per second, as Skaggs et al. (1993) define it, and in bits per spike; each also less what shuffled
    positions give, since few spikes have much information each by chance alone. `p` is that of Mann and Whitney's
    test that the called ones have more, `p_of_significant` the same for the units whose own information is
    significant: how far a measure can tell at all. `p_given_spikes` is that of the partial rank correlation of
    being called with the measure, given the number of spikes: more spikes are more information per second, and are
    called more easily. `rank_correlation` is that of the measure and the unique variance of position over units.
    """
    called = np.array([unit["position"]["called"] for unit in units.values()])
    score = np.array([unit["position"]["score"] for unit in units.values()])
    significant = np.array([unit["information_p"] <= 0.05 for unit in units.values()])
    each, chance, spikes = (
        np.array([unit[key] for unit in units.values()]) for key in ("information", "information_chance", "spikes")
    )
    measures = {
        "bits_per_second": each * spikes / seconds,
        "bits_per_second_above_chance": (each - chance) * spikes / seconds,
        "bits_per_spike": each,
        "bits_per_spike_above_chance": each - chance,
    }
    out: dict[str, Any] = {"called": int(called.sum()), "not_called": int((~called).sum())}
    for name, values in measures.items():
        parts = values[called], values[~called]
        related: Any = stats.spearmanr(score, values) if np.ptp(score) and np.ptp(values) else None
        out[name] = {
            "medians": [round(float(np.median(part)), 4) if len(part) else None for part in parts],
            "p": _more(values, called),
            "p_of_significant": _more(values, significant),
            "p_given_spikes": _more_given(values, called, spikes),
            "rank_correlation": related and round(float(related.statistic), 4),
            "rank_correlation_p": related and float(related.pvalue),
        }
    names = np.array(list(units))
    out["called_without_information"] = names[called & ~significant].tolist()
    out["information_without_call"] = names[~called & significant].tolist()
    return out


def _more(values: np.ndarray, those: np.ndarray) -> float | None:
    """p of Mann and Whitney's test that those values are greater than the others."""
    if those.all() or not those.any():
        return None
    return float(stats.mannwhitneyu(values[those], values[~those], alternative="greater").pvalue)


def _more_given(values: np.ndarray, those: np.ndarray, given: np.ndarray) -> float | None:
    """p of the partial rank correlation, given a third variable, of the values with being among those (one-sided).

    What a line through the ranks of `given` leaves of both is correlated, and compared with random orders.
    """
    if those.all() or not those.any():
        return None
    ranks = [stats.rankdata(x) for x in (values, those, given)]
    design = np.stack([np.ones(len(values)), ranks[2]], axis=1)
    left, right = (x - design @ np.linalg.lstsq(design, x, rcond=None)[0] for x in ranks[:2])
    shuffled = np.random.default_rng(0).permuted(np.tile(right, (ORDERS, 1)), axis=1)
    return float((1 + (shuffled @ left >= right @ left).sum()) / (1 + ORDERS))


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: spaces, decoding, units."""
    parts = {row["part"]: row for row in result["rows"]}
    units = [
        {
            "unit": name,
            **{key: unit[key] for key in ("spikes", "information", "information_chance", "information_p")},
            **{f"{space} q": unit[space]["q"] for space in spaces()},
            "carries": ", ".join(space for space in spaces() if unit[space]["called"]),
        }
        for name, unit in parts["calls"]["units"].items()
    ]
    screened = [
        {
            "space": name,
            **{key: each[key] for key in ("question", "called", "glm", "both")},
            "decoys called": "{called} of {decoys}".format(**parts["screen"]["decoys"][name]),
        }
        for name, each in parts.get("screen", {"spaces": {}})["spaces"].items()
    ]
    decoding = [{"from": name, **value} for name, value in result["decoding"].items()]
    agreement = result["agreement"]
    compared = [
        {
            "information in": name.replace("_", " "),
            "called, median": agreement[name]["medians"][0],
            "others, median": agreement[name]["medians"][1],
            **{k: agreement[name][k] for k in ("p", "p_given_spikes", "p_of_significant", "rank_correlation")},
        }
        for name in agreement
        if name.startswith("bits_per")
    ]
    shown = {"Units called by screen, beside a cross-validated GLM": pd.DataFrame(screened)} if screened else {}
    return {
        "Held-out bits, against shifted variables": pd.DataFrame(parts["shifts"]["spaces"]),
        "Position in held-out laps, median error in pixels": pd.DataFrame(decoding),
        "Units": pd.DataFrame(units),
        **shown,
        "Spatial information of units called for position, and of the others": pd.DataFrame(compared),
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Rate maps of the units, in the order of their score for position: called ones dark."""
    row = next(row for row in result["rows"] if row["part"] == "calls")
    units = sorted(row["units"], key=lambda name: -row["units"][name]["position"]["score"])
    rates = {f"{n}  {row['units'][n]['position']['score']:.3f}": row["rate_maps"][n] for n in units}
    called = [row["units"][name]["position"]["called"] for name in units]
    title = "Rate maps, by unique variance of position; coloured: called at q = 0.05"
    label = "position on the track (pixels)"
    return figures.stacked_curves(row["places"], rates, ax, marked=called, xlabel=label, title=title)


def _rows(table: Any) -> Any:
    return table.itertuples()


def _line(row: Row) -> str:
    return f"{row['part']}{' fold ' + str(row['fold']) if 'fold' in row else ''} ({row['seconds']:.0f} s)"


run = experiment(
    *("track", FULL, QUICK),
    cases=cases,
    rows=one_by_one(measure, _line),
    conclude=conclude,
    draw=draw,
    protocol=lambda plan: {"treatment": str(_treatment()), "spaces": {k: repr(v) for k, v in spaces().items()}},
)
