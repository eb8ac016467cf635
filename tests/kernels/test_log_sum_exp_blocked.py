"""The blocked log-sum-exp against its definition and against finite differences."""

import pytest
import torch

from ascribo.kernels import log_sum_exp, log_sum_exps
from ascribo.kernels import log_sum_exp_blocked as blocked
from ascribo.kernels import log_sum_exp_reference as reference
from ascribo.spaces.similarities import Dot, Lp, SquaredL2

SIMILARITIES = [SquaredL2(), Dot(), Lp(1.5), Lp(3)]


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("block", [7, 10**6])  # row by row; all at once
def test_equals_the_definition(similarity, block, monkeypatch):
    monkeypatch.setattr(blocked, "PAIRS_AT_ONCE", block)
    r, n = torch.randn(2, 5, 4, dtype=torch.float64), torch.randn(2, 7, 4, dtype=torch.float64)
    terms = [(similarity, slice(0, 3)), (SquaredL2(), slice(2, 4))]
    torch.testing.assert_close(log_sum_exp(r, n, terms), reference.log_sum_exp(r, n, terms))


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("block", [7, 10**6])
def test_gradient_equals_finite_differences(similarity, block, monkeypatch):
    monkeypatch.setattr(blocked, "PAIRS_AT_ONCE", block)
    torch.manual_seed(0)
    points = [torch.randn(2, k, 3, dtype=torch.float64, requires_grad=True) for k in (3, 4)]
    objectives = [[(similarity, slice(0, 2))], [(similarity, slice(0, 3)), (Dot(), slice(1, 3))]]
    assert torch.autograd.gradcheck(lambda r, n: log_sum_exps(r, n, objectives), points)


@pytest.mark.parametrize("dtype, away, rtol", [(torch.float32, 20.0, 1e-3), (torch.float64, 3000.0, 1e-7)])
def test_negatives_too_far_to_count(dtype, away, rtol):
    """Exponents far below what a float can hold: the value and both gradients are those of the near ones."""
    g = torch.Generator().manual_seed(0)
    r, near = (torch.randn(2, k, 3, generator=g, dtype=dtype) for k in (5, 4))
    far = torch.cat([near, near[:, :3] + away, near[:, :3] - 2 * away], 1)
    out = []
    for negatives in (near, far):
        points = [r.clone().requires_grad_(), negatives.requires_grad_()]
        value = log_sum_exp(*points, [(SquaredL2(), slice(0, 3))])
        out.append((value, *torch.autograd.grad(value.square().sum(), points)))
    for a, b in zip(*out, strict=True):
        torch.testing.assert_close(b[:, : a.shape[1]], a, rtol=rtol, atol=rtol)
    assert out[1][2][:, 4:].abs().max() < 1e-20


def test_objectives_are_columns():
    r, n = torch.randn(1, 4, 3), torch.randn(1, 6, 3)
    a, b = [(SquaredL2(), slice(0, 2))], [(Dot(), slice(0, 3))]
    both = log_sum_exps(r, n, [a, b])
    assert both.shape == (1, 4, 2)
    torch.testing.assert_close(both, torch.stack([log_sum_exp(r, n, a), log_sum_exp(r, n, b)], -1))


def test_a_similarity_without_exponent_is_taken():
    """A user's own similarity has the methods alone; the definition and the blocked path need no more."""

    class Halved(SquaredL2):
        def rowwise(self, reference, other):
            return super().rowwise(reference, other) / 2

        def pairwise(self, reference, other):
            return super().pairwise(reference, other) / 2

    r, n = torch.randn(1, 4, 3), torch.randn(1, 6, 3)
    terms = [(Halved(), slice(0, 3))]
    torch.testing.assert_close(log_sum_exp(r, n, terms), reference.log_sum_exp(r, n, terms))
