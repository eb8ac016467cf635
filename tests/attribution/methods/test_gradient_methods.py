"""The methods that the papers compare with: axioms, captum's numbers, seeds that do not know of each other."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from ascribo import MLP, Convolution, Time
from ascribo.attribution.mean_gradients import SAMPLES_AT_ONCE
from ascribo.attribution.methods.deeplift import deeplift
from ascribo.attribution.methods.feature_ablation import feature_ablation
from ascribo.attribution.methods.integrated_gradients import integrated_gradients
from ascribo.attribution.methods.neuron_gradient import neuron_gradient
from ascribo.attribution.methods.shapley_shuffled import shapley_shuffled
from ascribo.attribution.methods.shapley_zeros import shapley_zeros
from ascribo.attribution.methods.smoothgrad import smoothgrad
from ascribo.networks.encoders import Limit
from ascribo.networks.model_stack import Embedder
from ascribo.networks.seed_alignment import Alignment
from tests.attribution.given import Given, at

CHANNELS, DIM = 5, 3
ENCODERS = {
    "hard": MLP((16, 12, 8), limit="hard", scale=0.5),
    "tanh": MLP((16, 12), limit="tanh", scale=0.7),
    "none": MLP((16,), limit="none"),
    "window": Convolution(4, (6, 8), limit="tanh", scale=0.7),
}


def stack(encoder, seeds=(1, 2, 3), dtype=torch.float64, similarity="squared_l2"):
    """Embedder, parameters, alignment and module: random networks that bend, and skew aligned coordinates."""
    module = encoder if isinstance(encoder, nn.Module) else encoder.build(CHANNELS, DIM)
    embedder = Embedder(module, {"a": Time(DIM, similarity=similarity)})
    parameters = {k: 2 * v.to(dtype) for k, v in embedder.initial(module, seeds).items()}
    generator = torch.Generator().manual_seed(0)
    basis = torch.eye(DIM, dtype=dtype) + 0.3 * torch.randn(DIM, DIM, generator=generator, dtype=dtype)
    scale = torch.tensor(seeds, dtype=dtype)[:, None, None]
    mean = torch.ones(len(seeds), DIM, dtype=dtype)
    return embedder, parameters, Alignment(mean, basis * scale, torch.linalg.inv(basis) / scale, 0), module


def inputs(embedder, n=20, dtype=torch.float64):
    shape = (n, CHANNELS) if embedder.window == 1 else (n, CHANNELS, embedder.window)
    return torch.randn(shape, generator=torch.Generator().manual_seed(7), dtype=dtype)


def embedded(embedder, parameters, alignment, x):
    seeds = len(alignment.mean)
    return alignment.to_aligned(embedder(parameters, x.expand(seeds, *x.shape))).detach()


def all_methods(embedder):
    """Each as a function of (embedder, parameters, alignment, x), with fixed draws."""
    methods = {
        "integrated_gradients": lambda *a: at(integrated_gradients, *a),
        "feature_ablation": lambda *a: at(feature_ablation, *a),
        "shapley_zeros": lambda *a: at(shapley_zeros, *a),
        "shapley_shuffled": lambda *a: at(shapley_shuffled, *a, pool=inputs(embedder, 50)),
        "smoothgrad": lambda *a: at(smoothgrad, *a, n_samples=3),
    }
    return methods if embedder.dense is None else methods | {"deeplift": lambda *a: at(deeplift, *a)}


def linear():
    return nn.Sequential(nn.Linear(CHANNELS, DIM), Limit("none"))


def by_captum(method, module, parameters, alignment, x):
    """Captum's maps of every seed and output, (seed, B, channel, window, dim)."""
    maps = []
    for seed in range(len(alignment.mean)):
        one = copy.deepcopy(module).to(x.dtype)
        one.load_state_dict({k: v[seed] for k, v in parameters.items()})
        outputs = [method(one).attribute(x, target=k).detach() for k in range(DIM)]
        maps.append(torch.stack(outputs, -1) @ alignment.inverse[seed].mT)
    stacked = torch.stack(maps)
    return stacked if x.ndim == 3 else stacked[:, :, :, None]


@pytest.mark.parametrize("name", ENCODERS)
def test_integrated_gradients_and_ablation_equal_captum(name):
    captum = pytest.importorskip("captum.attr")
    embedder, parameters, alignment, module = stack(ENCODERS[name])
    x = inputs(embedder)
    got, valid = at(integrated_gradients, embedder, parameters, alignment, x)
    expected = by_captum(captum.IntegratedGradients, module, parameters, alignment, x)
    assert valid.shape == (3, 20) and valid.all()
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-7)  # captum rounds its weights to float32
    got, _ = at(feature_ablation, embedder, parameters, alignment, x)
    expected = by_captum(captum.FeatureAblation, module, parameters, alignment, x)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:Setting forward", "ignore:Input Tensor 0 did not")
