"""scikit-learn's own checks, and its tools at work."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ascribo as asc

SMALL = asc.ContrastiveEmbedding(
    {"rest": asc.Time(dim=1)},
    seeds=1,
    steps=4,
    batch_size=8,
    encoder=asc.MLP((8,)),
    random_state=0,
    validation_fraction=0,
    drop_constant=True,
    progress=False,
)

EXPECTED = {}
"""check -> why it cannot hold. Empty: all hold."""


@parametrize_with_checks([SMALL], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(observed=1, hidden=1, channels=(4, 4), steps=600)


def test_default_construction_follows_all_of_y(data):
    model = asc.ContrastiveEmbedding(seeds=1, steps=3, batch_size=64, encoder=asc.MLP((8,)), progress=False)
    z = model.fit_transform(data.X, data.variables)
    assert z.shape == (600, 4)
    assert list(model.get_feature_names_out()) == ["variables0", "rest0", "rest1", "rest2"]


def test_clone_keeps_parameters():
    model = asc.ContrastiveEmbedding({"a": asc.Follow("x", 2)}, penalty=asc.Ramp(0.2), encoder=asc.MLP((5,)))
    copy = clone(model)
    assert copy.get_params()["spaces"] == model.spaces and copy.penalty == asc.Ramp(0.2)


def test_pipeline_cross_validation_and_set_output(data):
    model = make_pipeline(StandardScaler(), clone(SMALL).set_params(batch_size=64))
    scores = cross_val_score(model, data.X, cv=KFold(3))
    assert scores.shape == (3,) and np.isfinite(scores).all()
    model.set_output(transform="pandas")
    out = model.fit_transform(pd.DataFrame(data.X, columns=data.channel_names))
    assert list(out) == ["rest0"] and len(out) == 600


def test_cross_validation_with_variables(data):
    spaces = {"position": asc.Follow("x", 1), "rest": asc.Time(1)}
    model = clone(SMALL).set_params(spaces=spaces, batch_size=64, steps=100)
    scores = cross_val_score(model, data.X, data.variables, cv=KFold(2))
    assert (scores > 0.2).all()  # an untrained model scores near 0
