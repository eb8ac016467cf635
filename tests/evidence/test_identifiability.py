"""Whether coordinates may be read one by one, told without the truth."""

import numpy as np
import pytest

import ascribo as asc
from ascribo.evidence import fit_exponent, identifiability

RNG = np.random.default_rng(0)


def pairs(noise, dim=4, count=3000):
    """Latents uniform in a box, and positives."""
    z = RNG.uniform(-1, 1, (count, dim))
    return z, z + noise(z.shape)


def turned(z, near, seeds=3):
    axes = [np.linalg.qr(RNG.normal(size=(z.shape[1],) * 2))[0] for _ in range(seeds)]
    return identifiability([z @ q for q in axes], positives=[near @ q for q in axes])


def swapped(z, near, seeds=3):
    orders = [RNG.permutation(z.shape[1]) for _ in range(seeds)]
    signs = [RNG.choice([-2.0, 1.0], z.shape[1]) for _ in range(seeds)]
    at = list(zip(orders, signs, strict=True))
    return identifiability([z[:, o] * s for o, s in at], positives=[near[:, o] * s for o, s in at])


@pytest.mark.parametrize(("exponent", "low", "high"), [(1.0, 0.93, 1.07), (2.0, 1.85, 2.15), (3.0, 2.7, 3.3)])
def test_the_exponent_by_likelihood(exponent, low, high):
    size = RNG.gamma(1 / exponent, size=8000) ** (1 / exponent)
    assert low < fit_exponent(7 * size * RNG.choice([-1, 1], 8000)) < high


def test_the_likelihood_is_that_of_scipy():
    from scipy.stats import gennorm

    values = RNG.laplace(size=500)
    found = fit_exponent(values)
    scale = lambda beta: (beta * np.mean(np.abs(values) ** beta)) ** (1 / beta)  # noqa: E731
    likelihood = lambda beta: gennorm.logpdf(values, beta, scale=scale(beta)).sum()  # noqa: E731
    assert likelihood(found) >= max(likelihood(0.97 * found), likelihood(1.03 * found))


def test_order_sign_and_scale_are_read_one_by_one():
    found = swapped(*pairs(lambda shape: RNG.laplace(scale=0.05, size=shape)))
    assert found.coordinates == "one by one" and found.mcc > 0.999 and found.chance < 0.05
    assert found.pair_exponent == pytest.approx(1, abs=0.1) and found.shape == "box"
    assert "may be read one by one" in str(found) and "theorem 6" in str(found)


def test_rotations_are_not_and_the_better_similarity_is_named():
    found = turned(*pairs(lambda shape: RNG.laplace(scale=0.05, size=shape)))
    assert found.coordinates == "up to a linear map" and found.r2 > 0.999 and found.mcc < 0.9
    assert found.turned_exponent == pytest.approx(1, abs=0.15) and found.pair_exponent > 1.3
    assert "may not be read" in str(found) and "ascribo.Lp(1)" in found.theorem


def test_normal_pairs_leave_a_rotation_open():
    z = RNG.normal(size=(3000, 4))
    found = turned(z, z + 0.1 * RNG.normal(size=z.shape))
    assert found.coordinates == "up to a linear map"
    assert "leave a rotation open" in found.theorem and found.shape == "unbounded"
    assert not found.uniform and found.marginal_distance > 0.12 and "not uniform" in str(found)


def test_agreement_that_no_theorem_explains_is_not_enough():
    """Encoders that were trained alike may end alike; normal pairs without bounds hold no axes."""
    z = RNG.normal(size=(3000, 4))
    near = z + 0.1 * RNG.normal(size=z.shape)
    found = identifiability([z, z[:, ::-1], -z], positives=[near, near[:, ::-1], -near])
    assert found.mcc > 0.999 and found.chance < 0.05 and found.coordinates == "up to a linear map"
    assert "no theorem says why" in str(found)


def test_seeds_that_share_nothing_are_not_identified():
    z = RNG.normal(size=(3, 1000, 2))
    found = identifiability(z, positives=z + 0.1 * RNG.normal(size=z.shape))
    assert found.coordinates == "not identified" and found.r2 < 0.1


