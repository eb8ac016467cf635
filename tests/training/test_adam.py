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


def test_an_offset_does_not_follow_rounding():
    """Gradients of 1e-7: Adam makes full steps of them, but not for what only shifts an embedding. Those that count
    move both."""
    for size, moved in ((1e-7, False), (1e-2, True)):
        weight, offset = torch.zeros(3), torch.zeros(3)
        adam = Adam([weight, offset], torch.tensor(0.1), offsets=[1])
        for _ in range(10):
            adam.step([torch.full((3,), size), torch.full((3,), size)])
        assert weight.abs().min() > 0.8
        assert (offset.abs().min() > 0.8) == moved and (offset.abs().max() < 2e-3) != moved


def test_a_recording_says_which_parameter_is_the_offset():
    import ascribo as asc
    from ascribo.model.fitting import prepare
    from ascribo.training.recording_batches import RecordingSource

    data, spaces = asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=500), {"rest": asc.Time(dim=2)}
    source = RecordingSource([prepare(data, spaces).problem], [0])
    (name,) = source.offsets
    assert source.initial()[name].shape == (1, 2)  # one number for each dimension of the embedding
    window = prepare(data, spaces, encoder=asc.Convolution()).problem
    assert RecordingSource([window], [0]).offsets == []
