"""The kernel against the distances themselves."""

import numpy as np
import pytest
import torch


def distances(points, target, period):
    apart = (target[:, None].double() - points[None].double()).abs()
    apart = torch.where(period > 0, torch.minimum(apart, period - apart), apart)
    return apart.square().sum(-1)


@pytest.mark.parametrize(
    ("k", "n", "batch", "circular"),
    [(4, 300, 33, False), (7, 1500, 5, False), (5, 2100, 40, True), (1, 7, 3, False)],
)
def test_the_nearest_of_all(device, k, n, batch, circular):
    from ascribo.kernels.nearest_triton import nearest

    generator = torch.Generator().manual_seed(k)
    period = torch.zeros(k)
    if circular:
        period[[0, 3]] = torch.tensor([1.0, 0.5])
    sets = torch.full((3, n, k), torch.inf)
    sizes = [n, n // 2, 2 * n // 3]
    for own, size in zip(sets, sizes, strict=True):
        own[:size] = torch.rand(size, k, generator=generator)
        own[:size] = torch.where(period > 0, own[:size] * period, own[:size])
    which = torch.tensor([2, 0, 1, 1, 0])
    target = torch.rand(5, batch, k, generator=generator) * 1.2 - 0.1
    target = torch.where(period > 0, target.remainder(torch.where(period > 0, period, 1.0)), target)
    given = (sets.to(device), which.to(device), target.to(device))
    found = nearest(*given, period.to(device) if circular else None).cpu()
    assert found.dtype == torch.long
    for own, numbers, goal in zip(which.tolist(), found, target, strict=True):
        each = distances(sets[own, : sizes[own]], goal, period)
        assert (numbers < sizes[own]).all()  # never the padding
        got = each.gather(1, numbers[:, None])[:, 0]
        torch.testing.assert_close(got, each.amin(1), rtol=1e-5, atol=1e-9)


def test_of_equals_the_first(device):
    from ascribo.kernels.nearest_triton import nearest

    points = torch.zeros(1, 2500, 4, device=device)  # more than one program's share
    target = torch.ones(1, 2, 4, device=device)
    assert nearest(points, torch.zeros(1, dtype=torch.long, device=device), target, None).tolist() == [[0, 0]]


@pytest.mark.parametrize("circular", [False, True])
def test_the_table_uses_it(gpu, circular, monkeypatch):
    """Many variables on a GPU: the same answers as the search in blocks on a CPU."""
    from ascribo.kernels import nearest_triton
    from ascribo.spaces.nearest import NearestTable

    rng = np.random.default_rng(0)
    sets = [rng.uniform(size=(4000, 5)), rng.uniform(size=(3000, 5))]
    target = torch.from_numpy(rng.uniform(size=(4, 600, 5))).float()
    which, box = torch.tensor([0, 1, 1, 0]), np.array([0.0, float(circular), 0.0, 0.0, 0.0])
    cpu = NearestTable.build(sets, box, 1.0).query(which, target)
    asked = []
    real = nearest_triton.nearest
    monkeypatch.setattr(nearest_triton, "nearest", lambda *a: asked.append(a) or real(*a))
    found = NearestTable.build(sets, box, 1.0, gpu).query(which.to(gpu), target.to(gpu))
    assert len(asked) == 1 and (cpu == found.cpu()).float().mean() > 0.999
