"""Means over data sets with their bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascribo.metrics.bootstrap import bootstrap_interval
from experiments.shared.rows import Row

__all__ = ["summarise", "summary"]


def summary(values: Sequence[float], draws: int = 10_000) -> dict[str, Any]:
    """Mean, smallest value, and a 95% bootstrap interval of the mean over data sets.

    >>> summary([1.0, 1.0, 1.0])
    {'mean': 1.0, 'min': 1.0, 'ci95': [1.0, 1.0], 'n': 3}
    """
    numbers = np.asarray(values, dtype=float)
    interval = list(bootstrap_interval(numbers, draws))
    return {"mean": float(numbers.mean()), "min": float(numbers.min()), "ci95": interval, "n": len(numbers)}


def summarise(rows: Sequence[Row], kind: str, by: Sequence[str], methods: Sequence[str] | None = None) -> list[Row]:
    """Mean auROC with its interval over the rows that share the values of `by`, for every method.

    kind : "entries" or "channels". Returns a dict for each: the values of `by`, method, kind, mean, min, ci95, n.

    >>> rows = [{"dim": 4, "channels": {"neuron_gradient": value}} for value in (0.8, 0.8)]
    >>> summarise(rows, "channels", ["dim"])[0]["mean"]
    0.8
    """
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(key) for key in by), []).append(row)
    return [
        {
            **dict(zip(by, values, strict=True)),
            "method": method,
            "kind": kind,
            **summary([row[kind][method] for row in group], draws=1_000),
        }
        for values, group in groups.items()
        for method in (group[0][kind] if methods is None else methods)
        if method in group[0][kind]
    ]
