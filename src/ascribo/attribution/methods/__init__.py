"""The local attribution methods, one file each. Importing a file registers its method.

To add a method to the package, write its file beside the others and import it here. Outside the package it is
enough to use the decorator `ascribo.attribution.local_method`.
"""

# ruff: noqa: F401, I001
# The order of these imports is the order of METHODS: ours, the papers', and those that they compare with.
from .. import unique_variance
from . import generative_gradient
from . import tangent
from . import inverted_neuron_gradient
from . import neuron_gradient
from . import integrated_gradients
from . import feature_ablation
from . import shapley_zeros
from . import shapley_shuffled
from . import smoothgrad
from . import deeplift