@pytest.mark.parametrize("name", ["hard", "tanh", "none"])
def test_deeplift_equals_captum(name, monkeypatch):
    captum = pytest.importorskip("captum.attr")
    rules = pytest.importorskip("captum.attr._core.deep_lift")
    for kind in (nn.GELU, Limit):  # captum would take their gradients
        monkeypatch.setitem(rules.SUPPORTED_NON_LINEAR, kind, rules.nonlinear)
    embedder, parameters, alignment, module = stack(ENCODERS[name])
    x = inputs(embedder)
    got, _ = at(deeplift, embedder, parameters, alignment, x)
    expected = by_captum(captum.DeepLift, module, parameters, alignment, x)
    torch.testing.assert_close(got, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name, similarity", [("tanh", "squared_l2"), ("window", "squared_l2"), ("none", "dot")])
def test_integrated_gradients_are_complete(name, similarity):
    embedder, parameters, alignment, _ = stack(ENCODERS[name], similarity=similarity)
    x = inputs(embedder)
    difference = embedded(embedder, parameters, alignment, x) - embedded(embedder, parameters, alignment, 0 * x)
    maps, _ = at(integrated_gradients, embedder, parameters, alignment, x)
    torch.testing.assert_close(maps.sum((2, 3)), difference, rtol=0, atol=1e-3 * difference.abs().max().item())
    rough, _ = at(integrated_gradients, embedder, parameters, alignment, x, points=1)  # which the points are for
    assert (rough.sum((2, 3)) - difference).abs().max() > 1e-2 * difference.abs().max()


def test_a_hard_limit_costs_one_part_in_the_number_of_points():
    embedder, parameters, alignment, _ = stack(ENCODERS["hard"])
    x = 2 * inputs(embedder, 200)
    z = embedder(parameters, x.expand(3, *x.shape))
    assert 0.1 < (~embedder.inside(z)).double().mean() < 1  # some outputs are at their limit
    difference = embedded(embedder, parameters, alignment, x) - embedded(embedder, parameters, alignment, 0 * x)
    for points in (10, 50, 250):
        maps, _ = at(integrated_gradients, embedder, parameters, alignment, x, points=points)
        error = (maps.sum((2, 3)) - difference).square().mean().sqrt() / difference.square().mean().sqrt()
        assert 0.5 < error * points < 2


@pytest.mark.parametrize("name", ["hard", "tanh", "none"])
@pytest.mark.parametrize("size", [1.0, 1e-3, 0.0])
def test_deeplift_is_complete_in_single_precision(name, size):
    """Also where x is so close to zero that differences of activations have few digits, or none."""
    embedder, parameters, alignment, _ = stack(ENCODERS[name], dtype=torch.float32)
    x = size * inputs(embedder, 200, torch.float32)
    x[:100, 0] += 1  # units that only the other channels feed stay close to where they were
    exact = {k: v.double() for k, v in parameters.items()}
    aligned = Alignment(alignment.mean.double(), alignment.basis.double(), alignment.inverse.double(), 0)
    difference = embedded(embedder, exact, aligned, x.double()) - embedded(embedder, exact, aligned, 0 * x.double())
    maps, _ = at(deeplift, embedder, parameters, alignment, x)
    torch.testing.assert_close(maps.sum((2, 3)), difference.float(), rtol=1e-4, atol=2e-6)
    precise, _ = at(deeplift, embedder, exact, aligned, x.double())
    torch.testing.assert_close(maps.double(), precise, rtol=1e-3, atol=1e-5)


def test_deeplift_sees_the_kink_of_a_limit_however_close():
    embedder, parameters, alignment, _ = stack(nn.Sequential(nn.Linear(CHANNELS, DIM), Limit("hard", 0.5)))
    parameters["0.bias"][:] = 0.4999
    x = 1e-4 * inputs(embedder, 200)
    difference = embedded(embedder, parameters, alignment, x) - embedded(embedder, parameters, alignment, 0 * x)
    maps, _ = at(deeplift, embedder, parameters, alignment, x)
    torch.testing.assert_close(maps.sum((2, 3)), difference, rtol=1e-6, atol=1e-12)


def test_all_shares_of_a_linear_encoder_are_weight_times_input():
    embedder, parameters, alignment, _ = stack(linear())
    x = inputs(embedder)
    gradient = (alignment.inverse @ parameters["0.weight"]).mT[:, None, :, None]  # (seed, 1, channel, 1, dim)
    expected = gradient * x[:, :, None, None]
    for name in ("integrated_gradients", "feature_ablation", "shapley_zeros", "deeplift"):
        maps, _ = all_methods(embedder)[name](embedder, parameters, alignment, x)
        torch.testing.assert_close(maps, expected, rtol=1e-10, atol=1e-12)
    maps, _ = at(smoothgrad, embedder, parameters, alignment, x, noise=1.0)
    torch.testing.assert_close(maps, gradient.expand_as(maps), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n_samples", [1, 4])
def test_references_are_shuffled_entries_of_the_background(n_samples):
    """A linear encoder shows its references: map / weight = x - mean of b, whatever the seed and output."""
    embedder, parameters, alignment, _ = stack(linear())
    x = inputs(embedder, 400)
    background = torch.arange(3.0 * CHANNELS, dtype=torch.float64).reshape(3, CHANNELS)
    maps, _ = at(shapley_shuffled, embedder, parameters, alignment, x, pool=background, n_samples=n_samples)
    gradient = (alignment.inverse @ parameters["0.weight"]).mT[:, None, :, None]
    mean = x[:, :, None, None] - maps / gradient
    torch.testing.assert_close(mean, mean[:1, ..., :1].expand_as(mean), rtol=1e-6, atol=1e-6)
    total = n_samples * mean[0, :, :, 0, 0]
    torch.testing.assert_close(total, total.round(), rtol=0, atol=1e-5)
    assert total.min() > -0.5 and total.max() < n_samples * (3 * CHANNELS - 1) + 0.5
    # every channel meets entries of all, and no two samples the same references
    spread = (x.new_tensor(((3 * CHANNELS) ** 2 - 1) / 12) * n_samples).sqrt()
    torch.testing.assert_close(total.std(0), spread.expand(CHANNELS), rtol=0.15, atol=0)
    torch.testing.assert_close(total.mean(0), torch.full_like(total[0], 7.0 * n_samples), rtol=0.1, atol=0)
    assert np.abs(np.corrcoef(total.T.numpy()) - np.eye(CHANNELS)).max() < 0.2


def test_shapley_values_are_efficient_in_expectation():
    """The sum over channels is f(x) - E f(b), within the standard error of many draws."""
    embedder, parameters, alignment, _ = stack(ENCODERS["tanh"])
    x, draws = inputs(embedder, 3), 4000
    many = x.repeat_interleave(draws, 0)  # each copy gets draws of its own
    background = 0.5 + inputs(embedder, 50).abs()
    entries = background.flatten()[
        torch.randint(250, (40_000, CHANNELS), generator=torch.Generator().manual_seed(1))
    ]
    z = embedded(embedder, parameters, alignment, x)
    zero = embedded(embedder, parameters, alignment, 0 * x[:1])
    of_background = embedded(embedder, parameters, alignment, entries)

    maps, _ = at(shapley_zeros, embedder, parameters, alignment, many, n_samples=1)
    within(maps.sum((2, 3)).unflatten(1, (3, draws)), z - zero)
    integrated, _ = at(integrated_gradients, embedder, parameters, alignment, x)
    within(maps.unflatten(1, (3, draws)), integrated)

    maps, _ = at(shapley_shuffled, embedder, parameters, alignment, many, pool=background, n_samples=1)
    reference = of_background.mean(1, keepdim=True)
    within(maps.sum((2, 3)).unflatten(1, (3, draws)), z - reference, of_background.std(1, keepdim=True) / 200)


def within(sampled, expected, error=0.0):
    """Means over axis 2 within 4.5 standard errors, which are small enough to tell something."""
    standard_error = (sampled.std(2).square() / sampled.shape[2] + error**2).sqrt()
    assert ((sampled.mean(2) - expected).abs() < 4.5 * standard_error + 1e-12).all()
    assert standard_error.mean() < 0.05 * expected.abs().mean()


def test_more_draws_are_means_of_draws(monkeypatch):
    embedder, parameters, alignment, _ = stack(ENCODERS["tanh"])
    x = inputs(embedder)
    background = inputs(embedder, 50)
    for method, options in ((shapley_zeros, {}), (shapley_shuffled, {"pool": background}), (smoothgrad, {})):
        generator = torch.Generator().manual_seed(3)
        with monkeypatch.context() as patch:
            patch.setattr(Given, "generator", lambda *_, own=generator: own)  # goes on from draw to draw
            single = [at(method, embedder, parameters, alignment, x, n_samples=1, **options)[0] for _ in range(4)]
        maps, _ = at(method, embedder, parameters, alignment, x, seed=3, n_samples=4, **options)
        torch.testing.assert_close(maps, torch.stack(single).mean(0))
        assert (single[0] - single[1]).abs().max() > 1e-3
        again, _ = at(method, embedder, parameters, alignment, x, seed=3, n_samples=4, **options)
        assert torch.equal(maps, again)


@pytest.mark.parametrize("name", ["hard", "window"])
def test_smoothgrad_without_noise_is_the_neuron_gradient(name):
    embedder, parameters, alignment, _ = stack(ENCODERS[name])
    x = inputs(embedder)
    maps, _ = at(smoothgrad, embedder, parameters, alignment, x, noise=0.0)
    torch.testing.assert_close(maps, at(neuron_gradient, embedder, parameters, alignment, x)[0])


def test_smoothgrad_is_the_gradient_of_the_blurred_encoder():
    """For z = tanh(w·x) the noise is that of w·x, and its mean an integral of one dimension."""
    embedder, parameters, alignment, _ = stack(nn.Sequential(nn.Linear(CHANNELS, DIM), Limit("tanh", 1.0)))
    x, draws, noise = inputs(embedder, 2), 4000, 0.5
    maps, _ = at(
        smoothgrad, embedder, parameters, alignment, x.repeat_interleave(draws, 0), noise=noise, n_samples=1
    )
    nodes, weights = map(torch.from_numpy, np.polynomial.hermite_e.hermegauss(40))
    weight = parameters["0.weight"]
    h = x @ weight.mT + parameters["0.bias"][:, None]
    around = h[..., None] + noise * weight.norm(dim=-1)[:, None, :, None] * nodes
    slope = (1 - torch.tanh(around).square()) @ weights / weights.sum()
    expected = torch.einsum("skd,sbd,sdc->sbck", alignment.inverse, slope, weight)[:, :, :, None]
    within(maps.unflatten(1, (2, draws)), expected)
    plain, _ = at(neuron_gradient, embedder, parameters, alignment, x)
    assert (plain - expected).abs().max() > 0.1 * expected.abs().max()


@pytest.mark.parametrize("name", ENCODERS)
def test_a_channel_the_encoder_ignores_gets_nothing(name):
    embedder, parameters, alignment, _ = stack(ENCODERS[name])
    parameters["0.weight"][:, :, 2] = 0
    for method in all_methods(embedder).values():
        maps, _ = method(embedder, parameters, alignment, inputs(embedder))
        assert maps[:, :, 2].abs().max() < 1e-14
        assert maps[:, :, [0, 1, 3, 4]].abs().amax((0, 1, 3, 4)).min() > 1e-2


def test_ablation_of_a_window_takes_one_step_at_a_time():
    embedder, parameters, alignment, _ = stack(ENCODERS["window"])
    x = inputs(embedder)
    maps, _ = at(feature_ablation, embedder, parameters, alignment, x)
    for channel, step in ((0, 0), (2, 3), (4, 1)):
        without = x.clone()
        without[:, channel, step] = 0
        lost = embedded(embedder, parameters, alignment, x) - embedded(embedder, parameters, alignment, without)
        torch.testing.assert_close(maps[:, :, channel, step], lost, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["hard", "window"])
def test_seeds_are_batched_but_apart(name):
    embedder, parameters, alignment, _ = stack(ENCODERS[name])
    x = inputs(embedder, SAMPLES_AT_ONCE[False] + 30)
    for method in all_methods(embedder).values():
        maps, valid = method(embedder, parameters, alignment, x)
        assert maps.shape == (3, len(x), CHANNELS, embedder.window, DIM)
        assert valid.shape == (3, len(x)) and valid.all() and not maps.requires_grad
        for seed in range(3):
            alone = {k: v[seed : seed + 1] for k, v in parameters.items()}
            parts = (t[seed : seed + 1] for t in (alignment.mean, alignment.basis, alignment.inverse))
            expected, _ = method(embedder, alone, Alignment(*parts, reference=0), x)
            torch.testing.assert_close(maps[seed : seed + 1], expected, rtol=1e-9, atol=1e-12)
    for method in (integrated_gradients, feature_ablation):  # nor do samples know of each other
        last, _ = at(method, embedder, parameters, alignment, x[-3:])
        maps, _ = at(method, embedder, parameters, alignment, x)
        torch.testing.assert_close(maps[:, -3:], last, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("encoder, similarity", [(ENCODERS["window"], "squared_l2"), (ENCODERS["none"], "dot")])
def test_deeplift_is_for_the_mlp(encoder, similarity):
    embedder, parameters, alignment, _ = stack(encoder, similarity=similarity)
    with pytest.raises(ValueError, match="MLP encoder"):
        at(deeplift, embedder, parameters, alignment, inputs(embedder))


def test_wrong_settings_are_named():
    embedder, parameters, alignment, _ = stack(ENCODERS["none"])
    x, arguments = inputs(embedder), (embedder, parameters, alignment)
    with pytest.raises(ValueError, match="points=0"):
        at(integrated_gradients, *arguments, x, points=0)
    with pytest.raises(ValueError, match="n_samples=0"):
        at(shapley_zeros, *arguments, x, n_samples=0)
    with pytest.raises(ValueError, match="noise=-1"):
        at(smoothgrad, *arguments, x, noise=-1)
