"""Decoding: how well variables can be read from an embedding, or from the channels, on time that was held out.

Time is cut into blocks, the folds take them in turn, and a fold's decoders learn from no step within `gap` steps of
one they are tested on: neighbours in time are nearly copies of each other, and a decoder that has seen one knows
the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from ..data.labels import row_labels
from ..data.recording import Recording
from ..data.validation import as_table

__all__ = ["decode_variables", "time_folds"]

DECODERS = ("knn", "linear")
COLUMNS = ["variable", "decoder", "median_error", "r2", "accuracy", "constant_error", "constant_accuracy", "steps"]


def time_folds(steps: int, folds: int = 5, blocks: int = 20, gap: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each fold the steps to train on and those to test on.

    Time is cut into `blocks` blocks of equal length, which the folds test on in turn. Steps closer than `gap` to
    any step that a fold tests on are not trained on: two that are `gap` apart may be.

    >>> train, test = time_folds(12, folds=2, blocks=4, gap=2)[0]
    >>> test.tolist(), train.tolist()
    ([0, 1, 2, 6, 7, 8], [4, 10, 11])
    """
    if not 2 <= folds <= blocks <= steps or gap < 0:
        raise ValueError(
            f"time_folds(steps={steps}, folds={folds}, blocks={blocks}, gap={gap}): expected 2 <= folds <= "
            "blocks <= steps, and a gap of at least 0."
        )
    fold = np.arange(steps) * blocks // steps % folds
    found = []
    for own in range(folds):
        test = np.flatnonzero(fold == own)
        after = np.searchsorted(test, np.arange(steps))  # the first test step from here on
        ahead = np.where(after < len(test), test[np.minimum(after, len(test) - 1)] - np.arange(steps), steps)
        behind = np.where(after > 0, np.arange(steps) - test[np.maximum(after - 1, 0)], steps)
        train = np.flatnonzero((fold != own) & (np.minimum(ahead, behind) >= gap))
        if not len(train):
            raise ValueError(
                f"gap={gap}: no step of {steps} is that far from the blocks that fold {own} tests on. Use a "
                "smaller gap, or fewer blocks."
            )
        found.append((train, test))
    return found


def decode_variables(
    X: Any,
    variables: Any = None,
    *,
    together: Mapping[str, Sequence[str]] | None = None,
    circular: Sequence[str] = (),
    period: float = 2 * np.pi,
    decoders: Sequence[str] = DECODERS,
    folds: int = 5,
    blocks: int = 20,
    gap: int | None = None,
    neighbours: int = 25,
    metric: str = "euclidean",
) -> pd.DataFrame:
    """Cross-validated decoding of variables, in blocks of time: one row for each variable and decoder.

    Parameters
    ----------
    X : (time, dim), an embedding or channels; or a `Recording`, of which the channels are taken.
    variables : DataFrame or dict of 1-D arrays, one entry per time step; None: those of the recording. Text,
        categories and booleans are labels, which are classified; numbers are predicted. Steps at which a variable
        is missing are left out for it.
    together : name -> variables that are decoded as one, such as {"position": ["x", "y"]}; the error is then the
        Euclidean distance.
    circular, period : names of angles, and their full turn; their errors are taken on the circle.
    decoders : "knn" (mean, or majority, of the `neighbours` nearest training steps by `metric`, "euclidean" or
        "cosine") and "linear" (ridge, or logistic regression).
    folds, blocks, gap : see `time_folds`. gap=None is a tenth of a block.

    Returns
    -------
    DataFrame: variable, decoder, median_error (in the variable's unit), r2, accuracy (labels only), and what a
    constant has: constant_error, the median error of the training steps' median (mean direction for angles), or
    constant_accuracy, that of their commonest label; steps, how many were tested.

    Examples
    --------
    >>> time = np.arange(4000)
    >>> angle = time / 50 % (2 * np.pi)
    >>> X = np.stack([np.cos(angle), np.sin(angle)], 1)
    >>> side = np.where(angle > np.pi, "left", "right")
    >>> table = decode_variables(X, {"angle": angle, "side": side}, circular=["angle"])
    >>> bool(table["median_error"][0] < 0.05 < 1 < table["constant_error"][0]), bool(table["accuracy"][2] > 0.95)
    (True, True)
    """
    labels = row_labels(X)
    if isinstance(X, Recording):
        variables = X.variables if variables is None else variables
        X = X.X
    X = np.asarray(X, dtype=np.float64)
    table = as_table(variables, len(X), labels)
    if X.ndim != 2 or len(X) != len(table) or table.shape[1] == 0:
        raise ValueError(
            f"X has shape {X.shape} and variables {table.shape}: expected (time, dim) and (time, variable), with "
            "the same number of time steps and at least one variable."
        )
    unknown = [name for name in decoders if name not in DECODERS]
    if unknown or metric not in ("euclidean", "cosine"):
        raise ValueError(
            f"decoders={list(decoders)}, metric={metric!r}: expected some of {list(DECODERS)}, and 'euclidean' or "
            "'cosine'."
        )
    groups = {str(name): [name] for name in table.columns if not _inside(name, together)}
    groups = {**groups, **{name: list(own) for name, own in (together or {}).items()}}
    missing = [name for own in groups.values() for name in own if name not in table.columns]
    if missing or (missing := [name for name in circular if name not in table.columns]):
        raise ValueError(f"there is no variable {missing[0]!r}; there are {list(table.columns)}.")
    scale = X.std(0)
    Z = (X - X.mean(0)) / np.where(scale > 0, scale, 1.0) if metric == "euclidean" else X
    splits = time_folds(len(X), folds, blocks, len(X) // (10 * blocks) if gap is None else gap)
    rows = []
    for name, own in groups.items():
        labels = [c for c in own if not pd.api.types.is_numeric_dtype(table[c]) or table[c].dtype == bool]
        if labels and len(own) > 1:
            raise ValueError(f"together={own}: {labels[0]!r} is a label, which cannot be decoded with others.")
        part: Any = table[own]
        known = np.asarray(part.notna().all(axis=1))
        for decoder in decoders:
            judge = _classified if labels else _predicted
            extra = {} if labels else {"turns": [period if c in circular else 0.0 for c in own]}
            found = judge(Z, part, known, splits, decoder, neighbours, metric, **extra)
            rows.append({"variable": name, "decoder": decoder, **found})
    return pd.DataFrame(rows, columns=COLUMNS)


def _inside(name: Any, together: Mapping[str, Sequence[str]] | None) -> bool:
    return any(name in own for own in (together or {}).values())


def _predicted(
    Z: np.ndarray,
    table: pd.DataFrame,
    known: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    decoder: str,
    neighbours: int,
    metric: str,
    turns: Sequence[float],
) -> dict[str, float]:
    """Errors and R² of numbers; angles through cosine and sine."""
    values, turn = table.to_numpy(np.float64), np.asarray(turns)
    goal = _encoded(values, turn)
    errors, constants, left, whole = [], [], 0.0, 0.0
    for train, test in splits:
        train, test = train[known[train]], test[known[test]]
        if not len(train) or not len(test):
            continue
        model = KNeighborsRegressor(min(neighbours, len(train)), metric=metric) if decoder == "knn" else Ridge(1e-3)
        found = np.asarray(model.fit(Z[train], goal[train]).predict(Z[test])).reshape(len(test), -1)
        centre = goal[train].mean(0)
        middle = np.where(turn > 0, _decoded(centre[None], turn)[0], np.median(values[train], axis=0))
        errors.append(_distance(_decoded(found, turn), values[test], turn))
        constants.append(_distance(np.broadcast_to(middle, values[test].shape), values[test], turn))
        spread = goal[known].var(0)  # columns on one scale: metres and radians do not add up
        weight = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1), 0)
        left += float((((found - goal[test]) ** 2) * weight).sum())
        whole += float((((goal[test] - centre) ** 2) * weight).sum())
    if not errors:
        return _empty()
    return {
        **_empty(),
        "median_error": float(np.median(np.concatenate(errors))),
        "r2": 1 - left / whole if whole > 0 else np.nan,
        "constant_error": float(np.median(np.concatenate(constants))),
        "steps": sum(len(part) for part in errors),
    }


