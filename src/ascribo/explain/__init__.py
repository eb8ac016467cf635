"""Explaining encoders without labels: which features, and which training examples, built a representation.

After Crabbé & van der Schaar (2022), Label-free explainability for unsupervised models, ICML.

    feature_importance.py      which features: `features`, and the names of its methods
    feature_*.py               those methods: gradients and ablation, DeepLIFT, any of captum's
    example_importance.py      which training examples: `examples`, and the names of its methods
    example_*.py               those methods: influence, TracIn, neighbours, SimplEx; contrastive losses
    encoders.py, lstm.py       encoders of any kind as one function of a batch
    evaluation.py              are explanations right? masks, labels of top examples, agreement of maps
"""

from .evaluation import (
    latent_shift,
    map_correlation,
    mask_features,
    similarity_rates,
    unit_correlation,
    unit_entropy,
)
from .example_contrastive import contrastive_examples
from .example_importance import examples
from .example_simplex import simplex_weights
from .feature_importance import completeness_residual, features

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
