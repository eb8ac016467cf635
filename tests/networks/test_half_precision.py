"""Layers in float16: what they compute, and their gradients, beside float32."""

import torch

from ascribo import MLP
from ascribo.networks.dense import as_dense
from ascribo.networks.half_precision import SCALE, from_half, in_half


def parameters_and_rows():
    generator = torch.Generator().manual_seed(0)
    module = MLP((32, 30), limit="none").build(6, 3)
    parameters = {
        name: torch.randn(2, *value.shape, generator=generator).mul_(value.shape[-1] ** -0.5).requires_grad_()
        for name, value in module.named_parameters()
    }
    return as_dense(module), parameters, torch.randn(2, 400, 6, generator=generator)


def outcome(dense, parameters, rows):
    """Embedding, and the gradients of a mean over the rows, as of a loss."""
    z, _ = dense(parameters, rows)
    return z, torch.autograd.grad(z.square().sum(-1).mean(), list(parameters.values()))


def test_values_and_gradients_are_those_of_float32_to_the_digits_of_float16():
    dense, parameters, rows = parameters_and_rows()
    exact, gradients = outcome(dense, parameters, rows)
    got, own = outcome(dense, parameters, rows.half())
    assert got.dtype == torch.float32 and all(gradient.dtype == torch.float32 for gradient in own)
    assert 1e-5 < (got - exact).norm() / exact.norm() < 1e-3
    for one, other in zip(own, gradients, strict=True):
        assert (one - other).norm() / other.norm() < 2e-3


def test_gradients_below_the_range_of_float16_survive():
    """A loss a million times smaller: without a scale all gradients of rows would be zero."""
    dense, parameters, rows = parameters_and_rows()
    for factor, bar in ((1.0, 2e-3), (1e-5, 2e-2)):
        found = []
        for x in (rows, rows.half()):
            z, _ = dense(parameters, x)
            found.append(torch.autograd.grad(factor * z.square().sum(-1).mean(), list(parameters.values())))
        for exact, got in zip(*found, strict=True):
            assert (got - exact).norm() / exact.norm() < bar


def test_casts_scale_gradients_and_fill_up():
    weight, bias = torch.full((1, 5, 10), 1.5, requires_grad=True), torch.full((1, 5), 2.5, requires_grad=True)
    own = in_half(weight, bias)
    assert [tuple(x.shape) for x in own] == [(1, 8, 16), (1, 8)]
    assert own[0].dtype == torch.float16 and own[1].dtype == torch.float32
    for given, got in zip((weight, bias), own, strict=True):
        assert float(got.detach().float().sum()) == float(given.detach().sum())
        (gradient,) = torch.autograd.grad(got.float().sum(), given)
        assert (gradient == 1 / SCALE).all() and gradient.shape == given.shape
    rows = torch.full((2, 8), 1.5, dtype=torch.float16, requires_grad=True)
    (gradient,) = torch.autograd.grad(from_half(rows, 5).sum(), rows)
    assert gradient[:, :5].eq(SCALE).all() and gradient[:, 5:].eq(0).all()
