"""Features of variables and channels."""

import numpy as np
import pytest
from scipy import stats

from ascribo.screening import features
from ascribo.screening.features import as_slice, normal_scores, sorted_places


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_places_are_those_of_a_stable_argsort(kind):
    rng = np.random.default_rng(0)
    odd = [0.0, -0.0, np.inf, -np.inf, 1e-40, -1e-40, 3.4e38, -3.4e38, 0.0, -0.0]
    rows = np.stack([rng.standard_normal(500), rng.poisson(0.2, 500), rng.standard_cauchy(500), np.tile(odd, 50)])
    rows = rows.astype(kind)
    expected = np.argsort(rows, axis=1, kind="stable") + 500 * np.arange(4)[:, None]
    np.testing.assert_array_equal(sorted_places(rows), expected)


@pytest.mark.parametrize("kind", [np.float32, np.float64, int, bool])
def test_normal_scores_are_those_of_mean_ranks(kind):
    rng = np.random.default_rng(0)
    columns = [rng.standard_normal(700), rng.poisson(0.3, 700), np.round(rng.standard_normal(700), 1), np.ones(700)]
    channels = np.stack(columns * 5, axis=1).astype(kind)
    expected = stats.norm.ppf((stats.rankdata(channels, axis=0) - 0.5) / 700)
    expected -= expected.mean(0)
    spread = expected.std(0)
    expected /= np.where(spread > 1e-9, spread, np.inf)
    np.testing.assert_allclose(normal_scores(channels), expected, atol=2e-6)


def test_repeated_and_skipped_steps_are_no_slice():
    rows = np.array([5, 5, 5, 6, 9, 10])  # as many as from 5 to 10
    assert as_slice(rows) is rows


@pytest.mark.parametrize("precision, tolerance", [(np.float32, 1e-3), (np.float64, 1e-6)])
def test_a_few_of_many_directions_are_those_of_all(monkeypatch, precision, tolerance):
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((300, 8)) * np.arange(8, 0, -1)) @ rng.standard_normal((8, 60))
    rows = (rows + rng.standard_normal(rows.shape)).astype(precision)
    values, directions = features.leading_directions(rows, 3)
    monkeypatch.setattr(features, "ALL_DIRECTIONS", 10)
    some, again = features.leading_directions(rows, 3)
    np.testing.assert_allclose(some, values, rtol=tolerance)
    np.testing.assert_allclose(np.abs((directions * again).sum(0)), 1.0, atol=tolerance)
    np.testing.assert_array_equal(again, features.leading_directions(rows, 3)[1])
