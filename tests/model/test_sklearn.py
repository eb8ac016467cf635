"""scikit-learn's own checks, and its tools at work."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ascribo as asc
from ascribo.training.settings import Settings

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

DEFAULT = asc.ContrastiveEmbedding()


@parametrize_with_checks([DEFAULT])
def test_scikit_learn_checks(estimator, check, monkeypatch):
    """All of them hold for the default parameters. Only the training is cut short, behind the estimator's back."""
    whole = Settings.from_parameters
    monkeypatch.setattr(Settings, "from_parameters", lambda *given, **changes: whole(*given, **changes, steps=3))
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([DEFAULT])
def test_scikit_learn_checks_with_whole_training(estimator, check):
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


# Parameters of spaces


def test_a_grid_search_reaches_the_dimension_of_a_space():
    """Bits per space rise up to the true dimension: of one and two the search chooses two."""
    data = asc.simulate.box(observed=2, hidden=1, channels=(4, 6), steps=1500)
    given = {"position": asc.Follow(["x", "y"], dim=1)}
    model = clone(SMALL).set_params(spaces=given, batch_size=128, steps=150, encoder=asc.MLP((32,)), penalty=0.0)
    search = GridSearchCV(model, {"spaces__position__dim": [1, 2]}, cv=KFold(2), error_score="raise")
    search.fit(data.X, data.variables)
    assert search.best_params_ == {"spaces__position__dim": 2}
    assert search.best_estimator_.transform(data.X).shape == (1500, 2)
    low, high = search.cv_results_["mean_test_score"]
    assert high > low + 0.3
    assert given == {"position": asc.Follow(["x", "y"], dim=1)}  # the caller's dict is left alone


@pytest.mark.parametrize("kind", [asc.ContrastiveEmbedding, asc.SharedEmbedding])
def test_parameters_of_spaces_are_parameters_of_the_model(kind):
    spaces = {"a__b": asc.Follow("x", 2), "c": asc.Discrete("y", 1)}
    model = kind(spaces)
    assert model.get_params(deep=False)["spaces"] is spaces
    found = model.get_params()
    assert found["spaces__a__b"] == spaces["a__b"] and found["spaces__a__b__offset"] == 1
    assert found["spaces__c__variable"] == "y" and found["steps"] == "auto"
    model.set_params(spaces__a__b__dim=3, spaces__a__b__circular=True, spaces__c=asc.Time(1), spaces__c__dim=4)
    assert model.spaces == {"a__b": asc.Follow("x", 3, circular=True), "c": asc.Time(4)}
    assert spaces == {"a__b": asc.Follow("x", 2), "c": asc.Discrete("y", 1)}
    assert clone(model).spaces == model.spaces
    assert kind(**model.get_params(deep=False)).spaces is model.spaces
    # spaces and a parameter of one of them at once
    assert model.set_params(spaces__rest__dim=2, spaces={"rest": asc.Time(1)}).spaces == {"rest": asc.Time(2)}


@pytest.mark.parametrize(
    ("spaces", "change", "message"),
    [
        (None, {"spaces__rest__dim": 2}, "spaces=None names no space"),
        ({"rest": asc.Time(1)}, {"spaces__rst__dim": 2}, "no space 'rst'; did you mean 'rest'"),
        ({"rest": asc.Time(1)}, {"spaces__other": asc.Time(1)}, "no space 'other'"),
        ({"rest": asc.Time(1)}, {"spaces__rest__dims": 2}, "Time has no parameter 'dims'; did you mean 'dim'"),
        ({"rest": asc.Time(1)}, {"spaces__rest__dim": 0}, "dim must be an integer of at least 1"),
        ({"rest": asc.Time(1)}, {"step": 3}, "Invalid parameter 'step'"),
    ],
)
def test_parameters_that_no_space_has(spaces, change, message):
    model = asc.ContrastiveEmbedding(spaces)
    with pytest.raises(ValueError, match=message):
        model.set_params(**change)
    assert model.spaces is spaces


def test_all_parameters_but_processes_are_shared():
    one, several = (set(kind().get_params()) for kind in (asc.ContrastiveEmbedding, asc.SharedEmbedding))
    assert one - several == {"n_jobs"} and several <= one
    with pytest.raises(TypeError, match="n_jobs"):
        asc.SharedEmbedding(n_jobs=2)
