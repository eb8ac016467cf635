"""The penalty against exact Jacobians, the schedules against what they promise."""

import numpy as np
import pytest
import torch

from ascribo.training.jacobian_penalty import jacobian_penalty
from ascribo.training.penalty_weight import Auto, Constant, Ramp, as_schedule


def network(x, weights):
    return torch.tanh(x @ weights[0]) @ weights[1]


def setup(seed=0):
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    return draw(2, 30, 5).requires_grad_(), [draw(2, 5, 7).requires_grad_(), draw(2, 7, 3).requires_grad_()]


def exact(x, weights):
    jacobian = torch.func.vmap(
        torch.func.vmap(torch.func.jacrev(lambda v, a, b: torch.tanh(v @ a) @ b), (0, None, None))
    )
    return jacobian(x, *weights).square().sum((-1, -2)).mean(-1)


def test_exact_penalty_equals_the_jacobian():
    x, weights = setup()
    torch.testing.assert_close(jacobian_penalty(network(x, weights), x), exact(x, weights))


def test_a_random_direction_is_unbiased():
    x, weights = setup()
    g = torch.Generator().manual_seed(1)
    draws = []
    for _ in range(2000):
        direction = torch.randn(x.shape, generator=g, dtype=x.dtype)
        _, tangent = torch.func.jvp(lambda v: network(v, weights), (x.detach(),), (direction,))
        draws.append(tangent.detach().square().sum(-1).mean(-1))
    draws = torch.stack(draws)
    error = draws.std(0) / 2000**0.5
    assert ((draws.mean(0) - exact(x, weights)).abs() < 4 * error).all()


def test_penalty_gradient_equals_finite_differences():
    x, weights = setup()

    def value(a, b):
        inputs = x.detach().requires_grad_()
        return jacobian_penalty(network(inputs, [a, b]), inputs)

    assert torch.autograd.gradcheck(value, weights, atol=1e-6)


def test_ramp_is_the_papers_schedule():
    controller = Ramp(0.1).begin(1, 20_000, 0.0)
    at = lambda step: controller.weights(step, 1).item()  # noqa: E731
    assert [at(0), at(2_499), at(3_750), at(5_000), at(19_999)] == pytest.approx([0, 0, 0.05, 0.1, 0.1])


def simulate(plan, steps=3000, sensitivity=2.0, chunk=50, noise=0.0, seed=0):
    """A training run with known trade-off: InfoNCE = plateau + sensitivity · λ (after learning it at λ = 0)."""
    rng = np.random.default_rng(seed)
    chance, plateau = 10.0, 2.0
    controller = plan.begin(1, steps, chance)
    seen = []
    for start in range(0, steps, chunk):
        weight = controller.weights(start, chunk)
        learned = plateau + (chance - plateau) * np.exp(-start / 200)
        value = learned + sensitivity * weight + noise * rng.standard_normal(weight.shape)
        controller.observe(value, np.full_like(weight, 20.0))
        seen.append(weight[0, 0])
    return np.array(seen)


@pytest.mark.parametrize("sensitivity", [0.02, 2.0, 200.0])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_auto_finds_the_largest_weight_within_tolerance(sensitivity, noise):
    plan = Auto(tolerance=0.03)
    seen = simulate(plan, sensitivity=sensitivity, noise=noise)
    right = 0.03 * 8.0 / sensitivity  # the λ at which 3% of the gain of 8 nats is given up
    assert seen[0] == 0 and (seen > 0).any()
    assert right / 1.6 < seen[-1] < right * 1.6
    held = seen[-int(len(seen) * (1 - plan.hold_from)) + 1 :]
    assert np.ptp(held) == 0


def test_by_default_three_percent_of_the_gain_are_given_up():
    given_up = 2.0 * simulate(as_schedule("auto"), sensitivity=2.0)[-1] / 8.0
    assert 0.02 < given_up < 0.045


def test_each_model_has_its_own_weight():
    plan = Auto()
    controller = plan.begin(2, 3000, 10.0)
    for start in range(0, 3000, 50):
        weight = controller.weights(start, 50)
        controller.observe(2 + np.array([1.0, 10.0]) * weight, np.full_like(weight, 20.0))
    a, b = controller.weights(3000, 1)[0]
    assert 7 < a / b < 14


def test_what_penalty_accepts():
    assert as_schedule("auto") == Auto()
    assert as_schedule(0.5) == Constant(0.5)
    assert as_schedule(Ramp(0.1)) == Ramp(0.1)
    for bad in ("none", None, True, -1.0, float("nan")):
        with pytest.raises(ValueError, match="penalty"):
            as_schedule(bad)
    with pytest.raises(ValueError, match="tolerance"):
        Auto(tolerance=0)
    with pytest.raises(ValueError, match="together at most 1"):
        Ramp(0.1, warmup=0.8, ramp=0.5)
