"""The theorems, in numbers."""

import numpy as np
import pytest
import torch

from ascribo.simulate.generative_process import process
from ascribo.spaces.similarities import Dot, Lp
from experiments.inversion import theory


def test_closed_forms():
    assert theory.log_area(10) == pytest.approx(3.2387, abs=5e-5)
    assert theory.sphere_limit(10, 1.0) == pytest.approx(-0.0494, abs=5e-5)
    assert theory.sphere_limit(10, 10.0) == pytest.approx(-2.4845, abs=5e-5)
    assert theory.sphere_limit(10, 0.0) == 0


@pytest.mark.parametrize("kappa", [1.0, 10.0])
def test_the_loss_tends_to_the_cross_entropy_with_the_positive_and_without(kappa):
    made, limit = process("sphere", dim=10, layers=1, concentration=kappa), theory.sphere_limit(10, kappa)
    few, many = (
        np.mean([theory.contrastive_loss(made, Dot(), kappa**0.5, m, 2000, seed) for seed in range(4)], 0)
        - np.log(m)
        for m in (32, 16_384)
    )
    error = 0.03 * kappa**0.5  # of 8,000 pairs
    assert many == pytest.approx([limit, limit], abs=error)
    assert (np.abs(few - limit) > np.abs(many - limit)).all() and few[1] < limit < few[0]


def test_the_rate_without_the_positive():
    made, kappa, negatives = process("sphere", dim=10, layers=1, concentration=2.0), 2.0, 16
    rng = torch.Generator().manual_seed(0)
    z = made.sample((2000, 1), rng)
    far = made.sample((2000, negatives), rng)  # negatives of their own: only their scatter matters here
    mean = torch.exp(kappa * (z * far).sum(-1)).mean(1)
    below = float(mean.log().mean()) - theory._log_mean_exp(10, kappa)
    assert below == pytest.approx(-theory.rate(10, kappa) / negatives, rel=0.3)


def test_independent_pairs_cost_log_n_exactly():
    made = process("sphere", dim=4, layers=1, concentration=0.0)
    for negatives in (3, 50):
        assert theory.contrastive_loss(made, Dot(), 0.0, negatives, 100, 0)[1] == pytest.approx(
            np.log(negatives), rel=1e-6
        )


@pytest.mark.parametrize("exponent", [1.0, 3.0])
def test_distances_in_a_box(exponent):
    made = process("box", dim=2, layers=1, conditional="generalized_normal", exponent=exponent, scale=0.2)
    losses = [theory.contrastive_loss(made, Lp(exponent), 5.0, 8192, 2000, seed) for seed in range(4)]
    limit = theory.box_limit(2, exponent, 0.2)
    assert np.mean(losses, 0) - np.log(8192) == pytest.approx([limit, limit], abs=0.05)


def test_the_best_radius():
    for kappa, tau in ((1.0, 0.5), (10.0, 2.0)):
        assert theory.best_radius(10, kappa, tau) == pytest.approx(np.sqrt(kappa * tau), rel=1e-4)


def test_the_experiment_says_so(tmp_path):
    small = {"dim": 3, "concentration": 6.0, "temperature": 0.5, "steps": 250, "batch_size": 256}
    result = theory.run(
        tmp_path, negatives=[16, 256], references=256, repeats=2, exponents=[1.0], trained=small, progress=False
    )
    trained = result["rows"][-1]
    assert trained["radius"] == pytest.approx(trained["best_radius"], rel=0.1)
    assert (
        trained["orthogonality_error"] < 0.1 and trained["isometry_error"] < 0.3 and trained["uniformity_ks"] < 0.1
    )
    assert all(len(table) for table in theory.tables(result).values()) and (tmp_path / "theory.png").exists()
