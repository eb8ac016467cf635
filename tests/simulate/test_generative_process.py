"""Samples of generative processes against the densities they are drawn from."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import ascribo as asc
from ascribo.simulate.generative_distributions import GeneralizedNormal, VonMisesFisher, uniform_on_sphere
from ascribo.simulate.generative_mixing import LeakyMixing, check_injective, leaky_mixing

COUNT = 100_000
LEAST_P = 1e-3
"""Of Kolmogorov-Smirnov tests: with 100,000 samples a distribution function that is off by 0.006 fails."""


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def agree(samples, distribution):
    assert stats.kstest(np.asarray(samples, dtype=float).ravel(), distribution).pvalue > LEAST_P


def truncated(exponent, scale, mean, low, high):
    """The distribution function of a truncated generalized normal distribution."""
    whole = stats.gennorm(exponent, loc=mean, scale=scale).cdf
    return lambda x: (whole(x) - whole(low)) / (whole(high) - whole(low))


@pytest.mark.parametrize("exponent", [0.5, 1, 1.7, 2, 3, 8])
def test_generalized_normal(exponent):
    noise = GeneralizedNormal(exponent, 0.3)
    drawn = noise.sample(torch.full((COUNT,), 2.0), generator())
    agree(drawn, stats.gennorm(exponent, loc=2.0, scale=0.3).cdf)
    assert noise.deviation == pytest.approx(stats.gennorm(exponent, scale=0.3).std(), rel=1e-6)
    assert float(drawn.double().std()) == pytest.approx(noise.deviation, rel=0.02)


def test_the_tail_is_there():
    drawn = GeneralizedNormal(1, 1.0).sample(torch.zeros(2_000_000), generator())
    assert float(drawn.abs().max()) > 11 and (drawn.abs() > 8).double().mean() == pytest.approx(np.exp(-8), rel=0.2)


@pytest.mark.parametrize("exponent", [1, 2, 3])
@pytest.mark.parametrize("mean", [0.0, 0.03, 0.5, 0.98, 1.0])
def test_truncated_to_the_box(exponent, mean):
    drawn = GeneralizedNormal(exponent, 0.05).sample(torch.full((COUNT,), mean), generator(), 0.0, 1.0)
    assert drawn.min() >= 0 and drawn.max() <= 1
    agree(drawn, truncated(exponent, 0.05, mean, 0, 1))


def test_a_width_beyond_the_box_is_nearly_uniform():
    agree(GeneralizedNormal(2, 2.0).sample(torch.full((COUNT,), 0.2), generator(), 0.0, 1.0),
          truncated(2, 2.0, 0.2, 0, 1))  # fmt: skip


@pytest.mark.parametrize("dim", [2, 3, 10])
@pytest.mark.parametrize("concentration", [0, 1, 10, 5000])
def test_von_mises_fisher_for_many_means(dim, concentration):
    draw = VonMisesFisher(dim, concentration)
    mean = uniform_on_sphere((COUNT, dim), generator(1))
    drawn = draw.sample(mean, generator())
    torch.testing.assert_close(drawn.norm(dim=-1), torch.ones(COUNT))
    cosine = (drawn.double() * mean.double()).sum(-1).clamp(-1, 1)
    angle = torch.atan2((drawn.double() - cosine[:, None] * mean.double()).norm(dim=-1), cosine).numpy()
    grid = np.linspace(0, np.pi if concentration < 100 else 0.2, 20_001)
    density = np.sin(grid) ** (dim - 2) * np.exp(concentration * (np.cos(grid) - 1))
    below = integrate.cumulative_trapezoid(density, grid, initial=0)
    agree(angle, lambda x: np.interp(x, grid, below / below[-1]))
    assert float(cosine.mean()) == pytest.approx(draw.mean_cosine, abs=5 / np.sqrt(COUNT))
    # scipy's own sampler, which takes one mean, has the same distribution
    if concentration:
        pole = np.eye(dim)[0]
        theirs = stats.vonmises_fisher(pole, concentration).rvs(5000, random_state=0) @ pole
        assert stats.ks_2samp(theirs, cosine[:5000].numpy()).pvalue > LEAST_P
    # away from the mean every direction is alike
    away = drawn - cosine.float()[:, None] * mean
    assert (away / away.norm(dim=-1, keepdim=True).clamp_min(1e-9)).mean(0).abs().max() < 0.015


def test_means_keep_their_own_positives():
    mean = torch.eye(3).repeat(20_000, 1, 1)
    drawn = VonMisesFisher(3, 4.0).sample(mean, generator()).mean(0)
    torch.testing.assert_close(drawn, VonMisesFisher(3, 4.0).mean_cosine * torch.eye(3), atol=0.02, rtol=0)


@pytest.mark.parametrize(
    "given",
    [
        dict(space="sphere", conditional="von_mises_fisher", concentration=2.0),
        dict(space="sphere", conditional="laplace", scale=0.3),
        dict(space="sphere", marginal="normal", conditional="normal", scale=0.3),
        dict(space="box", conditional="generalized_normal", exponent=3, scale=0.2),
        dict(space="box", marginal="laplace", marginal_scale=0.2, conditional="normal", scale=0.1, bounds=(-1, 1)),
        dict(space="unbounded", marginal="laplace", conditional="normal", scale=1.0),
    ],
)
def test_pairs_are_in_the_space_and_the_same_again(given):
    made = asc.simulate.process(dim=4, layers=2, **given)
    z, near = made.sample_pairs((3, 500), 7)
    assert z.shape == near.shape == (3, 500, 4) and made.mix(z).shape == (3, 500, 4)
    if made.space == "sphere":
        torch.testing.assert_close(near.norm(dim=-1), torch.ones(3, 500))
    if made.space == "box":
        assert min(z.min(), near.min()) >= made.bounds[0] and max(z.max(), near.max()) <= made.bounds[1]
    again = asc.simulate.process(dim=4, layers=2, **given).sample_pairs((3, 500), 7)
    assert torch.equal(z, again[0]) and torch.equal(near, again[1])
    assert not torch.equal(z, made.sample((3, 500), 8))


def test_marginals():
    agree(asc.simulate.process("box", conditional="normal", dim=2).sample(COUNT // 2), stats.uniform().cdf)
    normal = asc.simulate.process("unbounded", marginal="normal", conditional="normal", scale=0.5, dim=2)
    z, near = normal.sample_pairs(COUNT // 2)
    agree(z, stats.norm().cdf)
    agree(near - z, stats.norm(scale=0.5).cdf)  # "normal" is given by its standard deviation
    sphere = asc.simulate.process("sphere", dim=3)
    agree(sphere.sample(COUNT)[:, 0], stats.uniform(-1, 2).cdf)  # Archimedes: a coordinate of S² is uniform
    around_the_pole = asc.simulate.process("sphere", dim=3, marginal="normal", conditional="normal").sample(COUNT)
    assert around_the_pole[:, 0].mean() > 0.4 and around_the_pole[:, 1:].mean(0).abs().max() < 0.01


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_samples_on_a_gpu():
    for given in (dict(space="sphere", concentration=3.0), dict(space="box", conditional="laplace")):
        made = asc.simulate.process(dim=5, **given)
        rng = torch.Generator("cuda").manual_seed(0)
        z, near = made.sample_pairs(COUNT, rng)
        ours, theirs = made.sample_pairs(COUNT, 0)
        assert z.is_cuda and near.is_cuda
        far = lambda a, b: (a - b).norm(dim=-1).cpu().numpy()  # noqa: E731
        assert stats.ks_2samp(far(z, near), far(ours, theirs)).pvalue > LEAST_P


def identity_r2(layers, **given):
    """R² of a linear map from observations to latents, for each of some mixings."""
    base, found = asc.simulate.process(dim=10, layers=layers, **given), []
    for seed in range(4):
        made = base.with_seed(seed)
        z = made.sample(4000)
        found.append(asc.metrics.linear_r2(made.mix(z).numpy(), z.numpy()))
    return np.mean(found)


def test_mixings_are_as_nonlinear_as_the_papers():
    sphere = dict(space="sphere")
    box = dict(space="box", conditional="normal")
    assert 0.58 < identity_r2(3, **sphere) < 0.72 < identity_r2(2, **sphere) < 0.83  # printed: 0.670 and 0.776
    assert 0.60 < identity_r2(3, **box) < 0.77 < identity_r2(2, **box) < 0.92  # printed: 0.679 and 0.877


def test_a_mixing_is_well_conditioned_and_inverted():
    few, many = (leaky_mixing(6, 2, draws=draws, seed=3) for draws in (1, 3000))
    worst = lambda mixing: max(float(torch.linalg.cond(w)) for w in mixing.weights)  # noqa: E731
    assert worst(many) < worst(few) and worst(many) < 4
    for weight in many.weights:
        torch.testing.assert_close(weight.norm(dim=0), torch.ones(6, dtype=torch.float64))
    wide = leaky_mixing(3, 3, channels=20, seed=1)
    z = torch.randn(50, 3, dtype=torch.float64)
    assert wide(z).shape == (50, 20)
    torch.testing.assert_close(wide.inverse(wide(z)), z)


def test_a_stack_of_mixings_is_each_of_them():
    apart = [leaky_mixing(4, 3, seed=seed, draws=50) for seed in range(3)]
    z = torch.randn(3, 7, 4)
    together = LeakyMixing.stacked(apart)(z)
    for k, mixing in enumerate(apart):
        torch.testing.assert_close(together[k], mixing(z[k]))


def test_a_mixing_of_ones_own():
    made = asc.simulate.process("box", dim=2, conditional="normal", mixing=lambda z: torch.cat([z, z**2], -1))
    assert made.channels == 4
    assert check_injective(lambda z: z.exp(), torch.randn(20, 3, dtype=torch.float64)) == 3
    for bad, said in {
        lambda z: z[..., :1]: "cannot carry 2 latents",
        lambda z: (z - 0.5) ** 2: "folds",
        lambda z: z.sum(-1, keepdim=True).expand(*z.shape[:-1], 2): "full rank",
        lambda z: torch.cat([(z - 0.5) ** 2, (z - 0.5) ** 4], -1): "have the same observation",
        lambda z: torch.cat([(12 * z).cos(), (12 * z).sin()], -1): "have the same observation",
        lambda z: (3 * z) % 1: "have the same observation",
        lambda z: z.numpy() ** 3: "it returned ndarray",
        lambda z: z + torch.randn(z.shape): "when it was called again",
        lambda z: torch.ones(3) @ z: "Expected a function of torch tensors",
        lambda z: z * float("nan"): "all of it finite",
        "cube": "expected a function",
    }.items():
        with pytest.raises(ValueError, match=said):
            asc.simulate.process("box", dim=2, conditional="normal", mixing=bad)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (dict(space="torus"), "expected one of"),
        (dict(space="box", conditional="von_mises_fisher"), "distribution on a sphere"),
        (dict(space="unbounded", conditional="normal"), "there is none on unbounded"),
        (dict(space="box", conditional="generalized_normal", exponent=0), "exponent=0: expected a number above 0"),
        (dict(space="box", conditional="generalized_normal"), "needs its exponent"),
        (dict(space="box", conditional="laplace", exponent=1), "belongs to 'generalized_normal'"),
        (dict(space="box", conditional="laplace", concentration=1.0), "has a scale="),
        (dict(space="box", conditional="laplace", scale=-1.0), "above 0"),
        (dict(concentration=-1.0), "at least 0"),
        (dict(marginal_scale=1.0), "leave it out"),
        (dict(dim=1), "at least 2"),
        (dict(channels=3), "at least as many"),
        (dict(slope=0.0), "no encoder can tell"),
        (dict(layers=0), "layers=0: expected an integer"),
        (dict(layers=2.5), "layers=2.5: expected an integer"),
        (dict(dim=True), "dim=True: expected an integer"),
        (dict(seed=-1), "seed=-1: expected an integer"),
        (dict(slope=float("inf")), "slope=inf"),
        (dict(concentration="10"), "concentration='10': expected a number"),
        (dict(concentration=1e12), "single precision"),
        (dict(bounds=(0, 5)), "only a box has them"),
        (dict(space="box", conditional="normal", bounds=(0, np.inf)), "two finite numbers"),
        (dict(space="box", conditional="normal", bounds=(0, 1, 2)), "two finite numbers"),
        (dict(space="box", conditional="normal", bounds=3), "two finite numbers"),
        (dict(space="box", conditional="normal", scale="wide"), "scale='wide': expected a number"),
        (dict(space="box", conditional="normal", scale=-1), "scale=-1: expected a number above 0"),
        (dict(space="box", conditional="normal", marginal="normal", marginal_scale=0), "marginal_scale=0"),
        (dict(space="box", conditional="generalized_normal", exponent=1e-3), "tails of a β below"),
        (dict(space="box", conditional="generalized_normal", exponent=np.inf), "exponent=inf"),
        (dict(space="box", conditional="normal", bounds=(1, 0)), "lower bound"),
        (dict(conditional="gamma"), "expected one of"),
        (dict(marginal="gamma"), "expected 'uniform'"),
    ],
)
def test_bad_input_is_refused_in_words(given, said):
    with pytest.raises(ValueError, match=said):
        asc.simulate.process(**given)


def test_mixings_that_are_injective_pass():
    def made(**given):
        return asc.simulate.process(**{"space": "box", "dim": 3, "conditional": "normal", **given})

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 30), torch.nn.Tanh(), torch.nn.Linear(30, 12))
    assert made(mixing=net).channels == 12  # weights in single precision
    own = asc.simulate.process("unbounded", dim=3, marginal="normal", conditional="normal").mixing
    assert made(space="unbounded", marginal="normal", mixing=lambda z: own(z)).channels == 3
    assert made(space="sphere", mixing=lambda z: torch.cat([z, z**2], -1)).channels == 6
    with pytest.raises(ValueError, match="have the same observation"):  # a point and its opposite
        made(space="sphere", mixing=lambda z: (z[..., :, None] * z[..., None, :]).flatten(-2))


def test_wrong_arguments_of_a_process_are_refused():
    made = asc.simulate.process("box", dim=np.int64(3), conditional="normal")
    assert made.dim == 3 and made.sample(np.int64(4)).shape == (4, 3)
    for call, said in [
        (lambda: made.sample(-1), "shape=-1: expected an integer"),
        (lambda: made.sample((2, 2.5)), "shape=2.5"),
        (lambda: made.mix(torch.rand(4, 2)), r"expected a torch tensor \(..., 3\)"),
        (lambda: made.mix(np.zeros((4, 3))), "ndarray of shape"),
        (lambda: made.sample_positives(torch.rand(4, 2)), r"expected \(..., 3\)"),
    ]:
        with pytest.raises(ValueError, match=said):
            call()
