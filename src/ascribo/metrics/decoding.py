"""Decoding: how well variables can be read from an embedding, or from the channels, on time that was held out.

Time is cut into blocks, which the folds take in turn. The decoders of a fold learn from no time step that is less
than `gap` steps from one they are tested on: neighbours in time are nearly copies of each other, and a decoder that
has seen one knows the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from ..data.arrays import ArrayLike
from ..data.recording import Recording
from ..data.row_labels import find_labels
from ..data.validation import as_table
from ..support.array_shapes import Array, Float, shaped
from ..support.circle import check_period, short_way

__all__ = ["decode_variables", "time_folds"]

DECODERS = ("knn", "linear")
COLUMNS = ["variable", "decoder", "median_error", "r2", "accuracy", "constant_error", "constant_accuracy", "steps"]


def time_folds(steps: int, folds: int = 5, blocks: int = 20, gap: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each fold the time steps to train on and those to test on.

    steps : number of time steps.

    They are cut into `blocks` blocks of equal length, which the folds test on in turn. Time steps closer than `gap`
    to any step that a fold tests on are not trained on.

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
    X: ArrayLike | Recording,
    variables: ArrayLike | Mapping | None = None,
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
        categories and booleans are labels, which are classified; numbers are predicted. Time steps at which a
        variable is missing are left out for it. Rows are matched by label, where X and the variables have labels:
        see `Recording`.
    together : name -> variables that are decoded as one, such as {"position": ["x", "y"]}; the error is then the
        Euclidean distance.
    circular, period : names of angles, and their full turn; their errors are taken on the circle.
    decoders : "knn" (the mean, or majority, of the `neighbours` nearest time steps of the training part by
        `metric`, "euclidean" or "cosine") and "linear" (ridge, or logistic regression).
    folds, blocks, gap : see `time_folds`. gap=None is a tenth of a block.

    Returns
    -------
    DataFrame with columns variable, decoder, median_error (in the variable's unit), r2 and accuracy (labels only).
    To compare with: constant_error, the median error of always answering the median (for angles the mean
    direction), and constant_accuracy, that of always answering the commonest label. steps: how many were tested.

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
    rows = find_labels(X)
    if isinstance(X, Recording):
        variables = X.variables if variables is None else variables
        X = X.X
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(f"X has shape {X.shape}; expected (time, dim).")
    table = as_table(variables, len(X), rows)
    if table.shape[1] == 0:
        raise ValueError("there are no variables to decode: pass some, or a recording that has some.")
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
    task = _Decoding(Z, splits, neighbours, metric)
    found = []
    for name, own in groups.items():
        labels = [c for c in own if not pd.api.types.is_numeric_dtype(table[c]) or table[c].dtype == bool]
        if labels and len(own) > 1:
            raise ValueError(f"together={own}: {labels[0]!r} is a label, which cannot be decoded with others.")
        periods = [float(period) if c in circular else 0.0 for c in own]
        for column, turn in zip(own, periods, strict=True):
            if turn and not labels:
                check_period(column, table[column].to_numpy(dtype=float), turn)
        part: Any = table[own]
        for decoder in decoders:
            scores = task.classify(part, decoder) if labels else task.predict(part, decoder, np.array(periods))
            found.append({"variable": name, "decoder": decoder, **scores})
    return pd.DataFrame(found, columns=COLUMNS)


def _inside(name: Any, together: Mapping[str, Sequence[str]] | None) -> bool:
    return any(name in own for own in (together or {}).values())


@dataclass(frozen=True)
class _Decoding:
    """What is decoded from, and on which time steps.

    Z : (time, dim). splits : for each fold the time steps to train on and those to test on.
    """

    Z: np.ndarray
    splits: Sequence[tuple[np.ndarray, np.ndarray]]
    neighbours: int
    metric: str

    def folds(self, table: pd.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The time steps of each fold at which the variables are known; folds without any are left out."""
        known = np.asarray(table.notna().all(axis=1))
        for train, test in self.splits:
            train, test = train[known[train]], test[known[test]]
            if len(train) and len(test):
                yield train, test

    def predict(self, table: pd.DataFrame, decoder: str, period: np.ndarray) -> dict[str, float]:
        """Errors and R² of numbers; angles (those with a period) through cosine and sine."""
        values = table.to_numpy(np.float64)
        goal = _encode(values, period)
        spread = goal[np.asarray(table.notna().all(axis=1))].var(0)
        weight = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1), 0)  # metres and radians do not add up
        errors, constants, left, whole = [], [], 0.0, 0.0
        for train, test in self.folds(table):
            model: Any = Ridge(1e-3)
            if decoder == "knn":
                model = KNeighborsRegressor(min(self.neighbours, len(train)), metric=self.metric)
            found = np.asarray(model.fit(self.Z[train], goal[train]).predict(self.Z[test])).reshape(len(test), -1)
            centre = goal[train].mean(0)
            middle = np.where(period > 0, _decode(centre[None], period)[0], np.median(values[train], axis=0))
            errors.append(_distance(_decode(found, period), values[test], period))
            constants.append(_distance(np.broadcast_to(middle, values[test].shape), values[test], period))
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

    def classify(self, table: pd.DataFrame, decoder: str) -> dict[str, float]:
        """Accuracy of labels."""
        codes = pd.factorize(table.iloc[:, 0])[0]
        right, constant, steps = 0, 0, 0
        for train, test in self.folds(table):
            commonest = int(np.bincount(codes[train]).argmax())
            if len(np.unique(codes[train])) < 2:
                found = np.full(len(test), commonest)
            else:
                model: Any = LogisticRegression(max_iter=1000)
                if decoder == "knn":
                    model = KNeighborsClassifier(min(self.neighbours, len(train)), metric=self.metric)
                found = model.fit(self.Z[train], codes[train]).predict(self.Z[test])
            right += int((found == codes[test]).sum())
            constant += int((codes[test] == commonest).sum())
            steps += len(test)
        if not steps:
            return _empty()
        return {**_empty(), "accuracy": right / steps, "constant_accuracy": constant / steps, "steps": steps}


def _empty() -> dict[str, float]:
    return {**dict.fromkeys(COLUMNS[2:-1], np.nan), "steps": 0}


@shaped
def _encode(values: Float[Array, "time k"], period: Float[Array, " k"]) -> Float[Array, "time _"]:
    """Numbers as they are, angles as cosine and sine: (time, k) -> (time, k')."""
    columns = []
    for column, turn in zip(values.T, period, strict=True):
        angle = 2 * np.pi * column / turn if turn else column
        columns += [np.cos(angle), np.sin(angle)] if turn else [angle]
    return np.stack(columns, 1)


@shaped
def _decode(goal: Float[Array, "n _"], period: Float[Array, " k"]) -> Float[Array, "n k"]:
    """The way back: (n, k') -> (n, k)."""
    columns, at = [], 0
    for turn in period:
        if turn:
            columns.append(np.arctan2(goal[:, at + 1], goal[:, at]) * turn / (2 * np.pi))
        else:
            columns.append(goal[:, at])
        at += 2 if turn else 1
    return np.stack(columns, 1)


@shaped
def _distance(
    found: Float[Array, "n k"], values: Float[Array, "n k"], period: Float[Array, " k"]
) -> Float[Array, " n"]:
    """Euclidean distance of each row, angles the short way round: (n,)."""
    return np.linalg.norm(short_way(found - values, period), axis=1)
