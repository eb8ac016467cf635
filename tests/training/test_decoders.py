"""Decoders: losses and Jacobians against numbers, and stacks in which nobody knows of the others."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.func import functional_call, jacrev, vmap

from ascribo.training.decoders import HIGHEST, _Batches, _network, decode, decoder_jacobian, fit_decoders, losses


def parameters_of(number, dim, channels, dtype=torch.float64):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        modules = [_network(dim, channels).to(dtype) for _ in range(number)]
    return {k: torch.stack([m.state_dict()[k] for m in modules]) for k in modules[0].state_dict()}, modules[0]


def data(steps=700, dim=2, channels=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(steps, dim, generator=generator)
    return u, torch.randn(steps, channels, generator=generator)


def fit(*arguments, steps=40, **options):
    return fit_decoders(*arguments, steps=steps, progress=False, **options)


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_gradient_of_the_loss_is_that_of_finite_differences(loss):
    parameters, _ = parameters_of(2, 3, 4)
    generator = torch.Generator().manual_seed(1)
    u = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    goal = torch.poisson(torch.full((2, 5, 4), 2.0, dtype=torch.float64), generator=generator)

    def total(values):
        return losses(decode(values, u), goal, loss).mean((1, 2)).sum()

    exact = torch.func.grad(total)(parameters)
    for name, value in parameters.items():
        direction = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        ahead, behind = (total({**parameters, name: value + h * direction}) for h in (1e-6, -1e-6))
        torch.testing.assert_close((exact[name] * direction).sum(), (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-8)


def test_losses_are_what_they_are_called():
    predicted, counts = torch.tensor([[-0.3, 1.2, 0.0]]), torch.tensor([[0.0, 5.0, 2.0]])
    torch.testing.assert_close(losses(predicted, counts, "squared"), (predicted - counts) ** 2)
    likelihood = stats.poisson.logpmf(counts.numpy(), predicted.exp().numpy())
    constant = likelihood + losses(predicted, counts, "poisson").numpy()  # what depends on the counts alone
    other = (
        stats.poisson.logpmf(counts.numpy(), np.exp(0.5)) + losses(predicted * 0 + 0.5, counts, "poisson").numpy()
    )
    np.testing.assert_allclose(constant, other, rtol=1e-5, atol=1e-6)
    assert torch.isfinite(losses(torch.tensor([1e4]), torch.tensor([3.0]), "poisson")).all()
    assert losses(torch.tensor([HIGHEST + 1]), torch.tensor([3.0]), "poisson") == losses(
        torch.tensor([HIGHEST]), torch.tensor([3.0]), "poisson"
    )


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_jacobian_equals_autograd(dtype, tolerance):
    parameters, module = parameters_of(2, 3, 7, dtype)
    u = torch.randn(2, 11, 3, generator=torch.Generator().manual_seed(2), dtype=dtype)
    got = decoder_jacobian(parameters, u)
    assert got.shape == (2, 11, 7, 3) and got.dtype == dtype
    for k in range(2):
        own = {name: value[k] for name, value in parameters.items()}
        one = lambda v, own=own: functional_call(module, own, (v,))  # noqa: E731
        torch.testing.assert_close(decode(parameters, u)[k], one(u[k]), rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(got[k], vmap(jacrev(one))(u[k]), rtol=tolerance, atol=tolerance)


def test_counts_are_fitted_by_their_log_rate():
    generator = torch.Generator().manual_seed(0)
    u = torch.rand(4000, 1, generator=generator) * 3 - 1.5
    rate = torch.cat([u.exp(), 2 + u.sin()], 1)
    parameters = fit([u], [torch.poisson(rate, generator=generator)], [(0, 0)], [0], loss="poisson", steps=400)
    found = decode(parameters, u[None])[0].exp()
    assert ((found - rate) / rate).abs().mean() < 0.08


def test_a_decoder_does_not_depend_on_its_company():
    (u, x), (v, y) = data(), data(900, seed=1)
    both = fit([u, v, 2 * v], [x, y], [(0, 0), (1, 1), (2, 1)], [5, 6, 6])
    alone = fit([v], [y], [(0, 0)], [6])
    twin = fit([u], [x], [(0, 0), (0, 0)], [5, 5])
    for name, value in both.items():
        torch.testing.assert_close(value[1], alone[name][0], rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(value[0], twin[name][1], rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(twin[name][0], twin[name][1])
    assert not torch.allclose(both["0.weight"][1], both["0.weight"][2], atol=1e-3)


def test_only_its_own_rows_are_learned_from():
    u, x = data()
    rows = np.arange(0, 700, 2)
    spoilt_u, spoilt_x = u.clone(), x.clone()
    spoilt_u[1::2], spoilt_x[1::2] = torch.nan, torch.nan
    clean, spoilt = (fit([a], [b], [(0, 0)], [0], rows=[rows]) for a, b in ((u, x), (spoilt_u, spoilt_x)))
    for name in clean:
        torch.testing.assert_close(clean[name], spoilt[name])


def test_masked_inputs_are_not_seen():
    u, x = data()
    other = u.clone()
    other[:, 1] = 7
    mask = torch.tensor([[1.0, 0.0]])
    one, same = (fit([a], [x], [(0, 0)], [0], mask=mask) for a in (u, other))
    seeing = fit([u], [x], [(0, 0)], [0])
    for name in one:
        torch.testing.assert_close(one[name], same[name])
    assert not torch.allclose(one["4.weight"], seeing["4.weight"])


def test_the_callers_random_numbers_are_left_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    fit([data()[0]], [data()[1]], [(0, 0)], [3], steps=2)
    assert torch.rand(1) == expected


def test_batches_are_those_of_each_decoders_own_seed_and_rows():
    """Drawn once for all that draw alike, and no different from drawing for each."""
    some, others, rest = np.arange(0, 40, 2), np.arange(1, 41, 2), np.arange(100, 131)
    own, seeds = [some, others, rest, some, some], [0, 0, 0, 7, 0]
    batches = _Batches(own, seeds, 8, torch.device("cpu"))
    assert len(batches.draws) == 3 and len(batches.own) == 3
    for start in (0, 50):
        drawn = batches.draw(start)
        for k in (0, 49):
            expected = [
                r[np.random.default_rng([s, start]).integers(0, len(r), (50, 8))][k]
                for s, r in zip(seeds, own, strict=True)
            ]
            np.testing.assert_array_equal(batches.rows(drawn[:, k]).numpy(), np.stack(expected))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("until_flat", [False, True])
def test_steps_captured_as_a_graph_are_those_of_the_cpu(until_flat):
    """160 steps: the first chunk one by one, the others by the graph, the last one shorter."""
    u = torch.randn(700, 2, generator=torch.Generator().manual_seed(0))
    goal = u @ torch.ones(2, 3)
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    here, there = (
        fit(
            [u.to(where)],
            [goal.to(where)],
            [(0, 0)] * 2,
            [0, 1],
            mask=mask.to(where),
            steps=160,
            until_flat=until_flat,
        )
        for where in ("cpu", "cuda")
    )
    for name, value in here.items():
        torch.testing.assert_close(there[name].cpu(), value, rtol=1e-2, atol=1e-3)
