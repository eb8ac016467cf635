"""Values and tangents of a GELU layer: against autograd, and the kernel against the plain form."""

import pytest
import torch

from ascribo.kernels.gelu_layer import gelu_rows


def inputs(models=2, values=11, tangents=4, width=5, dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    rows = torch.randn(models, values + tangents, width, generator=g, dtype=dtype)
    return rows, torch.randn(models, width, generator=g, dtype=dtype)


@pytest.mark.parametrize("tangents", [0, 4, 11])
def test_values_and_tangents(tangents):
    rows, bias = inputs(tangents=tangents)
    out = gelu_rows(rows, bias, tangents)
    a, s = rows[:, :11] + bias[:, None], rows[:, 11:]
    torch.testing.assert_close(out[:, :11], torch.nn.functional.gelu(a))
    _, expected = torch.func.jvp(torch.nn.functional.gelu, (a[:, :tangents],), (s,))
    torch.testing.assert_close(out[:, 11:], expected)


@pytest.mark.parametrize("tangents", [0, 4])
def test_gradient_equals_finite_differences(tangents):
    rows, bias = inputs(values=5, tangents=tangents, width=3)
    assert torch.autograd.gradcheck(
        lambda r, b: gelu_rows(r, b, tangents), (rows.requires_grad_(), bias.requires_grad_())
    )


@pytest.mark.parametrize("values, tangents, width", [(70, 20, 33), (33, 33, 64), (40, 0, 7)])
def test_kernel_equals_the_plain_form(device, values, tangents, width):
    from ascribo.kernels import gelu_layer_triton

    rows, bias = inputs(values=values, tangents=tangents, width=width, dtype=torch.float32)
    rows, bias = rows.requires_grad_(), bias.requires_grad_()
    out = gelu_rows(rows, bias, tangents)
    gradient = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    expected, _ = torch.autograd.grad(out, (rows, bias), gradient)
    there = [t.detach().to(device) for t in (rows, bias, gradient)]
    got = gelu_layer_triton.forward(there[0], there[1], tangents)
    torch.testing.assert_close(got.cpu(), out, rtol=1e-5, atol=1e-6)
    got = gelu_layer_triton.backward(*there, tangents)
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=2e-6)


def test_kernel_takes_float16(device):
    """Computed in float32 and rounded once: next to the plain form of the same rows in float32."""
    from ascribo.kernels import gelu_layer_triton

    rows, bias = inputs(values=40, tangents=9, width=24, dtype=torch.float32)
    gradient = torch.randn(rows.shape, generator=torch.Generator().manual_seed(1)).half()
    exact, b = rows.half().float().requires_grad_(), bias.requires_grad_()
    out = gelu_rows(exact, b, 9)
    expected = torch.autograd.grad(out, (exact, b), gradient.float())
    there = [t.detach().to(device) for t in (rows.half(), bias, gradient)]
    got = gelu_layer_triton.forward(there[0], there[1], 9)
    assert got.dtype == torch.float16
    torch.testing.assert_close(got.float().cpu(), out, rtol=1e-3, atol=1e-6)
    got = gelu_layer_triton.backward(*there, 9)
    torch.testing.assert_close(got.float().cpu(), expected[0], rtol=1e-3, atol=1e-5)
    half = rows.half().requires_grad_()
    own = torch.autograd.grad(gelu_rows(half, b, 9), (half, b), gradient)  # the plain form in float16
    assert own[1].dtype == torch.float32
    for one, other in zip(own, expected, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=2e-3, atol=5e-3)
