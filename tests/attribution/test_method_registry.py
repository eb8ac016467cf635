"""Methods by name: what they take, what they refuse, and what they need of a model."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo import attribution
from ascribo.attribution import METHODS, attribute
from ascribo.attribution.method_registry import check_options
from ascribo.networks.model_stack import Embedder
from ascribo.networks.seed_alignment import Alignment
from ascribo.training.decoders import fit_decoders

LOCAL = [name for name, method in METHODS.items() if "samples" in method.takes]


@pytest.fixture(scope="module")
def recording():
    return asc.Recording(np.random.default_rng(0).normal(size=(200, 14)).astype(np.float32))


@pytest.fixture(scope="module")
def model(recording):
    """Not a fitted model: only what attribution needs of one. The names of its spaces run into each other."""
    spaces = {"a": asc.Time(11), "a1": asc.Time(1), "b": asc.Time(1, nuisance=True)}
    module = asc.MLP((16,), limit="none").build(14, 13)
    embedder, same = Embedder(module, spaces), torch.eye(13).expand(2, 13, 13)
    zeros = torch.zeros(20, 13), torch.zeros(20, 14)
    return SimpleNamespace(
        spaces=spaces,
        channels=tuple(recording.channel_names),
        embedder=embedder,
        parameters=embedder.initial(module, [0, 1]),
        decoder=fit_decoders([zeros[0]], [zeros[1]], [(0, 0)] * 2, [0, 1], steps=1, progress=False),
        alignment=Alignment(torch.zeros(2, 13), same, same, 0),
        usable=np.ones((2, 3), dtype=bool),
        seeds=2,
        device=torch.device("cpu"),
        standardise=torch.from_numpy,
    )


def test_the_methods_of_the_package_in_their_order():
    assert list(METHODS)[:4] == ["unique_variance", "generative_gradient", "tangent", "inverted_neuron_gradient"]
    assert len(METHODS) == 11 and LOCAL == list(METHODS)[1:]
    assert METHODS["unique_variance"].takes == {"loss"} and METHODS["unique_variance"].tested
    assert not any(METHODS[name].tested for name in LOCAL)
    assert attribution.unique_variance.__name__ == "ascribo.attribution.unique_variance"  # a package, no function


@pytest.mark.parametrize("method", LOCAL)
def test_anything_with_the_parts_of_a_model_has_maps(method, model, recording):
    maps = attribute(model, recording, method, np.arange(0, 200, 20))
    assert maps.by_space.shape == (14, 2) and np.isfinite(maps.by_space).all() and maps.rank_deficient < 0.5
    dimensions = maps.by_dimension.dimension.values.tolist()
    assert len(set(dimensions)) == len(dimensions) == 12  # not those of the nuisance
    assert dimensions[-2:] == ["a.10", "a1.0"] and maps.by_dimension.space.values.tolist() == ["a"] * 11 + ["a1"]


def test_the_same_part_of_a_map_has_the_same_draws(model, recording):
    for method in ("shapley_zeros", "shapley_shuffled", "smoothgrad"):
        maps = attribute(model, recording, method)
        np.testing.assert_array_equal(maps.over_time(20, 30), maps.over_time(20, 30))
        assert not np.array_equal(maps.over_time(20, 30)[5], maps.over_time(25, 30)[0])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "tangents"}, r"method='tangents': expected one of \['unique_variance', "),
        ({"method": "tangent", "samples": 0}, "samples=0: expected an integer of at least 1, or 'all'"),
        (
            {"method": "tangent", "loss": "poisson"},
            "loss='poisson' is for method='unique_variance': tangent predicts",
        ),
        ({"method": "tangent", "aggregate": "sum"}, "aggregate='sum': expected 'mean', 'median' or 'maximum'"),
        ({"method": "unique_variance", "samples": 50}, "samples=50: unique_variance chooses .* Leave samples out"),
        ({"method": "unique_variance", "aggregate": "median"}, "aggregate='median': the scores of unique_variance"),
    ],
)
def test_what_a_method_does_not_take_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        check_options(**wrong)
