"""The InfoNCE against its definition, its gradient against finite differences, its bound, its memory."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ascribo.kernels import log_sum_exp_blocked as blocked
from ascribo.networks import infonce_loss as losses
from ascribo.networks.infonce_loss import infonce, log_sum_exp
from ascribo.spaces.similarities import Dot, Lp, SquaredL2, as_similarity

SIMILARITIES = [SquaredL2(), Dot(), Lp(1.5), Lp(2.0), Lp(3.0)]


def direct(similarity, a, b):
    """ψ of every row with every row, written as in the papers."""
    difference = a[:, :, None] - b[:, None]
    if isinstance(similarity, Dot):
        return (a[:, :, None] * b[:, None]).sum(-1)
    p = 2.0 if isinstance(similarity, SquaredL2) else similarity.p
    return -difference.abs().pow(p).sum(-1)


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("block", [7, 10**6])
def test_value_equals_the_definition(similarity, block, monkeypatch):
    monkeypatch.setattr(blocked, "PAIRS_AT_ONCE", block)  # 7: streamed row by row; 10**6: all at once
    r, p, n = (torch.randn(2, k, 3, dtype=torch.float64) for k in (5, 5, 8))
    expected = direct(similarity, r, n).logsumexp(-1) - direct(similarity, r, p).diagonal(dim1=1, dim2=2)
    got = infonce(r, p, n, [(similarity, slice(0, 3))])
    torch.testing.assert_close(got, expected.mean(-1))


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("block", [7, 10**6])
@pytest.mark.parametrize("count_positive", [False, True])
def test_gradient_equals_finite_differences(similarity, block, count_positive, monkeypatch):
    monkeypatch.setattr(blocked, "PAIRS_AT_ONCE", block)
    torch.manual_seed(0)
    points = [torch.randn(2, k, 4, dtype=torch.float64, requires_grad=True) for k in (5, 5, 6)]
    # two terms on different coordinates, as the whole time objective of mixed spaces has them
    terms = [(similarity, slice(0, 2)), (SquaredL2(), slice(2, 4))]
    assert torch.autograd.gradcheck(
        lambda r, p, n: infonce(r, p, n, terms, count_positive=count_positive), points, atol=1e-7
    )


def test_terms_add_up():
    r, p, n = (torch.randn(1, 6, 5) for _ in range(3))
    whole = infonce(r, p, n)
    split = infonce(r, p, n, [(SquaredL2(), slice(0, 2)), (SquaredL2(), slice(2, 5))])
    torch.testing.assert_close(whole, split)


@given(shift=st.floats(-1e3, 1e3), seed=st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_squared_l2_ignores_a_common_shift_in_float32(shift, seed):
    generator = torch.Generator().manual_seed(seed)
    r, p, n = (torch.randn(1, 16, 6, generator=generator) for _ in range(3))
    exact = infonce(r.double(), p.double(), n.double())
    moved = infonce(r + shift, p + shift, n + shift)
    # a shift of 1e3 costs float32 the digits of the coordinates themselves, nothing more
    torch.testing.assert_close(moved.double(), exact, rtol=2e-3, atol=2e-3)


def test_squared_l2_ignores_rotations():
    r, p, n = (torch.randn(1, 16, 4, dtype=torch.float64) for _ in range(3))
    turn, _ = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))
    torch.testing.assert_close(infonce(r @ turn, p @ turn, n @ turn), infonce(r, p, n))


@pytest.mark.parametrize("count_positive", [False, True])
def test_a_constant_embedding_is_at_chance(count_positive):
    z = torch.full((2, 64, 3), 0.7)
    value = infonce(z, z, z, count_positive=count_positive)
    torch.testing.assert_close(value, torch.full((2,), losses.chance(64)))


@given(scale=st.floats(0.1, 30), dim=st.integers(1, 12), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_counted_positive_bounds_the_information_by_log_n(scale, dim, seed):
    generator = torch.Generator().manual_seed(seed)
    r, n = (scale * torch.randn(1, 32, dim, generator=generator) for _ in range(2))
    assert infonce(r, r, n, count_positive=True).item() >= -1e-5
    if dim > 6 and scale > 10:  # the papers' form has no such bound at finite N
        assert infonce(r, r, n).item() < 0


def test_infonce_reaches_log_n_minus_kl():
    """Proposition 1: with ψ = log p/q and many negatives the value is log N - KL(p‖q)."""
    rng = np.random.default_rng(0)
    sigma, batch, negatives = 0.5, 1000, 10_000
    # z uniform on a ring, positives a wrapped Gaussian step: a box without an edge, so that ψ needs no C(x)
    turn = torch.from_numpy(rng.uniform(0, 20, batch))
    step = torch.from_numpy(sigma * rng.standard_normal(batch))
    other = torch.from_numpy(rng.uniform(0, 20, negatives))
    wrap = lambda a: (a + 10) % 20 - 10  # noqa: E731
    difference = wrap(turn[:, None] - other)
    value = (difference.square().neg() / (2 * sigma**2)).logsumexp(-1) + step.square() / (2 * sigma**2)
    kl = math.log(20) - 0.5 * math.log(2 * math.pi * math.e * sigma**2)
    assert value.mean().item() == pytest.approx(math.log(negatives) - kl, abs=0.05)
    # the library's loss on the same points, away from the seam, where the ring is a line
    inner = (turn > 5) & (turn < 15)
    z = turn[inner] / math.sqrt(2) / sigma
    ours = infonce(
        z[None, :, None],
        (z + step[inner] / math.sqrt(2) / sigma)[None, :, None],
        other[None, :, None] / math.sqrt(2) / sigma,
    )
    assert ours.item() == pytest.approx(math.log(negatives) - kl, abs=0.08)


def test_float32_is_stable_for_large_batches():
    torch.manual_seed(1)
    r, n = 5 * torch.randn(1, 256, 6), 5 * torch.randn(1, 50_000, 6)
    p = r + 0.3 * torch.randn_like(r)
    exact = infonce(r.double(), p.double(), n.double()).item()
    assert infonce(r, p, n).item() == pytest.approx(exact, rel=1e-5)


def test_memory_grows_with_the_batch_not_its_square():
    """At 5,000 x 5,000 there are 25 million pairs; no tensor may hold more than a few of them."""
    assert blocked.PAIRS_AT_ONCE < 5_000**2 / 10
    r, n = (torch.randn(1, 5_000, 6, requires_grad=True) for _ in range(2))
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                largest = max(largest, out.numel())
            return out

    with Watch():
        log_sum_exp(r, n, [(SquaredL2(), slice(0, 6))]).sum().backward()
    assert 5_000 < largest <= blocked.PAIRS_AT_ONCE
    assert r.grad is not None and torch.isfinite(r.grad).all()


def test_unknown_similarity_is_refused():
    with pytest.raises(ValueError, match=r"cosine.*squared_l2"):
        as_similarity("cosine")
    with pytest.raises(ValueError, match="at least 1"):
        Lp(0.5)
