"""Diagnostics: what about the variables may mislead, each with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import spatial, stats

from .features import trend, waves

__all__ = ["Note", "explained_by", "moves_with_hidden", "table_of_functions"]

NEIGHBOURS, POINTS = 5, 4_000
FUNCTION = 0.99
"""Share of a space's variance that another must tell for it to be taken as a function of it."""
NEARLY = 0.8
"""Share from which on this is said."""

FEWEST_CHANNELS = 10
SUSPICIOUS = 0.15
"""p below which slopes and hidden loadings are said to go along."""


@dataclass(frozen=True)
class Note:
    """Something to know about a space: `kind` in a word or two, `text` in full with what to do."""

    space: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.space}: {self.text}"


def explained_by(source: np.ndarray, target: np.ndarray) -> float:
    """Share of the target's variance that the nearest neighbours in the source tell, from other parts of the time.

    Both (time, k). Any function shows, steps and turns too.

    >>> a = np.random.default_rng(0).uniform(-1, 1, (5000, 1))
    >>> explained_by(a, np.sign(a)) > 0.99, explained_by(np.abs(a), a) < 0.1
    (True, True)
    """
    half = np.arange(len(source)) * 20 // len(source) % 2 == 0
    train, test = np.flatnonzero(half), np.flatnonzero(~half)
    train = train[np.linspace(0, len(train) - 1, min(POINTS, len(train))).astype(int)]
    test = test[np.linspace(0, len(test) - 1, min(POINTS // 4, len(test))).astype(int)]
    near = spatial.KDTree(source[train]).query(source[test], NEIGHBOURS)[1]
    error = np.square(target[test] - target[train][near].mean(1)).sum()
    return float(1 - error / max(np.square(target[test] - target[test].mean(0)).sum(), 1e-12))


def table_of_functions(values: Mapping[str, np.ndarray]) -> dict[tuple[str, str], float]:
    """(a, b) -> share of b's variance that a tells, for all pairs of spaces."""
    return {(a, b): explained_by(values[a], values[b]) for a in values for b in values if a != b}


def moves_with_hidden(scores: np.ndarray, values: Mapping[str, np.ndarray], name: str, lag: int) -> bool:
    """Whether what is hidden seems to move with a space: the channels' slopes go along with their hidden loadings.

    The loadings are the two leading principal components of what functions of all variables leave of the channels;
    the slopes those of the channels' changes on the space's. Where hidden and known move on their own, the two have
    nothing in common; where they move together, a channel that carries the hidden thing alone has a slope, too, in
    proportion to its loading. Judged by an F-test over channels.

    scores : (time, channel). values : space -> (time, k), all of them within one stretch of usable time.
    """
    channels = scores.shape[1]
    if channels < FEWEST_CHANNELS:
        return False
    every = max(1, len(scores) // 5_000)
    few = np.arange(0, len(scores), every)
    known = [np.ones((len(few), 1)), trend(few, len(scores), 10)]
    for value in values.values():
        known += [value[few], waves(value[few], 12, 0.5, 4.0)]
    design, y = np.concatenate(known, axis=1), scores[few].astype(float)
    gram = design.T @ design + 1e-4 * len(few) * np.eye(design.shape[1])
    left = y - design @ np.linalg.solve(gram, design.T @ y)
    loading = np.linalg.eigh(left.T @ left)[1][:, -2:]
    back = np.maximum(few - max(lag, 1), 0)
    change = {key: value[few] - value[back] for key, value in values.items()}
    moved = np.concatenate([change[name], *(each for key, each in change.items() if key != name)], axis=1)
    slopes = np.linalg.lstsq(moved, y - scores[back], rcond=None)[0][: change[name].shape[1]]
    common = np.square(slopes @ loading).sum(1) / np.maximum(np.square(slopes).sum(1), 1e-300)
    p = stats.f.sf(common / 2 / ((1 - common) / (channels - 2)), 2, channels - 2)
    return bool(p.min() * len(p) < SUSPICIOUS)
