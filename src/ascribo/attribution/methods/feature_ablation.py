"""Feature ablation: what an output loses when one input is set to zero."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import gelu, pad

from ...networks.dense import Dense
from ...networks.model_stack import Embedder
from ..local_methods import local_method
from ..mean_gradients import as_factor, in_blocks
from ..method_inputs import EncodedRecording

__all__ = ["feature_ablation"]

INPUTS_AT_ONCE = {False: 2048, True: 65_536}
"""Ablated inputs embedded together, on a CPU and on a GPU."""


@local_method("feature_ablation")
@torch.no_grad()
def feature_ablation(recording: EncodedRecording, index: Tensor) -> tuple[Tensor, Tensor]:
    """What an output loses when one input, a channel at one time step of the window, is set to zero."""
    embedder, parameters, x = recording.embedder, recording.parameters, recording.inputs(index)
    dense = embedder.dense

    def lost(block: Tensor) -> Tensor:
        if dense is None:
            parts = _module_ablation(embedder, parameters, block)  # (seed, B, input, dim)
        else:
            parts = _dense_ablation(dense, parameters, block)
        turned = parts.flatten(1, 2) @ recording.alignment.inverse.mT
        return turned.unflatten(1, as_factor(block).shape[:-1])

    # a block holds a few samples with all their ablated inputs
    return in_blocks(x, lost, max(1, INPUTS_AT_ONCE[x.is_cuda] // x.shape[1:].numel()))


def _dense_ablation(dense: Dense, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """To zero an input takes its column of the first weight out of the first layer, nothing more."""
    weight, bias = parameters[f"{dense.layers[0]}.weight"], parameters[f"{dense.layers[0]}.bias"]
    # one more input, of nothing: what its removal leaves is the whole, in the same pass as the others
    x, columns = pad(x, (1, 0)), pad(weight.mT, (0, 0, 1, 0))
    whole = torch.baddbmm(bias[:, None], x.expand(len(weight), *x.shape), columns)
    h = torch.addcmul(whole[:, :, None], x[:, :, None], columns[:, None], value=-1)  # (seed, B, input, width)
    shape = h.shape[:3]
    h = h.flatten(1, 2)
    for name in dense.layers[1:]:
        h = torch.baddbmm(parameters[f"{name}.bias"][:, None], gelu(h), parameters[f"{name}.weight"].mT)
    z = dense.limit(h).reshape(*shape, -1)
    return z[:, :, :1] - z[:, :, 1:]


def _module_ablation(embedder: Embedder, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """The same for any encoder, each input of a window by itself."""
    seeds = len(next(iter(parameters.values())))
    inputs = x.shape[1:].numel()
    kept = 1 - torch.eye(inputs + 1, inputs, dtype=x.dtype, device=x.device)  # the last row keeps all
    copies = (x[:, None] * kept.view(inputs + 1, *x.shape[1:])).flatten(0, 1)
    z = embedder(parameters, copies.expand(seeds, *copies.shape)).unflatten(1, (len(x), inputs + 1))
    return z[:, :, -1:] - z[:, :, :-1]
