"""The map of Schneider et al. (2025): the pseudo-inverse of the encoder's Jacobian."""

from __future__ import annotations

from torch import Tensor

from ..jacobian import encoder_jacobian, pseudo_inverse
from ..local_methods import local_method
from ..method_inputs import EncodedRecording

__all__ = ["inverted_neuron_gradient"]


def _within_limits(recording: EncodedRecording, index: Tensor) -> Tensor:
    """Where an output is at its hard limit its row of the Jacobian is zero, and there is no inverse: (B,)."""
    return recording.embedder.inside(recording.embed(index)).any(0)


@local_method("inverted_neuron_gradient", has_map=_within_limits)
def inverted_neuron_gradient(recording: EncodedRecording, index: Tensor) -> tuple[Tensor, Tensor]:
    """J_f⁺ ∼ J_g (Schneider et al. 2025, theorem 2), in aligned coordinates.

    Returns (seed, B, channel, window, dim) and (seed, B), False where J_f is rank-deficient. A window is inverted
    as a whole: its channels at all its time steps together are the inputs.
    """
    jacobian = encoder_jacobian(recording.embedder, recording.parameters, recording.inputs(index))
    inverse, ok = pseudo_inverse(jacobian.flatten(-2))
    inverse = (inverse.flatten(1, 2) @ recording.alignment.basis).unflatten(1, inverse.shape[1:3])
    return inverse.unflatten(-2, jacobian.shape[-2:]), ok
