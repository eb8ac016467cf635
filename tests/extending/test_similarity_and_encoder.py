"""A similarity and an encoder that are defined here, outside the package: one class and one registration each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import ascribo as asc
from ascribo.kernels import log_sum_exp_blocked as blocked
from ascribo.kernels import log_sum_exp_reference as reference

SMALL = {"seeds": 2, "steps": 200, "batch_size": 64, "penalty": 0.0, "progress": False, "learning_rate": 1e-2}


@asc.storable
@dataclass(frozen=True)
class Cauchy:
    """ψ(a, b) = -log(1 + ‖a - b‖²): far pairs matter less than under a normal distribution."""

    on_sphere = False

    def rowwise(self, reference, other):
        return -torch.log1p((reference - other).square().sum(-1))

    def pairwise(self, reference, other):
        return self.rowwise(reference.unsqueeze(-2), other.unsqueeze(-3))

    def pull(self, weight, reference, other):
        difference = reference.unsqueeze(-2) - other.unsqueeze(-3)
        slope = -2 * difference / (1 + difference.square().sum(-1, keepdim=True)) * weight.unsqueeze(-1)
        return slope.sum(-2), -slope.sum(-3)

    def rescale(self, temperature):
        return temperature**-0.5


@asc.storable
@dataclass(frozen=True)
class Tanh:
    """An encoder with one hidden layer of tanh units."""

    width: int = 16

    def build(self, channels: int, dim: int) -> nn.Module:
        return nn.Sequential(nn.Linear(channels, self.width), nn.Tanh(), nn.Linear(self.width, dim))


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(seed=0, observed=1, hidden=1, channels=(5, 5), steps=2000)


def test_the_gradient_of_the_similarity_is_right():
    torch.manual_seed(0)
    r = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    n = torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True)
    terms = [(Cauchy(), slice(0, 3))]
    assert torch.autograd.gradcheck(lambda a, b: blocked.log_sum_exp(a, b, terms), (r, n))
    torch.testing.assert_close(blocked.log_sum_exp(r, n, terms), reference.log_sum_exp(r, n, terms))


def test_both_are_fitted_saved_and_loaded(data, tmp_path):
    spaces = {"x": asc.Follow("x", dim=1, similarity=Cauchy()), "rest": asc.Time(dim=1, similarity=Cauchy())}
    model = asc.ContrastiveEmbedding(spaces, encoder=Tanh(12), random_state=0, **SMALL).fit(data)
    assert model.goodness_of_fit_["bits"].iloc[0] > 0.5
    assert model.attribute(data, method="neuron_gradient", samples=100).by_space.shape == (10, 2)
    model.save(tmp_path)
    loaded = asc.load(tmp_path)
    assert loaded.encoder == Tanh(12) and loaded.model_.spaces["x"].similarity == Cauchy()
    np.testing.assert_array_equal(loaded.transform(data), model.transform(data))
