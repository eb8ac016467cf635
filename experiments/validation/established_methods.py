"""Methods in common use that say which channels carry which variables: tuning curves, regression, a decoder.

Each function takes a recording, `spaces` (space -> names of its variables) and a level q, and returns one row per
channel and space: channel, space, score, p, q, called. One rule for all: p-values are adjusted by Benjamini and
Hochberg's method over the channels of a space, and a channel is called if its adjusted value, the column q, is at
most the level.

None of these methods knows of latents that are not among the variables. The recording is taken as one segment:
epochs are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import fft, stats
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import SplineTransformer

from ascribo.data.recording import Recording
from ascribo.support.names import suggest

__all__ = [
    "METHODS",
    "Spaces",
    "calls_table",
    "cross_validated_glm",
    "linear_glm",
    "numeric_values",
    "permutation_importance",
    "score_calls",
    "spline_glm",
    "tuning_information",
]

Spaces = Mapping[str, Sequence[str]]
"""Space -> names of its variables."""


def tuning_information(
    recording: Recording, spaces: Spaces, q: float = 0.05, *, bins: int = 20, most_bins: int = 64
) -> pd.DataFrame:
    """Information of tuning curves, tested by circular shifts of the channels against the variables.

    Variables are cut at quantiles into at most `bins` bins each and at most `most_bins` together (20 bins for one
    variable, 8 x 8 for two). η² is the share of a channel's variance that its mean in each bin explains; the
    score is -½ log₂(1 - η²) bits per step, the information of a tuning curve under Gaussian noise. (The spatial
    information of spikes is the same to second order, but for its unit.)

    p is the rank of η² among those of all circular shifts, as many as there are time steps, got together by Fourier
    transform. Shifts keep the autocorrelation of both sides, so p is right for a channel that has nothing to do
    with the variables; its least value is one over the number of steps. A channel that carries something correlated
    with the variables is called as well: a tuning curve cannot tell these apart.

    Examples
    --------
    >>> from ascribo.simulate.mixed import mixed
    >>> data = mixed(spaces={"a": 1, "b": 1}, hidden=0, channels=6, steps=5000, carry=0, snr=4)
    >>> calls = tuning_information(data, data.spaces)
    >>> score_calls(calls, data.truth)["power"].to_list()
    [1.0, 1.0, 1.0]
    """
    X, values = _standardised(recording.X), numeric_values(recording, spaces)
    steps, channels = X.shape
    waves: Any = fft.rfft(X.astype(np.float32), axis=0)
    score, p = np.empty((2, channels, len(spaces)))
    for k, of_space in enumerate(values.values()):
        each = min(bins, int(most_bins ** (1 / of_space.shape[1]) + 1e-9))
        if each < 2:
            raise ValueError(
                f"space {list(spaces)[k]!r} has {of_space.shape[1]} variables: {most_bins} bins leave fewer than "
                f"two for each. Pass most_bins={2 ** of_space.shape[1]} or more, or split the space."
            )
        occupied = np.unique(_bins(of_space, each), return_inverse=True)[1]
        inside = occupied == np.arange(occupied.max() + 1)[:, None]
        # unit length, so that the sum of squared projections on the bins is the sum of squares explained
        filters: Any = fft.rfft(inside / np.sqrt(inside.sum(1, keepdims=True), dtype=np.float32), axis=1)
        filters = filters.conj()
        for c in range(channels):
            projections: Any = fft.irfft(filters * waves[:, c], steps, axis=1)
            explained = np.square(projections).sum(0) / steps
            score[c, k] = -0.5 * np.log2(max(1 - explained[0], 1e-12))
            p[c, k] = np.mean(explained >= explained[0])
    return calls_table(recording, spaces, score, p, q)


def linear_glm(recording: Recording, spaces: Spaces, q: float = 0.05, *, thin: int = 1) -> pd.DataFrame:
    """Least squares on all variables; F-test of those of a space, given the others.

    This is the test as textbooks give it: residuals are taken as independent from step to step. Where a channel
    carries a hidden latent, or depends on the variables in a way that the regressors miss, residuals are slow, and
    the test calls nearly everything: on `mixed(snr=4)` 46% of the calls at q = 0.05 are false (spline_glm: 47%).
    `thin` keeps every thin-th step, which helps once it reaches the autocorrelation time, at a price in power: with
    thin=100 there, 2% are false, and 93% of the carrying channels are called instead of all. The score is the
    partial R².
    """
    return _f_test(recording, spaces, _linear, q, thin)


def spline_glm(
    recording: Recording, spaces: Spaces, q: float = 0.05, *, thin: int = 1, knots: int = 6
) -> pd.DataFrame:
    """Least squares on cubic B-splines of each variable (an additive model); else as `linear_glm`.

    knots : at quantiles of each variable; knots + 1 regressors for each.
    """
    return _f_test(recording, spaces, _splines(knots), q, thin)


def cross_validated_glm(
    recording: Recording, spaces: Spaces, q: float = 0.05, *, knots: int | None = 6, blocks: int = 20
) -> pd.DataFrame:
    """Keep a space if its regressors make the prediction of held-out blocks of time better.

    Fits with and without the space's regressors on all blocks but one give the gain in R² on that one. The score is
    the mean gain over blocks; p is from a one-sided t-test of the gains. Blocks should be much longer than the
    autocorrelation; their training data overlap, so the test is not exact. Slow residuals do not deceive it:
    regressors that say nothing make a prediction worse, so it errs to the safe side.

    knots : of the splines, as in `spline_glm`; None for linear regressors.
    """
    X, values = _standardised(recording.X), numeric_values(recording, spaces)
    steps = len(X)
    design, owner = _design(values, _linear if knots is None else _splines(knots))
    edges = _edges(steps, blocks)
    within = [slice(a, b) for a, b in pairwise(edges)]
    gram = np.stack([design[w].T @ design[w] for w in within])  # (block, regressor, regressor)
    cross = np.stack([design[w].T @ X[w] for w in within])  # (block, regressor, channel)

    def error(keep: np.ndarray) -> np.ndarray:
        """Squared error on each block, but for the sum of squares that no fit changes: (block, channel)."""
        G, c = gram[:, keep][:, :, keep], cross[:, keep]
        # a trace of ridge, for regressors that say the same
        fit = np.linalg.solve(G.sum(0) - G + 1e-6 * steps * np.eye(keep.sum()), c.sum(0) - c)
        return (fit * (G @ fit - 2 * c)).sum(1)

    full, length = error(owner >= -1), np.diff(edges)[:, None]
    gains = np.stack([(error(owner != k) - full) / length for k in range(len(spaces))], axis=2)
    return calls_table(recording, spaces, gains.mean(0), _better(gains), q)


def permutation_importance(
    recording: Recording,
    spaces: Spaces,
    q: float = 0.05,
    *,
    blocks: int = 20,
    shifts: int = 2,
    units: int = 64,
    epochs: int = 20,
    seed: int = 0,
) -> pd.DataFrame:
    """How much worse the variables of a space are decoded when a channel is shifted in time.

    A network with one layer of `units` rectifiers is trained from all channels to the variables of a space on every
    other one of the blocks of time, and tested on those between; then the other way round. A channel of the
    held-out time is replaced by itself, circularly shifted, `shifts` times. The score is the mean loss of R² over
    blocks; p is from a one-sided t-test over blocks.

    A decoder makes use of channels that do not carry the variable, to take out of other channels what disturbs
    it: these are called as well. And a channel that others can replace may not be missed.
    """
    X, values = _standardised(recording.X).astype(np.float32), numeric_values(recording, spaces)
    steps, channels = X.shape
    rng = np.random.default_rng(seed)
    number = np.searchsorted(_edges(steps, blocks), np.arange(steps), side="right") - 1  # of the block
    losses = np.zeros((blocks, channels, len(spaces)))
    for k, of_space in enumerate(values.values()):
        Y = _standardised(of_space).astype(np.float32)
        for fold in (0, 1):
            train, test = number % 2 != fold, number % 2 == fold
            decoder: Any = MLPRegressor(hidden_layer_sizes=(units,), learning_rate_init=3e-3, random_state=seed)
            for _ in range(epochs):
                decoder.partial_fit(X[train], Y[train] if Y.shape[1] > 1 else Y[train, 0])

            def error(inputs, decoder=decoder, Y=Y[test]) -> np.ndarray:
                return np.square(decoder.predict(inputs).reshape(Y.shape) - Y).mean(1)

            inputs, where = X[test], number[test]
            longest = len(inputs) // 4
            before = error(inputs)
            for c in range(channels):
                own, worse = inputs[:, c].copy(), 0.0
                for shift in rng.integers(longest, 3 * longest + 1, shifts):
                    inputs[:, c] = np.roll(own, shift)
                    worse = worse + (error(inputs) - before) / shifts
                inputs[:, c] = own
                losses[:, c, k] += np.bincount(where, worse, blocks)
    losses /= np.bincount(number)[:, None, None]
    return calls_table(recording, spaces, losses.mean(0), _better(losses), q)


METHODS: dict[str, Callable[..., pd.DataFrame]] = {
    "tuning_information": tuning_information,
    "linear_glm": linear_glm,
    "spline_glm": spline_glm,
    "cross_validated_glm": cross_validated_glm,
    "permutation_importance": permutation_importance,
}
"""Name -> function of (recording, spaces, q)."""


def score_calls(calls: pd.DataFrame, truth: xr.DataArray) -> pd.DataFrame:
    """Calls against the truth: one row per space, and a last one, "all", for them together.

    Parameters
    ----------
    calls : a table with columns channel, space and called.
    truth : (channel, space) booleans. Spaces that are not in the table are left out.

    Returns
    -------
    Table with columns space, f1, fdp (share of the calls that are false; 0 if there are none), power (share of
    the carrying channels that are called), called and carrying (numbers of channels). f1 and power are NaN where
    there is nothing to find.

    Examples
    --------
    >>> calls = pd.DataFrame({"channel": ["u", "v", "w"], "space": "a", "called": [True, True, False]})
    >>> truth = xr.DataArray(
    ...     [[True], [False], [True]],
    ...     dims=("channel", "space"),
    ...     coords={"channel": ["u", "v", "w"], "space": ["a"]},
    ... )
    >>> score_calls(calls, truth).head(1)
      space   f1  fdp  power  called  carrying
    0     a  0.5  0.5    0.5       2         2
    """
    for name in set(calls["space"]):
        if name not in truth["space"].values:
            raise ValueError(f"the truth has no space {name!r}{suggest(name, truth['space'].values)}")
    places = {dim: xr.DataArray(calls[dim].to_numpy(), dims="row") for dim in ("channel", "space")}
    carries = truth.sel(places).to_numpy()
    called = calls["called"].to_numpy(dtype=bool)
    space = calls["space"].to_numpy()
    groups = {name: space == name for name in dict.fromkeys(space)} | {"all": np.ones(len(calls), bool)}
    rows = []
    for name, among in groups.items():
        true, found = carries[among], called[among]
        hits, n_called, n_true = int((true & found).sum()), int(found.sum()), int(true.sum())
        rows.append(
            {
                "space": name,
                "f1": 2 * hits / (n_called + n_true) if n_true else np.nan,
                "fdp": 1 - hits / n_called if n_called else 0.0,
                "power": hits / n_true if n_true else np.nan,
                "called": n_called,
                "carrying": n_true,
            }
        )
    return pd.DataFrame(rows)


def calls_table(recording: Recording, spaces: Spaces, score: np.ndarray, p: np.ndarray, q: float) -> pd.DataFrame:
    """The table of scores and p-values, both (channel, space), in the order of channels within spaces."""
    if not 0 < q < 1:
        raise ValueError(f"q={q}: expected a level between 0 and 1, such as 0.05.")
    p = np.where(np.isnan(p), 1.0, p)  # a channel that never changes carries nothing
    adjusted = stats.false_discovery_control(p, axis=0)
    return pd.DataFrame(
        {
            "channel": np.tile(recording.channel_names, len(spaces)),
            "space": np.repeat(list(spaces), len(recording.channel_names)),
            "score": score.T.ravel(),
            "p": p.T.ravel(),
            "q": adjusted.T.ravel(),
            "called": (adjusted <= q).T.ravel(),
        }
    )


def numeric_values(recording: Recording, spaces: Spaces) -> dict[str, np.ndarray]:
    """Space -> its variables (time, variable) as numbers."""
    if not spaces:
        raise ValueError("no spaces were given; expected space -> names of its variables.")
    out = {}
    for name, variables in spaces.items():
        for variable in variables:
            if variable not in recording.variables:
                known = suggest(variable, recording.variables)
                raise ValueError(f"space {name!r}: no variable is called {variable!r}{known}")
        table = recording.variables[list(variables)]
        if table.select_dtypes("number").shape != table.shape:
            raise ValueError(
                f"space {name!r}: {list(variables)} are not all numbers; encode them as numbers first."
            )
        out[name] = table.to_numpy(dtype=float)
        if not np.isfinite(out[name]).all() or not out[name].size:
            raise ValueError(f"space {name!r}: {list(variables)} must be one or more variables without gaps.")
    return out


def _standardised(values: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1, or of zeros where nothing changes; float64."""
    values = values.astype(float)
    values = values - values.mean(0)
    spread = values.std(0)
    return values / np.where(spread > 1e-12, spread, np.inf)


