"""Annotated shapes are checked while the tests run, and cost nothing otherwise."""

import numpy as np
import pytest
import torch
from torch import nn

from ascribo.attribution.jacobian import pseudo_inverse
from ascribo.data.segments import segment_bounds
from ascribo.explain import completeness_residual, latent_shift, simplex_weights
from ascribo.metrics import linear_r2
from ascribo.networks.infonce_loss import infonce
from ascribo.simulate import to_grid

pytest.importorskip("jaxtyping", reason="shapes are checked with jaxtyping, which is not installed")
pytest.importorskip("beartype", reason="shapes are checked with beartype, which is not installed")


@pytest.mark.parametrize(
    "call",
    [
        lambda: infonce(torch.zeros(1, 4, 2), torch.zeros(1, 4, 3), torch.zeros(1, 8, 2)),  # another dimension
        lambda: infonce(torch.zeros(2, 4, 2), torch.zeros(2, 4, 2), torch.zeros(1, 8, 2)),  # another stack
        lambda: pseudo_inverse(torch.ones(3)),
        lambda: segment_bounds(np.zeros(4)),  # numbers of segments are integers
        lambda: to_grid(torch.zeros(3, 4)),  # a sprite has five factors
        lambda: simplex_weights(torch.zeros(3, 2), torch.zeros(4, 3)),
        lambda: latent_shift(nn.Linear(3, 1), [[1.0, 2.0, 3.0]], np.ones((1, 3)), [1]),
        lambda: completeness_residual(nn.Linear(3, 1), [[1.0, 2.0, 3.0]], np.ones((1, 3))),
        lambda: linear_r2(np.zeros((5, 2)), np.zeros((4, 2))),
    ],
)
def test_other_shapes_are_refused(call):
    with pytest.raises(TypeError, match="Type-check error"):
        call()
