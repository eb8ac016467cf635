"""What the tests of pairs have in common: tables, rows of a batch, and whether draws are uniform."""

import numpy as np
import pandas as pd
from scipy import stats


def table(**columns):
    return pd.DataFrame(columns)


def rows(pairs, batch, name):
    reference, positive, negative = pairs.rows[name]
    return batch[:, reference].ravel(), batch[:, positive].ravel(), batch[:, negative].ravel()


def uniform(draws, support):
    """The p of a test that draws are uniform over their support; none may lie outside."""
    counts = np.bincount(draws, minlength=max(support) + 1)
    assert set(np.flatnonzero(counts)) <= set(support)
    return stats.chisquare(counts[support]).pvalue
