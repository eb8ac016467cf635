"""What explanations are judged by: masks that stay with their examples, rates with ties, correlation, entropy."""

import numpy as np
import pytest
import torch
from torch import nn

from ascribo.explain import (
    latent_shift,
    map_correlation,
    mask_features,
    similarity_rates,
    unit_correlation,
    unit_entropy,
)


def test_masks_stay_with_their_examples():
    rng = np.random.default_rng(0)
    X, scores = rng.normal(size=(20, 2, 3)), rng.normal(size=(20, 2, 3))
    masked = mask_features(X, scores, 2, baseline=9.0)
    assert ((masked == 9).reshape(20, -1).sum(1) == 2).all()
    assert ((masked == 9) == (scores >= np.sort(scores.reshape(20, -1), 1)[:, -2, None, None])).all()
    np.testing.assert_array_equal(mask_features(X, scores, 0), X)
    for wrong in ({"size": 7}, {"size": -1}):
        with pytest.raises(ValueError, match="has 6 features"):
            mask_features(X, scores, **wrong)
    with pytest.raises(ValueError, match="expected that of X"):
        mask_features(X, scores[:5], 1)


def test_latent_shift_of_an_identity():
    X = torch.tensor([[3.0, 4.0, 1.0], [1.0, 2.0, 2.0]])
    shift = latent_shift(nn.Identity(), X, X, [0, 1, 3])
    np.testing.assert_allclose(shift, [[0, 4, 26**0.5], [0, 2, 3]], rtol=1e-6)
    base = latent_shift(nn.Identity(), X, X, [3], baseline=X)
    assert (base == 0).all()


def test_important_features_move_the_representation_most():
    torch.manual_seed(0)
    encoder = nn.Linear(8, 3)
    x = torch.randn(200, 8)
    from ascribo.explain import features

    top = latent_shift(encoder, x, features(encoder, x), [2]).mean()
    assert top > 1.3 * latent_shift(encoder, x, torch.randn(200, 8), [2]).mean()


def test_rates_with_ties_are_those_of_random_order():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, size=(5, 40)).astype(float)
    train, test = rng.integers(0, 2, 40), rng.integers(0, 2, 5)
    rates = similarity_rates(scores, train, test, [7])
    drawn = []
    for _ in range(4000):
        order = np.lexsort((rng.random(scores.shape), -scores), axis=1)[:, :7]
        drawn.append((train[order] == test[:, None]).mean(1))
    np.testing.assert_allclose(rates.sel(end="top", size=7), np.mean(drawn, 0), atol=0.02)
    with pytest.raises(ValueError, match="as the labels"):
        similarity_rates(scores, train[:3], test, [1])


def test_correlations_and_entropy():
    rng = np.random.default_rng(1)
    maps = rng.normal(size=(30, 4, 50))
    assert abs(unit_correlation(maps)) < 0.05
    assert unit_correlation(np.repeat(maps[:, :1], 4, 1)) == pytest.approx(1)
    one = np.zeros((30, 4, 50))
    one[:, 2] = maps[:, 2]
    assert unit_entropy(one) == 0
    assert unit_entropy(np.ones((3, 4, 5))) == pytest.approx(np.log(4))
    assert map_correlation(maps, 2 * maps + 1) == pytest.approx(1)
    assert map_correlation(maps, maps**3, kind="spearman") == pytest.approx(1)
    with pytest.raises(ValueError, match="expected 'pearson'"):
        map_correlation(maps, maps, kind="kendall")
