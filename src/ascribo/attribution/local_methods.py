"""Local methods: a map at each time step, aggregated over time and averaged over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from ..data.recording import Recording
from ..data.segments import evenly
from ..spaces.base import dimension_names, layout, reported
from .aggregate import LocalScores
from .maps import AttributionMaps, Parts
from .method_inputs import EncodedRecording, Model, reasons_without_map, seed_weights
from .method_registry import Method, Options, register

__all__ = ["aggregated_maps", "local_method"]

BYTES_AT_ONCE = 2**27
"""Memory that the local maps of one chunk of time may take."""
FEWEST_STEPS_AT_ONCE, MOST_STEPS_AT_ONCE = 16, 4096
"""Time steps of such a chunk on a CPU."""
TIMES_MORE_ON_GPU = 8
"""A GPU should have more work at once."""
STEPS_EMBEDDED_AT_ONCE = {False: 2048, True: 65_536}
"""Time steps embedded together to see which have a map, on a CPU and on a GPU."""

LocalFunction = Callable[[EncodedRecording, Tensor], tuple[Tensor, Tensor]]
HasMap = Callable[[EncodedRecording, Tensor], Tensor]
Decorated = TypeVar("Decorated", bound=Callable)


def local_method(name: str, *, has_map: HasMap | None = None) -> Callable[[Decorated], Decorated]:
    """Register a function that makes maps at single time steps as an attribution method.

    The function takes an `EncodedRecording` and time steps (B,), a tensor. It returns maps (seed, B, channel,
    window, dim) in aligned coordinates, and booleans (seed, B), False where there is no map. The window has length
    1 if the encoder sees one time step.

    has_map : takes the same and returns booleans (B,), False where there is no map in any seed. The maps at those
        time steps are not computed.

    Examples
    --------
    >>> from ascribo.attribution import METHODS, local_method
    >>> from ascribo.attribution.jacobian import encoder_jacobian
    >>> @local_method("squared_gradient")
    ... def squared_gradient(recording, index):
    ...     jacobian = encoder_jacobian(recording.embedder, recording.parameters, recording.inputs(index))
    ...     maps = torch.einsum("skd,sbdcw->sbcwk", recording.alignment.inverse, jacobian).square()
    ...     return maps, torch.ones(maps.shape[:2], dtype=torch.bool, device=maps.device)
    >>> METHODS.pop("squared_gradient").takes == {"samples", "aggregate"}
    True
    """

    def decorate(function: Decorated) -> Decorated:
        maps = partial(_local_maps, name, function, has_map)
        register(Method(name, function, maps, frozenset({"samples", "aggregate"})))
        return function

    return decorate


def _local_maps(
    name: str,
    function: LocalFunction,
    has_map: HasMap | None,
    model: Model,
    recording: Recording,
    options: Options,
) -> AttributionMaps:
    """The maps of a local method."""
    encoded = EncodedRecording.of(model, recording, options.X)
    X, asked = encoded.X, np.arange(len(recording)) if options.index is None else options.index
    spaces = {space: where for space, where in layout(model.spaces).items() if space in reported(model.spaces)}
    numbers = model.seeds * X.shape[1] * model.embedder.window * model.embedder.dim
    # a local map is held about four times, partly in float64
    chunk = int(np.clip(BYTES_AT_ONCE // (32 * numbers), FEWEST_STEPS_AT_ONCE, MOST_STEPS_AT_ONCE))

    def only_at(chosen: np.ndarray) -> AttributionMaps:
        some = chosen[evenly(len(chosen), len(asked))]
        return _local_maps(name, function, has_map, model, recording, replace(options, index=some, X=None))

    scores = LocalScores(
        partial(function, encoded),
        spaces,
        seed_weights(model),
        len(model.channels),
        steps_at_once=chunk * (TIMES_MORE_ON_GPU if X.is_cuda else 1),
        device=X.device,
    )
    names = dimension_names(model.spaces)
    return aggregated_maps(
        scores,
        _with_a_map(encoded, has_map, asked),
        asked=len(asked),
        aggregate=options.aggregate,
        method=name,
        channels=list(model.channels),
        dimensions=[name for where in spaces.values() for name in names[where]],
        refused=reasons_without_map(model),
        time=recording.time,
        epochs=recording.epochs,
        only_at=only_at,
    )


def _with_a_map(encoded: EncodedRecording, has_map: HasMap | None, index: np.ndarray) -> np.ndarray:
    """Those of some time steps that have a map."""
    if has_map is None:
        return index
    parts = torch.from_numpy(index).to(encoded.X.device).split(STEPS_EMBEDDED_AT_ONCE[encoded.X.is_cuda])
    return index[torch.cat([has_map(encoded, part) for part in parts]).cpu().numpy()]


def aggregated_maps(
    scores: LocalScores,
    index: np.ndarray,
    *,
    asked: int,
    aggregate: str,
    method: str,
    channels: Sequence[str],
    dimensions: Sequence[str],
    refused: dict[str, str],
    time: np.ndarray,
    epochs: np.ndarray,
    only_at: Callable[[np.ndarray], AttributionMaps],
) -> AttributionMaps:
    """Local scores aggregated over time steps `index`, with their labels.

    asked : number of time steps that were asked for; `index` may leave out some that have no map.
    only_at : time steps (n,) -> the maps of these alone.
    """
    by_dimension, by_space, found = scores.aggregate(index, aggregate)
    owner = [space for space, where in scores.spaces.items() for _ in range(where.stop - where.start)]
    attrs = {"method": method, "aggregate": aggregate}
    return AttributionMaps(
        xr.DataArray(
            by_dimension,
            dims=("channel", "dimension"),
            coords={
                "channel": list(channels),
                "dimension": list(dimensions),
                "space": ("dimension", np.array(owner)),
            },
            name="by_dimension",
            attrs=attrs,
        ),
        xr.DataArray(
            by_space,
            dims=("channel", "space"),
            coords={"channel": list(channels), "space": list(scores.spaces)},
            name="by_space",
            attrs=attrs,
        ),
        method,
        refused,
        float(1 - found / max(1, asked * len(scores.weight))),
        parts=Parts(time, epochs, scores.over_time, only_at),
    )
