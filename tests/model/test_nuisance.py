"""Nuisance variables: accounted for in all that is fitted, and in nothing that is reported."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.signal import lfilter

import ascribo as asc
from ascribo.attribution import METHODS, attribute
from ascribo.attribution.unique_variance.decoding_problem import make_problem
from ascribo.networks.model_stack import Embedder
from ascribo.spaces.base import reported
from ascribo.support.stored_parameters import decode, encode

CARRIED = ["x", "speed", "hidden"]
"""What the channels of the recording carry, six each."""


def correlated(steps=4000):
    """x and speed move together (0.8), a third latent for itself; each drives six channels and no others."""
    rng = np.random.default_rng(0)
    moves = rng.normal(size=(steps, 3))
    moves[:, 1] = 0.8 * moves[:, 0] + 0.6 * moves[:, 1]
    latents = lfilter([np.sqrt(1 - 0.9**2)], [1, -0.9], moves, axis=0)
    own = np.repeat(np.eye(3), 6, axis=1)
    X = np.tanh(latents @ (own * rng.uniform(0.5, 1.5, 18)) + 0.5 * rng.normal(size=18))
    names = [f"{latent}{k}" for latent in CARRIED for k in range(6)]
    return asc.Recording(
        pd.DataFrame(X + 0.2 * rng.normal(size=X.shape), columns=names),
        {"x": latents[:, 0], "speed": latents[:, 1]},
    )


def fitted(data, spaces):
    model = asc.ContrastiveEmbedding(
        spaces, seeds=1, steps=120, batch_size=128, encoder=asc.MLP((48, 48)), penalty=0.01, random_state=0,
        progress=False,
    )  # fmt: skip
    return model.fit(data)


@pytest.fixture(scope="module")
def data():
    return correlated()


@pytest.fixture(scope="module")
def model(data):
    speed = asc.Follow("speed", dim=1, nuisance=True)
    return fitted(data, {"x": asc.Follow("x", dim=1), "speed": speed, "rest": asc.Time(dim=1)})


@pytest.fixture(scope="module")
def maps(model, data, fair_unique_variance):
    return model.attribute(data)


def called(maps):
    """Share of channels called for x, by what they carry."""
    table = maps.calls()
    table = table[table.space == "x"]
    return table.groupby(table.channel.str.rstrip("0123456789")).called.mean()


def test_a_channel_of_the_nuisance_is_not_called_for_what_goes_with_it(maps, data, fair_unique_variance):
    assert data.variables.corr().iloc[0, 1] > 0.7
    ignored = fitted(data, {"x": asc.Follow("x", dim=1), "rest": asc.Time(dim=2)}).attribute(data)
    assert called(ignored)["x"] == 1 and called(ignored)["speed"] > 0.5  # x stands for speed, too
    assert called(maps)["x"] == 1 and max(called(maps)[["speed", "hidden"]]) <= 1 / 6


@pytest.mark.parametrize("given", [["x"], ["speed"], []])
def test_nothing_is_called_where_a_variable_of_the_model_is_missing(model, data, given, fair_unique_variance):
    """What channels owe to the one that is missing would be found in the other, or in the rest."""
    frame = pd.DataFrame(data.X, columns=data.channel_names)
    lacking = next(name for name in ("x", "speed") if name not in given)
    with pytest.warns(UserWarning, match=rf"has no {lacking} .*pass the variables .* no calls, of any space"):
        maps = model.attribute(asc.Recording(frame, data.variables[given].reset_index(drop=True)))
    assert np.isfinite(maps.by_space).all() and not maps.tested
    assert list(maps.untested) == list(reported(model.model_.spaces))
    with pytest.raises(ValueError, match=rf"no space can be tested: the recording has no {lacking} \(of space"):
        maps.calls()


def test_maps_have_no_column_for_it(model, maps, data):
    shown = ["x", "rest"]
    assert list(maps.by_space["space"].values) == shown
    assert list(maps.tests["space"].values) == ["x"] and list(maps.blocks["space"].values) == ["rest"]
    assert set(maps.calls()["space"]) == set(maps.to_frame()["space"]) == set(shown)
    assert maps.over_time(0, 50).sizes["space"] == maps.by_epoch().sizes["space"] == 2
    assert list(maps.where(data.variables["x"] > 0).by_space["space"].values) == shown


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if "samples" in method.takes])
def test_other_methods_leave_the_column_out_and_change_nothing_else(model, data, method):
    """The same encoders with the space reported: its column is there, the others are the same."""
    spaces = {name: replace(space, nuisance=False) for name, space in model.model_.spaces.items()}
    steps = np.arange(0, 4000, 100)
    maps = attribute(model.model_, data, method, steps)
    whole = attribute(replace(model.model_, spaces=spaces), data, method, steps)
    assert list(maps.by_space["space"].values) == ["x", "rest"]
    assert list(maps.by_dimension["dimension"].values) == ["x0", "rest0"]
    np.testing.assert_array_equal(maps.by_space, whole.by_space.sel(space=["x", "rest"]))
    np.testing.assert_array_equal(maps.by_dimension, whole.by_dimension.sel(dimension=["x0", "rest0"]))
    np.testing.assert_array_equal(maps.over_time(0, 9), whole.over_time(0, 9).sel(space=["x", "rest"]))
    np.testing.assert_array_equal(
        maps.where(np.arange(4000) < 900).by_space,
        whole.where(np.arange(4000) < 900).by_space.sel(space=["x", "rest"]),
    )


def test_it_has_its_dimensions_and_its_goodness_of_fit(model, data):
    assert model.transform(data).shape == (4000, 3)
    assert list(model.get_feature_names_out()) == ["x0", "speed0", "rest0"]
    table = model.goodness_of_fit_.set_index("space")
    assert list(table.index) == ["x", "speed", "rest"] and table.bits["speed"] > 0.3


def test_the_score_is_that_of_the_others(model, data):
    spaces = {name: replace(space, nuisance=False) for name, space in model.model_.spaces.items()}
    own = model.score(data)
    kept, model.model_ = model.model_, replace(model.model_, spaces=spaces)
    try:
        assert model.score(data) > own + 0.3
    finally:
        model.model_ = kept


def test_it_is_kept_on_disk(model, data, tmp_path):
    again = asc.load(model.save(tmp_path / "run"))
    assert [space.nuisance for space in again.model_.spaces.values()] == [False, True, False]
    assert again.spaces == model.spaces
    scores = [m.attribute(data, method="generative_gradient", samples=50).by_space for m in (model, again)]
    np.testing.assert_array_equal(*scores)
    assert scores[1]["space"].values.tolist() == ["x", "rest"]


@pytest.mark.parametrize(
    "space",
    [
        asc.Follow("a", 2, nuisance=True),
        asc.Time(2, nuisance=True),
        asc.Discrete("a", 2, nuisance=True),
        asc.Regress("a", nuisance=True),
    ],
)
def test_all_kinds_of_spaces_can_be_nuisances(space):
    assert decode(encode(space)) == space and decode(encode(space)).nuisance
    assert reported({"n": space, "t": asc.Time(1)}) == ["t"]
    with pytest.raises(ValueError, match="nuisance='yes'"):
        type(space)(*([2] if isinstance(space, asc.Time) else ["a", 1]), nuisance="yes")


def test_the_decoders_see_every_nuisance_and_are_asked_about_none(data):
    """Among them one that follows time, and one whose variable is missing from the recording."""
    spaces = {
        "x": asc.Follow("x", 1),
        "speed": asc.Follow("speed", 1, nuisance=True),
        "drift": asc.Time(2, nuisance=True),
        "rest": asc.Time(1),
    }
    module = asc.MLP((4,)).build(18, 5)
    for variables in (data.variables, data.variables[["x"]]):
        problems = []
        for nuisance in (True, False):
            own = {n: replace(s, nuisance=nuisance and s.nuisance) for n, s in spaces.items()}
            embedder = Embedder(module, own)
            given = (embedder, embedder.initial(module, [0]), own, torch.from_numpy(data.X), data.epochs, variables)
            problems.append(make_problem(*given))
        with_nuisances, without = problems
        assert with_nuisances.spaces == ("rest",)
        assert torch.equal(with_nuisances.inputs, without.inputs)
        last = without.spaces.index("rest")  # the same problem: the same inputs seen
        assert torch.equal(with_nuisances.masks[[0, 1]], without.masks[[0, 1 + last]])


def test_something_must_be_reported(data):
    with pytest.raises(ValueError, match=r"all spaces \(rest\) are nuisances"):
        fitted(data, {"rest": asc.Time(dim=2, nuisance=True)})


def test_a_collapsed_nuisance_is_no_reason_to_warn(model, data):
    usable = model.model_.usable.copy()
    usable[:, 1] = False
    maps = attribute(replace(model.model_, usable=usable), data, "generative_gradient", np.arange(50))
    assert not maps.refused
