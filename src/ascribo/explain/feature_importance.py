"""Which features built this representation? Feature importance for encoders that have no labels.

A representation has no output that one could choose to explain. Crabbé & van der Schaar (2022), definition 2.1,
explain instead how much of the representation f(x) a changed input x̃ keeps, g_x(x̃) = ⟨f(x), f(x̃)⟩, with any
method that is linear in the model. The scores of a complete method add up to ‖f(x)‖² - g_x(x̄), and they do not
change when the representation is rotated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import ArrayLike
from torch import Tensor, nn

from ..data.recording import Recording
from ..model.fitted import FittedModel
from ..model.input_checks import check_same_channels
from ..support.array_shapes import Array, Float, Num, shaped
from ..support.names import check_options, suggest
from . import feature_methods as own
from .encoders import (
    Encoder,
    Fitted,
    FittedEncoder,
    Values,
    as_inputs,
    checked,
    evaluation_mode,
    find_device,
    represent,
)
from .feature_captum import captum_scores, is_captum
from .feature_deeplift import deeplift
from .memory_needs import check_features, within_budget

__all__ = ["completeness_residual", "features", "fitted_model", "recording_for"]

METHODS: dict[str, Callable[..., Tensor]] = {**own.METHODS, "deeplift": deeplift}
Baseline = float | Values | Callable[[Tensor], Tensor] | None
Weights = Values | Callable[[Tensor], Tensor] | None
Unit = int | Sequence[int] | Literal["all"] | None
COMPLETE = ("integrated_gradients", "gradient_shap", "deeplift")
"""Methods whose scores add up to g(x) - g(x̄)."""


@overload
def features(
    encoder: Fitted,
    X: Recording | pd.DataFrame | np.ndarray,
    *,
    method: str | type = ...,
    baseline: Baseline = ...,
    weights: Weights = ...,
    unit: Unit = ...,
    inner_product: Values | None = ...,
    space: str | None = ...,
    seed: int | None = ...,
    index: ArrayLike | None = ...,
    batch_size: int = ...,
    **options: Any,
) -> xr.DataArray:
    """Of a fitted model: labelled scores of channels at time steps, (time[, unit], channel[, lag])."""
    ...


@overload
def features(
    encoder: Encoder,
    X: Tensor,
    *,
    method: str | type = ...,
    baseline: Baseline = ...,
    weights: Weights = ...,
    unit: Unit = ...,
    inner_product: Values | None = ...,
    space: str | None = ...,
    seed: int | None = ...,
    index: ArrayLike | None = ...,
    batch_size: int = ...,
    **options: Any,
) -> Tensor:
    """Of a tensor: scores as a tensor where the encoder is, (example[, unit], ...)."""
    ...


@overload
def features(
    encoder: Encoder,
    X: np.ndarray,
    *,
    method: str | type = ...,
    baseline: Baseline = ...,
    weights: Weights = ...,
    unit: Unit = ...,
    inner_product: Values | None = ...,
    space: str | None = ...,
    seed: int | None = ...,
    index: ArrayLike | None = ...,
    batch_size: int = ...,
    **options: Any,
) -> np.ndarray:
    """Of an array: scores as an array, (example[, unit], ...)."""
    ...


@within_budget
def features(
    encoder: Encoder | Fitted,
    X: Tensor | np.ndarray | Recording | pd.DataFrame,
    *,
    method: str | type = "integrated_gradients",
    baseline: Baseline = None,
    weights: Weights = None,
    unit: Unit = None,
    inner_product: Values | None = None,
    space: str | None = None,
    seed: int | None = None,
    index: ArrayLike | None = None,
    batch_size: int = 256,
    **options: Any,
):
    """Which features of each example built its representation, without labels.

    Parameters
    ----------
    encoder : nn.Module, function of a tensor, or a fitted `ContrastiveEmbedding`
        It maps (example, ...) to (example, dim), each example by itself. A module is explained in evaluation mode,
        and left in the mode it was in. A fitted model's budget of `memory` is kept to.
    X : (example, ...) tensor or array; for a fitted model a `Recording` or (time, channel)
    method : str or a captum class
        "integrated_gradients" (points=50, tolerance=0.01: more points where scores would miss their sum by more
        than 1%), "gradient_shap" (samples=50, noise=0.0, random_state=0), "saliency" (the gradient, with its sign),
        "deeplift" or "feature_ablation" (groups=None); or an attribution class of captum that is linear in the
        model, with the arguments of its `attribute`.
    baseline : None, number, array or function
        What a feature that carries nothing looks like: a number, one example (...), one for each (example, ...), or
        a function of the batch, such as a blur. None: 0; for a fitted model the mean of the channels, and any other
        in the channels' units.
    weights : (dim,), (example, dim) or function, optional
        Explain ⟨weights, f(x̃)⟩ instead of ⟨f(x), f(x̃)⟩. A function is called with f(x): for a classifier that
        returns logits, `weights=nn.Softmax(-1)` is the class-weighted score of the paper's section 2.1 (for one
        that returns probabilities it is the default).
    unit : int, sequence of int, or "all", optional
        Explain single units of the representation instead.
    inner_product : (dim, dim) symmetric positive definite, optional
        ⟨a, b⟩ = aᵀMb instead of aᵀb.
    space, seed : of a fitted model, explain one space, one seed; by default all spaces, and the mean of the seeds.
    index : time steps of the recording to explain; all by default.
    batch_size : examples explained together. It does not change the result.

    Returns
    -------
    Scores in the shape and kind of X, (example, ...); with several units (example, unit, ...). For a fitted model a
    DataArray (time, channel), or (time, channel, lag) for an encoder that sees a window: which channels and which
    moments built this time step's embedding.

    Examples
    --------
    >>> import torch
    >>> encoder, x = torch.nn.Linear(3, 2), torch.randn(5, 3)
    >>> scores = features(encoder, x, method="integrated_gradients")
    >>> z, z0 = encoder(x), encoder(torch.zeros(5, 3))
    >>> bool(torch.allclose(scores.sum(1), (z * (z - z0)).sum(1), atol=1e-5))
    True
    """
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size={batch_size!r}: expected a whole number of at least 1.")
    score = _method(method, options)
    fitted = fitted_model(encoder)
    if fitted is None:
        for name, value in (("space", space), ("seed", seed), ("index", index)):
            if value is not None:
                raise ValueError(f"{name}={value!r} is for a fitted ContrastiveEmbedding, not for a module.")
        inputs = as_inputs(X)
        values = _scores(encoder, inputs, score, baseline, weights, unit, inner_product, batch_size)
        return values.cpu().numpy() if isinstance(X, np.ndarray) else values.to(inputs.device)
    recording = recording_for(encoder, X)
    module = FittedEncoder(fitted, space, seed)
    chosen = np.arange(len(recording)) if index is None else np.asarray(index)
    several = 1 if unit is None or isinstance(unit, int | np.integer) else fitted.embedder.dim
    check_features(recording, fitted, steps=len(chosen), questions=several, batch_size=batch_size)
    inputs = module.inputs(recording, chosen)
    base = _standard_baseline(fitted, inputs, baseline)
    values = _scores(module, inputs, score, base, weights, unit, inner_product, batch_size)
    return _labelled(values, module, recording, chosen, unit, method)


@shaped
def completeness_residual(
    encoder: Encoder,
    X: Num[Tensor, "example ..."] | Num[Array, "example ..."],
    scores: Values,
    *,
    baseline: Baseline = None,
    inner_product: Values | None = None,
) -> Float[Array, " example"]:
    """How far label-free scores are from adding up to ‖f(x)‖² - ⟨f(x), f(x̄)⟩, as a share of ‖f(x)‖².

    For scores of a complete method ("integrated_gradients", "gradient_shap", "deeplift") of one encoder and the
    same baseline. Returns (example,), 0 for complete scores (Crabbé & van der Schaar 2022, proposition 2.3).

    >>> encoder, x = torch.nn.Linear(3, 2), torch.randn(5, 3)
    >>> bool((completeness_residual(encoder, x, features(encoder, x)) < 1e-4).all())
    True
    """
    x = _moved(encoder, as_inputs(X))
    with evaluation_mode(encoder), torch.no_grad():
        z = represent(encoder, x)
        z_base = represent(encoder, _baseline(baseline, x))
    anchors = _label_free(z, inner_product)
    wanted = (anchors * (z - z_base)).sum(1)
    total = torch.as_tensor(scores).to(z).flatten(1).sum(1)
    return ((total - wanted).abs() / (anchors * z).sum(1)).cpu().numpy()


def _scores(
    encoder: Any,
    X: Tensor,
    score: Callable[..., Tensor],
    baseline: Any,
    weights: Any,
    unit: Any,
    inner_product: Any,
    batch_size: int,
) -> Tensor:
    """Scores of all examples, chunk by chunk: (example, ...), or (example, unit, ...) for several units."""
    several = unit is not None and not isinstance(unit, int | np.integer)
    parts = []
    given = baseline if callable(baseline) else _baseline(baseline, X)
    with evaluation_mode(encoder):
        for start in range(0, len(X), batch_size):
            own_part = slice(start, start + batch_size)
            x = _moved(encoder, X[own_part])
            base = _baseline(given, x) if callable(given) else given[own_part].to(x)
            z = checked(encoder, x)
            anchors = _anchors(z, weights, unit, inner_product, own_part, len(X))
            part = score(encoder, x, base, anchors).detach()
            if not bool(part.isfinite().all()):
                raise ValueError(
                    "the scores are not finite: the encoder's gradient is infinite or undefined there."
                )
            parts.append(part if several else part[:, 0])
    return torch.cat(parts)


def _anchors(z: Tensor, weights: Any, unit: Any, inner_product: Any, chunk: slice, examples: int) -> Tensor:
    """What g asks about each example: (batch, question, dim)."""
    if sum(option is not None for option in (weights, unit, inner_product)) > 1:
        raise ValueError("pass one of weights, unit and inner_product: they say in three ways what is explained.")
    if unit is not None:
        units = range(z.shape[1]) if isinstance(unit, str) and unit == "all" else np.atleast_1d(unit)
        wrong = [u for u in units if not isinstance(u, int | np.integer) or not 0 <= u < z.shape[1]]
        if wrong:
            raise ValueError(f"unit={unit!r}: expected numbers from 0 to {z.shape[1] - 1}, or 'all'.")
        return torch.eye(z.shape[1]).to(z)[[int(u) for u in units]].expand(len(z), -1, -1)
    if weights is not None:
        values: Any = weights(z) if callable(weights) else torch.as_tensor(weights).to(z)
        if not callable(weights) and values.shape == (examples, z.shape[1]):
            values = values[chunk]
        if values.shape not in (z.shape, z.shape[1:]):
            raise ValueError(
                f"weights have shape {tuple(values.shape)}: expected ({z.shape[1]},) or "
                f"({examples}, {z.shape[1]}), one for each unit."
            )
        return values.detach().expand_as(z)[:, None]
    return _label_free(z, inner_product)[:, None]


def _label_free(z: Tensor, inner_product: Any) -> Tensor:
    """f(x), or M f(x) for another inner product: (batch, dim)."""
    if inner_product is None:
        return z
    matrix = torch.as_tensor(inner_product).to(z)
    if matrix.shape != (z.shape[1], z.shape[1]):
        raise ValueError(f"inner_product has shape {tuple(matrix.shape)}: expected ({z.shape[1]}, {z.shape[1]}).")
    symmetric = torch.allclose(matrix, matrix.mT, rtol=1e-4, atol=1e-6)
    if not symmetric or int(torch.linalg.cholesky_ex(matrix.double()).info):
        raise ValueError("inner_product is not symmetric and positive definite, so it is none.")
    return z @ matrix


def _baseline(baseline: Any, x: Tensor) -> Tensor:
    """Baselines of a batch, in its shape."""
    if baseline is None:
        return torch.zeros_like(x)
    value = torch.as_tensor(baseline(x) if callable(baseline) else baseline).detach().to(x)
    if value.ndim and value.shape not in (x.shape, x.shape[1:]):
        raise ValueError(
            f"baseline has shape {tuple(value.shape)}: expected a number, one example {tuple(x.shape[1:])}, or one "
            f"for each, {tuple(x.shape)}."
        )
    return value.expand_as(x)


def _standard_baseline(model: FittedModel, inputs: Tensor, baseline: Any) -> Any:
    """A baseline in the channels' units, standardised as the inputs are."""
    if baseline is None or callable(baseline):
        return baseline
    value = np.asarray(baseline, dtype=np.float64)
    if value.shape not in ((), model.mean.shape):
        raise ValueError(
            f"baseline has shape {value.shape}: expected a number or one for each of {len(model.mean)} channels."
        )
    standard = torch.from_numpy((value - model.mean) / model.scale).to(inputs)
    return standard if inputs.ndim == 2 else standard[:, None].expand(inputs.shape[1:])


