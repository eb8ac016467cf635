"""Models of a navigating rat's cells: the data and spaces of a case, and how maps are scored.

A *case* holds simulation (the seed of rat and cells), data_seed (that of the model), noise, spikes, mixed (cells of
mixed selectivity), length (time steps of 0.1 s), mode, penalty, and what `many_models.TRAINING` has.
Modes are the papers' three, for a model of position alone, and "all variables": one model with a space for each of
position, head direction and speed. *Entries* and *channels* are as in `box_models`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ascribo.attribution import attribute
from ascribo.attribution.maps import AttributionMaps
from ascribo.attribution.unique_variance import MOST_TRAINING_STEPS, unique_variance_maps
from ascribo.cells.grid_scores import score_grids
from ascribo.cells.spatial_scores import Binned, assign_bins, smooth_maps
from ascribo.data.segments import evenly
from ascribo.metrics.decoding import decode_variables
from ascribo.metrics.scores import auroc
from ascribo.model.fitted import FittedModel
from ascribo.simulate.navigation import NavigationRecording, navigation
from ascribo.spaces.base import Space, layout
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.regress import Regress
from ascribo.spaces.kinds.time import Time
from experiments.regcl import box_models
from experiments.shared.many_models import Study
from experiments.shared.rows import Case, Row

__all__ = [
    "ALL",
    "PROTOCOL",
    "SPACES",
    "WINDOW",
    "decode_spaces",
    "navigation_study",
    "recording",
    "score_all_variables",
    "spaces",
    "together",
]

ALL = "all variables"
SPACES = ("position", "head_direction", "speed")
WINDOW = 10
"""The papers' temporal window: positives are up to this many steps away, changes are those over as many."""
STEP = 0.1
Q = 0.05
BINS = 20
LATTICE = 0.3
"""Grid score from which a map over position is called a lattice: between 0 (none) and some 1.2 (a perfect one)."""
PROTOCOL = {
    "data": "simulate.navigation(simulation): 100 place, grid (two modules), head-direction and speed cells each, "
    "0.1 s a step; rates unless spikes are said",
    "position models": "position: Follow(x, y; dim 4, change over 10 steps), rest: Time(10 dimensions, positives 1 "
    "to 10 steps ahead); supervised: Regress(x, y)",
    "all variables": "position: Follow(x, y; dim 4, change over 10 steps), head_direction: Follow(circular, dim "
    "2), speed: Follow(dim 1), rest: Time(3)",
    "types": "rule: the space a cell is highest in; a lattice from a grid score of its map of 0.3 on, a threshold "
    "that was chosen with simulation 0 in view. cross_validated: logistic regression over cells, 5 folds",
    "channels_on": box_models.STANDARDISED,
    "encoder": "mlp (180, 180, 60), outputs limited to ±5; one model a cell, its seed is data_seed",
    "penalties_mean": box_models.PROTOCOL["penalties_mean"],
    "entries": box_models.PROTOCOL["entries"],
    "channels": box_models.PROTOCOL["channels"],
    "costly_methods": box_models.PROTOCOL["costly_methods"],
}


def recording(case: Case) -> NavigationRecording:
    """The data of a case, without cells that never fire, which a short recording of spikes may have."""
    data = navigation(
        case["simulation"],
        duration=case["length"] * STEP,
        dt=STEP,
        mixed=case.get("mixed", 0),
        noise=case.get("noise", 0.0),
        spikes=case.get("spikes", False),
        progress=False,
    )
    silent = data.constant_channels()
    return data.take_channels([name for name in data.channel_names if name not in silent]) if silent else data


def spaces(case: Case) -> dict[str, Space]:
    """The spaces of a mode.

    >>> list(spaces({"mode": ALL})), list(spaces({"mode": "supervised"}))
    (['position', 'head_direction', 'speed', 'rest'], ['position'])
    """
    place = ("x", "y")
    if case["mode"] == ALL:
        return {
            "position": Follow(place, dim=4, offset=WINDOW),
            "head_direction": Follow(("head_direction",), dim=2, circular=("head_direction",)),
            "speed": Follow(("speed",), dim=1),
            "rest": Time(dim=3),
        }
    if case["mode"] == "supervised":
        return {"position": Regress(place)}
    follow: dict[str, Space] = {"position": Follow(place, dim=4, offset=WINDOW)}
    rest = Time(dim=10, offsets=tuple(range(1, WINDOW + 1)))
    return follow if case["mode"] == "supervised contrastive" else {**follow, "rest": rest}


def together(
    cases: Sequence[Case], recordings: Sequence[NavigationRecording], models: Sequence[FittedModel]
) -> list[Any]:
    """Unique variance of all models of position alone; of those of all variables maps, which have error bars."""
    if cases[0]["mode"] != ALL:
        return box_models.unique_scores(cases, recordings, models)
    steps = min(MOST_TRAINING_STEPS, cases[0]["steps"])
    return [
        unique_variance_maps([model], [data], loss="poisson" if case.get("spikes") else "squared", steps=steps)[0]
        for case, data, model in zip(cases, recordings, models, strict=True)
    ]


