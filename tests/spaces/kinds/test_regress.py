"""`Regress`: standardised targets instead of positives."""

import numpy as np
import pandas as pd
import pytest

from ascribo.spaces.kinds.regress import Regress
from ascribo.spaces.pairs import Pairs
from tests.spaces.given import table, uniform


def test_regression_targets_are_standardised_and_circular_ones_are_two():
    rng = np.random.default_rng(0)
    variables = table(speed=rng.normal(5, 3, 500), heading=rng.uniform(0, 360, 500))
    space = Regress(["speed", "heading"], circular=["heading"], period=360)
    goal = space.targets(variables, space.target_statistics(variables, np.arange(400)))
    assert goal.shape == (500, space.dim) == (500, 3)
    np.testing.assert_allclose(goal[:400].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(goal[:400].std(0), 1, atol=1e-5)


def test_it_has_no_positives_and_no_negatives():
    pairs = Pairs({"x": Regress("x")}, table(x=np.arange(20.0)), np.zeros(20, int))
    reference, positive, negative = pairs.rows["x"]
    assert positive is None and negative is None
    drawn = pairs.draw(np.random.default_rng(0), 50, 40)[:, reference].ravel()
    assert uniform(drawn, np.arange(20)) > 1e-3


def test_labels_are_refused():
    with pytest.raises(ValueError, match=r"but Regress needs numbers\. Use ascribo\.Discrete"):
        Regress("x").check_variable("x", pd.Series(["a", "b"]))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Regress("x", period=360), "Pass circular=True"),
        (lambda: Regress(["x", "y"], dim=5), "here 2"),
    ],
)
def test_a_bad_description_is_refused_when_made(make, message):
    with pytest.raises(ValueError, match=message):
        make()
