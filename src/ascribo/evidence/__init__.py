"""Tests around a fit: is there anything, does it come back, how many dimensions, may coordinates be read one by
one, which conditions differ.

What is here takes a model, or results of several, and fits or compares again. The goodness of one fit is the
model's own (`model.goodness_of_fit_`), and so are the channels that carry a space (`maps.calls()`).
"""

from .analysis_of_variance import anova, tukey
from .choose_dimension import ChosenDimension, seed_consistency, select_dimension
from .identifiability import Identifiability, fit_exponent, identifiability
from .shifted_variables import shift_test, shift_tests
from .stability import SplitHalf, consistency, consistency_by_label, map_consistency, split_half

__all__ = [
    "ChosenDimension",
    "Identifiability",
    "SplitHalf",
    "anova",
    "consistency",
    "consistency_by_label",
    "fit_exponent",
    "identifiability",
    "map_consistency",
    "seed_consistency",
    "select_dimension",
    "shift_test",
    "shift_tests",
    "split_half",
    "tukey",
]
