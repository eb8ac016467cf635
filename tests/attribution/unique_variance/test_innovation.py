"""The lag over which a space changes enough."""

import numpy as np
import pytest
from ascribo.attribution.unique_variance.innovation import innovation_lag
from scipy.signal import lfilter


def walk(rng, steps, decay):
    """A slow Gaussian process with variance 1."""
    jumps = rng.normal(size=steps)
    jumps[1:] *= np.sqrt(1 - decay**2)
    return lfilter([1.0], [1.0, -decay], jumps)


@pytest.mark.parametrize("decay, expected", [(0.5, 1), (0.98, 6), (0.9999, 50)])
def test_innovations_are_taken_after_a_tenth_of_the_correlation_has_gone(decay, expected):
    values = walk(np.random.default_rng(1), 50_000, decay)[:, None]
    assert abs(innovation_lag(values, np.zeros(50_000, int)) - expected) <= expected // 6


def test_the_lag_looks_neither_across_epochs_nor_at_what_is_missing():
    epochs = np.repeat(np.arange(100), 10)
    constant = np.random.default_rng(0).normal(size=100)[epochs][:, None]
    assert innovation_lag(constant, epochs) == 9  # all the correlation that can be seen
    values = walk(np.random.default_rng(1), 20_000, 0.98)[:, None]
    missing = np.where(np.random.default_rng(2).random((20_000, 1)) < 0.5, np.nan, values)
    epochs = np.zeros(20_000, int)
    assert abs(innovation_lag(values, epochs) - innovation_lag(missing, epochs)) <= 1
