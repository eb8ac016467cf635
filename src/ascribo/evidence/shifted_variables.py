"""Is a space related to the channels at all? A test against models that were fitted to shifted variables.

Bits above zero on held-out time are not enough: variables and channels that both move slowly agree by chance, and
held-out blocks lie close in time to what the model was trained on. So the same model is fitted to copies of the
recording in which the variables are shifted in time against the channels, with the end brought round to the
beginning. In a copy everything moves as slowly as before, only the relation is gone. If there was no relation, the
bits of the real model are one draw among those of the copies, and

    p = (1 + number of copies with at least as many bits) / (1 + number of copies)

is at most α with probability α. For this the lags must be drawn so that 0, the lag of the real recording, is one of
them like any other: it may not lie further from the others than they do from each other.

All models of all recordings are trained in as few stacks as possible.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from ..data.containers import as_recording
from ..data.recording import Recording
from ..model.estimator import ContrastiveEmbedding
from ..model.fitting import prepare
from ..model.goodness_of_fit import TEMPERATURES, block_interval, goodness_of_fit
from ..model.input_checks import check_parameters, check_recording, resolve_spaces
from ..networks.model_stack import Embedder
from ..spaces.base import Space
from ..spaces.pairs import Pairs
from ..spaces.positives import CircularShift, Positives
from ..support.compute import one_thread
from ..support.memory import refuse_memory
from ..training.dispatch import train_many
from ..training.settings import Settings
from ..training.training_problem import Problem

__all__ = ["draw_lags", "shift_test", "shift_tests", "shifted_pairs"]

FEWEST_INDEPENDENT = 12
"""Independent values of a variable that a recording should hold, about one for every time that its autocorrelation
takes to fall to 1/e. With fewer, the place where end and beginning meet shows, and p comes out too small."""


def shift_test(
    model: ContrastiveEmbedding,
    X: Any,
    y: Any = None,
    *,
    shifts: int = 39,
    only: str | Sequence[str] | None = None,
    random_state: int | np.random.RandomState | None = 0,
) -> pd.DataFrame:
    """Test whether each space is related to the channels, against models fitted to shifted variables.

    Parameters
    ----------
    model : ContrastiveEmbedding, fitted or not. Its parameters are used and it is left as it is; `seeds`,
        `early_stop` and `checkpoint` are not used: the real recording and each copy get one model, and all train
        for all `steps`; with steps="auto" for as many as the fitted model took, 3,000 if it is not fitted.
    X, y : the recording, as for `model.fit`.
    shifts : number of shifted copies; the smallest p is 1 / (1 + shifts). p < 0.05 needs more than 19.
    only : names of the spaces to test; None for all.
    random_state : of the lags, the initial values and the batches.

    Returns
    -------
    DataFrame with one row for each space: space; bits, above chance on held-out time, of the model of the real
    recording; bits_low and bits_high, their 95% interval over blocks of held-out time; null_mean and null_high, the
    mean and the 95th percentile of the bits of the copies; shifts; p. The bits of every single copy are in
    `attrs["copies"]`, space -> list. All bits are taken at the best of a few
    temperatures (see `ascribo.model.goodness_of_fit`), so that the test holds for overfitted models too: a related
    variable makes an embedding surer of itself, and if it is too sure, it has fewer plain bits than an unrelated
    one.

    Notes
    -----
    The variables of all epochs are shifted together, as one circle, while the epochs stay with the channels. Lags
    are at least half of T / (1 + shifts) time steps from 0 and from each other, in a recording of T time steps. The
    held-out time steps are the same in all models. A `Time` space has no variable; in its copies a time step is
    paired with the neighbour of another time step, a lag away. If a model has spaces of both kinds, there are
    `shifts` copies of each kind, in which the other kind is left alone: with hybrid="whole" one shapes the other.

    All variables are shifted together. If one space is related to the channels and another is not, the copies that
    the latter is compared with therefore lack the former; test it in a model of its own if that matters.

    The null hypothesis is that there is no relation, and that the behaviour of the variables does not change in the
    course of the recording. In a copy the end of the variables meets their beginning. This matters if they are so
    slow that the recording holds few independent values of them, or if they drift from beginning to end: the test
    then warns.

    Examples
    --------
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=1, hidden=1, channels=(4, 4), steps=1200)
    >>> small = dict(steps=60, batch_size=64, encoder=asc.MLP((16,)), penalty=0, progress=False)
    >>> model = asc.ContrastiveEmbedding({"x": asc.Follow("x", dim=1)}, **small)
    >>> shift_test(model, data, shifts=4)[["space", "shifts", "p"]]
      space  shifts    p
    0     x       4  0.2
    """
    return shift_tests(model, [as_recording(X, y)], shifts=shifts, only=only, random_state=random_state)[0]


def shift_tests(
    model: ContrastiveEmbedding,
    recordings: Sequence[Recording],
    *,
    shifts: int = 39,
    only: str | Sequence[str] | None = None,
    random_state: int | np.random.RandomState | None = 0,
) -> list[pd.DataFrame]:
    """`shift_test` of many independent recordings, all with batches that fit into the shortest of them.

    On a GPU all their models train in as few stacks as memory allows.

    >>> import ascribo as asc
    >>> boxes = [asc.simulate.box(seed, observed=1, hidden=1, channels=(4, 4), steps=800) for seed in (0, 1)]
    >>> small = dict(steps=60, batch_size=64, encoder=asc.MLP((16,)), penalty=0, progress=False)
    >>> model = asc.ContrastiveEmbedding({"x": asc.Follow("x", dim=1)}, **small)
    >>> [table["p"].tolist() for table in shift_tests(model, boxes, shifts=3)]
    [[0.25], [0.25]]
    """
    refuse_memory(model.memory, "shift_test")
    if isinstance(shifts, bool) or not isinstance(shifts, int | np.integer) or shifts < 1:
        raise ValueError(f"shifts={shifts!r}: expected an integer of at least 1 (39 for p down to 0.025).")
    check_parameters(model)
    shortest = min(len(recording) for recording in recordings)
    settings = Settings.from_parameters(model, time_steps=shortest, early_stop=None, watched=False)
    if model.steps == "auto" and hasattr(model, "spent_"):  # a fitted model knows how many it takes
        settings = replace(settings, steps=max(model.spent_["steps"]))
    states = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=len(recordings))
    tasks = []
    for recording, state in zip(recordings, states, strict=True):
        tasks.append(_prepare(model, recording, int(shifts), only, np.random.default_rng(state)))
    with one_thread():
        trained = _train(tasks, settings, model.n_jobs, bool(model.progress))
        return [_table(*pair, settings, int(shifts)) for pair in zip(tasks, trained, strict=True)]


def draw_lags(steps: int, shifts: int, rng: np.random.Generator) -> np.ndarray:
    """Draw lags to shift a recording of `steps` time steps by: (shifts,) integers, rising.

    Together with 0 they are points on a circle, at least half as far apart as evenly spaced ones would be. All such
    sets are equally likely, so 0 is one of the points like any other.

    >>> draw_lags(100, 4, np.random.default_rng(0))
    array([24, 46, 61, 80])
    """
    least = steps // (2 * (shifts + 1))
    if least < 1:
        raise ValueError(
            f"{shifts} shifts of {steps} time steps cannot be told apart: use at most {max(0, steps // 2 - 1)} "
            "shifts, or a longer recording."
        )
    spare = steps - (shifts + 1) * least
    bars = np.sort(rng.choice(spare + shifts, shifts, replace=False))  # a uniform composition of `spare`
    gaps = least + np.diff(np.r_[-1, bars, spare + shifts]) - 1
    return np.cumsum(gaps)[:-1]


def shifted_pairs(
    spaces: Mapping[str, Space],
    variables: pd.DataFrame,
    segments: np.ndarray,
    epochs: np.ndarray,
    *,
    variables_by: int = 0,
    time_by: int = 0,
) -> tuple[Pairs, pd.DataFrame]:
    """The pairs of a copy in which variables, or the neighbours of `Time` spaces, are shifted; and its variables.

    segments : (time,) as for `Pairs`, of the channels. epochs : (time,) of the recording.
    variables_by : time steps by which the variables are moved later. time_by : lag of the neighbours in time.

    Changes of variables are taken within the variables' own epochs, wherever the shift has brought them, and not
    from the end of the recording to its beginning; neighbours in time are neighbours within a segment. With both
    lags 0 the distribution is that of `Pairs`.

    >>> table, zeros = pd.DataFrame({"x": np.arange(8.0)}), np.zeros(8, int)
    >>> from ascribo import Follow
    >>> pairs, moved = shifted_pairs({"x": Follow("x", 1)}, table, zeros, zeros, variables_by=3)
    >>> moved["x"].to_list()
    [5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    >>> pairs.positive["x"].starts
    array([0, 1, 3, 4, 5, 6])
    """
    steps = len(segments)
    origin = np.roll(np.arange(steps), variables_by)
    moved = variables.iloc[origin].reset_index(drop=True)

    def make(name: str, pool: np.ndarray) -> Positives:
        shift = CircularShift(moved, origin, segments, epochs, pool, time_by / steps)
        try:
            return spaces[name].shifted_positives(shift)
        except ValueError as error:
            raise ValueError(f"space {name!r}, shifted by {variables_by} time steps: {error}") from error

    return Pairs(spaces, moved, segments, make), moved


def _warn_if_slow(name: str, space: Space, variables: pd.DataFrame) -> None:
    """Warn where the lag at which the autocorrelation falls below 1/e is a large part of the recording."""
    values = space.values(variables)[:, :20]  # of very many labels the first
    steps = len(values)
    values = np.nan_to_num((values - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0))
    power = np.square(np.abs(np.fft.fft(values, 2 * steps, axis=0))).sum(1)
    correlation = np.fft.ifft(power).real[:steps]
    below = np.flatnonzero(correlation < correlation[0] / np.e)
    independent = steps / (below[0] if len(below) else steps)
    if independent < FEWEST_INDEPENDENT:
        warnings.warn(
            f"space {name!r}: its variables are so slow that the recording holds about {independent:.0f} "
            f"independent values of them, fewer than {FEWEST_INDEPENDENT}: p may be too small (in simulations "
            "p ≤ 0.05 came up in about 10% of unrelated recordings). Use a longer recording.",
            stacklevel=5,
        )


@dataclass(frozen=True)
class _Task:
    """All models of one recording: the real one first, then those of the copies.

    null : for each space that is tested, the positions of the copies it is compared with.
    """

    problems: list[Problem]
    seeds: list[int]
    validation_pairs: list[Pairs]
    validation_segments: np.ndarray
    null: dict[str, slice]


def _prepare(
    model: ContrastiveEmbedding,
    given: Recording,
    shifts: int,
    only: str | Sequence[str] | None,
    rng: np.random.Generator,
) -> _Task:
    spaces = resolve_spaces(model.spaces, given)
    tested = list(spaces if only is None else [only] if isinstance(only, str) else only)
    if not tested or any(name not in spaces for name in tested):
        raise ValueError(f"only={only!r}: expected names of spaces of the model ({', '.join(spaces)}), or None.")
    recording = check_recording(model, given, spaces)
    for name in tested:
        if spaces[name].variables:
            _warn_if_slow(name, spaces[name], recording.variables)
    options = {name: getattr(model, name) for name in ("encoder", "hybrid", "validation_fraction")}
    prepared = prepare(recording, spaces, **options)
    real, validation = prepared.problem, prepared.validation_segments
    lags = draw_lags(len(recording), shifts, rng).tolist()
    moves: list[dict[str, int]] = [{}]
    null = {}
    for kind, is_kind in (("variables_by", False), ("time_by", True)):
        of_kind = [name for name in tested if spaces[name].follows_time == is_kind]
        if of_kind:
            null.update(dict.fromkeys(of_kind, slice(len(moves), len(moves) + shifts)))
            moves += [{kind: lag} for lag in lags]
    problems, judging, used = [], [], np.flatnonzero(real.segments >= 0)
    for move in moves:
        pairs, moved = shifted_pairs(spaces, recording.variables, real.segments, recording.epochs, **move)
        targets = {
            name: space.targets(moved, space.target_statistics(moved, used))
            for name, space in spaces.items()
            if not space.contrastive
        }
        problems.append(replace(real, pairs=pairs, targets=targets))
        judging.append(shifted_pairs(spaces, recording.variables, validation, recording.epochs, **move)[0])
    seeds = rng.integers(np.iinfo(np.int32).max, size=len(problems)).tolist()
    return _Task(problems, seeds, judging, validation, null)


def _train(
    tasks: Sequence[_Task], settings: Settings, n_jobs: int | None, progress: bool
) -> list[dict[str, Tensor]]:
    """Stacked parameters (model, ...) of every task, on the CPU."""
    problems = [problem for task in tasks for problem in task.problems]
    seeds = [seed for task in tasks for seed in task.seeds]
    trained = iter(train_many(problems, seeds, settings, n_jobs=n_jobs, progress=progress))
    each = [[next(trained).parameters for _ in task.problems] for task in tasks]
    return [{name: torch.cat([one[name] for one in models]) for name in models[0]} for models in each]


def _table(task: _Task, parameters: Mapping[str, Tensor], settings: Settings, shifts: int) -> pd.DataFrame:
    """Measure all models of a task on the same held-out time steps, and compare the real one with the copies."""
    real = task.problems[0]
    X, embedder = real.X.to(settings.device), Embedder(real.module, real.spaces)
    alike: dict[str, list[int]] = {}
    for number, pairs in enumerate(task.validation_pairs):  # missing values may give copies rows of their own
        alike.setdefault(repr(pairs.rows), []).append(number)
    bits = np.empty((len(task.problems), len(real.spaces)))
    low = high = np.empty(0)
    for members in alike.values():
        fit = goodness_of_fit(
            *(embedder, {name: value[members].to(X.device) for name, value in parameters.items()}, real.spaces, X),
            *(
                task.validation_segments,
                [task.validation_pairs[k] for k in members],
                [task.problems[k].targets for k in members],
            ),
            batch=min(settings.batch_size, int((task.validation_segments >= 0).sum())),
            seed=task.seeds[0],
            temperatures=TEMPERATURES,
        )
        bits[members] = fit.bits
        if members[0] == 0:
            low, high = block_interval(fit.block_bits[:, 0], fit.block_share[:, 0])
    tested = [k for k, name in enumerate(real.spaces) if name in task.null]
    names = [list(real.spaces)[k] for k in tested]
    null = np.stack([bits[task.null[name], k] for name, k in zip(names, tested, strict=True)])
    table = pd.DataFrame(
        {
            "space": names,
            "bits": bits[0, tested],
            "bits_low": low[tested],
            "bits_high": high[tested],
            "null_mean": null.mean(1),
            "null_high": np.quantile(null, 0.95, axis=1),
            "shifts": shifts,
            "p": (1 + (null >= bits[0, tested, None]).sum(1)) / (1 + shifts),
        }
    )
    table.attrs["copies"] = dict(zip(names, null.tolist(), strict=True))
    return table
