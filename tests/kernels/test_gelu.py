"""GELU with its tangent: plain torch against autograd and finite differences, the Triton kernels against that."""

import pytest
import torch
from torch.nn.functional import gelu

from ascribo.kernels import gelu as layer
from ascribo.kernels import gelu_with_tangent


def inputs(models=2, rows=5, tangents=3, width=4, dtype=torch.float64, device="cpu"):
    generator = torch.Generator().manual_seed(rows)
    shapes = (models, rows, width), (models, tangents, width), (models, width)
    return [torch.randn(s, generator=generator, dtype=dtype).to(device).requires_grad_() for s in shapes]


def by_autograd(a, s, bias):
    """The same by torch: the tangent is a derivative of gelu, its gradient a second derivative."""
    x = a + bias.unsqueeze(1)
    first = x[:, : s.shape[1]]
    (slope,) = torch.autograd.grad(gelu(first).sum(), first, create_graph=True)
    return gelu(x), slope * s


def outcome(function, points):
    h, t = function(*points)
    loss = (h * torch.linspace(-1, 1, h.numel()).to(h).view_as(h)).sum() + (t.sin() + t).sum()
    return [h, t, *torch.autograd.grad(loss, points)]


@pytest.mark.parametrize("tangents", [0, 3, 5])
def test_equals_autograd(tangents):
    points = inputs(tangents=tangents)
    for got, exact in zip(outcome(gelu_with_tangent, points), outcome(by_autograd, points), strict=True):
        torch.testing.assert_close(got, exact)


def test_gradient_equals_finite_differences():
    a, s, bias = inputs(1, 4, 2, 3)
    assert torch.autograd.gradcheck(gelu_with_tangent, (a, s, bias))
    assert torch.autograd.gradcheck(lambda a, s: gelu_with_tangent(a, s), (a, s))
    assert torch.autograd.gradcheck(lambda a: gelu_with_tangent(a)[0], (a,))


def test_no_tangents():
    a, _, bias = inputs()
    h, t = gelu_with_tangent(a, None, bias)
    torch.testing.assert_close(h, gelu(a + bias.unsqueeze(1)))
    assert t.shape == (2, 0, 4)


@pytest.mark.parametrize("tangents, width", [(0, 3), (33, 4), (40, 70)])  # none; part of a tile; all
def test_kernel_equals_torch(device, tangents, width, monkeypatch):
    points = inputs(2, 40, tangents, width, torch.float32, device)
    exact = outcome(gelu_with_tangent, [x.detach().double().cpu().requires_grad_() for x in points])
    monkeypatch.setattr(layer, "on_triton", lambda tensor: True)
    for got, expected in zip(outcome(gelu_with_tangent, points), exact, strict=True):
        torch.testing.assert_close(got.double().cpu(), expected, rtol=1e-5, atol=1e-5)


def test_kernel_without_bias(device, monkeypatch):
    a, s, _ = inputs(1, 7, 2, 3, torch.float32, device)
    expected = gelu(a.detach())
    monkeypatch.setattr(layer, "on_triton", lambda tensor: True)
    h, t = gelu_with_tangent(a, s)
    torch.testing.assert_close(h, expected)
    (h.sum() + t.sum()).backward()
    assert torch.isfinite(a.grad).all() and torch.isfinite(s.grad).all()


def test_gpu_repeats_to_the_bit(gpu):
    points = inputs(4, 3000, 1000, 180, torch.float32, gpu)
    first, again = outcome(gelu_with_tangent, points), outcome(gelu_with_tangent, points)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
