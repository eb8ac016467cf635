"""The decoder's Jacobian, and what it is for: the zeros of the data-generating process."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ascribo.attribution import decoder_inputs, decoder_jacobian, fit_decoder
from ascribo.attribution.generative import _decoder


def test_jacobian_equals_autograd():
    modules = [_decoder(3, 7) for _ in range(2)]
    parameters = {k: torch.stack([m.state_dict()[k] for m in modules]) for k in modules[0].state_dict()}
    u = torch.randn(2, 11, 3)
    got = decoder_jacobian(parameters, u)
    for seed, module in enumerate(modules):
        expected = torch.func.vmap(torch.func.jacrev(module))(u[seed])
        torch.testing.assert_close(got[seed], expected, rtol=1e-4, atol=1e-5)


def test_decoder_recovers_zeros_and_slopes():
    """Channels made from the first or second coordinate only get a Jacobian that is near zero for the other."""
    rng = np.random.default_rng(0)
    u = torch.from_numpy(rng.uniform(-1.7, 1.7, (1, 5000, 2)).astype(np.float32))
    x = torch.stack([torch.sin(u[0, :, 0]), u[0, :, 0], torch.cos(u[0, :, 1]), -2 * u[0, :, 1]], 1)
    decoder = fit_decoder(u, x, [0], steps=1500, progress=False)
    jacobian = decoder_jacobian(decoder, u[:, :500])[0]
    assert jacobian[:, :2, 1].abs().mean() < 0.03 and jacobian[:, 2:, 0].abs().mean() < 0.03
    torch.testing.assert_close(jacobian[:, 3, 1], torch.full((500,), -2.0), atol=0.25, rtol=0)
    torch.testing.assert_close(jacobian[:, 0, 0], torch.cos(u[0, :500, 0]), atol=0.25, rtol=0)


def test_seeds_do_not_share_anything():
    torch.manual_seed(0)
    u, x = torch.randn(2, 300, 2), torch.randn(300, 3)
    both = fit_decoder(u, x, [5, 6], steps=60, progress=False)
    alone = fit_decoder(u[1:], x, [6], steps=60, progress=False)
    for name in both:
        torch.testing.assert_close(both[name][1], alone[name][0], rtol=1e-3, atol=1e-4)


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=8), most=st.integers(1, 40))
@settings(max_examples=50, deadline=None)
def test_neighbours_stay_in_their_epoch(lengths, most):
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    steps, neighbours = decoder_inputs(epochs, most, np.random.default_rng(0))
    assert 0 < len(steps) <= most
    assert (epochs[neighbours] == epochs[steps][:, None]).all()
    if max(lengths) > 2:
        assert (neighbours == steps[:, None] + [-1, 1]).all()
