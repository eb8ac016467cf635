"""Is there anything, which channels, how sure: goodness of fit and collapse."""

from .goodness import Fit, goodness_of_fit

__all__ = ["Fit", "goodness_of_fit"]
