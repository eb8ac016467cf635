"""Adam against torch's own, and what it leaves alone."""

import pytest
import torch

from ascribo.training.adam import Adam, differentiate


def test_equals_torch_to_the_bit():
    g = torch.Generator().manual_seed(0)
    start = [torch.randn(3, 5, 4, generator=g), torch.randn(3, 5, generator=g)]
    mine, theirs = ([p.clone() for p in start] for _ in range(2))
    rate = torch.tensor(0.01)
    ours, other = Adam(mine, rate), torch.optim.Adam(theirs, lr=rate, fused=True)
    for k in range(30):
        rate.fill_(0.01 / (1 + k))
        gradients = [10.0 ** (k % 5 - 2) * torch.randn(p.shape, generator=g) for p in start]
        ours.step(gradients)
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient.clone()
        other.step()
        for a, b in zip(mine, theirs, strict=True):
            assert torch.equal(a, b)
            assert all(torch.equal(ours.state[a][key], value) for key, value in other.state[b].items())


def test_gradients_may_lie_in_memory_in_any_way():
    a, b = torch.zeros(3, 4), torch.zeros(3, 4)
    gradient = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).mT
    Adam([a], torch.tensor(0.1)).step([gradient])
    Adam([b], torch.tensor(0.1)).step([gradient.contiguous()])
    assert torch.equal(a, b) and a.abs().min() > 0
    with pytest.raises(ValueError, match="contiguous"):
        Adam([a.mT], torch.tensor(0.1))


def test_a_parameter_the_loss_does_not_see_has_gradient_zero():
    parameters = {"seen": torch.ones(2, requires_grad=True), "unseen": torch.ones(3, requires_grad=True)}
    seen, unseen = differentiate((2 * parameters["seen"]).sum(), parameters)
    assert seen.tolist() == [2, 2] and unseen.tolist() == [0, 0, 0]
