"""Whether a tensor can be given to a Triton kernel."""

from functools import cache
from importlib.util import find_spec

from torch import Tensor

__all__ = ["on_triton"]


@cache
def _installed() -> bool:
    return find_spec("triton") is not None


def on_triton(tensor: Tensor) -> bool:
    """True for a tensor on a GPU where Triton is installed."""
    return tensor.is_cuda and _installed()
