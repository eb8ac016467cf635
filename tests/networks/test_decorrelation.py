"""Decorrelated outputs: their covariance, their gradients, and what they do not depend on."""

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.metrics import missed_directions
from ascribo.networks.decorrelation import decorrelate


def outputs(models=2, n=400, dim=5, seed=0):
    rng = torch.Generator().manual_seed(seed)
    z = torch.randn(models, n, dim, generator=rng, dtype=torch.float64)
    return z @ torch.randn(models, dim, dim, generator=rng, dtype=torch.float64) + 3.0


def test_means_are_0_and_covariances_1():
    z = decorrelate(outputs())
    assert z.mean(1).abs().max() < 1e-12
    covariance = z.mT @ z / z.shape[1]
    # a direction of little variance is a little short: some variance is added to all
    assert (covariance - torch.eye(5)).abs().max() < 0.02
    assert (torch.linalg.eigvalsh(covariance) < 1 + 1e-9).all()


def test_each_model_by_itself():
    z = outputs(3)
    apart = torch.cat([decorrelate(own[None]) for own in z])
    np.testing.assert_allclose(decorrelate(z), apart, atol=1e-12)


def test_an_affine_map_before_it_only_turns_the_outputs():
    z, rng = outputs(1), torch.Generator().manual_seed(1)
    mapped = z @ torch.linalg.qr(torch.randn(5, 5, generator=rng, dtype=torch.float64))[0] * 7.0 - 2.0
    one, other = decorrelate(z)[0], decorrelate(mapped)[0]
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-8)


def test_gradients_are_those_of_finite_differences():
    z = outputs(2, 12, 3).requires_grad_()
    assert torch.autograd.gradcheck(decorrelate, (z,), atol=1e-6)


def test_an_empty_direction_is_no_error():
    z = outputs(1)
    z[..., 2] = z[..., 1]
    assert torch.isfinite(decorrelate(z.float())).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_it_can_be_captured():
    z = outputs(2, 4096, 50).float().cuda()
    for _ in range(2):
        decorrelate(z)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = decorrelate(z)
    graph.replay()
    torch.testing.assert_close(found, decorrelate(z))


@pytest.mark.parametrize("seed", range(3))
def test_no_latent_is_lost(seed):
    """Without it the direction that observations tell least of is lost, whatever the mixing."""
    made = asc.simulate.process("sphere", dim=12, concentration=7.2, layers=2, seed=seed)
    given = dict(similarity="dot", output="sphere", temperature=1 / 7.2, negatives="independent", widths=(96,) * 3)
    given |= dict(steps=400, batch_size=256, learning_rate=5e-3, progress=False, device="cpu")
    plain, found = (asc.invert_process(made, **given, decorrelate=wanted) for wanted in (False, True))
    most = [missed_directions(one.embedding[0], one.latents[0])[0] for one in (plain, found)]
    assert most[0] > 0.6 and most[1] < 0.2
    assert found.scores["r2"][0] > plain.scores["r2"][0] + 0.05


def test_what_was_decorrelated_is_in_the_last_layer():
    made = asc.simulate.process("sphere", dim=3, concentration=5.0, layers=2)
    given = dict(similarity="squared_l2", output="unbounded", steps=60, batch_size=64, progress=False, device="cpu")
    found = asc.invert_process(made, **given, decorrelate=True)
    covariance = np.cov(found.embedding[0].T)
    np.testing.assert_allclose(covariance, np.eye(3), atol=0.1)
    again = asc.invert_process(made, **given, learning_rate=1e-4, start=found)  # an ordinary model, to go on from
    assert again.scores["r2"][0] > found.scores["r2"][0] - 0.05


@pytest.mark.parametrize(
    "changes", [{"output": "box", "similarity": asc.Lp(2)}, {"supervised": True}, {"batch_size": 3}]
)
def test_what_cannot_be_decorrelated_is_refused(changes):
    made = asc.simulate.process("sphere", dim=3, concentration=5.0, layers=2)
    given = {"similarity": "squared_l2", "output": "unbounded", "steps": 2, "batch_size": 16, **changes}
    with pytest.raises(ValueError, match="decorrelate=True needs pairs"):
        asc.invert_process(made, **given, decorrelate=True, progress=False)
