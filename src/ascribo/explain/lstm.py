"""LSTMs in elementary operations, which `torch.func` can differentiate for many examples at once.

PyTorch's own LSTM is one operation that `vmap` takes apart into a loop over examples, hundreds of times slower, and
that has no derivative of a derivative under it.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

__all__ = ["unrolled"]


def unrolled(module: nn.Module) -> nn.Module:
    """A copy of a module in evaluation mode, its LSTMs written out; parameters keep their names and values.

    LSTMs that run in both directions or project their output are left as they are.
    """
    return _replace(copy.deepcopy(module)).eval()


def _replace(module: nn.Module) -> nn.Module:
    if isinstance(module, nn.LSTM) and not module.bidirectional and not module.proj_size:
        return PlainLSTM(module)
    for name, child in list(module.named_children()):
        setattr(module, name, _replace(child))
    return module


class PlainLSTM(nn.Module):
    """What nn.LSTM computes in evaluation mode, step by step, with its parameters."""

    def __init__(self, lstm: nn.LSTM):
        super().__init__()
        self.layers, self.size, self.batch_first = lstm.num_layers, lstm.hidden_size, lstm.batch_first
        self.bias = lstm.bias
        for name, parameter in lstm.named_parameters():
            self.register_parameter(name, parameter)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None):
        """As nn.LSTM: outputs of the last layer at all steps, and the last states of all layers."""
        alone = x.ndim == 2
        x = x[None] if alone else x if self.batch_first else x.transpose(0, 1)  # (batch, step, size)
        last_h, last_c = [], []
        for k in range(self.layers):
            if state is None:
                h = c = x.new_zeros(len(x), self.size)
            else:
                h, c = (part[k][None] if alone else part[k] for part in state)
            received = x @ getattr(self, f"weight_ih_l{k}").mT
            if self.bias:
                received = received + getattr(self, f"bias_ih_l{k}") + getattr(self, f"bias_hh_l{k}")
            recurrent, outputs = getattr(self, f"weight_hh_l{k}").mT, []
            for step in received.unbind(1):
                i, f, g, o = (step + h @ recurrent).chunk(4, -1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                outputs.append(h)
            x = torch.stack(outputs, 1)
            last_h.append(h)
            last_c.append(c)
        h, c = torch.stack(last_h), torch.stack(last_c)
        if alone:
            return x[0], (h[:, 0], c[:, 0])
        return x if self.batch_first else x.transpose(0, 1), (h, c)
