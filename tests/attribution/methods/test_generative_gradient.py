"""The generative gradient, and what it is for: the zeros of the data-generating process."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ascribo import Discrete, Time
from ascribo.attribution.methods.generative_gradient import decoder_embedding, decoder_rows, generative_gradient
from ascribo.networks.encoders import Limit
from ascribo.networks.model_stack import Embedder
from ascribo.networks.seed_alignment import align
from ascribo.training.decoders import decoder_jacobian, fit_decoders
from tests.attribution.given import at


def test_decoder_recovers_zeros_and_slopes():
    """Channels made from the first or second coordinate only get a Jacobian that is near zero for the other."""
    rng = np.random.default_rng(0)
    u = torch.from_numpy(rng.uniform(-1.7, 1.7, (1, 5000, 2)).astype(np.float32))
    x = torch.stack([torch.sin(u[0, :, 0]), u[0, :, 0], torch.cos(u[0, :, 1]), -2 * u[0, :, 1]], 1)
    decoder = fit_decoders([u[0]], [x], [(0, 0)], [0], steps=700, progress=False)
    jacobian = decoder_jacobian(decoder, u[:, :500])[0]
    assert jacobian[:, :2, 1].abs().mean() < 0.03 and jacobian[:, 2:, 0].abs().mean() < 0.03
    torch.testing.assert_close(jacobian[:, 3, 1], torch.full((500,), -2.0), atol=0.25, rtol=0)
    torch.testing.assert_close(jacobian[:, 0, 0], torch.cos(u[0, :500, 0]), atol=0.35, rtol=0)


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=8), most=st.integers(1, 40))
@settings(max_examples=50, deadline=None)
def test_neighbours_stay_in_their_epoch(lengths, most):
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    steps, neighbours = decoder_rows(epochs, most, np.random.default_rng(0))
    assert 0 < len(steps) <= most
    assert (epochs[neighbours] == epochs[steps][:, None]).all()
    if max(lengths) > 2:
        assert (neighbours == steps[:, None] + [-1, 1]).all()


def test_the_gradient_is_taken_in_aligned_coordinates():
    """Embeddings that differ by a linear map within each block have one decoder and one map."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(1, 600, 4, generator=generator)
    turn = torch.block_diag(torch.tensor([[2.0, 1.0], [0.5, -1.0]]), torch.tensor([[0.1, 0.0], [1.0, 3.0]]))
    both = torch.cat([z, z @ turn.mT + 1])
    alignment = align(both, {"a": slice(0, 2), "b": slice(2, 4)})
    decoder = fit_decoders([alignment.to_aligned(both)[0]], [z[0]], [(0, 0)], [0], steps=20, progress=False)
    decoder = {name: value.expand(2, *value.shape[1:]) for name, value in decoder.items()}
    module = nn.Sequential(nn.Linear(4, 4), Limit("none"))  # the two embeddings are linear functions of the first
    weights = {"0.weight": torch.stack([torch.eye(4), turn]), "0.bias": torch.tensor([[0.0], [1.0]]).expand(2, 4)}
    spaces = {"a": Time(2), "b": Time(2)}
    maps, valid = at(generative_gradient, Embedder(module, spaces), weights, alignment, z[0, :50], decoder=decoder)
    assert maps.shape == (2, 50, 4, 1, 4) and valid.all()
    torch.testing.assert_close(maps[0], maps[1], rtol=1e-3, atol=1e-4)


def test_a_space_is_told_by_its_neighbours_only_if_they_know_it():
    rng = np.random.default_rng(0)
    slow, fresh = np.cumsum(rng.normal(size=502)), rng.normal(size=502)
    z = torch.from_numpy(np.stack([slow, fresh], axis=1)[None])
    own, around = z[:, 1:-1], (z[:, :-2] + z[:, 2:]) / 2
    got = decoder_embedding(own, around, {"slow": Time(1), "fresh": Discrete("label", 1)})
    assert torch.equal(got[..., 0], around[..., 0]) and torch.equal(got[..., 1], own[..., 1])
