"""A GELU layer on values and tangents, laid out for a CPU: against autograd and finite differences."""

import pytest
import torch

from ascribo import MLP
from ascribo.kernels.gelu_layer_cpu import gelu_pair
from ascribo.networks.dense import as_dense


def inputs(dtype=torch.float64, values=11, tangents=4, width=3, units=5):
    g = torch.Generator().manual_seed(0)
    shapes = [(2, width, values), (2, width, tangents), (2, units, width), (2, units)]
    return [torch.randn(shape, generator=g, dtype=dtype) for shape in shapes]


@pytest.mark.parametrize("tangents", [1, 4, 11])
def test_values_and_tangents(tangents):
    v, t, weight, bias = inputs(tangents=tangents)
    got = gelu_pair(v, t, weight, bias)

    def layer(x):
        return torch.nn.functional.gelu(weight @ x + bias[..., None])

    torch.testing.assert_close(got[0], layer(v))
    torch.testing.assert_close(got[1], torch.func.jvp(layer, (v[..., :tangents],), (t,))[1])


def test_gradient_equals_finite_differences():
    tensors = [tensor.requires_grad_() for tensor in inputs(values=5, width=2, units=3)]
    assert torch.autograd.gradcheck(gelu_pair, tensors)


def test_a_second_derivative_is_refused_rather_than_wrong():
    tensors = [tensor.requires_grad_() for tensor in inputs()]
    total = sum(out.square().sum() for out in gelu_pair(*tensors))
    gradient = torch.autograd.grad(total, tensors[2], create_graph=True)[0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize("tangents", [None, 1, 6])
@pytest.mark.parametrize("widths", [(7,), (1, 4), (8, 8)])
def test_the_form_for_a_cpu_equals_the_form_for_a_gpu(widths, tangents):
    module = MLP(widths).build(5, 2)
    dense = as_dense(module)
    assert dense is not None
    g = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(3, *shape, generator=g, dtype=torch.float64)  # noqa: E731
    parameters = {n: draw(*p.shape).requires_grad_() for n, p in module.named_parameters()}
    x, u = draw(9, 5), None if tangents is None else draw(tangents, 5)
    ways = []
    for way in (dense._by_units, dense._by_rows):
        z, t = way(parameters, x, u)
        total = z.sin().sum() + (0 if t is None else t.square().sum())
        ways.append([z, *([] if t is None else [t]), *torch.autograd.grad(total, list(parameters.values()))])
    torch.testing.assert_close(*ways)
