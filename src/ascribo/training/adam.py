"""Adam (Kingma and Ba, 2015) on stacked parameters, by torch's fused kernel.

The arithmetic is that of `torch.optim.Adam(fused=True)`, to the bit. That class is not used because making one
imports torch's compiler, which takes a second or more of every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

__all__ = ["Adam", "differentiate"]


def differentiate(total: Tensor, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    """The gradient of a loss for each of the parameters, 0 for one that it does not depend on."""
    return torch.autograd.grad(total, list(parameters.values()), materialize_grads=True)


class Adam:
    """Parameters with their running moments.

    parameters : contiguous tensors, updated in place.
    rate : () tensor, the learning rate, read at every step; where the parameters are, so that a CUDA graph can.

    state : by parameter its "step", "exp_avg" and "exp_avg_sq".

    >>> x = torch.ones(2)
    >>> Adam([x], torch.tensor(0.1)).step([torch.tensor([1.0, -5.0])])
    >>> x  # the first step has the length of the rate, whatever the gradient
    tensor([0.9000, 1.1000])
    """

    def __init__(self, parameters: Iterable[Tensor], rate: Tensor):
        self.parameters, self.rate = list(parameters), rate
        if not all(parameter.is_contiguous() for parameter in self.parameters):
            raise ValueError("Adam: the kernel reads memory as it lies; give contiguous parameters.")
        self.state = {p: {"step": torch.zeros((), dtype=torch.float32, device=p.device)} for p in self.parameters}
        for parameter, state in self.state.items():
            state |= {key: torch.zeros_like(parameter, requires_grad=False) for key in ("exp_avg", "exp_avg_sq")}

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """One update with the gradient of each parameter, laid out in any way."""
        step, mean, square = (
            [self.state[p][key] for p in self.parameters] for key in ("step", "exp_avg", "exp_avg_sq")
        )
        torch.ops.aten._foreach_add_(step, 1)
        torch.ops.aten._fused_adam_.tensor_lr(
            *(self.parameters, [gradient.contiguous() for gradient in gradients], mean, square, [], step),
            lr=self.rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )
