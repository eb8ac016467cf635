"""The simplest peers find what is linear, and call nothing where there is nothing."""

import numpy as np
import pytest

from ascribo.data.recording import Recording
from experiments.validation.simple_methods import glm_with_history, least_squares_of_changes


@pytest.mark.parametrize("method", [least_squares_of_changes, glm_with_history])
def test_linear_channels_are_called_and_no_others(method):
    rng = np.random.default_rng(0)
    walks = np.cumsum(rng.normal(size=(3_000, 2)), axis=0)
    X = np.repeat(walks, [4, 4], axis=1) + rng.normal(size=(3_000, 8))
    calls = method(Recording(X, {"a0": walks[:, 0], "b0": walks[:, 1]}), {"a": ["a0"], "b": ["b0"]})
    assert calls.loc[calls["space"] == "a", "called"].tolist() == [True] * 4 + [False] * 4
    assert calls.loc[calls["space"] == "b", "called"].tolist() == [False] * 4 + [True] * 4
