"""The terms of L_AU(α, p): their definition, and when the loss has a lower bound."""

import math

import torch

import ascribo as asc
from ascribo.networks.alignment_uniformity import alignment_uniformity, weighted_loss

RNG = torch.Generator().manual_seed(0)
REFERENCE, POSITIVE, NEGATIVE = (torch.randn(2, size, 3, generator=RNG) for size in (8, 8, 5))


def test_the_terms_by_their_definition():
    apart = (REFERENCE[:, :, None] - NEGATIVE[:, None]).abs().sum(-1)
    near = (REFERENCE - POSITIVE).abs().sum(-1)
    aligned, uniform = alignment_uniformity(REFERENCE, POSITIVE, NEGATIVE, asc.Lp(1))
    torch.testing.assert_close(aligned, near.mean(1))
    torch.testing.assert_close(uniform, torch.exp(-apart).mean(2).log().mean(1))
    torch.testing.assert_close(weighted_loss(aligned, uniform, 0.9), 0.9 * uniform + 0.1 * aligned)
    again, counted = alignment_uniformity(REFERENCE, POSITIVE, NEGATIVE, asc.Lp(1), count_positive=True)
    all_of_them = torch.cat([apart, near[..., None]], 2)
    torch.testing.assert_close(again, aligned)
    torch.testing.assert_close(counted, torch.exp(-all_of_them).mean(2).log().mean(1))


def grown(scale, alpha, negative=None, **how):
    """The loss of the same embedding, so many times as large."""
    near = REFERENCE + 0.1 * POSITIVE
    given = [scale * part for part in (REFERENCE, near, REFERENCE if negative is None else negative)]
    return weighted_loss(*alignment_uniformity(*given, asc.Lp(1), **how), alpha).min().item()


def test_independent_negatives_leave_no_lower_bound():
    """It falls with the size where α times the distance of the nearest one is above 1 - α times a pair's."""
    losses = [grown(scale, 0.9, NEGATIVE) for scale in (10, 100, 1000)]
    assert losses[1] < 5 * losses[0] < 0 and losses[2] < 9 * losses[1]
    assert grown(1000, 0.05, NEGATIVE) > grown(10, 0.05, NEGATIVE) > 0  # hardly any weight on the uniformity


def test_the_pair_with_itself_bounds_the_loss_and_so_does_a_counted_positive():
    for scale in (1, 100, 10_000):
        assert grown(scale, 0.9) >= -0.9 * math.log(8) - 1e-5
        assert grown(scale, 0.5, NEGATIVE, count_positive=True) >= -0.5 * math.log(6) - 1e-5
