"""The table against the tree."""

import numpy as np
import pytest
import torch
from scipy.spatial import KDTree

from ascribo.simulate.box import wander
from ascribo.spaces.nearest import NearestTable


def compare(points, queries, box, margin):
    table = NearestTable.build([points], box, margin)
    found = table.query(torch.tensor([0]), torch.from_numpy(queries[None]).float())[0].numpy()
    exact, _ = KDTree(points, boxsize=box).query(queries)
    apart = np.abs(points[found] - queries)
    apart = np.where(box > 0, np.minimum(apart, box - apart), apart)
    return np.linalg.norm(apart, axis=1), exact


@pytest.mark.parametrize("k, steps", [(1, 5000), (2, 20_000), (3, 5000), (4, 2000)])
def test_finds_the_nearest(k, steps):
    rng = np.random.default_rng(k)
    points = wander(rng, steps, k, 0.1)
    queries = points[rng.integers(0, steps, 3000)] + 0.1 * rng.standard_normal((3000, k))
    got, exact = compare(points, queries, np.zeros(k), 0.4)
    assert (got - exact < 1e-5).mean() > 0.997
    assert got.mean() < exact.mean() * 1.001


def test_circle_and_line_together():
    rng = np.random.default_rng(0)
    points = np.stack([rng.uniform(0, 5, 4000), rng.normal(size=4000)], axis=1)
    queries = np.stack([rng.uniform(0, 5, 2000), rng.normal(size=2000)], axis=1)
    queries[:200, 0] = rng.uniform(0, 0.02, 200)
    got, exact = compare(points, queries, np.array([5.0, 0.0]), 0.5)
    assert (got - exact < 1e-5).mean() > 0.99


def test_several_sets_do_not_mix():
    rng = np.random.default_rng(1)
    sets = [rng.uniform(size=(50, 2)), rng.uniform(5, 6, size=(80, 2))]
    table = NearestTable.build(sets, np.zeros(2), 0.1)
    targets = torch.from_numpy(np.stack([sets[1][:20], sets[0][:20], sets[1][20:40]])).float()
    found = table.query(torch.tensor([1, 0, 1]), targets)
    assert found.tolist() == [list(range(20)), list(range(20)), list(range(20, 40))]


def test_few_points():
    table = NearestTable.build([np.array([[0.0, 0.0], [1.0, 1.0]])], np.zeros(2), 1.0)
    assert table.query(torch.tensor([0]), torch.tensor([[[0.2, 0.1], [3.0, 3.0]]])).tolist() == [[0, 1]]
