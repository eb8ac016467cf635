"""The gradient of the encoder, as it is."""

from __future__ import annotations

import torch
from torch import Tensor

from ..jacobian import encoder_jacobian
from ..local_methods import local_method
from ..method_inputs import EncodedRecording

__all__ = ["neuron_gradient"]


@local_method("neuron_gradient")
def neuron_gradient(recording: EncodedRecording, index: Tensor) -> tuple[Tensor, Tensor]:
    """The plain encoder gradient J_fᵀ, in aligned coordinates: (seed, B, channel, window, dim), all valid."""
    jacobian = encoder_jacobian(recording.embedder, recording.parameters, recording.inputs(index))
    turned = torch.einsum("skd,sbdcw->sbcwk", recording.alignment.inverse, jacobian)
    return turned, torch.ones(turned.shape[:2], dtype=torch.bool, device=turned.device)
