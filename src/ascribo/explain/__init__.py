"""Explaining encoders without labels: which features, and which training examples, built a representation.

After Crabbé & van der Schaar (2022), Label-free explainability for unsupervised models, ICML.
"""

from .contrastive import contrastive_examples
from .examples import examples
from .features import completeness_residual, features
from .simplex import simplex_weights

__all__ = ["completeness_residual", "contrastive_examples", "examples", "features", "simplex_weights"]