def _moved(encoder: Encoder, x: Tensor) -> Tensor:
    """Inputs where the encoder is, in its number format."""
    device, dtype = find_device(encoder)
    return x.to(device=device, dtype=dtype)


def _method(method: Any, options: dict[str, Any]) -> Callable[..., Tensor]:
    """The scores of a method as a function of encoder, inputs, baselines and anchors."""
    if is_captum(method):
        return captum_scores(method, options)
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method={method!r} is unknown{suggest(method, METHODS)} A captum class is taken, too.")
    function = METHODS[method]
    check_options(method, function, options)
    return lambda f, x, base, anchors: function(f, x, base, anchors, **options)


def fitted_model(encoder: Any) -> FittedModel | None:
    """The fitted model behind an estimator; None for anything else."""
    if isinstance(encoder, FittedModel):
        return encoder
    if not isinstance(encoder, nn.Module) and isinstance(getattr(encoder, "model_", None), FittedModel):
        return encoder.model_
    if not callable(encoder) and not hasattr(encoder, "fit"):
        raise ValueError(f"the encoder is a {type(encoder).__name__}: expected an nn.Module or a function.")
    if not callable(encoder):
        raise ValueError(
            f"a {type(encoder).__name__} that is not fitted, or that has several sessions, has no one encoder: fit "
            "a ContrastiveEmbedding, or pass one session's model."
        )
    return None


def recording_for(encoder: Any, X: Any, y: Any = None) -> Recording:
    """What is explained, as a recording of the channels the model was fitted to."""
    if not isinstance(encoder, FittedModel):
        return check_same_channels(encoder, X, y)
    return X if isinstance(X, Recording) else Recording(X, y)


def _labelled(
    values: Tensor, module: FittedEncoder, recording: Recording, index: np.ndarray, unit: Any, method: Any
) -> xr.DataArray:
    """Scores with the names of channels, times, and lags of the window."""
    dims, coords = ["time"], {"time": recording.time[index]}
    if unit is not None and not isinstance(unit, int | np.integer):
        dims, units = [*dims, "unit"], np.arange(values.shape[1]) if isinstance(unit, str) else np.asarray(unit)
        coords["unit"] = units
    dims, coords = [*dims, "channel"], {**coords, "channel": list(module.model.channels)}
    if values.ndim > len(dims):
        dims, coords = [*dims, "lag"], {**coords, "lag": module.lags}
    name = method if isinstance(method, str) else method.__name__
    return xr.DataArray(values.cpu().numpy(), coords, dims, "score", {"method": name})
