"""Adam (Kingma and Ba, 2015) on stacked parameters, by torch's fused kernel.

The arithmetic is that of `torch.optim.Adam(fused=True)`, to the bit. That class is not used because making one
imports torch's compiler, which takes a second or more of every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

__all__ = ["Adam", "differentiate"]

SMALL = 1e-4
"""A gradient of which not much more than rounding is left; those that count are a hundred times larger."""


def differentiate(total: Tensor, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    """The gradient of a loss for each of the parameters, 0 for one that it does not depend on."""
    return torch.autograd.grad(total, list(parameters.values()), materialize_grads=True)


class Adam:
    """Parameters with their running moments.

    parameters : contiguous tensors, updated in place.
    rate : () tensor, the learning rate, read at every step; where the parameters are, so that a CUDA graph can.
    offsets : which of the parameters only shift an embedding. Their gradients may be rounding and nothing else, of
        which Adam would make steps of full length; they have an ε of `SMALL` instead of 1e-8.

    state : by parameter its "step", "exp_avg" and "exp_avg_sq".

    >>> x = torch.ones(2)
    >>> Adam([x], torch.tensor(0.1)).step([torch.tensor([1.0, -5.0])])
    >>> x  # the first step has the length of the rate, whatever the gradient
    tensor([0.9000, 1.1000])
    """

    def __init__(self, parameters: Iterable[Tensor], rate: Tensor, offsets: Sequence[int] = ()):
        self.parameters, self.rate = list(parameters), rate
        others = [k for k in range(len(self.parameters)) if k not in offsets]
        self._groups = [(own, eps) for own, eps in ((others, 1e-8), (list(offsets), SMALL)) if own]
        if not all(parameter.is_contiguous() for parameter in self.parameters):
            raise ValueError("Adam: the kernel reads memory as it lies; give contiguous parameters.")
        self.state = {p: {"step": torch.zeros((), dtype=torch.float32, device=p.device)} for p in self.parameters}
        for parameter, state in self.state.items():
            state |= {key: torch.zeros_like(parameter, requires_grad=False) for key in ("exp_avg", "exp_avg_sq")}

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """One update with the gradient of each parameter, laid out in any way."""
        steps = [self.state[p]["step"] for p in self.parameters]
        torch.ops.aten._foreach_add_(steps, 1)
        for own, eps in self._groups:
            some = [self.parameters[k] for k in own]
            mean, square = ([self.state[p][key] for p in some] for key in ("exp_avg", "exp_avg_sq"))
            torch.ops.aten._fused_adam_.tensor_lr(
                *(some, [gradients[k].contiguous() for k in own], mean, square, [], [steps[k] for k in own]),
                lr=self.rate,
                beta1=0.9,
                beta2=0.999,
                weight_decay=0.0,
                eps=eps,
                amsgrad=False,
                maximize=False,
            )
