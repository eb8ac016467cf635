"""Are explanations right? What Crabbé & van der Schaar (2022) measure: masks, labels of top examples, agreement.

All take scores as `features` and `examples` give them; none needs to know how they were made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from numpy.typing import ArrayLike
from torch import Tensor

from ..support.array_shapes import Array, Num, shaped
from .encoders import Encoder, Values, as_inputs, evaluation_mode, find_device, represent

__all__ = [
    "latent_shift",
    "map_correlation",
    "mask_features",
    "similarity_rates",
    "unit_correlation",
    "unit_entropy",
]


def mask_features(X: Any, scores: Values, size: int, baseline: float | Values = 0.0) -> Any:
    """The examples with their `size` highest-scoring features replaced by the baseline, in the kind of X.

    scores : in the shape of X (example, ...). baseline : number, one example (...), or one for each (example, ...).
    Each example has its own mask, and keeps its place.

    >>> mask_features(np.array([[1.0, 2.0, 3.0]]), np.array([[5.0, 0.0, 9.0]]), 2)
    array([[0., 2., 0.]])
    """
    x = torch.as_tensor(X)
    if np.shape(scores) != tuple(x.shape):
        raise ValueError(f"scores have shape {tuple(np.shape(scores))}: expected that of X, {tuple(x.shape)}.")
    if not 0 <= size <= x[0].numel():
        raise ValueError(f"size={size!r}: an example has {x[0].numel()} features.")
    flat = torch.as_tensor(scores).to(x.device).flatten(1)
    gone = torch.zeros_like(flat, dtype=torch.bool)
    gone.scatter_(1, flat.topk(size, 1).indices, True)
    masked = torch.where(gone.view(x.shape), torch.as_tensor(baseline).to(x), x)
    return masked.numpy() if isinstance(X, np.ndarray) else masked


@shaped
def latent_shift(
    encoder: Encoder,
    X: Num[Tensor, "example ..."] | Num[Array, "example ..."],
    scores: Values,
    sizes: Sequence[int],
    *,
    baseline: float | Values = 0.0,
    batch_size: int = 1024,
) -> xr.DataArray:
    """How far the representation moves when an example's most important features are masked.

    ‖f(x) - f(x with the features replaced by the baseline)‖ for each number of features in `sizes`: DataArray
    (example, size). The larger for few features, the better the scores.

    >>> X, scores = np.ones((2, 3), np.float32), np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]])
    >>> first = torch.nn.Linear(3, 1, bias=False)
    >>> _ = torch.nn.init.constant_(first.weight, 2.0)
    >>> latent_shift(first, X, scores, sizes=[1, 3]).values.tolist()
    [[2.0, 6.0], [2.0, 6.0]]
    """
    device, dtype = find_device(encoder)
    x = as_inputs(X).to(device, dtype)
    base = torch.as_tensor(baseline).to(x).expand_as(x)
    ranked = torch.as_tensor(scores).to(x)
    shifts = np.zeros((len(x), len(sizes)), np.float32)
    with evaluation_mode(encoder), torch.no_grad():
        for start in range(0, len(x), batch_size):
            own = slice(start, start + batch_size)
            z = represent(encoder, x[own])
            for k, size in enumerate(sizes):
                masked = represent(encoder, mask_features(x[own], ranked[own], size, base[own]))
                shifts[own, k] = (masked - z).norm(dim=1).cpu().numpy()
    return xr.DataArray(shifts, {"size": list(sizes)}, ("example", "size"), "shift")


def similarity_rates(
    scores: ArrayLike | xr.DataArray, train_labels: ArrayLike, test_labels: ArrayLike, sizes: Sequence[int]
) -> xr.DataArray:
    """How often the most and the least important training examples have the label of the test example.

    scores : (test, train). Returns DataArray (end, size, test), end "top" or "bottom". Where examples at the edge
    have the same score, as most of SimplEx's have, the rate is the expected one if ties are broken at random.

    >>> similarity_rates(np.array([[3.0, 2.0, 1.0]]), [7, 7, 4], [7], [1, 2]).values.tolist()
    [[[1.0], [1.0]], [[0.0], [0.5]]]
    """
    values, same = np.asarray(scores), np.asarray(train_labels)[None] == np.asarray(test_labels)[:, None]
    if values.shape != same.shape:
        raise ValueError(f"scores have shape {values.shape}: expected (test, train) as the labels, {same.shape}.")
    rates = np.zeros((2, len(sizes), len(values)))
    for end, signed in enumerate((values, -values)):
        order = np.sort(signed, 1)[:, ::-1]
        for k, size in enumerate(sizes):
            edge = order[:, size - 1 : size]
            above, tied = signed > edge, signed == edge
            left = size - above.sum(1)
            rates[end, k] = ((above & same).sum(1) + left * (tied & same).sum(1) / tied.sum(1)) / size
    coords = {"end": ["top", "bottom"], "size": list(sizes)}
    return xr.DataArray(rates, coords, ("end", "size", "test"), "rate")


def map_correlation(first: Values, second: Values, *, kind: str = "pearson") -> float:
    """Correlation of two encoders' scores of the same examples, over all examples and features.

    kind : "pearson" or "spearman". Tensors are compared where they are, on a GPU for instance.

    >>> round(map_correlation([[1.0, 2.0, 4.0]], [[2.0, 3.0, 9.0]], kind="spearman"), 3)
    1.0
    """
    a, b = (_tensor(scores).flatten() for scores in (first, second))
    if a.shape != b.shape:
        raise ValueError(
            f"the scores have {a.numel()} and {b.numel()} entries: expected the same examples and features."
        )
    if kind not in ("pearson", "spearman"):
        raise ValueError(f"kind={kind!r}: expected 'pearson' or 'spearman'.")
    rows = torch.stack([a, b.to(a.device)] if kind == "pearson" else [_ranks(a), _ranks(b).to(a.device)])
    return float(torch.corrcoef(rows)[0, 1])


def unit_correlation(scores: Values) -> float:
    """Mean Pearson correlation between the maps of different units: scores (example, unit, ...).

    >>> unit_correlation(np.array([[[1.0, 2.0], [2.0, 4.0]]])) > 0.999
    True
    """
    rows = _tensor(scores).transpose(0, 1).flatten(1)
    rows = rows[rows.amax(1) > rows.amin(1)]  # a unit without a map has no correlation with any
    if len(rows) < 2:
        return float("nan")
    matrix = torch.corrcoef(rows)
    return float(matrix[~torch.eye(len(rows), dtype=torch.bool, device=rows.device)].mean())


def unit_entropy(scores: Values) -> float:
    """Over how many units the saliency of a feature is spread, in nats: 0 for one, the log of their number for all.

    scores : (example, unit, ...). The mean over the features that at least one unit is sensitive to of the entropy
    of their absolute scores as shares (Crabbé & van der Schaar 2022, appendix C.3).

    >>> round(unit_entropy(np.array([[[1.0, 0.0, 2.0], [1.0, 0.0, 0.0]]])), 4)  # ln 2 and 0; the second is left out
    0.3466
    """
    sizes = _tensor(scores).abs().flatten(2)
    total = sizes.sum(1)
    share = sizes / total[:, None].clamp_min(1e-300)
    entropy = -torch.special.xlogy(share, share).sum(1)
    return float(entropy[total > 0].mean())


def _tensor(scores: Values) -> Tensor:
    """Scores in double precision, where they are."""
    return torch.as_tensor(scores if isinstance(scores, Tensor) else np.asarray(scores)).detach().double()


def _ranks(values: Tensor) -> Tensor:
    """Ranks from 1, the same for equal values: their mean."""
    _, place, count = values.unique(return_inverse=True, return_counts=True)
    return (count.cumsum(0) - (count - 1) / 2)[place]
