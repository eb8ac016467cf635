"""Which training examples built this representation? Example importance for encoders that have no labels.

After Crabbé & van der Schaar (2022), section 3. Methods of two kinds: by representations (nearest neighbours,
SimplEx), which a rotation of the representation does not change, and by the loss (influence functions, TracIn),
which it changes unless the rest of the model undoes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor, nn

from ..data.recording import Recording
from ..support.files import fill_file
from ..support.names import check_options, suggest
from .encoders import Encoder, Fitted, FittedEncoder, as_inputs, checked, evaluation_mode, find_device
from .example_gradients import ExampleLoss
from .example_influence import (
    conjugate_gradients,
    dense_solver,
    gauss_newton_influence,
    hessian_influence,
    largest_eigenvalue,
    lissa,
    tracin,
)
from .example_neighbours import kernel_scores, median_distance
from .example_simplex import simplex_weights
from .feature_importance import fitted_model, recording_for
from .memory_needs import check_examples, within_budget

__all__ = ["examples"]

TARGETS_AT_ONCE = 4096
"""Test examples that SimplEx is solved for together."""


@within_budget
def examples(
    encoder: nn.Module | Encoder | Fitted,
    train: Tensor | np.ndarray | Recording | pd.DataFrame,
    test: Tensor | np.ndarray | Recording | pd.DataFrame,
    *,
    method: str = "nearest_neighbours",
    out: str | Path | None = None,
    space: str | None = None,
    seed: int | None = None,
    batch_size: int = 256,
    **options: Any,
) -> xr.DataArray:
    """Which training examples built the representation of each test example, without labels.

    Parameters
    ----------
    encoder : nn.Module, or a fitted `ContrastiveEmbedding` for the first two methods
        It maps (example, ...) to (example, dim), and is taken in evaluation mode. A fitted model's budget of
        `memory` is kept to.
    train, test : (example, ...) tensors or arrays; recordings for a fitted model, an example being a time step
    method : str
        - "nearest_neighbours": kernel of the representations (kernel="inverse_distance", "rbf", "matern" or
          "polynomial"; neighbours=None, length_scale=None, nu=1.5, degree=2, offset=1.0).
        - "simplex": SimplEx, the weights of the training examples whose mixture is nearest; they are 0 for most,
          and the distance that remains is the coordinate `distance`.
        - "influence": how much the loss would rise without a training example (loss, views=None,
          curvature="gauss_newton" or "hessian", damping=None; for the Hessian solver="conjugate_gradients" with
          iterations=200 and tolerance=1e-6, "lissa" with recursions=1000, samples=None, scale=None and
          random_state=0, or "dense").
        - "tracin": how much its training steps lowered the loss (loss, views=None, checkpoints=None: a list of
          (learning rate, encoder, loss) during training; by default the encoder as it is, with rate 1).
        Of the last two only the encoder's parameters count. `loss` is what the rest of the model makes of a
        representation: a function or module of (z, x) that returns one loss for each example; `views` gives the
        inputs that the encoder sees of an example, if not the example itself.
    out : a .npy file to keep the scores in, for arrays larger than memory; it is there when all of it is done
    space, seed : of a fitted model, one space, one seed; by default all spaces, and the mean of the seeds
    batch_size : examples computed together. It does not change the result.

    Returns
    -------
    DataArray (test, train), float32; the higher, the more important. For recordings `test` and `train` have the
    coordinates `test_time` and `train_time`.

    Examples
    --------
    >>> encoder = torch.nn.Linear(3, 2)
    >>> train, test = torch.randn(10, 3), torch.randn(4, 3)
    >>> examples(encoder, train, test).dims
    ('test', 'train')
    >>> decoder = torch.nn.Linear(2, 3)
    >>> reconstruction = lambda z, x: (decoder(z) - x).square().mean(1)
    >>> examples(encoder, train, test, method="tracin", loss=reconstruction).shape
    (4, 10)
    """
    if method not in METHODS:
        raise ValueError(f"method={method!r} is unknown{suggest(method, METHODS)}")
    score = METHODS[method]
    check_options(method, score, options)
    fitted, times = fitted_model(encoder), {}
    if fitted is not None:
        if method in ("influence", "tracin"):
            raise ValueError(
                f"method={method!r} for a fitted ContrastiveEmbedding is explain.contrastive_examples."
            )
        recordings = {"train": recording_for(encoder, train), "test": recording_for(encoder, test)}
        times = {f"{name}_time": (name, r.time) for name, r in recordings.items()}
        check_examples(recordings["train"], recordings["test"], fitted, kept=out is not None, batch_size=batch_size)
        encoder = FittedEncoder(fitted, space, seed)
        train, test = (encoder.inputs(r, np.arange(len(r))) for r in recordings.values())
    elif space is not None or seed is not None:
        raise ValueError("space and seed are for a fitted ContrastiveEmbedding, not for a module.")
    device, dtype = find_device(encoder)
    given, asked = (as_inputs(x, name).to(device, dtype) for x, name in ((train, "train"), (test, "test")))
    if given.shape[1:] != asked.shape[1:]:
        raise ValueError(
            f"train and test have examples of shape {tuple(given.shape[1:])} and {tuple(asked.shape[1:])}."
        )
    shape = (len(asked), len(given))

    def fill(scores: np.ndarray) -> dict[str, Any]:
        scores[:] = 0
        with evaluation_mode(encoder), torch.no_grad():
            about = score(encoder, given, asked, scores, batch_size, **options)
        if not all(np.isfinite(scores[k : k + 1024]).all() for k in range(0, len(scores), 1024)):
            raise ValueError(
                f"{method} gave scores that are not finite: the loss or its gradient is not finite there."
            )
        return about

    if out is None:
        scores = np.zeros(shape, np.float32)
        about = fill(scores)
    else:
        scores, about = fill_file(out, shape, fill)
    coords = {"test": np.arange(len(asked)), "train": np.arange(len(given)), **times, **about.pop("coords", {})}
    return xr.DataArray(scores, coords, ("test", "train"), "score", {"method": method, **about})


def _nearest_neighbours(
    encoder: Any,
    train: Tensor,
    test: Tensor,
    scores: np.ndarray,
    batch_size: int,
    *,
    kernel: str = "inverse_distance",
    neighbours: int | None = None,
    length_scale: float | None = None,
    nu: float = 1.5,
    degree: int = 2,
    offset: float = 1.0,
) -> dict[str, Any]:
    given = _representations(encoder, train, batch_size)
    length = median_distance(given) if length_scale is None else length_scale
    options = {"kernel": kernel, "neighbours": neighbours, "nu": nu, "degree": degree, "offset": offset}
    for start in range(0, len(test), batch_size):
        z = checked(encoder, test[start : start + batch_size])
        scores[start : start + len(z)] = kernel_scores(z, given, length_scale=length, **options).cpu().numpy()
    return {"kernel": kernel}


def _simplex(encoder: Any, train: Tensor, test: Tensor, scores: np.ndarray, batch_size: int) -> dict[str, Any]:
    given, distances = _representations(encoder, train, batch_size), []
    asked = _representations(encoder, test, batch_size)
    for start in range(0, len(test), TARGETS_AT_ONCE):
        weights, distance = simplex_weights(asked[start : start + TARGETS_AT_ONCE], given)
        scores[start : start + len(weights)] = weights.cpu().numpy()
        distances.append(distance.cpu().numpy())
    return {"coords": {"distance": ("test", np.concatenate(distances))}}


def _influence(
    encoder: Any,
    train: Tensor,
    test: Tensor,
    scores: np.ndarray,
    batch_size: int,
    *,
    loss: Callable[..., Tensor] | None = None,
    views: Callable[[Tensor], Tensor] | None = None,
    curvature: str = "gauss_newton",
    damping: float | None = None,
    solver: str = "conjugate_gradients",
    iterations: int = 200,
    tolerance: float = 1e-6,
    recursions: int = 1000,
    samples: int | None = None,
    scale: float | None = None,
    random_state: int = 0,
) -> dict[str, Any]:
    objective = ExampleLoss(encoder, loss, views)  # type: ignore[arg-type]
    _check_encoder(objective, encoder, (train, test), batch_size)
    if curvature == "gauss_newton":
        used = gauss_newton_influence(objective, train, test, scores, batch_size, damping)
        return {"curvature": curvature, "damping": used}
    if curvature != "hessian" or solver not in ("conjugate_gradients", "lissa", "dense"):
        raise ValueError(
            f"curvature={curvature!r}, solver={solver!r}: expected 'gauss_newton', or 'hessian' with "
            "'conjugate_gradients', 'lissa' or 'dense'."
        )
    damping = 0.01 if damping is None else damping

    def solve(product: Callable[[Tensor], Tensor], vectors: Tensor) -> Tensor:
        if solver == "dense":
            return dense_solver(product, vectors)
        if solver == "conjugate_gradients":
            return conjugate_gradients(product, vectors, iterations=iterations, tolerance=tolerance)
        draws = np.random.default_rng(random_state)

        def estimate(k: int) -> Callable[[Tensor], Tensor]:
            if samples is None:
                return product
            some = train[torch.from_numpy(draws.choice(len(train), samples, replace=False)).to(train.device)]
            return lambda v: objective.hessian_product(some, v) / len(some) + damping * v

        # a few examples can have a larger Hessian than all of them
        size = scale or (1.1 if samples is None else 4.0) * largest_eigenvalue(product, vectors[:1])
        return lissa(estimate, vectors, recursions=recursions, scale=size)

    hessian_influence(objective, train, test, scores, batch_size, solve, damping)
    return {"curvature": curvature, "damping": damping, "solver": solver}


def _tracin(
    encoder: Any,
    train: Tensor,
    test: Tensor,
    scores: np.ndarray,
    batch_size: int,
    *,
    loss: Callable[..., Tensor] | None = None,
    views: Callable[[Tensor], Tensor] | None = None,
    checkpoints: Sequence[tuple[float, Any, Callable[..., Tensor]]] | None = None,
) -> dict[str, Any]:
    kept = [(1.0, encoder, loss)] if checkpoints is None else list(checkpoints)
    if not kept or any(len(one) != 3 for one in kept):
        raise ValueError("checkpoints: expected one or more (learning rate, encoder, loss).")
    moved = [(float(rate), ExampleLoss(module, own, views)) for rate, module, own in kept]  # type: ignore[arg-type]
    for (_, objective), (_, module, _) in zip(moved, kept, strict=True):
        _check_encoder(objective, module, (train, test), batch_size)
    tracin(moved, train, test, scores, batch_size)
    return {"checkpoints": len(kept)}


def _check_encoder(objective: ExampleLoss, encoder: Any, parts: Sequence[Tensor], batch_size: int) -> None:
    """Refuse an encoder whose representations are not finite, depend on each other, or have no gradient."""
    with evaluation_mode(encoder):
        for x in parts:
            for start in range(0, len(x), batch_size):
                own = x[start : start + batch_size]
                checked(encoder, own if objective.views is None else objective.views(own).flatten(0, 1))
    objective.check_gradient(parts[0][:1])


def _representations(encoder: Any, x: Tensor, batch_size: int) -> Tensor:
    return torch.cat([checked(encoder, x[k : k + batch_size]) for k in range(0, len(x), batch_size)])


METHODS: dict[str, Callable[..., dict[str, Any]]] = {
    "nearest_neighbours": _nearest_neighbours,
    "simplex": _simplex,
    "influence": _influence,
    "tracin": _tracin,
}