def _edges(steps: int, blocks: int) -> np.ndarray:
    if not 2 <= blocks <= steps // 2:
        raise ValueError(f"blocks={blocks} of {steps} time steps: expected from 2 to {steps // 2}.")
    return np.linspace(0, steps, blocks + 1).astype(int)


def _bins(values: np.ndarray, each: int) -> np.ndarray:
    """The bin of each time step, every variable being cut into `each` bins of equal numbers of steps: (time,)."""
    found = np.zeros(len(values), dtype=int)
    for column in values.T:
        inner = np.unique(np.quantile(column, np.arange(1, each) / each))
        found = found * each + np.searchsorted(inner, column, side="right")
    return found


def _linear(values: np.ndarray) -> np.ndarray:
    return _standardised(values)


def _splines(knots: int) -> Callable[[np.ndarray], np.ndarray]:
    return SplineTransformer(knots, knots="quantile", include_bias=False).fit_transform


def _design(
    values: Mapping[str, np.ndarray], basis: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Regressors (time, regressor), the constant first; and the space that each belongs to, -1 for the constant."""
    parts = [basis(of_space) for of_space in values.values()]
    owner = np.repeat(np.arange(-1, len(parts)), [1, *(part.shape[1] for part in parts)])
    return np.column_stack([np.ones(len(parts[0])), *parts]), owner


def _f_test(
    recording: Recording, spaces: Spaces, basis: Callable[[np.ndarray], np.ndarray], q: float, thin: int
) -> pd.DataFrame:
    if thin < 1:
        raise ValueError(f"thin={thin}: expected an integer of at least 1; 10 keeps every tenth time step.")
    X, values = _standardised(recording.X[::thin]), numeric_values(recording, spaces)
    design, owner = _design({name: of_space[::thin] for name, of_space in values.items()}, basis)

    def fit(regressors: np.ndarray) -> tuple[np.ndarray, int]:
        beta, _, rank, _ = np.linalg.lstsq(regressors, X, rcond=None)
        return np.square(X - regressors @ beta).sum(0), int(rank)

    full, rank = fit(design)
    left = len(X) - rank
    if left < 1:
        raise ValueError(f"{len(X)} time steps are too few for {rank} regressors; thin less or use fewer knots.")
    score, p = np.empty((2, X.shape[1], len(spaces)))
    for k in range(len(spaces)):
        without, smaller = fit(design[:, owner != k])
        added = max(rank - smaller, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            p[:, k] = stats.f.sf((without - full) / added / (full / left), added, left)
            score[:, k] = np.nan_to_num((without - full) / without)
    return calls_table(recording, spaces, score, p, q)


def _better(gains: np.ndarray) -> np.ndarray:
    """One-sided p of a mean above 0, by a t-test over the first axis."""
    with np.errstate(divide="ignore", invalid="ignore"):
        test: Any = stats.ttest_1samp(gains, 0, axis=0, alternative="greater")
    return test.pvalue
