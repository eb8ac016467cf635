"""Everything that can be wrong with a model and its data, found before training starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.containers import as_recording
from ..data.preprocessing import Treatment
from ..data.recording import Recording
from ..spaces.base import Space, check_values, reported
from ..spaces.kinds.follow import Follow
from ..spaces.kinds.time import Time
from ..support.memory import parse_memory
from ..support.names import plural, suggest
from ..training.penalty_weight import as_schedule

__all__ = [
    "all_text",
    "check_dimensions",
    "check_length",
    "check_parameters",
    "check_recording",
    "check_same_channels",
    "check_treatment",
    "check_variables",
    "default_spaces",
    "resolve_spaces",
]


def check_parameters(model: Any) -> None:
    """Check the parameters of an estimator on their own, without data."""
    for name, least in {"seeds": 1, "steps": 1, "batch_size": 2}.items():
        value = getattr(model, name)
        if isinstance(value, str) and value == "auto" and name != "batch_size":
            continue
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            or_auto = "" if name == "batch_size" else ", or 'auto'"
            raise ValueError(f"{name}={value!r}: expected an integer of at least {least}{or_auto}.")
    jobs = getattr(model, "n_jobs", None)  # a model of several sessions has none: it trains in one process
    if jobs is not None and (not isinstance(jobs, Integral) or jobs == 0):
        raise ValueError(f"n_jobs={jobs!r}: expected a number of processes, -1 for all cores, or None.")
    if parse_memory(getattr(model, "memory", None)) is not None and jobs not in (None, 1):
        raise ValueError(
            f"memory={model.memory!r} with n_jobs={jobs!r}: every process takes memory of its own. Use n_jobs=1."
        )
    if model.hybrid not in ("whole", "separate"):
        raise ValueError(f"hybrid={model.hybrid!r}: expected 'whole' or 'separate'.")
    if not _number(model.learning_rate) or not 0 < model.learning_rate < 1:
        raise ValueError(f"learning_rate={model.learning_rate!r}: expected a number between 0 and 1.")
    fraction = model.validation_fraction
    if not _number(fraction) or not 0 <= fraction <= 0.5:
        raise ValueError(f"validation_fraction={fraction!r}: expected a number from 0 to 0.5.")
    if model.early_stop is not None and not (_number(model.early_stop) and model.early_stop > 0):
        raise ValueError(f"early_stop={model.early_stop!r}: expected a positive number, or None.")
    as_schedule(model.penalty)


def _number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def resolve_spaces(spaces: Any, recording: Recording) -> dict[str, Space]:
    """The spaces of a model: those given, checked against the recording's variables, or the default ones.

    >>> list(resolve_spaces(None, Recording(np.eye(3), {"x": [1.0, 2.0, 3.0]})))
    ['variables', 'rest']
    """
    variables = recording.variables
    if spaces is None:
        spaces = default_spaces(list(variables), recording.X.shape[1] - len(recording.constant_channels()))
    if not isinstance(spaces, Mapping) or not spaces:
        raise ValueError(f"spaces={spaces!r}: expected a dict such as {{'rest': ascribo.Time(dim=3)}}.")
    for name, space in spaces.items():
        if not isinstance(name, str) or not isinstance(space, Space):
            raise ValueError(
                f"spaces[{name!r}]={space!r}: expected a name and one of Follow, Time, Discrete, Regress."
            )
    check_variables(spaces, recording)
    if not reported(spaces):
        raise ValueError(
            f"all spaces ({', '.join(spaces)}) are nuisances: nothing would be reported. Set nuisance only for "
            "what you do not ask about."
        )
    return dict(spaces)


def check_variables(spaces: Mapping[str, Space], recording: Recording) -> None:
    """Refuse variables that a recording does not have, or that a space can learn nothing from."""
    for name, space in spaces.items():
        for variable in space.variables:
            _check_variable(name, space, variable, recording.variables)


def default_spaces(variables: Sequence[str], channels: int) -> dict[str, Space]:
    """A space "variables" that follows all variables, a dimension each, and a `Time` space "rest" of three.

    Both have fewer dimensions where there are not enough channels for them.

    >>> {name: space.dim for name, space in default_spaces(["x", "y"], channels=20).items()}
    {'variables': 2, 'rest': 3}
    >>> {name: space.dim for name, space in default_spaces(["x", "y"], channels=4).items()}
    {'variables': 2, 'rest': 2}
    """
    dim = min(len(variables), max(1, channels))
    follow: dict[str, Space] = {"variables": Follow(tuple(variables), dim=dim)} if dim else {}
    return {**follow, "rest": Time(dim=int(np.clip(channels - dim, 1, 3)))}


def _check_variable(name: str, space: Space, variable: str, variables: pd.DataFrame) -> None:
    if variable not in variables:
        if not variables.shape[1]:
            raise ValueError(f"space {name!r} needs variable {variable!r}, but no variables (y) were given.")
        raise ValueError(f"space {name!r}: no variable called {variable!r}{suggest(variable, variables)}")
    column = pd.Series(variables[variable])
    check_values(name, space, variable, column)
    known = column.dropna()
    first = known.iloc[:1].tolist()
    if not first or bool((known == first[0]).all()):
        what = f"has one value, {first[0]!r}" if first else "is missing everywhere"
        raise ValueError(f"space {name!r}: variable {variable!r} {what}: there is nothing to learn from it.")


def check_length(recording: Recording) -> None:
    """Refuse a recording of one time step."""
    if len(recording) < 2:
        raise ValueError(
            f"the recording has n_samples = {len(recording)}, one time step: contrastive learning compares time "
            "steps with each other. Pass more."
        )


def check_recording(model: Any, recording: Recording, spaces: Mapping[str, Space]) -> Recording:
    """Check a recording against a model; returns it without its constant channels where they may be dropped."""
    check_length(recording)
    constant = recording.constant_channels()
    if constant:
        shown = ", ".join(constant[:5]) + (f" and {len(constant) - 5} more" if len(constant) > 5 else "")
        if len(constant) == recording.X.shape[1]:
            raise ValueError(f"all {len(constant)} channels are constant ({shown}): there is nothing to embed.")
        if not model.drop_constant:
            raise ValueError(
                f"{len(constant)} of {recording.X.shape[1]} channels never change: {shown}. Remove them, or pass "
                "drop_constant=True to leave them out."
            )
        keep = [name for name in recording.channel_names if name not in set(constant)]
        recording = recording.take_channels(keep)
    longest = int(np.bincount(recording.epochs).max())
    for name, space in spaces.items():
        try:
            space.check_length(longest)
        except ValueError as error:
            raise ValueError(f"space {name!r}: {error}") from error
        if space.variables and (present := int(space.known(recording.variables).sum())) < 2:
            raise ValueError(
                f"space {name!r}: {list(space.variables)} are known together at {present} time steps only."
            )
    return recording


def check_dimensions(spaces: Mapping[str, Space], channels: int, window: int) -> None:
    """Refuse a space of more dimensions than the encoder has inputs.

    A space that predicts variables has as many dimensions as these say, so it is let pass.
    """
    inputs = channels * window
    seen = f"{channels} channel{plural(channels)}" + (
        f" over a window of {window} time steps" if window > 1 else ""
    )
    for name, space in spaces.items():
        if space.contrastive and space.dim > inputs:
            raise ValueError(
                f"space {name!r} has dim={space.dim}, but the encoder sees {seen}: an embedding cannot have more "
                f"dimensions than its inputs, and its Jacobian would have no inverse. Use dim={inputs} or less; "
                "ascribo.select_dimension helps to choose."
            )


def check_treatment(recording: Recording, fitted_to: Treatment | None) -> None:
    """Refuse a recording that was treated otherwise than the one a model was fitted to.

    What is not known, of a recording made from an array, is taken to be right.
    """
    given = recording.treatment
    if given is None or fitted_to is None or given == fitted_to:
        return
    statistics = str(given) == str(fitted_to) and given.counts_events == fitted_to.counts_events
    raise ValueError(
        f"the recording was treated otherwise than the one the model was fitted to: {given}"
        + (", with means and spreads of its own" if statistics else "")
        + f", instead of {fitted_to}"
        + (" with those of the model" if statistics else "")
        + ". Make it with treatment=model.treatment; pynapple objects are treated by the model itself."
    )


def check_same_channels(model: Any, X: Any, y: Any = None) -> Recording:
    """X as a recording of the channels that a model was fitted to, or an error that says how they differ."""
    check_is_fitted(model)
    fitted_to = model.model_.treatment
    recording = as_recording(X, y, treatment=fitted_to)
    check_treatment(recording, fitted_to)
    frame = isinstance(X, pd.DataFrame)
    if isinstance(X, np.ndarray) or (frame and (all_text(X.columns) or not recording.named_channels)):
        # scikit-learn's words for names that are missing, other ones, or in another order
        validate_data(model, X=X, reset=False, skip_check_array=True)  # type: ignore[arg-type]
    names, number = recording.channel_names, model.n_features_in_
    fitted = model.channel_names_ or [str(k) for k in range(number)]
    labelled = recording.labelled_channels and _fitted_to_labels(model)
    if names != fitted and (labelled or set(names) == set(fitted)):
        raise ValueError(
            f"the channels are {names[:4]}..., the model was fitted to {fitted[:4]}...: pass the same channels "
            "in the same order (recording.take_channels does both)."
        )
    if len(names) != number:
        raise ValueError(
            f"X has {len(names)} features, but {type(model).__name__} is expecting {number} features as input."
        )
    if len(model.kept_channels_) < model.n_features_in_:
        recording = recording.take_channels([recording.channel_names[k] for k in model.kept_channels_])
    return recording


def _fitted_to_labels(model: Any) -> bool:
    """Whether a model was fitted to a table: its channels are then named as its columns, and not channel0, ..."""
    made_up = tuple(str(k) for k in model.kept_channels_)
    return bool(model.channel_names_) or model.model_.channels == made_up


def all_text(names: Iterable[object]) -> bool:
    """Whether all names are text, as those that scikit-learn knows of."""
    return all(isinstance(name, str) for name in names)
