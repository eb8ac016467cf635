"""One fit over several processes, started by `torchrun`: each has its share of every batch.

All processes (*ranks*) draw the same batches, encode their share, and gather the negatives of all with their
gradients; gradients are then averaged, so that every rank takes the same step as one process would with the whole
batch. Without torchrun there is one rank, and nothing here does anything.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .objective import Loss
from .random_numbers import Noise
from .recording_batches import Batch, RecordingSource

__all__ = ["RankLost", "SharedBatches", "agreed", "from_first_rank", "rank", "ranks"]


class RankLost(RuntimeError):
    """Another process of the fit has ended."""


def ranks() -> int:
    """How many processes fit together: those of torchrun, 1 without it."""
    return int(os.environ.get("WORLD_SIZE", 1)) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def rank() -> int:
    """The number of this process among them; 0 writes the files."""
    return int(os.environ.get("RANK", 0)) if ranks() > 1 else 0


def agreed(wish: bool) -> bool:
    """Whether any rank wishes so: all go on, or all stop. They wait here for each other."""
    if ranks() == 1:
        return wish
    flag = torch.tensor([float(wish)])
    _together(lambda: dist.all_reduce(flag, dist.ReduceOp.MAX))
    return bool(flag.item())


def from_first_rank(values: Any) -> Any:
    """What rank 0 has, on all ranks: numbers that each may have drawn or measured otherwise."""
    if ranks() == 1:
        return values
    held = [values]
    _together(lambda: dist.broadcast_object_list(held, src=0, device=torch.device("cpu")))
    return held[0]


def _meet() -> None:
    """Meet the other ranks, once. Tensors of a CPU are sent by gloo, those of a GPU by NCCL."""
    if dist.is_initialized():
        return
    gpus = torch.cuda.device_count()
    if (local := int(os.environ.get("LOCAL_RANK", 0))) < gpus:
        torch.cuda.set_device(local)
    dist.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo")
    atexit.register(_leave)


def _check_gpus(device: torch.device | str) -> None:
    """NCCL refuses two ranks on one GPU, in words that few understand."""
    wanted, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", 1)), torch.cuda.device_count()
    if torch.device(device).type == "cuda" and wanted > gpus:
        raise ValueError(
            f"{wanted} processes on this machine, and {gpus} GPU{'s' * (gpus != 1)}: each needs one of its own. "
            f"Start torchrun with --nproc-per-node {gpus}, or fit on the CPU with device='cpu'."
        )


def _leave() -> None:
    """Leave the group before the process ends: its threads may abort the process otherwise."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _together(send: Callable[[], Any]) -> None:
    """Send to all ranks, or say that one is gone."""
    _meet()
    try:
        send()
    except RuntimeError as error:
        raise RankLost(
            f"rank {rank()} of {ranks()}: another process of this fit has ended, so it cannot go on. With a "
            "checkpoint folder (`ascribo fit` has one) only the last seconds are lost: start the same command "
            f"again. ({str(error).splitlines()[0]})"
        ) from error


class _Gather(torch.autograd.Function):
    """The parts (model, share, dim) of all ranks, one after the other; the gradient of a part is the sum of all
    ranks' gradients for it."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:  # type: ignore[override]
        parts = [torch.empty_like(part) for _ in range(ranks())]
        _together(lambda: dist.all_gather(parts, part.contiguous()))
        return torch.cat(parts, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        whole = gradient.contiguous().clone()
        _together(lambda: dist.all_reduce(whole))
        return whole.chunk(ranks(), 1)[rank()]


class _Replicate(torch.autograd.Function):
    """A parameter as it is; its gradient is the mean of all ranks' gradients."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor) -> Tensor:  # type: ignore[override]
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return _mean(gradient)


def _mean(value: Tensor) -> Tensor:
    """The mean over ranks."""
    whole = value.detach().contiguous().clone()
    _together(lambda: dist.all_reduce(whole))
    return whole / ranks()


@dataclass(frozen=True)
class _ShareOfNoise:
    """The numbers of this rank's references among those of the whole batch."""

    noise: Noise
    references: int

    def __getitem__(self, models: slice) -> _ShareOfNoise:
        return _ShareOfNoise(self.noise[models], self.references)

    def normal(self, shape: Sequence[int]) -> Tensor:
        """See `Noise`."""
        whole = self.noise.normal((shape[0] * ranks(), *shape[1:]))
        return torch.cat([part.chunk(ranks(), 1)[rank()] for part in whole.chunk(self.references, 1)], 1)


class SharedBatches(RecordingSource):
    """The batches of a recording, of which this rank has its share: a `Source`."""

    separable = False

    def __init__(self, *args: Any, device: torch.device | str = "cpu", **kwargs: Any):
        _check_gpus(device)
        super().__init__(*args, device=device, **kwargs)
        self._loss.gather = _Gather.apply

    def draw_index(self, start: int, steps: int, batch: int) -> Sequence[Tensor]:
        """See `Source`."""
        if batch % ranks():
            raise ValueError(
                f"batch_size={batch} cannot be shared by {ranks()} processes: use a multiple of {ranks()}."
            )
        return [one.chunk(ranks(), 2)[rank()] for one in super().draw_index(start, steps, batch)]

    def loss(self, parameters: Mapping[str, Tensor], batch: Batch, weight: Tensor, noise: Noise | None) -> Loss:
        """See `Source`. The losses are those of the whole batch, and so are the gradients of the total."""
        own = {name: _Replicate.apply(value) for name, value in parameters.items()}
        share = None if noise is None else _ShareOfNoise(noise, len(self._loss.references))
        loss = super().loss(own, batch, weight, share)  # type: ignore[arg-type]
        return Loss(loss.total, _mean(loss.infonce), _mean(loss.mse), _mean(loss.penalty))
