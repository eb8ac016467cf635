"""R² and MCC on codes whose score is known."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from ascribo.metrics import held_out_r2, match_latents, mean_correlation_coefficient, missed_directions

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(4000, 4))


def test_r2_is_1_for_any_affine_map_and_below_0_for_nothing():
    assert held_out_r2(Z @ RNG.normal(size=(4, 4)) + 5, Z) == pytest.approx(1)
    assert held_out_r2(RNG.normal(size=(200, 60)), Z[:200]) < 0  # fitted and scored on the same samples: 0.6


def test_r2_of_noise_is_the_share_that_is_signal():
    assert held_out_r2(Z + RNG.normal(size=Z.shape), Z) == pytest.approx(0.5, abs=0.03)
    assert held_out_r2(Z[:, :2], Z) == pytest.approx(0.5, abs=0.01)  # two latents of four


def test_mcc_is_1_up_to_order_sign_and_scale_alone():
    order = [2, 0, 3, 1]
    found = match_latents(Z[:, order] * [1, -3, 0.1, 2] + 7, Z)
    assert found.dimension.tolist() == [1, 3, 0, 2]
    np.testing.assert_allclose(found.correlation, [-1, 1, 1, 1])
    rotation = ortho_group.rvs(4, random_state=0)
    best = max(np.abs(rotation)[:, list(p)].trace() / 4 for p in _permutations(4))
    assert mean_correlation_coefficient(Z @ rotation, Z) == pytest.approx(best, abs=0.03) and best < 0.9


def _permutations(n):
    from itertools import permutations

    return permutations(range(n))


def test_spearman_sees_through_rising_functions():
    bent = np.exp(2 * Z)
    assert mean_correlation_coefficient(bent, Z, "spearman") == pytest.approx(1)
    assert mean_correlation_coefficient(bent, Z) < 0.7


def test_the_match_is_the_best_one_not_the_first_one():
    a, b = Z[:, 0], Z[:, 1]
    codes = np.column_stack([a + 0.5 * b, 0.9 * a + 0.1 * Z[:, 2]])  # both are closest to a
    assert match_latents(codes, Z[:, :2]).dimension.tolist() == [1, 0]


def test_a_constant_dimension_matches_nothing():
    assert mean_correlation_coefficient(np.column_stack([Z[:, 0], np.ones(4000)]), Z[:, :2]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: held_out_r2(Z, Z[:-1]), "expected as many"),
        (lambda: held_out_r2(Z[:6], Z[:6]), "more samples than dimensions"),
        (lambda: held_out_r2(Z, Z, fit=1.0), "above 0 and below 1"),
        (lambda: held_out_r2(Z[:, 0], Z), "expected \\(sample, dimension\\)"),
        (lambda: match_latents(Z[:, :2], Z), "at least one for each"),
        (lambda: match_latents(Z, Z, "kendall"), "'pearson' or 'spearman'"),
        (lambda: match_latents(np.full((9, 2), np.nan), Z[:9, :2]), "finite"),
    ],
)
def test_bad_input_is_refused_in_words(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_a_lost_latent_is_told_from_many_that_are_bent():
    noise = RNG.normal(size=Z.shape)
    lost, bent = missed_directions(Z[:, :3], Z), missed_directions(Z + noise / np.sqrt(3), Z)
    np.testing.assert_allclose(lost, [1, 0, 0, 0], atol=0.02)
    np.testing.assert_allclose(bent, np.full(4, 0.25), atol=0.04)
    assert held_out_r2(Z[:, :3], Z) == pytest.approx(held_out_r2(Z + noise / np.sqrt(3), Z), abs=0.02)


def test_directions_are_those_of_latents_of_equal_variance():
    scaled = Z * [1, 10, 100, 0.01]
    turned = scaled @ ortho_group.rvs(4, random_state=1)
    found = missed_directions(Z[:, :2] @ RNG.normal(size=(2, 2)), turned)
    np.testing.assert_allclose(found, [1, 1, 0, 0], atol=0.02)