def _classified(
    Z: np.ndarray,
    table: pd.DataFrame,
    known: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    decoder: str,
    neighbours: int,
    metric: str,
) -> dict[str, float]:
    """Accuracy of labels."""
    codes = pd.factorize(table.iloc[:, 0])[0]
    right, constant, steps = 0, 0, 0
    for train, test in splits:
        train, test = train[known[train]], test[known[test]]
        if not len(train) or not len(test):
            continue
        commonest = int(np.bincount(codes[train]).argmax())
        if len(np.unique(codes[train])) < 2:
            found = np.full(len(test), commonest)
        elif decoder == "knn":
            model = KNeighborsClassifier(min(neighbours, len(train)), metric=metric)
            found = model.fit(Z[train], codes[train]).predict(Z[test])
        else:
            found = LogisticRegression(max_iter=1000).fit(Z[train], codes[train]).predict(Z[test])
        right += int((found == codes[test]).sum())
        constant += int((codes[test] == commonest).sum())
        steps += len(test)
    if not steps:
        return _empty()
    return {**_empty(), "accuracy": right / steps, "constant_accuracy": constant / steps, "steps": steps}


def _empty() -> dict[str, float]:
    return {**dict.fromkeys(COLUMNS[2:-1], np.nan), "steps": 0}


def _encoded(values: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Numbers as they are, angles as cosine and sine: (time, k) -> (time, k')."""
    columns = []
    for column, full in zip(values.T, turn, strict=True):
        angle = 2 * np.pi * column / full if full else column
        columns += [np.cos(angle), np.sin(angle)] if full else [angle]
    return np.stack(columns, 1)


def _decoded(goal: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """The way back: (n, k') -> (n, k)."""
    columns, at = [], 0
    for full in turn:
        if full:
            columns.append(np.arctan2(goal[:, at + 1], goal[:, at]) * full / (2 * np.pi))
        else:
            columns.append(goal[:, at])
        at += 2 if full else 1
    return np.stack(columns, 1)


def _distance(found: np.ndarray, values: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Euclidean distance of each row, angles the short way round: (n,)."""
    gap = found - values
    full = np.where(turn > 0, turn, 1.0)
    gap = np.where(turn > 0, gap - full * np.round(gap / full), gap)
    return np.linalg.norm(gap, axis=1)
