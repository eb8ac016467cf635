"""The dimension of a space: the rule on curves as they were seen, and on data whose dimension is known."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ascribo as asc
from ascribo.evidence.choose_dimension import largest_consistent, near_best, seed_consistency, select_dimension
from ascribo.evidence.stability import consistency

SETTINGS = {
    "encoder": asc.MLP((64, 32)),
    "steps": 200,
    "batch_size": 128,
    "learning_rate": 5e-3,
    "penalty": 0.1,
    "random_state": 0,
    "progress": False,
}


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(0, observed=2, hidden=1, channels=(8, 12), steps=3000)


@pytest.fixture(scope="module")
def chosen(data):
    spaces = {"position": asc.Follow(["x", "y"], dim=7)}
    return select_dimension(data, spaces=spaces, space="position", dims=(1, 2, 3), seeds=3, **SETTINGS)


@pytest.fixture(scope="module")
def model(data):
    spaces = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=1)}
    return asc.ContrastiveEmbedding(spaces, seeds=6, **{**SETTINGS, "steps": 60, "n_jobs": 1}).fit(data)


def test_the_true_dimension_is_found(chosen):
    curve = chosen.curve.set_index("dim")
    assert chosen.dim == 2 and chosen.space == "position"
    assert list(curve.index) == [1, 2, 3] and not curve["collapsed"].any()
    assert curve.loc[2, "consistency"] > 0.98 > curve.loc[3, "consistency"] + 0.1
    assert curve.loc[2, "bits"] > curve.loc[1, "bits"] + 0.9  # pairs of a step with itself do not count
    np.testing.assert_allclose(curve["whole"], curve["consistency"])  # there is no other space
    assert (curve["ci_low"] <= curve["consistency"]).all() and (curve["consistency"] <= curve["ci_high"]).all()


def test_a_collapsed_space_has_no_dimension():
    noise = np.random.default_rng(0).normal(size=(1000, 6))
    variable = np.random.default_rng(1).normal(size=1000)
    spaces = {"nothing": asc.Follow("y", dim=2)}
    settings = {**SETTINGS, "steps": 5, "learning_rate": 1e-9}
    found = select_dimension(noise, variable, spaces=spaces, space="nothing", dims=(2, 3), seeds=2, **settings)
    assert found.curve["collapsed"].all() and found.dim is None


def test_agreement_of_seeds_is_that_of_their_embeddings(model, data):
    table = seed_consistency(model, data, samples=500).set_index("space")
    assert list(table.index) == ["position", "rest", "whole"] and list(table["dim"]) == [2, 1, 3]
    steps = np.unique(np.linspace(0, len(data) - 1, 500).astype(int))
    z = np.stack([model.transform(data, seed=k)[steps] for k in near_best(model)])
    for name, where in {"position": slice(0, 2), "rest": slice(2, 3), "whole": slice(0, 3)}.items():
        for column, weight in {"consistency": "direction", "variance_weighted": "variance"}.items():
            expected = consistency(z[..., where], weight)["r2"].mean()
            assert table.loc[name, column] == pytest.approx(expected, abs=1e-5)
    bits = model.goodness_of_fit_["bits"]
    np.testing.assert_allclose(table["bits"], [*bits, bits.sum()])
    assert (table["ci_low"] <= table["consistency"]).all() and (table["consistency"] <= table["ci_high"]).all()
    assert (table["ci_low"] < table["ci_high"]).all()


def test_seeds_in_a_poor_minimum_are_not_compared():
    # chance is log 64 = 4.16 for the contrast and 1 for the regression: the best seed, at 1, gains 4.16; 3%: 0.125
    ends = np.array([1.1, 1.0, 1.3, 5.0, 1.12])
    infonce = np.tile(ends[None, :, None] - 0.25, (300, 1, 1))
    infonce[:150, 1] = 9.0  # what was long ago does not count
    infonce[200:, 4] = np.nan  # stopped early
    mse = np.full((300, 5, 1), 0.25)

    class Fitted:
        batch_size_ = 64
        history_ = xr.Dataset(
            {"infonce": (("step", "seed", "space"), infonce), "mse": (("step", "seed", "regression"), mse)}
        )

    assert near_best(Fitted()) == [0, 1, 4]  # type: ignore[arg-type]
    Fitted.history_ = Fitted.history_.isel(seed=[1, 2, 3])
    assert near_best(Fitted()) == [0, 1]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dims", "values", "expected"),
    [
        # time contrastive, 2 to 10, ten seeds: a clear peak
        (range(2, 11), [0.73, 0.89, 0.95, 0.89, 0.996, 0.80, 0.68, 0.66, 0.60], 6),
        # a space of three variables whose two-dimensional compromise is as consistent: the larger one
        (range(2, 11), [0.999, 0.998, 0.79, 0.69, 0.65, 0.66, 0.68, 0.69, 0.70], 3),
        ([(2, 2), (2, 3), (2, 4), (3, 3), (3, 4)], [0.69, 0.998, 0.993, 0.9975, 0.72], (3, 3)),
        ([(2, 4), (3, 3)], [0.993, 0.9975], (3, 3)),
        ([4, 3, 2], [np.nan, 0.97, 0.98], 3),
    ],
)
def test_the_rule(dims, values, expected):
    assert largest_consistent(list(dims), values) == expected


def test_the_rule_has_a_tolerance():
    assert largest_consistent([2, 3], [0.99, 0.95]) == 2
    assert largest_consistent([2, 3], [0.99, 0.95], tolerance=0.1) == 3
    assert largest_consistent([(2, 4), (3, 3)], [0.993, 0.991], bits=[11.5, 12.0]) == (3, 3)
    with pytest.raises(ValueError, match="a number for each"):
        largest_consistent([2, 3], [np.nan, np.nan])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"space": "positon"}, "did you mean 'position'"),
        ({"dims": []}, "dims="),
        ({"dims": [2.5]}, "dims="),
        ({"seeds": 1}, "two seeds"),
        ({"tolerance": 0.4}, "less than 1/3"),
        ({"dims": (2, 21)}, "dim=21, but the encoder sees 20 channels"),
        ({"spaces": {"position": asc.Regress(["x", "y"])}}, "one dimension per variable"),
    ],
)
def test_what_cannot_be_asked(data, changes, message, monkeypatch):
    given = {"spaces": {"position": asc.Follow(["x", "y"], dim=2)}, "space": "position", "dims": (3,)}

    def train(*_, **__):
        raise AssertionError("training started")

    monkeypatch.setattr(asc.ContrastiveEmbedding, "fit", train)
    with pytest.raises(ValueError, match=message):
        select_dimension(data, **{**given, **changes})


def test_one_seed_agrees_with_nobody(data):
    one = asc.ContrastiveEmbedding({"rest": asc.Time(dim=1)}, seeds=1, **{**SETTINGS, "steps": 2}).fit(data[:500])
    with pytest.raises(ValueError, match="one seed"):
        seed_consistency(one, data)


def test_checkpoints_of_candidates_do_not_meet(data, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(asc.ContrastiveEmbedding, "fit", lambda self, X: seen.append(self) or self)
    frame = pd.DataFrame({"space": ["a", "whole"], "consistency": [1.0, 1.0]})
    for name in ("ci_low", "ci_high", "bits", "variance_weighted"):
        frame[name] = 0.5
    monkeypatch.setattr("ascribo.evidence.choose_dimension.seed_consistency", lambda *_, **__: frame)
    monkeypatch.setattr(
        asc.ContrastiveEmbedding,
        "goodness_of_fit_",
        pd.DataFrame({"space": ["a"], "collapsed": [False]}),
        raising=False,
    )
    spaces = {"a": asc.Time(dim=1), "b": asc.Time(dim=4)}
    select_dimension(data, spaces=spaces, space="a", dims=(2, 3), seeds=5, n_jobs=2, checkpoint=tmp_path)
    assert [m.spaces["a"].dim for m in seen] == [2, 3] and all(m.spaces["b"].dim == 4 for m in seen)
    assert [m.checkpoint.name for m in seen] == ["dim-2", "dim-3"]
    assert all(m.seeds == 5 and m.n_jobs == 2 for m in seen)
    # without candidates: 2 to 10, or as many as there are channels
    for channels, expected in ((20, list(range(2, 11))), (4, [2, 3, 4]), (1, [1])):
        seen.clear()
        one = {"a": asc.Time(dim=1)}
        chosen = select_dimension(data.take_channels(data.channel_names[:channels]), spaces=one, space="a")
        assert [m.spaces["a"].dim for m in seen] == chosen.curve["dim"].tolist() == expected
