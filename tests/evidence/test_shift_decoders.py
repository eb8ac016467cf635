"""Decoders under shifts: that they are ridge regressions, keep their level and find what a plain one misses."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.linear_model import Ridge

import ascribo as asc
from ascribo.evidence.shift_decoders import (
    FOLDS,
    RIDGE,
    decoders_under_shifts,
    held_out_covariance,
    innovations,
    moved_by,
    standardised,
)
from ascribo.evidence.shifted_variables import draw_lags, shift_test
from experiments.validation.nulls import autoregression, recording, ridge_p

LEVEL, SHIFTS = 0.05 + 1e-9, 19


def p_of(X, y, seed):
    lags = draw_lags(len(X), SHIFTS, np.random.default_rng(seed))
    return decoders_under_shifts(X, y, np.zeros(len(X), int), moved_by(lags, len(X))).p


def p_of_kind(kind, seed, steps=2000):
    data = recording(kind, seed, steps, 0.1)
    return p_of(data.X, data.variables.to_numpy(), seed)


def test_covariances_are_those_of_ridge_regressions():
    rng = np.random.default_rng(0)
    X, y = standardised(rng.normal(size=(203, 6)) + 3), standardised(rng.normal(size=(203, 2)))
    y += X[:, :2]
    covariance, r2 = held_out_covariance(X, y, moved_by([31, 90], 203))
    for copy, lag in enumerate([0, 31, 90]):
        own, products, missed, there = np.roll(y, lag, axis=0), [], [], []
        for block in np.array_split(np.arange(203), FOLDS):
            rest = np.setdiff1d(np.arange(203), block)
            fit = Ridge(RIDGE * 203).fit(X[rest], own[rest])
            centred = own[block] - own[rest].mean(0)
            products.append(centred * (fit.predict(X[block]) - own[rest].mean(0)))
            missed.append(own[block] - fit.predict(X[block]))
            there.append(centred)
        np.testing.assert_allclose(covariance[copy], np.concatenate(products).mean(0), rtol=1e-3, atol=1e-5)
        if copy == 0:
            ratio = np.square(np.concatenate(missed)).sum() / np.square(np.concatenate(there)).sum()
            np.testing.assert_allclose(r2, 1 - ratio, rtol=1e-4)


def test_what_is_new_in_a_walk_is_its_steps_within_an_epoch():
    epochs = np.repeat([0, 1], 500)
    walk = np.cumsum(np.random.default_rng(0).normal(size=(1000, 1)), 0)
    walk[500:] += 100
    new = innovations(standardised(walk), epochs)[:, 0]
    assert new[0] == new[500] == 0
    inside = np.flatnonzero(np.diff(epochs) == 0) + 1
    assert np.corrcoef(new[inside], np.diff(walk[:, 0])[inside - 1])[0, 1] > 0.98


@pytest.mark.parametrize("kind", ["wandering", "unrelated"])
def test_the_level_is_kept(kind):
    """Of 200 recordings of which nothing is related. Ranks have no ties: p is as often high as low."""
    p = np.array([p_of_kind(kind, seed, 1000) for seed in range(200)])
    assert 2 <= (p <= LEVEL).sum() <= binom.ppf(0.99, 200, 0.05)
    assert 0.43 < p.mean() < 0.6 and (p > 0.9).sum() > 5


@pytest.mark.parametrize("kind, count, least", [("weak", 48, 0.9), ("nonlinear", 24, 0.9)])
def test_power_is_at_least_that_of_a_ridge_regression(kind, count, least):
    own = np.mean([p_of_kind(kind, seed) <= LEVEL for seed in range(count)])
    ridge = np.mean([ridge_p(recording(kind, seed, 2000, 0.1), SHIFTS) <= LEVEL for seed in range(24)])
    assert own >= least and own >= ridge
    assert kind != "weak" or ridge < 0.7  # they are weak


def responses(kind, x, rng):
    X = autoregression(rng, len(x), 20, 0.9)
    if kind == "both ends alike":
        X[:, :6] += 0.3 * (x**2 - 1)
    else:
        X[:, :6] *= np.exp(0.25 * x)
    return X


@pytest.mark.parametrize("kind", ["both ends alike", "variance"])
def test_what_no_plain_regression_sees(kind):
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = autoregression(rng, 2000, 1, 0.98)
        found.append(p_of(responses(kind, x, rng), x, seed))
    assert np.mean(np.array(found) <= LEVEL) >= 0.75


def trials(seed, carried=0.0):
    """Trials of several lengths whose channels begin anew with each, and a label for each."""
    rng = np.random.default_rng(seed)
    epochs = np.repeat(np.arange(60), rng.integers(20, 40, 60))
    label, start = rng.integers(0, 3, 60), 2 * rng.normal(size=(60, 8))
    X = start[epochs] + rng.normal(size=(len(epochs), 8)) + carried * (label == 1)[epochs, None]
    return asc.Recording(X, pd.DataFrame({"label": label[epochs]}), epochs=epochs)


def test_labels_of_trials_are_moved_by_whole_trials():
    """Moved by time steps, labels of copies change within trials: p was up to 0.05 in 14% of the recordings."""
    model = asc.ContrastiveEmbedding({"label": asc.Discrete("label", dim=2)}, progress=False)
    p = np.array([shift_test(model, trials(seed), shifts=SHIFTS, random_state=seed).p[0] for seed in range(150)])
    assert (p <= LEVEL).sum() <= binom.ppf(0.99, 150, 0.05)
    found = [shift_test(model, trials(seed, 2.0), shifts=SHIFTS).p[0] for seed in range(5)]
    assert np.mean(found) < 0.1


def test_there_are_no_more_copies_than_other_trials():
    model = asc.ContrastiveEmbedding({"label": asc.Discrete("label", dim=2)}, progress=False)
    few = trials(0)
    few = few[: int((few.epochs < 12).sum())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = shift_test(model, few, shifts=39)
    assert table.shifts[0] == 11 and len(table.attrs["copies"]["label"]) == 11


def test_constants_and_missing_values():
    rng = np.random.default_rng(0)
    x = autoregression(rng, 1000, 1, 0.9)
    X = np.hstack([x + rng.normal(size=(1000, 3)), np.ones((1000, 1))])
    x[200:400] = np.nan
    assert p_of(X, x, 0) == 0.05
    assert p_of(X, np.ones((1000, 1)), 0) == 1  # nothing can be told from its copies
