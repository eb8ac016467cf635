"""Outputs on a sphere, in a box, or unbounded."""

import pytest
import torch

from ascribo.networks.outputs import Box, Sphere, Unbounded, as_output

H = torch.randn(2, 50, 3, generator=torch.Generator().manual_seed(0)) * 3


@pytest.mark.parametrize(
    "output", [Unbounded(), Sphere(2.0), Sphere(2.0, learned=True), Box(0.7), Box(0.7, learned=False)]
)
def test_outputs_lie_where_they_say(output):
    parameters = output.initial(2, 3)
    z = output(parameters, H)
    assert z.shape == H.shape and all(len(value) == 2 for value in parameters.values())
    if isinstance(output, Sphere):
        torch.testing.assert_close(z.norm(dim=-1), torch.full((2, 50), 2.0))
    elif isinstance(output, Box):
        assert z.abs().max() <= 0.7 and torch.allclose(output(parameters, H / 1000), H / 1000, atol=1e-4)
    else:
        assert torch.equal(z, H)


def test_models_learn_their_own_size():
    radius = torch.tensor([1.0, 3.0])
    assert Sphere(learned=True)({"radius": radius}, H).norm(dim=-1).mean(1).tolist() == pytest.approx([1, 3])
    sides = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    torch.testing.assert_close(Box()({"half_width": sides}, H.sign() * 1e6).abs().amax(1), sides)


def test_outputs_by_name():
    assert as_output("box") == Box() and as_output(Sphere(2.0)) == Sphere(2.0)
    for bad in ("cube", 3):
        with pytest.raises(ValueError, match="expected one of"):
            as_output(bad)
    with pytest.raises(ValueError, match="above 0"):
        Sphere(0.0)
    with pytest.raises(ValueError, match="longer than 0"):
        Box(-1.0)
