"""The tangent method: right wherever the encoder is right along the data, whatever it does off them."""

import numpy as np
import pytest
import torch
from torch import nn

from ascribo import Convolution, Time
from ascribo.attribution.method_inputs import EncodedRecording
from ascribo.attribution.methods.inverted_neuron_gradient import inverted_neuron_gradient
from ascribo.attribution.methods.tangent import inverse_on_tangents, tangent, tangent_basis
from ascribo.data.segments import segment_bounds
from ascribo.networks.encoders import Limit
from ascribo.networks.model_stack import Embedder
from ascribo.networks.seed_alignment import Alignment
from tests.attribution.given import at

CHANNELS, DIM = 7, 3


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def same(dim, seeds=1):
    """Aligned coordinates that are the embedding's own."""
    identity = torch.eye(dim, dtype=torch.float64).expand(seeds, dim, dim)
    return Alignment(torch.zeros(seeds, dim, dtype=torch.float64), identity, identity, 0)


def bounds(epochs):
    return tuple(torch.from_numpy(edge) for edge in segment_bounds(np.asarray(epochs)))


def linear_stack(matrices):
    """Embedder and parameters of encoders z = J x, matrices (seed, dim, channel)."""
    module = nn.Sequential(nn.Linear(matrices.shape[2], matrices.shape[1]), Limit("none"))
    embedder = Embedder(module, {"a": Time(matrices.shape[1])})
    return embedder, {"0.weight": matrices, "0.bias": torch.zeros(matrices.shape[:2], dtype=matrices.dtype)}


def tangents(embedder, parameters, alignment, X, index, epochs=None):
    """The tangent map of a recording at some time steps."""
    edges = bounds(np.zeros(len(X), int) if epochs is None else epochs)
    return tangent(EncodedRecording(embedder, parameters, alignment, {}, X, *edges), index)


@pytest.fixture(scope="module")
def line():
    """x = M z; two encoders with J M = B, one of minimum norm, one with a part that sees nothing of the data."""
    mixing, basis = random(CHANNELS, DIM), random(DIM, DIM, seed=1)
    minimal = basis @ torch.linalg.pinv(mixing)
    off = torch.linalg.svd(mixing)[0][:, DIM:]  # orthogonal to all data
    encoders = torch.stack([minimal, minimal + 0.4 * random(DIM, CHANNELS - DIM, seed=2) @ off.mT])
    torch.testing.assert_close(encoders @ mixing, basis.expand(2, DIM, DIM))
    X = random(200, DIM, seed=3).cumsum(0) @ mixing.mT
    return X, encoders, mixing @ torch.linalg.inv(basis)


def test_what_the_encoder_does_off_the_data_does_not_matter(line):
    X, encoders, expected = line
    embedder, parameters = linear_stack(encoders)
    index = torch.arange(0, 200, 3)
    got, ok = tangents(embedder, parameters, same(DIM, 2), X, index)
    assert got.shape == (2, len(index), CHANNELS, 1, DIM) and ok.all()
    torch.testing.assert_close(got[..., 0, :], expected.expand(2, len(index), CHANNELS, DIM), rtol=1e-7, atol=1e-9)
    papers, _ = at(inverted_neuron_gradient, embedder, parameters, same(DIM, 2), X[index])
    torch.testing.assert_close(papers[0, 0, :, 0], expected)
    assert (papers[1, 0, :, 0] - expected).norm() > 0.3 * expected.norm()


def test_aligned_coordinates(line):
    X, encoders, expected = line
    embedder, parameters = linear_stack(encoders[:1])
    turn = random(1, DIM, DIM, seed=4)
    alignment = Alignment(torch.zeros(1, DIM, dtype=torch.float64), turn, torch.linalg.inv(turn), 0)
    got, _ = tangents(embedder, parameters, alignment, X, torch.tensor([50]))
    torch.testing.assert_close(got[0, 0, :, 0], expected @ turn[0], rtol=1e-7, atol=1e-9)


class Bent(nn.Module):
    """An encoder that returns z for x = (z₀, z₁, z₀², sin z₁), and something else off these."""

    def __init__(self):
        super().__init__()
        self.off = nn.Parameter(torch.tensor(1.5, dtype=torch.float64))

    def forward(self, x):
        first, second, square, sine = x.unbind(-1)
        wrong = (square - first.square()) - (sine - second.sin())
        return torch.stack([first + self.off * wrong, second - self.off * wrong], -1)