def test_in_two_dimensions_two_seeds_do_not_show_it():
    found = swapped(*pairs(lambda shape: RNG.laplace(scale=0.05, size=shape), dim=2), seeds=2)
    angle = np.deg2rad(15)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    z, near = pairs(lambda shape: RNG.laplace(scale=0.05, size=shape), dim=2)
    close = identifiability([z, z @ turn], positives=[near, near @ turn])
    assert close.mcc > 0.9 and close.chance > 0.05 and close.coordinates == "up to a linear map"
    assert "More seeds are needed" in close.theorem
    assert found.mcc > close.mcc


def test_a_sphere():
    z = RNG.normal(size=(1000, 3))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    near = z + 0.05 * RNG.normal(size=z.shape)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    found = turned(z, near)
    assert found.shape == "sphere" and "theorem 2" in found.theorem
    assert found.uniform and found.marginal_distance < 0.06


def test_a_sphere_that_is_not_filled_evenly():
    z = RNG.normal(size=(3000, 5)) + np.eye(5)[0]
    for points, far in ((z, 0.3), (RNG.normal(size=z.shape) * [2, 1, 1, 1, 1], 0.1)):  # a pole; a line
        points = points / np.linalg.norm(points, axis=1, keepdims=True)
        found = turned(points, points + 0.01 * RNG.normal(size=z.shape))
        assert found.shape == "sphere" and not found.uniform and found.marginal_distance > far


@pytest.mark.parametrize(
    ("draw", "low", "high"), [(RNG.uniform, 0, 0.04), (RNG.normal, 0.12, 0.2), (RNG.laplace, 0.2, 0.35)]
)
def test_the_marginal_is_judged_along_its_own_axes(draw, low, high):
    """Turned coordinates of a box look normal; the box is found all the same."""
    z = draw(size=(4000, 4))
    found = turned(z, z + 0.1 * RNG.laplace(size=z.shape))
    assert low < found.marginal_distance < high and found.uniform == (draw == RNG.uniform)
    assert found.shape == "unbounded" and found.summary()["uniform"] is (draw == RNG.uniform)


def test_encoders_of_different_recordings_are_not_compared():
    quick = dict(similarity="squared_l2", output="unbounded", steps=20, batch_size=64, widths=(8,))
    quick |= dict(device="cpu", progress=False)
    made = [asc.simulate.process("box", dim=2, conditional="normal", layers=2, seed=k) for k in (0, 1)]
    with pytest.raises(ValueError, match="one encoder of each recording"):
        identifiability(asc.invert_process(made, **quick))
    both = asc.invert_process([made[0], made[1], made[0]], **quick)
    assert both.recordings.tolist() == [0, 1, 0]
    found = identifiability(both)
    assert found.seeds == 2  # the encoder of the other recording is left out
    reference, positive = (part[[0, 2]] for part in both.embed_pairs(4000))
    assert found == identifiability(reference, positives=positive)


def test_trained_encoders_of_two_processes_are_told_apart():
    quick = dict(seeds=3, steps=300, batch_size=256, device="cpu", progress=False)
    made = asc.simulate.process("box", dim=3, conditional="laplace", scale=0.1, layers=2, seed=1)
    found, free = (
        identifiability(asc.invert_process(made, similarity=similarity, output="unbounded", **quick))
        for similarity in (asc.Lp(1), "squared_l2")
    )
    assert found.coordinates == "one by one" and found.summary()["seeds"] == 3
    assert free.coordinates == "up to a linear map" and free.r2 > 0.95


def test_a_fitted_model_of_a_recording():
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(4, 4), steps=1500)
    spaces = {"x": asc.Follow("x", dim=1), "rest": asc.Time(dim=1)}
    model = asc.ContrastiveEmbedding(spaces, seeds=2, steps=60, batch_size=128, device="cpu", progress=False)
    model.fit(data)
    found = identifiability(model, data, space="rest", pairs=500)
    assert found.dim == 1 and found.seeds == 2 and np.isfinite(found.pair_exponent)
    with pytest.raises(ValueError, match="expected one of"):
        identifiability(model, data)
    with pytest.raises(ValueError, match="give the recording"):
        identifiability(model)


def test_bad_input_is_refused_in_words():
    z = np.zeros((2, 50, 3))
    for given, said in [
        (dict(model=z), "need their positives"),
        (dict(model=z, positives=z[:, :4]), "expected .seed, sample, dim."),
        (dict(model=z[:1], positives=z[:1]), "Fit two or more"),
    ]:
        with pytest.raises(ValueError, match=said):
            identifiability(**given)
    with pytest.raises(ValueError, match="ten or more"):
        fit_exponent([0, 0, 1])
