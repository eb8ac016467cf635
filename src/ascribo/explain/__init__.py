"""Explaining encoders without labels: which features, and which training examples, built a representation.

After Crabbé & van der Schaar (2022), Label-free explainability for unsupervised models, ICML.

    features.py                which features: `features`, and the names of its methods
    feature_*.py               methods of features: gradients and ablation, DeepLIFT, any of captum's
    examples.py                which training examples: `examples`, and the names of its methods
    example_*.py               methods of examples: influence, TracIn, neighbours, SimplEx; contrastive losses
    encoders.py, lstm.py       encoders of any kind as one function of a batch
    checks.py                  are explanations right? masks, labels of top examples, agreement of maps
"""

from .checks import (
    latent_shift,
    map_correlation,
    mask_features,
    similarity_rates,
    unit_correlation,
    unit_entropy,
)
from .example_contrastive import contrastive_examples
from .example_simplex import simplex_weights
from .examples import examples
from .features import completeness_residual, features

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