def test_on_a_smooth_surface_the_map_is_the_generators_jacobian():
    z = 0.01 * random(500, 2).cumsum(0)
    X = torch.stack([z[:, 0], z[:, 1], z[:, 0].square(), z[:, 1].sin()], 1)
    truth = torch.zeros(500, 4, 2, dtype=torch.float64)
    truth[:, 0, 0] = truth[:, 1, 1] = 1
    truth[:, 2, 0], truth[:, 3, 1] = 2 * z[:, 0], z[:, 1].cos()
    embedder = Embedder(Bent(), {"a": Time(2)})
    parameters = {"off": torch.tensor([1.5], dtype=torch.float64)}
    got, ok = tangents(embedder, parameters, same(2), X, torch.arange(500))
    papers, regular = at(inverted_neuron_gradient, embedder, parameters, same(2), X)
    error = (got[0, :, :, 0] - truth).norm(dim=(1, 2))[ok[0]]
    others = (papers[0, :, :, 0] - truth).norm(dim=(1, 2))[regular[0]]
    assert ok.double().mean() > 0.95 and error.median() < 0.1 < 0.4 < others.median()


def test_the_basis_is_orthonormal_and_spans_the_changes_of_its_own_epoch():
    planes = [random(CHANNELS, 2, seed=k) for k in range(3)]
    lengths = [40, 9, 60]
    epochs = np.repeat(np.arange(3), lengths)
    X = torch.cat([random(n, 2, seed=9).cumsum(0) @ p.mT for n, p in zip(lengths, planes, strict=True)])
    basis = tangent_basis(X, torch.arange(109), *bounds(epochs), 2)
    torch.testing.assert_close(basis.mT @ basis, torch.eye(2, dtype=torch.float64).expand(109, 2, 2))
    for step in range(109):
        plane = planes[epochs[step]]
        outside = plane - basis[step] @ (basis[step].mT @ plane)
        assert outside.norm() < 1e-6 * plane.norm(), step


def test_a_step_without_neighbours_has_no_tangents():
    """An epoch of one step: the jumps into it and out of it are not changes."""
    epochs = np.repeat([0, 1, 2], [30, 1, 30])
    X = random(61, DIM).cumsum(0) @ random(CHANNELS, DIM, seed=1).mT
    index = torch.tensor([10, 30, 50])
    basis = tangent_basis(X, index, *bounds(epochs), DIM)
    embedder, parameters = linear_stack(random(1, DIM, CHANNELS, seed=2))
    _, ok = tangents(embedder, parameters, same(DIM), X, index, epochs)
    assert not basis[1].any() and not ok[0, 1]


def test_the_main_directions_are_taken_where_there_are_more():
    """The signal moves in a plane, everything else a little: the basis is that of local singular vectors."""
    plane = torch.linalg.qr(random(CHANNELS, 2))[0]
    X = 3 * random(120, 2, seed=1).cumsum(0) @ plane.mT + 0.05 * random(120, CHANNELS, seed=2)
    basis = tangent_basis(X, torch.tensor([60]), *bounds(np.zeros(120, int)), 2)[0]
    changes = (X[1:] - X[:-1])[60 - 4 : 60 + 4]
    expected = torch.linalg.svd(changes)[2][:2].mT
    torch.testing.assert_close(basis @ basis.mT, expected @ expected.mT, rtol=1e-6, atol=1e-8)
    assert (plane.mT @ basis).det().abs() > 0.99


def test_samples_whose_tangents_were_misjudged_are_left_out():
    """A basis that the encoder hardly sees would make the inverse explode."""
    encoder = torch.zeros(1, 2, 5, dtype=torch.float64)
    encoder[0, 0, 0] = encoder[0, 1, 1] = 1
    embedder, parameters = linear_stack(encoder)
    good, blind, slanted = (torch.zeros(5, 2, dtype=torch.float64) for _ in range(3))
    good[0, 0] = good[1, 1] = blind[2, 0] = blind[3, 1] = slanted[0, 0] = 1
    slanted[1, 1], slanted[4, 1] = 0.1, np.sqrt(0.99)
    basis = torch.stack([good, blind, slanted])
    nowhere = torch.zeros(3, dtype=torch.long)
    recording = EncodedRecording(embedder, parameters, same(2), {}, torch.zeros(3, 5), nowhere, nowhere)
    got, ok = inverse_on_tangents(recording, torch.zeros(3, 5, dtype=torch.float64), basis)
    assert ok.tolist() == [[True, False, False]]
    torch.testing.assert_close(got[0, 0, :, 0], good)


def test_windows_are_refused():
    module = Convolution(4, (6, 8)).build(5, 2)
    embedder = Embedder(module, {"a": Time(2)})
    with pytest.raises(ValueError, match="sees a window"):
        tangents(embedder, embedder.initial(module, [0]), same(2), torch.zeros(30, 5), torch.arange(3))
