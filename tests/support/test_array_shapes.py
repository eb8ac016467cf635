"""Annotated shapes are checked while the tests run, and cost nothing otherwise."""

import numpy as np
import pytest
import torch

from ascribo.attribution.jacobian import pseudo_inverse
from ascribo.data.segments import segment_bounds
from ascribo.networks.infonce_loss import infonce

pytest.importorskip("jaxtyping", reason="shapes are checked with jaxtyping, which is not installed")
pytest.importorskip("beartype", reason="shapes are checked with beartype, which is not installed")


@pytest.mark.parametrize(
    "call",
    [
        lambda: infonce(torch.zeros(1, 4, 2), torch.zeros(1, 4, 3), torch.zeros(1, 8, 2)),  # another dimension
        lambda: infonce(torch.zeros(2, 4, 2), torch.zeros(2, 4, 2), torch.zeros(1, 8, 2)),  # another stack
        lambda: pseudo_inverse(torch.ones(3)),
        lambda: segment_bounds(np.zeros(4)),  # numbers of segments are integers
    ],
)
def test_other_shapes_are_refused(call):
    with pytest.raises(TypeError, match="Type-check error"):
        call()
