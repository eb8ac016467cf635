"""Explaining encoders without labels: which features, and which training examples, built a representation.

After Crabbé & van der Schaar (2022), Label-free explainability for unsupervised models, ICML.
"""

from .checks import (
    latent_shift,
    map_correlation,
    mask_features,
    similarity_rates,
    unit_correlation,
    unit_entropy,
)
from .contrastive import contrastive_examples
from .examples import examples
from .features import completeness_residual, features
from .simplex import simplex_weights

__all__ = [
    "completeness_residual",
    "contrastive_examples",
    "examples",
    "features",
    "latent_shift",
    "map_correlation",
    "mask_features",
    "similarity_rates",
    "simplex_weights",
    "unit_correlation",
    "unit_entropy",
]
