"""SimplEx solved to optimality: the conditions of optimality, known answers, and weights that are well defined."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, nnls
from scipy.spatial import Delaunay

from ascribo.explain import simplex_weights


def _gap(targets, corpus, weights):
    """How much a step towards another example could still gain, relative to the largest squared distance."""
    x = weights @ corpus.double() - targets.double()
    along = x @ corpus.double().mT - (x * targets.double()).sum(1, keepdim=True)
    scale = torch.cdist(targets.double(), corpus.double()).square().amax(1)
    return ((x.square().sum(1) - along.amin(1)) / scale).max()


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), dim=st.integers(1, 12), examples=st.integers(1, 60))
def test_weights_are_optimal(seed, dim, examples):
    generator = torch.Generator().manual_seed(seed)
    corpus = torch.randn(examples, dim, generator=generator)
    corpus = torch.cat([corpus, corpus[:2]])  # some twice
    targets = 1.5 * torch.randn(20, dim, generator=generator)
    weights, distance = simplex_weights(targets, corpus)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(20, dtype=torch.float64))
    assert _gap(targets, corpus, weights) < 1e-7
    torch.testing.assert_close(
        (weights @ corpus.double() - targets.double()).norm(dim=1), distance, atol=1e-9, rtol=0
    )


def test_distance_is_that_of_another_solver():
    rng = np.random.default_rng(0)
    corpus, targets = rng.normal(size=(80, 6)), 2 * rng.normal(size=(15, 6))
    _, distance = simplex_weights(torch.from_numpy(targets), torch.from_numpy(corpus))
    for target, mine in zip(targets, distance.tolist(), strict=True):
        heavy = 1e5  # the sum of the weights as one more, heavy, equation
        _, other = nnls(np.vstack([corpus.T, heavy * np.ones(80)]), np.r_[target, heavy])
        assert mine == pytest.approx(other, abs=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_inside_the_hull_nothing_remains_and_the_corners_are_those_of_delaunay(seed):
    rng = np.random.default_rng(seed)
    corpus = rng.normal(size=(200, 3))
    targets = rng.dirichlet(np.ones(200), size=30) @ corpus
    weights, distance = simplex_weights(torch.from_numpy(targets), torch.from_numpy(corpus))
    assert distance.max() < 1e-10
    triangulation = Delaunay(corpus)
    corners = triangulation.simplices[triangulation.find_simplex(targets)]
    for row, wanted in zip(weights, corners, strict=True):
        assert set(torch.nonzero(row > 1e-9).ravel().tolist()) <= set(wanted.tolist())
    # and their weights are the only ones with the smallest mean squared distance
    squares = ((targets[0] - corpus) ** 2).sum(1)
    best = linprog(squares, A_eq=np.vstack([corpus.T, np.ones(200)]), b_eq=np.r_[targets[0], 1]).fun
    assert float(weights[0] @ torch.from_numpy(squares)) == pytest.approx(best, rel=1e-6)


def test_order_and_rotation_change_nothing():
    generator = torch.Generator().manual_seed(3)
    corpus, targets = (torch.randn(n, 5, generator=generator, dtype=torch.float64) for n in (100, 12))
    turn = torch.linalg.qr(torch.randn(5, 5, generator=generator, dtype=torch.float64))[0]
    order = torch.randperm(100, generator=generator)
    weights, _ = simplex_weights(targets, corpus)
    turned, _ = simplex_weights(targets @ turn, corpus[order] @ turn)
    torch.testing.assert_close(turned, weights[:, order], atol=1e-6, rtol=0)


def test_a_training_example_is_its_own_explanation():
    corpus = torch.randn(30, 4)
    weights, distance = simplex_weights(corpus, corpus)
    torch.testing.assert_close(weights, torch.eye(30, dtype=torch.float64), atol=1e-6, rtol=0)
    assert distance.max() < 1e-6


def test_better_than_the_descent_of_the_paper():
    torch.manual_seed(0)
    corpus, targets = torch.randn(100, 4), 1.5 * torch.randn(10, 4)
    logits = torch.zeros(10, 100, requires_grad=True)
    adam = torch.optim.Adam([logits])
    for _ in range(1000):
        adam.zero_grad()
        (targets - logits.softmax(1) @ corpus).square().sum().backward()
        adam.step()
    theirs = (targets - logits.softmax(1) @ corpus).norm(dim=1).detach().double()
    assert (simplex_weights(targets, corpus)[1] <= theirs).all()
