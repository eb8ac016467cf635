"""Many runs on one page: how what was found is spread over sessions, which stand out, and which failed and why."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..support.files import write_atomically
from ..support.names import plural
from .render import encoded, render
from .words import percent

__all__ = ["Failure", "Outcome", "summarise_runs", "write_summary"]

BARS = 24
"""Of a histogram."""
FENCE = 1.5
"""Times the range of the middle half beyond which a run stands out, as in a box plot."""
LEAST_RANGE = {"bits": 0.05, "share": 0.02}
"""The range of the middle half is taken to be this at least: sessions that are all but alike have no outliers."""
ENOUGH = 8
"""Runs from which it is asked which stand out."""
MOST_ROWS, MOST_APART, MOST_NAMED = 1000, 100, 12
"""Runs in the table, runs that stand out, and sessions that failed for one reason: so many are shown."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run found of one space. settings : in words, empty where there is one choice. run : its folder's name.

    scores, called : (channel,); called is None where the space has no answer.
    """

    session: str
    settings: str
    run: str
    space: str
    bits: float
    collapsed: bool
    scores: np.ndarray
    called: np.ndarray | None

    @property
    def share(self) -> float:
        """Of the channels, how many are called; NaN where the space has no answer.

        >>> Outcome("rat", "", "a1", "x", 1.0, False, np.zeros(4), np.array([True, False, False, False])).share
        0.25
        """
        return float("nan") if self.called is None or not len(self.called) else float(self.called.mean())


@dataclass(frozen=True)
class Failure:
    """A run that failed, and why.

    >>> Failure("rat3", "penalty 0.1", "ValueError: it has no variable 'x'").session
    'rat3'
    """

    session: str
    settings: str
    reason: str


def write_summary(
    outcomes: Sequence[Outcome],
    path: str | Path,
    *,
    failures: Sequence[Failure] = (),
    waiting: int = 0,
    q: float = 0.05,
    title: str | None = None,
) -> Path:
    """Write a page about any number of runs: its size grows little with them.

    failures, waiting : runs that failed, and how many are not computed yet. q : false discovery rate of the calls.

    Examples
    --------
    >>> import tempfile
    >>> called = np.arange(10) < 5
    >>> runs = [Outcome(f"rat{k}", "", f"a{k}", "x", 1 + k / 50, False, called / 4, called) for k in range(50)]
    >>> write_summary(runs, f"{tempfile.mkdtemp()}/summary.html").name
    'summary.html'
    """
    words = summarise_runs(outcomes, failures)
    when = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
    title = title or f"{words['runs']:,} runs of {words['sessions']:,} sessions"
    text = render("summary.html", title=title, when=when, waiting=waiting, q=q, **words)
    return write_atomically(path, lambda file: file.write_bytes(encoded(text)))


def summarise_runs(outcomes: Sequence[Outcome], failures: Sequence[Failure] = ()) -> dict[str, Any]:
    """What the page says."""
    if not outcomes:
        raise ValueError("no run is done: there is nothing to summarise.")
    names = list(dict.fromkeys(one.space for one in outcomes))
    settings = list(dict.fromkeys(one.settings for one in outcomes))
    apart = _apart(outcomes, names, settings)
    rows = _rows(outcomes, names, {(one["run"], one["space"], one["kind"]) for one in apart})
    return {
        "runs": len(rows),
        "sessions": len({one.session for one in outcomes}),
        "settings": settings,
        "names": names,
        "spaces": [_space(name, settings, [one for one in outcomes if one.space == name]) for name in names],
        "apart": apart[:MOST_APART],
        "all_apart": len(apart),
        "rows": rows[:MOST_ROWS],
        "failed": len(failures),
        "failures": _by_reason(failures),
    }


def _space(name: str, settings: Sequence[str], own: Sequence[Outcome]) -> dict[str, Any]:
    """One space: a sentence, and for each choice of settings its numbers and their histograms, on common axes."""
    limits = {
        "bits": _limits([one.bits for one in own]),
        "share": (0.0, 1.0),
        "score": _limits(np.concatenate([one.scores for one in own])),
    }
    chosen = {each: [one for one in own if one.settings == each] for each in settings}
    groups = [_group(each, some, limits) for each, some in chosen.items() if some]
    return {"name": name, "answer": _answer(own), "groups": groups}


def _group(settings: str, own: Sequence[Outcome], limits: dict[str, tuple[float, float]]) -> dict[str, Any]:
    known = [one for one in own if one.called is not None]
    scores = np.concatenate([np.empty(0), *(one.scores for one in known or own)])
    marks = np.concatenate([np.empty(0, bool), *(one.called for one in known if one.called is not None)])
    called, others = (scores[marks], scores[~marks]) if known else (scores[:0], scores)
    return {
        "settings": settings,
        "runs": len(own),
        "tested": len(known),
        "found": sum(bool(one.called.any()) for one in known if one.called is not None),
        "collapsed": sum(one.collapsed for one in own),
        "bits": _spread([one.bits for one in own]),
        "share": _spread([one.share for one in known]),
        "score": _spread(called),
        "histograms": [
            _histogram("bits above chance", limits["bits"], [one.bits for one in own]),
            _histogram("share of channels called", limits["share"], [one.share for one in known]),
            _histogram("scores of channels", limits["score"], called, others),
        ],
    }


def _answer(own: Sequence[Outcome]) -> str:
    """What was found of a space over all runs, in a sentence."""
    known = [one for one in own if one.called is not None]
    if not known:
        return "Not tested or not decided in any run: there are scores alone."
    some = sum(one.share > 0 for one in known)
    low, middle, high = _spread([one.share for one in known]) or (0.0, 0.0, 0.0)
    missing = f" {len(own) - len(known):,} more have no answer." if len(known) < len(own) else ""
    return (
        f"Channels carry it in {some:,} of {len(known):,} run{plural(len(known))} ({percent(some / len(known))}). "
        f"In the middle run {percent(middle)} of the channels do, in the middle half of runs {percent(low)} to "
        f"{percent(high)}.{missing}"
    )


def _spread(values: Any) -> tuple[float, float, float] | None:
    """Quartiles of what is known; None where nothing is.

    >>> _spread([1.0, 2.0, 3.0, float("nan")])
    (1.5, 2.0, 2.5)
    """
    known = _known(values)
    return tuple(np.quantile(known, (0.25, 0.5, 0.75)).tolist()) if len(known) else None


def _limits(values: Any) -> tuple[float, float]:
    """The axis of a histogram: all values, but for those far beyond the middle half, which are put at its ends."""
    quartiles = _spread(values)
    if quartiles is None:
        return 0.0, 1.0
    low, _, high = quartiles
    known, far = _known(values), 2 * FENCE * (high - low)
    ends = float(max(known.min(), low - far)), float(min(known.max(), high + far))
    return ends if ends[1] > ends[0] else (ends[0] - 0.5, ends[0] + 0.5)


def _histogram(label: str, limits: tuple[float, float], first: Any, second: Any = ()) -> dict[str, Any]:
    """Bars of two sets of values on top of each other, as shares of the highest; the first is in colour."""
    counts = np.array(
        [np.histogram(np.clip(_known(values), *limits), BARS, limits)[0] for values in (first, second)]
    )
    highest = max(1, int(counts.sum(0).max()))
    bars = [{"at": k, "first": int(a), "second": int(b)} for k, (a, b) in enumerate(counts.T) if a + b]
    return {"label": label, "low": limits[0], "high": limits[1], "bars": bars, "highest": highest, "wide": BARS}


def _known(values: Any) -> np.ndarray:
    known = np.asarray(values, dtype=float)
    return known[np.isfinite(known)]


def _apart(outcomes: Sequence[Outcome], names: Sequence[str], settings: Sequence[str]) -> list[dict[str, Any]]:
    """Runs that stand out from those of the same settings, in one space: the farthest first."""
    found = []
    for name in names:
        for each in settings:
            own = [one for one in outcomes if (one.space, one.settings) == (name, each)]
            for kind in ("bits", "share") if len(own) >= ENOUGH else ():
                found += _beyond(kind, own)
    return sorted(found, key=lambda one: -one["far"])


def _beyond(kind: str, own: Sequence[Outcome]) -> list[dict[str, Any]]:
    values = np.array([getattr(one, kind) for one in own], dtype=float)
    quartiles = _spread(values)
    if quartiles is None:
        return []
    low, _, high = quartiles
    far = np.maximum(low - values, values - high) / max(high - low, LEAST_RANGE[kind])
    return [
        {
            **{"session": own[k].session, "settings": own[k].settings, "space": own[k].space, "run": own[k].run},
            **{"kind": kind, "value": float(values[k]), "low": low, "high": high, "far": float(far[k])},
        }
        for k in np.flatnonzero(far > FENCE).tolist()
    ]


def _rows(
    outcomes: Sequence[Outcome], names: Sequence[str], apart: set[tuple[str, str, str]]
) -> list[dict[str, Any]]:
    """All runs, those with the fewest bits first: what each found of each space."""
    runs: dict[str, dict[str, Outcome]] = {}
    for one in outcomes:
        runs.setdefault(one.run, {})[one.space] = one
    rows = []
    for run, own in runs.items():
        first = next(iter(own.values()))
        cells = [
            {
                "bits": own[name].bits,
                "share": own[name].share,
                "collapsed": own[name].collapsed,
                "apart": [kind for kind in ("bits", "share") if (run, name, kind) in apart],
            }
            if name in own
            else None
            for name in names
        ]
        bits = float(np.nansum([one.bits for one in own.values()]))
        rows.append(
            {"session": first.session, "settings": first.settings, "run": run, "cells": cells, "bits": bits}
        )
    return sorted(rows, key=lambda row: row["bits"])


def _by_reason(failures: Sequence[Failure]) -> list[dict[str, Any]]:
    """Reasons, the most frequent first, with the sessions that failed for each."""
    reasons: dict[str, list[str]] = {}
    for one in failures:
        name = f"{one.session} ({one.settings})" if one.settings else one.session
        reasons.setdefault(one.reason, []).append(name)
    listed = sorted(reasons.items(), key=lambda item: -len(item[1]))
    return [
        {
            "reason": reason,
            "count": len(names),
            "names": names[:MOST_NAMED],
            "more": max(0, len(names) - MOST_NAMED),
        }
        for reason, names in listed[:MOST_APART]
    ]
