"""Jacobians against autograd, pseudo-inverses against Moore and Penrose, the papers' theorem on exact encoders."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ascribo import MLP, Convolution, Time, simulate
from ascribo.attribution.jacobian import encoder_jacobian, pseudo_inverse
from ascribo.attribution.methods.inverted_neuron_gradient import inverted_neuron_gradient
from ascribo.attribution.methods.neuron_gradient import neuron_gradient
from ascribo.metrics.scores import auroc
from ascribo.networks.model_stack import Embedder
from ascribo.networks.seed_alignment import align
from tests.attribution.given import at


@pytest.mark.parametrize("encoder, window", [(MLP((16, 8)), 1), (Convolution(4, (6, 8)), 4)])
@pytest.mark.parametrize("similarity", ["squared_l2", "dot"])
def test_jacobian_equals_autograd(encoder, window, similarity):
    module = encoder.build(5, 3)
    embedder = Embedder(module, {"a": Time(3, similarity=similarity)})
    parameters = embedder.initial(module, [1, 2])
    x = torch.randn(7, 5) if window == 1 else torch.randn(7, 5, window)
    got = encoder_jacobian(embedder, parameters, x)
    assert got.shape == (2, 7, 3, 5, window)
    for sample in range(7):
        expected = torch.autograd.functional.jacobian(
            lambda v: embedder(parameters, v.expand(2, 1, *v.shape))[:, 0], x[sample]
        )
        torch.testing.assert_close(got[:, sample], expected.reshape(2, 3, 5, window), rtol=1e-4, atol=1e-5)


@given(
    d=st.integers(1, 6),
    extra=st.integers(0, 20),
    spread=st.floats(0, 3),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_moore_penrose_conditions(d, extra, spread, seed):
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(4, d, d + extra, generator=generator, dtype=torch.float64)
    matrix = matrix * 10 ** (spread * torch.rand(4, d, 1, generator=generator, dtype=torch.float64))
    inverse, ok = pseudo_inverse(matrix)
    a, p = matrix[ok], inverse[ok]
    scale = torch.linalg.cond(a)[:, None, None]
    close = lambda x, y: ((x - y).abs() <= 1e-9 * scale * (1 + y.abs())).all()  # noqa: E731
    assert close(a @ p @ a, a)
    assert close(p @ a @ p, p)
    assert close((a @ p).mT, a @ p)
    assert close((p @ a).mT, p @ a)
    torch.testing.assert_close(p, torch.linalg.pinv(a), rtol=1e-6, atol=1e-9)


def test_rank_deficient_jacobians_are_reported_not_inverted():
    good = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    dead = good.clone()
    dead[1] = 0  # a saturated output
    twin = good.clone()
    twin[2] = 2 * twin[0]  # two outputs that move together
    long = good.clone()
    long[0] *= 1e4  # badly scaled, but of full rank
    inverse, ok = pseudo_inverse(torch.stack([good, dead, twin, long]))
    assert ok.tolist() == [True, False, False, True]
    assert torch.isnan(inverse[1:3]).all()
    torch.testing.assert_close(long @ inverse[3], torch.eye(3), rtol=1e-3, atol=1e-3)


def test_more_dimensions_than_inputs_is_an_error():
    with pytest.raises(ValueError, match="4 embedding dimensions for 3 inputs"):
        pseudo_inverse(torch.randn(2, 4, 3))


def test_the_true_jacobian_has_an_auroc_of_one():
    """The evaluation itself: if f inverts g with a minimum-norm Jacobian, its pseudo-inverse is J_g (theorem 2)."""
    data = simulate.box(seed=3, observed=2, hidden=4, steps=3000)
    truth = torch.from_numpy(data.jacobian(np.arange(0, 3000, 3)))  # (time, channel, latent), hidden first
    mixed = torch.zeros(6, 6, dtype=torch.float64)  # any block-diagonal change of latents
    mixed[:4, :4], mixed[4:, 4:] = torch.randn(4, 4), torch.randn(2, 2)
    encoder = mixed @ torch.linalg.pinv(truth)
    inverse, ok = pseudo_inverse(encoder)
    assert ok.all()
    score = inverse[..., 4:].norm(dim=-1).mean(0)
    assert auroc(score, data.truth.sel(space="position")) == 1.0
    assert score[:25].max() < 1e-8 < 1e-2 < score[25:].min()
    # the encoder's gradient itself does not have the zeros
    assert encoder[:, 4:].norm(dim=1).mean(0)[:25].min() > 1e-2


def test_maps_do_not_depend_on_the_basis_of_a_block():
    """Two encoders that differ by a linear map within each block have the same map in aligned coordinates."""
    spaces = {"a": Time(2), "b": Time(2)}
    module = MLP((24,), limit="none").build(6, 4)
    embedder = Embedder(module, spaces)
    parameters = {k: v.double() for k, v in embedder.initial(module, [0]).items()}
    turn = torch.block_diag(torch.randn(2, 2), torch.randn(2, 2)).double()
    other = dict(parameters)
    other["2.weight"], other["2.bias"] = turn @ parameters["2.weight"], parameters["2.bias"] @ turn.mT
    both = {k: torch.cat([parameters[k], other[k]]) for k in parameters}
    x = torch.randn(400, 6, dtype=torch.float64)
    z = embedder(both, x.expand(2, 400, 6)).detach()
    aligned = align(z, {"a": slice(0, 2), "b": slice(2, 4)})
    aligned = type(aligned)(aligned.mean.double(), aligned.basis.double(), aligned.inverse.double(), 0)
    for method in (inverted_neuron_gradient, neuron_gradient):
        maps, ok = at(method, embedder, both, aligned, x[:50])
        assert ok.all()
        torch.testing.assert_close(maps[0], maps[1], rtol=1e-3, atol=1e-4)
    # without alignment they differ
    raw = encoder_jacobian(embedder, both, x[:50])
    assert (raw[0] - raw[1]).abs().max() > 0.05