def score_all_variables(
    case: Case,
    data: NavigationRecording,
    model: FittedModel,
    maps: AttributionMaps,
    methods: Sequence[str],
) -> Row:
    """A model of all variables: auROC of each space by some methods, calls, and the types of cells told apart."""
    assert data.truth is not None
    out: Row = {"auroc": {space: {} for space in SPACES}, "no_map": []}
    for method in methods:
        steps = evenly(len(data), case["costly" if method in box_models.COSTLY else "samples"])
        found = maps if method == "unique_variance" else attribute(model, data, method, steps)
        for space in SPACES:
            scores = found.by_space.sel(space=space).values
            known = bool(np.isfinite(scores).all())
            out["auroc"][space][method] = (
                round(auroc(scores, data.truth.sel(space=space).values), 6) if known else 0.5
            )
            out["no_map"] += [] if known or method in out["no_map"] else [method]
    calls = maps.calls(Q).pivot(index="channel", columns="space", values="called").loc[data.channel_names]
    out["calls"] = {}
    for space in SPACES:
        called = calls[space].to_numpy(bool)
        truth = data.truth.sel(space=space).values
        out["calls"][space] = {
            "fdp": round(float((called & ~truth).sum() / max(1, called.sum())), 4),
            "power": round(float((called & truth).sum() / truth.sum()), 4),
            "false": int((called & ~truth).sum()),
            "called": int(called.sum()),
        }
    return {**out, "types": _type_accuracy(data, maps)}


def decode_spaces(case: Case, data: NavigationRecording, model: FittedModel) -> dict[str, Row]:
    """How well each variable is decoded from its block of the embedding, by k-NN on held-out time: space -> row."""
    z = model.embedder.embed(model.parameters, model.standardise(data.X), data.epochs)[0].cpu().numpy()
    blocks = layout(model.spaces)
    wanted = {"position": ["x", "y"], "head_direction": ["head_direction"], "speed": ["speed"]}
    out = {}
    for space, names in wanted.items():
        if space not in blocks:
            continue
        found = decode_variables(
            z[:, blocks[space]],
            data.variables[names],
            together={space: names} if len(names) > 1 else None,
            circular=[name for name in names if name == "head_direction"],
            decoders=["knn"],
            gap=min(100, len(data) // 100),
        ).iloc[0]
        out[space] = {k: round(float(found[k]), 5) for k in ("median_error", "r2", "constant_error")}
    return out


def navigation_study(score: Callable[[Case, Any, FittedModel, Any], Row]) -> Study:
    """A study of a navigating rat's cells on standardised channels."""
    data = ("simulation", "noise", "spikes", "mixed", "length")
    return Study(recording, spaces, box_models.schedule, together, score, data=data, one_scale=False)


def _type_accuracy(data: NavigationRecording, maps: AttributionMaps) -> Row:
    """Accuracy with which place, grid, head-direction and speed cells are told apart by their maps alone.

    A cell's row: its score for each space, and the grid score of its map over time binned by position. By a rule
    (the space it is highest in, in standard deviations of the space over cells that are not called; a lattice from
    a grid score of 0.3 on) and by a logistic regression that is cross-validated over cells.
    """
    types = data.types
    pure = np.isin(types, ("place", "grid", "head_direction", "speed"))
    local = maps.over_time().sel(space="position").values
    known = np.isfinite(local).all(1)
    lattice = np.zeros(len(types))
    if known.any():  # too short a recording has no test of position
        place = data.variables[["x", "y"]].to_numpy()[known]
        weights = Binned(assign_bins(place, BINS)[0], BINS**2)
        lattice = score_grids(smooth_maps(weights.sums(local[known]), weights.counts, (BINS, BINS), 1.0))
    lattice = np.nan_to_num(lattice, nan=0.0)
    scores = np.nan_to_num(maps.by_space.sel(space=list(SPACES)).values, nan=0.0)
    called = maps.calls(Q).pivot(index="channel", columns="space", values="called").loc[data.channel_names]
    quiet = [scores[~called[space].to_numpy(bool), k] for k, space in enumerate(SPACES)]
    spread = [own.std() if len(own) > 1 else scores[:, k].std() for k, own in enumerate(quiet)]
    most = (scores / np.maximum(spread, 1e-12)).argmax(1)
    kinds = np.array(SPACES)[most]
    guessed = np.where(kinds == "position", np.where(lattice >= LATTICE, "grid", "place"), kinds)
    rows = np.column_stack([scores, lattice])[pure]
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    learned: Any = cross_val_predict(classifier, rows, types[pure], cv=folds)
    return {
        "rule": round(float(np.equal(guessed, types)[pure].mean()), 4),
        "cross_validated": round(float(np.equal(learned, types[pure]).mean()), 4),
        "grid_score": {kind: round(float(np.median(lattice[types == kind])), 3) for kind in dict.fromkeys(types)},
    }
