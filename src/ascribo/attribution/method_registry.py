"""Attribution methods by name. A method is one function that is registered with a decorator.

There are two kinds. A *local* method makes a map at each time step, and the maps are averaged over time
(`local_method`, in `ascribo.attribution.local_methods`). A method of the *whole recording* makes its maps itself
(`recording_method`, here). Whatever is registered can be asked for as `model.attribute(X, method=name)`, and on the
command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from torch import Tensor

from ..data.recording import Recording
from ..data.standardised_channels import StandardisedChannels
from .maps import AttributionMaps
from .method_inputs import Model

__all__ = ["METHODS", "SAMPLES", "Method", "Options", "attribute", "check_options", "recording_method", "register"]

SAMPLES = 20_000
"""Time steps that local maps are aggregated over, unless others are asked for."""
AGGREGATES = ("mean", "median", "maximum")
LOSSES = ("squared", "poisson")


@dataclass(frozen=True)
class Options:
    """How a map is wanted. A method uses what it takes (`Method.takes`), and what is said of it below.

    index : (n,) time steps to aggregate over, None for all; for methods that take "samples".
    aggregate : "mean", "median" or "maximum" over time. loss : "squared", or "poisson" for counts.
    until_flat : networks that are fitted for the map may stop when they have stopped learning. n_jobs : processes
    to fit them in, on a CPU; None: as many as are worth it.
    progress : whether to show a progress bar for what takes long.
    X : (time, channel), the standardised channels, where they are at hand; only local methods use it.
    """

    index: np.ndarray | None = None
    aggregate: str = "mean"
    loss: str = "squared"
    until_flat: bool = False
    n_jobs: int | None = 1
    progress: bool = False
    X: Tensor | StandardisedChannels | None = None


Maps = Callable[[Model, Recording, Options], AttributionMaps]
Function = TypeVar("Function", bound=Callable)


@dataclass(frozen=True)
class Method:
    """A registered method.

    function : what was registered. maps : makes the maps of a model and a recording with it.
    takes : which of "samples", "aggregate" and "loss" it uses; the others are refused.
    tested : whether its maps have a test of which channels carry which space, `AttributionMaps.calls`.
    """

    name: str
    function: Callable
    maps: Maps
    takes: frozenset[str] = frozenset()
    tested: bool = False

    @property
    def place(self) -> str:
        """Where the function is defined."""
        return f"{self.function.__module__}.{self.function.__qualname__}"


METHODS: dict[str, Method] = {}
"""What `attribute(method=...)` accepts, the default first: the methods of the package and those of users."""


def register(method: Method) -> None:
    """Add a method. A name is taken once; the same function may be defined again, as happens in a notebook."""
    old = METHODS.get(method.name, method)
    if old.place != method.place:
        raise ValueError(f"there is an attribution method {method.name!r} already, {old.place}: use another name.")
    METHODS[method.name] = method


def recording_method(
    name: str, *, takes: Iterable[str] = (), tested: bool = False
) -> Callable[[Function], Function]:
    """Register a function (model, recording, options) -> AttributionMaps as an attribution method.

    takes : which of "samples" (they come as `options.index`), "aggregate" and "loss" the function uses.
    tested : whether its maps have `blocks`, which `AttributionMaps.calls` tests.

    >>> import xarray as xr
    >>> import ascribo as asc
    >>> @asc.attribution.recording_method("variance_example")
    ... def variance(model, recording, options):
    ...     scores = np.repeat(recording.X.var(0)[:, None], len(model.spaces), 1)
    ...     labels = {"channel": recording.channel_names, "space": list(model.spaces)}
    ...     return AttributionMaps(None, xr.DataArray(scores, labels, ("channel", "space")), "variance_example")
    >>> "variance_example" in asc.attribution.METHODS  # and model.attribute(data, method="variance_example")
    True
    >>> del asc.attribution.METHODS["variance_example"]
    """

    def decorate(function: Function) -> Function:
        register(Method(name, function, function, frozenset(takes), tested))
        return function

    return decorate


def check_options(
    method: str, samples: int | str | None = None, aggregate: str = "mean", loss: str = "squared"
) -> Method:
    """The method of that name, if it takes these options; otherwise an error that says what to do.

    samples : number of time steps, "all", or None if none was asked for.
    """
    if method not in METHODS:
        raise ValueError(f"method={method!r}: expected one of {list(METHODS)}.")
    chosen = METHODS[method]
    if samples not in (None, "all") and (not isinstance(samples, int | np.integer) or samples < 1):
        raise ValueError(f"samples={samples!r}: expected an integer of at least 1, or 'all'.")
    if aggregate not in AGGREGATES:
        raise ValueError(f"aggregate={aggregate!r}: expected 'mean', 'median' or 'maximum'.")
    if loss not in LOSSES:
        raise ValueError(f"loss={loss!r}: expected 'squared' or 'poisson'.")
    if samples is not None and "samples" not in chosen.takes:
        raise ValueError(
            f"samples={samples!r}: {method} chooses its time steps itself, and takes all that it can use. Leave "
            "samples out, or pass a part of the recording."
        )
    if aggregate != "mean" and "aggregate" not in chosen.takes:
        raise ValueError(f"aggregate={aggregate!r}: the scores of {method} are means over time. Leave it out.")
    if loss != "squared" and "loss" not in chosen.takes:
        able = [name for name, other in METHODS.items() if "loss" in other.takes]
        raise ValueError(f"loss={loss!r} is for method={' or '.join(map(repr, able))}: {method} predicts nothing.")
    return chosen


def attribute(
    model: Model,
    recording: Recording,
    method: str,
    index: np.ndarray | None = None,
    *,
    aggregate: str = "mean",
    loss: str = "squared",
    until_flat: bool = False,
    n_jobs: int | None = 1,
    progress: bool = False,
    X: Tensor | StandardisedChannels | None = None,
) -> AttributionMaps:
    """Maps of a recording by one method; spaces that collapsed in all seeds are refused.

    Parameters
    ----------
    index : (n,) time steps to aggregate over, None for all; for methods that take "samples".
    aggregate, loss, until_flat, n_jobs, progress, X : see `Options`.

    Examples
    --------
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=1, hidden=1, channels=(3, 3), steps=400)
    >>> small = dict(seeds=1, steps=100, batch_size=64, random_state=0)
    >>> model = asc.ContrastiveEmbedding({"position": asc.Follow("x", dim=1)}, **small).fit(data)
    >>> maps = asc.attribution.attribute(model.model_, data, "neuron_gradient", np.arange(0, 400, 4))
    >>> maps.method, maps.by_space.shape
    ('neuron_gradient', (6, 1))
    """
    chosen = check_options(method, None if index is None else len(index), aggregate, loss)
    return chosen.maps(model, recording, Options(index, aggregate, loss, until_flat, n_jobs, progress, X))
