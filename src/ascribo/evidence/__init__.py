"""Is there anything, which channels, how sure: goodness of fit, tests, calls, stability, dimension."""

from ..attribution.calls import call_channels
from ..model.goodness import Fit, goodness_of_fit
from .dimension import ChosenDimension, select_dimension
from .shifts import shift_test, shift_tests
from .stability import SplitHalf, consistency, consistency_by_label, map_consistency, split_half
from .statistics import anova, bootstrap_interval, tukey

__all__ = [
    "ChosenDimension",
    "Fit",
    "SplitHalf",
    "anova",
    "bootstrap_interval",
    "call_channels",
    "consistency",
    "consistency_by_label",
    "goodness_of_fit",
    "map_consistency",
    "select_dimension",
    "shift_test",
    "shift_tests",
    "split_half",
    "tukey",
]
