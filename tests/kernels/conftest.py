"""Where kernels run: on the GPU if there is one, else under Triton's interpreter, on CPU tensors."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported


@pytest.fixture(scope="session")
def device() -> str:
    """A device whose tensors the Triton kernels take."""
    pytest.importorskip("triton", reason="the kernels are written in Triton, which is not installed")
    if torch.cuda.is_available():
        return "cuda"
    from triton.runtime.interpreter import InterpretedFunction

    from ascribo.kernels import log_sum_exp_triton as streaming

    if not isinstance(streaming._forward, InterpretedFunction):
        pytest.skip("no GPU, and triton was imported before its interpreter was asked for")
    return "cpu"


@pytest.fixture
def gpu() -> str:
    """The GPU, for what the interpreter cannot show."""
    pytest.importorskip("triton", reason="the kernels are written in Triton, which is not installed")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")
    return "cuda"
