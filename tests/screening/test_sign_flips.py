"""Turning signs of blocks: p-values are uniform under chance and small where blocks agree."""

import numpy as np

from ascribo.screening.sign_flips import p_values, quadratic_form


def flipped(sums, seed=0):
    form = quadratic_form(sums, np.eye(sums.shape[1]))[None]
    return p_values(form, form.sum((2, 3)), 2_000, seed)


def test_p_values_are_uniform_under_chance_also_with_heavy_tails_and_unequal_blocks():
    rng = np.random.default_rng(0)
    sums = rng.standard_t(2, (20, 5, 600)) * np.linspace(0.2, 3, 20)[:, None, None]
    p = flipped(sums)
    for level in (0.05, 0.2, 0.5):
        assert abs(np.mean(p <= level) - level) < 0.06
    assert np.mean(p <= 0.05) < 0.08


def test_blocks_that_agree_have_small_p_and_one_large_block_has_not():
    rng = np.random.default_rng(1)
    agree = rng.normal(size=(20, 3, 1)) + 1.5
    single = rng.normal(size=(20, 3, 1))
    single[7] += 60
    assert flipped(agree)[0] < 0.001
    assert flipped(single)[0] > 0.1


def test_the_best_of_several_statistics_is_compared_with_the_best_under_the_same_turns():
    sums = np.random.default_rng(2).normal(size=(20, 4, 500))
    forms = np.stack([quadratic_form(sums[:, [k]], np.eye(1)) for k in range(4)])
    p = p_values(forms, forms.sum((2, 3)), 2_000)
    assert abs(np.mean(p <= 0.1) - 0.1) < 0.05  # each at 0.1 alone would give a third


def test_a_channel_of_zeros_is_never_called():
    assert flipped(np.zeros((20, 3, 2))).tolist() == [1.0, 1.0]


def test_what_is_not_a_number_is_never_found():
    forms = np.ones((1, 2, 6, 6))
    forms[:, 1] = np.nan
    p = p_values(forms, np.array([[100.0, np.nan]]), 200)
    assert p[0] < 0.1 and p[1] == 1
