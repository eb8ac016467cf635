"""Rank correlations of blocks: their p-values do not depend on the rounding of a machine."""

import numpy as np
from scipy import stats

from experiments.labelfree.block_agreement import rank_correlation


def test_orders_that_tie_with_what_was_found_count_in_full():
    rng = np.random.default_rng(5)
    for _ in range(20):
        guess, truth = rng.normal(size=(2, 7))
        found = rank_correlation(guess, truth, 500)
        # the same orders in whole numbers, which have no rounding
        one, other = (stats.rankdata(values).astype(int) for values in (guess, truth))
        again = np.random.default_rng(0)
        null = np.array([again.permutation(one) @ other for _ in range(500)])
        assert found["p"] == (1 + np.sum(null >= one @ other)) / 501
        np.testing.assert_allclose(found["rho"], stats.spearmanr(guess, truth).statistic)
