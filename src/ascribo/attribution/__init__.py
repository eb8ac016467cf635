"""Attribution methods, one function each, and their one result type."""

from ..training.decoders import decode, decoder_jacobian, fit_decoders
from .baselines import deeplift, feature_ablation, integrated_gradients, shapley_shuffled, shapley_zeros, smoothgrad
from .generative import decoder_embedding, decoder_inputs, generative_gradient
from .jacobian import encoder_jacobian, inverted_neuron_gradient, neuron_gradient, pseudo_inverse
from .maps import AttributionMaps, LocalMap, attribution_maps
from .tangent import tangent, tangent_basis
from .unique_variance.frame import Frame, frame_of
from .unique_variance.unique import Question, ask, unique_maps, unique_variance

METHODS = (
    "unique_variance",
    "generative_gradient",
    "tangent",
    "inverted_neuron_gradient",
    "neuron_gradient",
    "integrated_gradients",
    "feature_ablation",
    "shapley_zeros",
    "shapley_shuffled",
    "smoothgrad",
    "deeplift",
)
"""What `attribute(method=...)` accepts: ours, the papers', and the baselines they compare with."""

__all__ = [
    "METHODS",
    "AttributionMaps",
    "Frame",
    "LocalMap",
    "Question",
    "ask",
    "attribution_maps",
    "decode",
    "decoder_embedding",
    "decoder_inputs",
    "decoder_jacobian",
    "deeplift",
    "encoder_jacobian",
    "feature_ablation",
    "fit_decoders",
    "frame_of",
    "generative_gradient",
    "integrated_gradients",
    "inverted_neuron_gradient",
    "neuron_gradient",
    "pseudo_inverse",
    "shapley_shuffled",
    "shapley_zeros",
    "smoothgrad",
    "tangent",
    "tangent_basis",
    "unique_maps",
    "unique_variance",
]
