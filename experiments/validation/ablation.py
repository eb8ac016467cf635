"""What would an embedding add to calls for known variables?

The test of known variables conditions on the past of the channels, which stands for what is hidden. By default that
past is seen through principal components. Here it is seen through the embedding of a trained encoder, of the same
encoder before training, as many principal components, the raw channels, or not at all. Everything else of the test
is the same. Measured for the known variables of each recording: area under the ROC curve of the scores, power and
share of false calls at q = 0.05. Simulated are box data, mixed selectivity, cells of a navigating rat and all of
`situations`. Of real recordings, whose truth is not known, the calls are counted, and the share of a
cross-validated GLM's calls among them. The hidden latents are not asked about: only a trained embedding has a space
for them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
from scipy import stats

from ascribo import figures
from ascribo.data.recording import Recording
from ascribo.metrics.scores import auroc
from ascribo.model.estimator import ContrastiveEmbedding
from ascribo.screening import screen_spaces
from ascribo.simulate.box import box
from ascribo.simulate.mixed import mixed
from ascribo.simulate.navigation import navigation
from ascribo.spaces.base import Space
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.time import Time
from ascribo.support.compute import one_thread
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one
from experiments.validation import reaching, track
from experiments.validation.established_methods import cross_validated_glm
from experiments.validation.real_recordings import as_numbers
from experiments.validation.situations import as_recording
from experiments.validation.situations_data import SITUATIONS
from experiments.validation.situations_further import FURTHER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EMBEDDINGS", "FULL", "QUICK", "RECORDINGS", "cases", "compare", "conclude", "draw", "run", "tables"]

Q = 0.05
EMBEDDINGS = ("trained", "untrained", "principal components", "raw past channels", "none")


class Known(NamedTuple):
    """A recording, its spaces with variables, and for each of them which channels carry it; None if not known."""

    recording: Recording
    spaces: dict[str, Space]
    truth: dict[str, np.ndarray] | None


def _box(seed: int, steps: int) -> Known:
    data = box(seed, observed=2, hidden=4, steps=steps, snr=3)
    carried = cast(Any, data.truth)
    names = list(data.variables)
    (name,) = carried["space"].values.tolist()[:1]
    return Known(data, {name: Follow(names, dim=2)}, {name: carried.sel(space=name).values})


def _mixed(correlation: float) -> Callable[[int, int], Known]:
    def make(seed: int, steps: int) -> Known:
        data = mixed(seed, hidden=2, channels=40, steps=steps, snr=1.5, correlation=correlation)
        carried = cast(Any, data.truth)
        spaces: dict[str, Space] = {n: Follow(tuple(own), dim=len(own)) for n, own in data.spaces.items()}
        return Known(data, spaces, {name: carried.sel(space=name).values for name in spaces})

    return make


def _navigation(seed: int, steps: int) -> Known:
    kinds: dict[str, Any] = {"place": 20, "grid": 20, "head_direction": 20, "speed": 20}
    data = navigation(seed, duration=0.1 * steps, dt=0.1, noise=1.0, progress=False, **kinds)
    spaces: dict[str, Space] = {
        "position": Follow(("x", "y"), dim=4),
        "head_direction": Follow("head_direction", dim=2, circular=True),
        "speed": Follow("speed", dim=1),
    }
    carried = cast(Any, data.truth)
    return Known(data, spaces, {name: carried.sel(space=name).values for name in spaces})


def _situation(name: str, seed: int, steps: int) -> Known:
    data = {**SITUATIONS, **FURTHER}[name](np.random.default_rng([zlib.crc32(name.encode()), seed]))
    recording, spaces, _ = as_recording(data)
    return Known(recording, spaces, data.truth)


def _track(seed: int, steps: int) -> Known:
    return Known(track.laps(), {n: space for n, space in track.spaces().items() if space.variables}, None)


def _reaching(seed: int, steps: int) -> Known:
    return Known(reaching.reaches(), reaching.spaces(list(reaching.VARIABLES)), None)


SIMULATED: dict[str, Callable[[int, int], Known]] = {
    "box, 6 latents": _box,
    "mixed selectivity": _mixed(0.0),
    "mixed selectivity, correlation 0.8": _mixed(0.8),
    "navigation": _navigation,
}
REAL: dict[str, Callable[[int, int], Known]] = {"track": _track, "reaching": _reaching}
SITUATION: dict[str, Callable[[int, int], Known]] = {
    f"situation: {name}": partial(_situation, name) for name in {**SITUATIONS, **FURTHER}
}
RECORDINGS = {**SIMULATED, **REAL, **SITUATION}
FULL = {"recordings": list(RECORDINGS), "data_seeds": range(3), "steps": 10_000, "training": 400}
"""`data_seeds` : of `SIMULATED`; the others have one recording each. `steps` : time steps of a recording; of
situations and real recordings they are given. `training` : training steps of the encoder, one seed; None: the
default."""
QUICK = {"recordings": ["mixed selectivity"], "data_seeds": range(1), "steps": 2_000, "training": 60}


def cases(plan: Plan) -> list[Case]:
    """The recordings."""
    return [
        {"recording": name, "data_seed": seed, "steps": plan["steps"], "training": plan["training"]}
        for name in plan["recordings"]
        for seed in (plan["data_seeds"] if name in SIMULATED else [0])
    ]


def compare(recording: str, data_seed: int, steps: int, training: int | None) -> Row:
    """All embeddings on one recording."""
    data = RECORDINGS[recording](50_000 + data_seed, steps)
    how: dict[str, Any] = {} if training is None else {"steps": training, "seeds": 1}
    options = {"random_state": 0, "device": "cpu", "n_jobs": 1, "drop_constant": True, "progress": False, **how}
    model = ContrastiveEmbedding({**data.spaces, "hidden": Time(2)}, **options).fit(data.recording)
    fitted, epochs = model.model_, data.recording.epochs
    X = fitted.standardise(data.recording.take_channels(list(fitted.channels)).X)[:]
    initial = fitted.embedder.initial(fitted.module, [0])
    axes = torch.linalg.svd(X - X.mean(0), full_matrices=False)[2][: fitted.embedder.dim].T
    views = {
        "trained": fitted.embedder.embed(fitted.parameters, X, epochs)[0],
        "untrained": fitted.embedder.embed(initial, X, epochs)[0],
        "principal components": X @ axes,
        "raw past channels": X,
        "none": torch.zeros(len(X), 1),
    }
    theirs = None if data.truth is not None else _glm_calls(data)
    rows = [{"embedding": name, **_score(data, view.numpy(), theirs)} for name, view in views.items()]
    return {"recording": recording, "data_seed": data_seed, "embeddings": rows, "spent": model.spent_["steps"]}


def _glm_calls(data: Known) -> dict[str, np.ndarray]:
    """Which channels a cross-validated GLM calls for each space."""
    table, regressors = as_numbers(data.recording, data.spaces)
    calls = cross_validated_glm(Recording(data.recording.X, table), regressors, Q)
    return {name: calls.loc[calls["space"] == name, "called"].to_numpy(bool) for name in regressors}


def _score(data: Known, view: np.ndarray, glm: dict[str, np.ndarray] | None) -> dict[str, float]:
    """Area under the ROC curve, power and share of false calls, over all known variables; of a real recording the
    number of calls, and the share of the GLM's among them."""
    with one_thread():
        tests = screen_spaces(data.recording, data.spaces, view=view)
    own = [stats.false_discovery_control(np.nan_to_num(test.p, nan=1.0)) <= Q for test in tests]
    called = np.concatenate(own)
    if data.truth is None:
        assert glm is not None
        theirs = np.concatenate([glm[test.space] for test in tests])
        share = float((called & theirs).sum() / max(1, theirs.sum()))
        return {"called": int(called.sum()), "glm": int(theirs.sum()), "share_of_glm": round(share, 4)}
    truth = np.concatenate([data.truth[test.space] for test in tests])
    split = [test for test in tests if 0 < data.truth[test.space].sum() < len(data.truth[test.space])]
    areas = [auroc(np.nan_to_num(test.score), data.truth[test.space]) for test in split]
    return {
        "auroc": round(float(np.mean(areas)), 4),
        "power": round(float((called & truth).sum() / max(1, truth.sum())), 4),
        "fdp": round(float((called & ~truth).sum() / max(1, called.sum())), 4),
    }


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add the means of each embedding over the recordings of a kind, and the calls of real recordings."""
    many = f"{len({row['recording'] for row in result['rows']} & SITUATION.keys())} situations"
    kinds = [many if row["recording"] in SITUATION else row["recording"] for row in result["rows"]]
    each = zip(kinds, result["rows"], strict=True)
    every = [{"recording": kind, **one} for kind, row in each for one in row["embeddings"]]
    summary: list[Row] = []
    known = pd.DataFrame([one for one in every if "auroc" in one])
    if len(known):
        grouped: Any = known.groupby(["recording", "embedding"], sort=False)[["auroc", "power", "fdp"]]
        summary = grouped.mean().round(4).reset_index().to_dict("records")
    return {**result, "summary": summary, "real": [one for one in every if "glm" in one]}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: each kind of recording."""
    named = {"auroc": "auROC", "fdp": "false discovery rate", "share_of_glm": "share of the GLM's"}
    out = {}
    for rows in (result["summary"], result["real"]):
        if rows:
            table = pd.DataFrame(rows).rename(columns=named)
            grouped = table.groupby("recording", sort=False)
            out |= {str(name): own.drop(columns="recording") for name, own in grouped}
    return out


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Power of each embedding, of real recordings the share of the GLM's calls: bars for each kind of recording."""
    rows = [{**row, "shown": row["power"]} for row in result["summary"]]
    rows += [{**row, "shown": row["share_of_glm"]} for row in result["real"]]
    kinds = list(dict.fromkeys(row["recording"] for row in rows))
    series = {name: [row["shown"] for row in rows if row["embedding"] == name] for name in EMBEDDINGS}
    label = f"power at q = {Q}\n(track, reaching: share of a GLM's calls)"
    ax = figures.bars(series, [kind.replace(", ", ",\n") for kind in kinds], ax, ylabel=label)
    ax.set_ylim(0, 1.05)
    return ax


def _line(row: Row) -> str:
    found = ", ".join(f"{one['embedding']} {one.get('power', one.get('called'))}" for one in row["embeddings"])
    return f"{row['recording']}, seed {row['data_seed']}: power (or calls) {found}"


run = experiment(
    *("ablation", FULL, QUICK),
    cases=cases,
    rows=one_by_one(compare, _line),
    conclude=conclude,
    draw=draw,
    protocol={"q": Q, "embeddings": list(EMBEDDINGS)},
    cpu_only=True,
)
