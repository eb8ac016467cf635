"""Attribution methods, one function each, and their one result type."""

from .generative import decoder_embedding, decoder_inputs, decoder_jacobian, fit_decoder, generative_gradient
from .jacobian import encoder_jacobian, inverted_neuron_gradient, neuron_gradient, pseudo_inverse
from .maps import AttributionMaps, attribution_maps

METHODS = ("generative_gradient", "inverted_neuron_gradient", "neuron_gradient")

__all__ = [
    "METHODS",
    "AttributionMaps",
    "attribution_maps",
    "decoder_embedding",
    "decoder_inputs",
    "decoder_jacobian",
    "encoder_jacobian",
    "fit_decoder",
    "generative_gradient",
    "inverted_neuron_gradient",
    "neuron_gradient",
    "pseudo_inverse",
]
