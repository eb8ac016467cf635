"""Several runs beside each other: same channels, same variables, what agrees."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..attribution.maps import AttributionMaps
from ..evidence.stability import map_consistency
from ..model.estimator import ContrastiveEmbedding
from ..support.files import write_atomically
from ..support.names import plural
from .render import encoded, render
from .words import listed, percent, short

__all__ = ["Run", "called_channels", "compare_runs", "write_comparison"]

MOST_ROWS = 300
"""Channels that a table shows; those that are called most often come first."""


@dataclass(frozen=True, eq=False)
class Run:
    """A fitted model with its maps: of a session, an animal, or other settings. See `write_comparison`.

    >>> [name for name in Run.__dataclass_fields__]
    ['model', 'maps']
    """

    model: ContrastiveEmbedding
    maps: AttributionMaps


def write_comparison(
    runs: Mapping[str, Run], path: str | Path, *, q: float = 0.05, title: str | None = None
) -> Path:
    """Write a page that compares runs, by name: channels and spaces are matched by their names.

    q : false discovery rate of the calls within each space and run.

    Examples
    --------
    >>> import tempfile, ascribo as asc
    >>> data = asc.simulate.box(observed=1, hidden=1, channels=(3, 3), steps=1200)
    >>> small = dict(spaces={"x": asc.Follow("x", dim=1)}, seeds=1, steps=10, batch_size=64, penalty=0)
    >>> runs = {}
    >>> for day, part in {"monday": data[:600], "tuesday": data[600:]}.items():
    ...     model = asc.ContrastiveEmbedding(**small).fit(part)
    ...     runs[day] = Run(model, model.attribute(part))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = write_comparison(runs, f"{folder}/both.html", title="Two days").read_text()
    >>> "Two days" in text, "tuesday" in text
    (True, True)
    """
    words = compare_runs(runs, q)
    when = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
    text = render("compare.html", title=title or f"{len(runs)} runs compared", when=when, **words)
    return write_atomically(path, lambda file: file.write_bytes(encoded(text)))


def compare_runs(runs: Mapping[str, Run], q: float = 0.05) -> dict[str, Any]:
    """What the page says. Spaces and channels that are not in all runs are left out of the comparison."""
    if len(runs) < 2:
        raise ValueError(f"{len(runs)} run{plural(len(runs))} given: expected at least two to compare.")
    spaces = _shared([run.maps.by_space["space"].values.tolist() for run in runs.values()])
    channels = _shared([run.maps.by_space["channel"].values.tolist() for run in runs.values()])
    every = {s for run in runs.values() for s in run.maps.by_space["space"].values.tolist()}
    calls = {name: called_channels(run.maps, q) for name, run in runs.items()}
    return {
        "runs": [
            {
                "name": name,
                "channels": run.maps.by_space.sizes["channel"],
                "method": run.maps.method.replace("_", " "),
                "seeds": run.model.model_.seeds,
            }
            for name, run in runs.items()
        ],
        "shared": len(channels),
        "left_out": sorted(every - set(spaces)),
        "spaces": [_space(name, runs, calls, channels) for name in spaces],
        "q": q,
        "most": MOST_ROWS,
    }


def _space(
    name: str, runs: Mapping[str, Run], calls: Mapping[str, pd.DataFrame], channels: list[str]
) -> dict[str, Any]:
    """One space in all runs: how many channels carry it in each, and which of the shared ones in all."""
    each, called, scores = [], [], []
    for key, run in runs.items():
        own: Any = calls[key].loc[:, name] if name in calls[key] else None
        fit: Any = run.model.goodness_of_fit_.set_index("space").loc[name]
        each.append(
            {
                "run": key,
                "called": None if own is None else int(own.sum()),
                "channels": run.maps.by_space.sizes["channel"],
                "bits": float(fit["bits"]),
                "low": float(fit["bits_low"]),
                "high": float(fit["bits_high"]),
            }
        )
        scores.append(run.maps.by_space.sel(space=name, channel=channels).values)
        called.append(None if own is None else own.reindex(channels).to_numpy(dtype=bool))
    unknown = [key for key, one in zip(runs, called, strict=True) if one is None]
    tested = len(channels) > 0 and not unknown
    marks = np.array([np.zeros(len(channels), dtype=bool) if one is None else one for one in called])
    times, mean = marks.sum(0), np.nanmean(np.nan_to_num(np.array(scores)), axis=0) if channels else np.zeros(0)
    order = np.lexsort((-mean, -times))
    rows = [
        {
            "channel": channels[c],
            "times": int(times[c]),
            "runs": [{"score": float(s[c]), "called": bool(m[c])} for s, m in zip(scores, marks, strict=True)],
        }
        for c in order[:MOST_ROWS]
    ]
    return {
        "name": name,
        "each": each,
        "tested": tested,
        "all": int((times == len(runs)).sum()),
        "some": int(((times > 0) & (times < len(runs))).sum()),
        "none": int((times == 0).sum()),
        "overlap": _overlap(marks) if tested else None,
        "correlation": _correlation(runs, name, len(channels)),
        "answer": _answer(unknown, times, len(runs)),
        "rows": rows,
    }


def _answer(unknown: list[str], times: np.ndarray, runs: int) -> str:
    """What agrees, in a sentence. unknown : the runs that have no answer for the space."""
    if not len(times):
        return "The runs share no channel by name: only the numbers of channels can be compared."
    if unknown:
        names = listed([short(name, 24) for name in unknown])
        return f"Not tested or not decided in {names}: calls cannot be compared."
    any_run, all_runs = int((times > 0).sum()), int((times == runs).sum())
    if not any_run:
        return f"None of the {len(times)} shared channels is called in any run."
    return (
        f"Of {any_run} shared channel{plural(any_run)} called in any run, {all_runs} "
        f"({percent(all_runs / any_run)}) {'is' if all_runs == 1 else 'are'} called in "
        f"{'both' if runs == 2 else f'all {runs}'}."
    )


def _overlap(marks: np.ndarray) -> float | None:
    """Lowest share of the calls of two runs that both have, over pairs of runs; None where neither has any."""
    shares = [float((a & b).sum() / (a | b).sum()) for a, b in combinations(marks, 2) if (a | b).any()]
    return min(shares) if shares else None


def _correlation(runs: Mapping[str, Run], name: str, shared: int) -> float | None:
    """Lowest rank correlation of the scores of two runs."""
    if shared < 3:
        return None
    maps = [run.maps.by_space.sel(space=[name]) for run in runs.values()]
    values = map_consistency(maps)["spearman"].to_numpy()
    return float(values.min()) if np.isfinite(values).all() else None


def called_channels(maps: AttributionMaps, q: float) -> pd.DataFrame:
    """Calls as booleans (channel, space), of the spaces that have an answer: no answer is not "no"."""
    if not maps.tested:
        return pd.DataFrame(index=maps.by_space["channel"].values)
    table = maps.calls(q).pivot(index="channel", columns="space", values="called").astype(bool)
    return table.drop(columns=[name for name in {**maps.undecided, **maps.refused} if name in table])


def _shared(lists: list[list[str]]) -> list[str]:
    """Those of the first list that are in all."""
    return [str(name) for name in lists[0] if all(name in other for other in lists[1:])]
