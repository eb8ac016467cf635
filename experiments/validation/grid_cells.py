"""Cells of the entorhinal cortex, recorded for real: does attribution of position go along with the grid score?

After Schneider et al. (2025), figure 7, with another recording: theirs has 128 grid cells (Gardner et al. 2022),
this one 13 cells of one rat in five sessions of ten minutes in a square of 1 m (Sargolini et al. 2006, free for any
use). It is not part of the repository: the setting `ASCRIBO_DATA` names the folder that has
`mec_grid_cells_sargolini.npz`. Head direction was not recorded.

In each session alone, and in all of them pooled by `SharedEmbedding`, an embedding of position is trained, and
position is attributed to the cells: by the unique variance and by the papers' inverted neuron gradient.
`ascribo.screen` calls cells without any embedding. The control shifts every cell in time by an amount of its own,
which leaves nothing of position. Beside it stand the grid score and the spatial information of each cell, with
their shuffle tests.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from ascribo import figures
from ascribo.cells.spatial_scores import grid_score, spatial_information
from ascribo.data.preprocessing import Treatment
from ascribo.data.recording import Recording
from ascribo.model.estimator import ContrastiveEmbedding
from ascribo.model.sessions import SharedEmbedding
from ascribo.networks.encoders import Convolution
from ascribo.screening import screen
from ascribo.spaces.base import Space
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.time import Time
from experiments.shared.environment import data_file
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one
from experiments.validation.real_recordings import count_decoys, count_walks, table_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "cases", "conclude", "draw", "run", "sessions", "tables"]

FILE = "mec_grid_cells_sargolini.npz"
STEP, SMOOTH, AHEAD, WINDOW = 0.1, 0.25, 5, 10
"""Seconds of a bin and of the Gaussian over counts; time steps between a reference and its positive, and of the
window that an encoder sees (some sessions have one cell only)."""
SHIFTS = tuple(np.round(np.linspace(0.1, 0.9, 16), 3).tolist())
METHODS = ("unique_variance", "inverted_neuron_gradient")
FULL = {"steps": 500, "seeds": 2, "shuffles": 500, "shifts": SHIFTS, "walks": 20}
QUICK = {"steps": 50, "seeds": 1, "shuffles": 20, "shifts": SHIFTS[:1], "walks": 2}


def sessions(control: bool = False) -> dict[str, Recording]:
    """Counts (time, cell) in bins of 100 ms with the rat's place in cm; control : each cell shifted in time."""
    out: dict[str, Recording] = {}
    with np.load(data_file(FILE), allow_pickle=False) as file:
        for name in dict.fromkeys(key.split("/")[0] for key in file.files):
            stamps, place = file[f"{name}/time"], file[f"{name}/xy"].astype(float)
            edges = np.arange(0, stamps[-1], STEP)
            centres = (edges[1:] + edges[:-1]) / 2
            seen = np.isfinite(place).all(1)
            xy = {axis: np.interp(centres, stamps[seen], place[seen, k]) for k, axis in enumerate("xy")}
            cells = [key for key in file.files if key.startswith(f"{name}/spikes/")]
            counts = np.stack([np.histogram(file[key], edges)[0] for key in cells], axis=1).astype(np.float32)
            if control:
                rng = np.random.default_rng(len(out))
                shifts = rng.integers(len(counts) // 5, 4 * len(counts) // 5, len(cells))
                counts = np.stack([np.roll(c, s) for c, s in zip(counts.T, shifts, strict=True)], axis=1)
            names = [f"{name[6:]} {key.split('/')[-1]}" for key in cells]
            out[name] = Recording(pd.DataFrame(counts, columns=names), xy, time=centres)
    return out


def spaces() -> dict[str, Space]:
    """Position, and what else moves on smoothly."""
    return {"position": Follow(["x", "y"], dim=3, offset=AHEAD), "rest": Time(2, offsets=(AHEAD,))}


def cases(plan: Plan) -> list[Case]:
    """Embeddings of each session and of all, with cells as they are and shuffled; the classical scores; decoys."""
    names = list(sessions())
    shared = {key: plan[key] for key in ("steps", "seeds", "device")}
    return [
        *(
            {"part": "attribution", "session": name, "control": c, **shared}
            for c in (False, True)
            for name in names
        ),
        *({"part": "attribution", "session": "pooled", "control": c, **shared} for c in (False, True)),
        {"part": "scores", "shuffles": plan["shuffles"]},
        {"part": "decoys", "shifts": plan["shifts"], "walks": plan["walks"]},
    ]


def measure(part: str, **case: Any) -> Row:
    """One part of the experiment."""
    began = time.monotonic()
    found = {"attribution": _attribution, "scores": _scores, "decoys": _decoys}[part](**case)
    return {"part": part, **case, **found, "seconds": round(time.monotonic() - began, 1)}


def _attribution(session: str, control: bool, steps: int, seeds: int, device: str) -> Row:
    """Scores of position of every cell by each method, and the calls."""
    data = {
        name: each.treat(Treatment(smooth=SMOOTH, transform="sqrt")) for name, each in sessions(control).items()
    }
    options: dict[str, Any] = {
        **{"seeds": seeds, "steps": steps, "device": device, "encoder": Convolution(window=WINDOW)},
        **{"random_state": 0, "progress": False},
    }
    cells: dict[str, Row] = {}
    if session == "pooled":
        model = SharedEmbedding(spaces(), **options).fit(data)
        maps = {method: list(model.attribute(data, method=method).values()) for method in METHODS}
    else:
        alone = ContrastiveEmbedding(spaces(), **options).fit(data[session])
        maps = {method: [alone.attribute(data[session], method=method)] for method in METHODS}
    for method, each in maps.items():
        for found in each:
            scores = found.by_space.sel(space="position")
            for cell, score in zip(scores["channel"].values, scores.values, strict=True):
                cells.setdefault(str(cell), {})[method] = round(float(score), 5)
    for found in maps["unique_variance"]:
        calls = found.calls()
        for row in table_rows(calls[calls["space"] == "position"]):
            cells[str(row.channel)]["called"] = bool(row.called)
    return {"cells": cells}


def _scores(shuffles: int) -> Row:
    """Grid score, spatial information and the screening of every cell."""
    cells: dict[str, Row] = {}
    for recording in sessions().values():
        rates = recording.treat(Treatment(smooth=SMOOTH))
        found = screen(recording, {"position": Follow(["x", "y"], dim=2)}).calls
        for name, score in {"grid": grid_score, "information": spatial_information}.items():
            for row in table_rows(score(rates, ("x", "y"), shuffles=shuffles)):
                own = cells.setdefault(str(row.channel), {})
                own[name], own[f"{name}_p"] = round(float(row.score), 4), round(float(row.p), 4)
        for row in table_rows(found):
            cells[str(row.channel)] |= {"screen": round(float(row.score), 5), "screened": bool(row.called)}
    return {"cells": cells}


def _decoys(shifts: list[float], walks: int) -> Row:
    """Shifted copies of cells that are called beside them, and cells that are called for unrelated walks."""
    position: dict[str, Space] = {"position": Follow(["x", "y"], dim=2)}
    called = decoys = wrong = asked = 0
    for recording in sessions().values():
        found = count_decoys(recording, position, shifts)["position"]
        called, decoys = called + found["called"], decoys + found["decoys"]
        unrelated = count_walks(recording, walks)
        wrong, asked = wrong + sum(unrelated["called"]), asked + walks * unrelated["channels"]
    return {"called": called, "decoys": decoys, "called_for_walks": wrong, "cells_and_walks": asked}


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """A table of cells, and the rank correlation of the grid score with each attribution."""
    rows = result["rows"]
    cells: dict[str, Row] = {k: dict(v) for k, v in next(r for r in rows if r["part"] == "scores")["cells"].items()}
    for row in rows:
        if row["part"] == "attribution":
            where = ("pooled" if row["session"] == "pooled" else "alone") + (", shuffled" if row["control"] else "")
            for cell, found in row["cells"].items():
                cells[cell][where] = found
    agreement = []
    for where in ("alone", "pooled", "alone, shuffled", "pooled, shuffled"):
        for method in METHODS:
            for key in ("grid", "information"):
                pairs = np.array([[cell[key], cell[where][method]] for cell in cells.values()])
                pairs = pairs[np.isfinite(pairs).all(1)]
                found: Any = stats.spearmanr(*pairs.T)
                agreement.append(
                    {
                        **{"embedding": where, "method": method, "with": key, "cells": len(pairs)},
                        "rank_correlation": round(float(found.statistic), 3),
                        "p": round(float(found.pvalue), 4),
                    }
                )
    counts = {
        where: sum(bool(cell[where].get("called")) for cell in cells.values())
        for where in ("alone", "pooled", "alone, shuffled", "pooled, shuffled")
    }
    counts["screen"] = sum(cell["screened"] for cell in cells.values())
    decoys = next({k: v for k, v in row.items() if k != "part"} for row in rows if row["part"] == "decoys")
    return {**result, "cells": cells, "agreement": agreement, "called": counts, "decoys": decoys}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: cells, agreement, calls."""
    cells = [
        {
            "cell": name,
            **{key: cell[key] for key in ("grid", "grid_p", "information", "information_p", "screened")},
            **{f"{where}: {key}": cell[where][key] for where in ("alone", "pooled") for key in METHODS},
        }
        for name, cell in result["cells"].items()
    ]
    calls = [{"calls of": name, "cells": count} for name, count in result["called"].items()]
    decoys = result["decoys"]
    calls.append({"calls of": f"decoys, of {decoys['decoys']}", "cells": decoys["called"]})
    calls.append(
        {"calls of": f"unrelated walks, of {decoys['cells_and_walks']}", "cells": decoys["called_for_walks"]}
    )
    return {
        "Cells": pd.DataFrame(cells),
        "Rank correlation over cells": pd.DataFrame(result["agreement"]),
        "Called for position": pd.DataFrame(calls),
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Grid score against unique variance of position: cells alone and pooled, and the shuffled control."""
    cells = list(result["cells"].values())
    series: dict[str, dict[str, Any]] = {
        where: {"x": [cell["grid"] for cell in cells], "y": [cell[where]["unique_variance"] for cell in cells]}
        for where in ("alone", "pooled", "pooled, shuffled")
    }
    series["alone"]["s"], series["pooled"]["s"] = 70, 16  # where both are the same, one sees both
    series["pooled, shuffled"]["color"] = figures.FAINT
    labels: dict[str, Any] = {"xlabel": "grid score", "ylabel": "unique variance of position"}
    return figures.points(
        series, ax, title="13 entorhinal cells (Sargolini et al. 2006)", size=(5.6, 3.6), **labels
    )


run = experiment(
    *("grid-cells", FULL, QUICK),
    cases=cases,
    rows=one_by_one(measure, lambda row: f"{row['part']} {row.get('session', '')}: {row['seconds']} s"),
    conclude=conclude,
    draw=draw,
    protocol={"data": "Sargolini et al. (2006), five sessions of one rat, 13 cells", "bin_seconds": STEP},
)
