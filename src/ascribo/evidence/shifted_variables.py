"""Is a space related to the channels at all? A test against shifted variables.

Bits above zero on held-out time are not enough: variables and channels that both move slowly agree by chance, and
held-out blocks lie close in time to what the model was trained on. So whatever is measured on the recording is
measured on copies, too, in which the variables are shifted in time against the channels, with the end brought round
to the beginning. In a copy everything moves as slowly as before, only the relation is gone. If there was no
relation, the score of the recording is one draw among those of the copies, and

    p = (1 + number of copies with at least as high a score) / (1 + number of copies)

is at most α with probability α. For this the lags must be drawn so that 0, the lag of the real recording, is one of
them like any other: it may not lie further from the others than they do from each other.

What is measured is how well ridge decoders read the variables (`shift_decoders`), or the bits of an embedding that
is trained anew for the recording and each copy (`shift_embeddings`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from ..data.containers import as_recording
from ..data.recording import Recording
from ..model.estimator import ContrastiveEmbedding
from ..model.fitting import is_of_trials
from ..model.input_checks import check_parameters, check_recording, resolve_spaces
from ..spaces.base import Space
from ..support.compute import one_blas_thread, one_thread
from ..support.memory import refuse_memory
from ..training.settings import Settings
from .shift_decoders import Scores, decoders_under_shifts, moved_by, moved_by_epochs
from .shift_embeddings import bits_under_shifts, prepare_task, train_tasks

__all__ = ["draw_lags", "shift_test", "shift_tests"]

FEWEST_INDEPENDENT = 12
"""Independent values of a variable that a recording should hold, about one for every time that its autocorrelation
takes to fall to 1/e. With fewer, the place where end and beginning meet shows, and p comes out too small."""
STATISTICS = ("decoders", "embedding")


def shift_test(
    model: ContrastiveEmbedding,
    X: Any,
    y: Any = None,
    *,
    shifts: int = 39,
    only: str | Sequence[str] | None = None,
    statistic: str = "decoders",
    random_state: int | np.random.RandomState | None = 0,
) -> pd.DataFrame:
    """Test whether each space is related to the channels, against shifted variables.

    Parameters
    ----------
    model : ContrastiveEmbedding, fitted or not; it is left as it is. Its spaces say what is asked.
    X, y : the recording, as for `model.fit`.
    shifts : number of shifted copies; the smallest p is 1 / (1 + shifts). p < 0.05 needs more than 19.
    only : names of the spaces to test; None for all.
    statistic : what is measured of the recording and of each copy.

        "decoders": how well ridge decoders read the space's variables from the channels on held-out time, as they
        are, what is new in them, and squares. Nothing is trained, so it takes less than a second, and it finds weak
        relations that the embedding's bits miss (`docs/results.md`). Spaces without variables take "embedding".

        "embedding": bits of the model's own kind of embedding on held-out time, trained anew for the recording and
        each copy: with the model's parameters, but for `seeds`, `early_stop` and `checkpoint`. There is one model
        for each, and all train for all `steps`; with steps="auto" for as many as the fitted model took, 3,000 if it
        is not fitted.
    random_state : of the lags, the initial values and the batches.

    Returns
    -------
    DataFrame with one row for each space:

    - space; statistic.
    - score of the recording. For decoders by how many standard deviations they stand out among recording and copies
      (of four decoders the root of the sum of squares; those below the mean count nothing); for an embedding bits
      above chance. score_low and score_high : the 95% interval of the bits over blocks of held-out time; NaN for
      decoders.
    - r2, the share of the variables' variance that the plainest decoder predicts on held-out time; NaN for an
      embedding.
    - null_mean and null_high, the mean and the 95th percentile of the scores of the copies; shifts; p.

    The scores of every single copy are in `attrs["copies"]`, space -> list. All bits are taken at the best of a few
    temperatures (see `ascribo.model.goodness_of_fit`), so that the test holds for overfitted models too: a related
    variable makes an embedding surer of itself, and if it is too sure, it has fewer plain bits than an unrelated
    one.

    Notes
    -----
    The variables of all epochs are shifted together, as one circle, while the epochs stay with the channels. Lags
    are at least half of T / (1 + shifts) time steps from 0 and from each other, in a recording of T time steps. The
    held-out time steps are the same in all copies. A `Time` space has no variable; in its copies a time step is
    paired with the neighbour of another time step, a lag away. If a model has spaces of both kinds, there are
    `shifts` copies of each kind, in which the other kind is left alone: with hybrid="whole" one shapes the other.

    Variables that do not change within epochs, such as labels of trials, are moved by whole epochs for decoders;
    with fewer epochs than shifts there are fewer copies. For embeddings they are moved by time steps, as others
    are, and where channels, too, begin anew with each trial p comes out too small.

    All variables are shifted together. If one space is related to the channels and another is not, embeddings of
    the copies that the latter is compared with therefore lack the former; test it in a model of its own if that
    matters. Decoders are of one space alone.

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
    >>> shift_test(model, data, shifts=19)[["space", "statistic", "shifts", "p"]]
      space statistic  shifts     p
    0     x  decoders      19  0.05
    >>> shift_test(model, data, shifts=4, statistic="embedding")["p"].item()
    0.2
    """
    options: dict[str, Any] = {"only": only, "statistic": statistic, "random_state": random_state}
    return shift_tests(model, [as_recording(X, y)], shifts=shifts, **options)[0]


def shift_tests(
    model: ContrastiveEmbedding,
    recordings: Sequence[Recording],
    *,
    shifts: int = 39,
    only: str | Sequence[str] | None = None,
    statistic: str = "decoders",
    random_state: int | np.random.RandomState | None = 0,
) -> list[pd.DataFrame]:
    """`shift_test` of many independent recordings; embeddings have batches that fit into the shortest of them.

    On a GPU all their models train in as few stacks as memory allows.

    >>> import ascribo as asc
    >>> boxes = [asc.simulate.box(seed, observed=1, hidden=1, channels=(4, 4), steps=800) for seed in (0, 1)]
    >>> model = asc.ContrastiveEmbedding({"x": asc.Follow("x", dim=1)})
    >>> [table["p"].tolist() for table in shift_tests(model, boxes, shifts=9)]
    [[0.1], [0.1]]
    """
    refuse_memory(model.memory, "shift_test")
    if isinstance(shifts, bool) or not isinstance(shifts, int | np.integer) or shifts < 1:
        raise ValueError(f"shifts={shifts!r}: expected an integer of at least 1 (39 for p down to 0.025).")
    if statistic not in STATISTICS:
        raise ValueError(f"statistic={statistic!r}: expected one of {list(STATISTICS)}.")
    check_parameters(model)
    states = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=len(recordings))
    asked = []
    for recording, state in zip(recordings, states, strict=True):
        asked.append(_ask(model, recording, int(shifts), only, statistic, np.random.default_rng(state)))
    found = [_decode(each) for each in asked]
    to_train = [k for k, each in enumerate(asked) if each.embedded]
    for k, bits in zip(to_train, _embed(model, [asked[k] for k in to_train]), strict=True):
        found[k] |= bits
    return [_table(each.tested, scores) for each, scores in zip(asked, found, strict=True)]


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
class _Asked:
    """What is asked of one recording: of which of its spaces decoders, and of which embeddings under some lags."""

    recording: Recording
    spaces: Mapping[str, Space]
    tested: list[str]
    embedded: list[str]
    lags: list[int]
    rng: np.random.Generator


def _ask(
    model: ContrastiveEmbedding,
    given: Recording,
    shifts: int,
    only: str | Sequence[str] | None,
    statistic: str,
    rng: np.random.Generator,
) -> _Asked:
    spaces = resolve_spaces(model.spaces, given)
    tested = list(spaces if only is None else [only] if isinstance(only, str) else only)
    if not tested or any(name not in spaces for name in tested):
        raise ValueError(f"only={only!r}: expected names of spaces of the model ({', '.join(spaces)}), or None.")
    recording = check_recording(model, given, spaces)
    for name in tested:
        if spaces[name].variables:
            _warn_if_slow(name, spaces[name], recording.variables)
    embedded = [name for name in tested if statistic == "embedding" or not spaces[name].variables]
    return _Asked(recording, spaces, tested, embedded, draw_lags(len(recording), shifts, rng).tolist(), rng)


def _decode(asked: _Asked) -> dict[str, Scores]:
    """The scores of decoders, of the spaces that need no embedding."""
    found, recording = {}, asked.recording
    by_time = moved_by(asked.lags, len(recording))
    for name in asked.tested:
        space = asked.spaces[name]
        if name in asked.embedded:
            continue
        orders = _by_trials(asked) if is_of_trials(recording, space.variables) else by_time
        with one_blas_thread():
            values = space.values(recording.variables)
            found[name] = decoders_under_shifts(np.asarray(recording.X), values, recording.epochs, orders)
    return found


def _by_trials(asked: _Asked) -> list[np.ndarray]:
    """Orders of copies in which variables are moved by whole epochs, of which there may be few."""
    count = 1 + int((np.diff(asked.recording.epochs) != 0).sum())
    shifts, rng = min(len(asked.lags), count - 1), np.random.default_rng(asked.lags)
    enough = count >= 2 * (shifts + 1)
    lags = draw_lags(count, shifts, rng) if enough else 1 + rng.permutation(count - 1)[:shifts]
    return moved_by_epochs(lags.tolist(), asked.recording.epochs)


def _embed(model: ContrastiveEmbedding, asked: Sequence[_Asked]) -> list[dict[str, Scores]]:
    """The bits of embeddings, of the spaces that need one; nothing is trained if there are none."""
    if not asked:
        return []
    shortest = min(len(each.recording) for each in asked)
    settings = Settings.from_parameters(model, time_steps=shortest, early_stop=None, watched=False)
    if model.steps == "auto" and hasattr(model, "spent_"):  # a fitted model knows how many it takes
        settings = replace(settings, steps=max(model.spent_["steps"]))
    tasks = [prepare_task(model, a.recording, a.spaces, a.embedded, a.lags, a.rng) for a in asked]
    with one_thread():
        trained = train_tasks(tasks, settings, model.n_jobs, bool(model.progress))
        return [bits_under_shifts(*pair, settings) for pair in zip(tasks, trained, strict=True)]


def _table(names: Sequence[str], found: Mapping[str, Scores]) -> pd.DataFrame:
    """A row for each space: its score beside those of the copies."""
    table = pd.DataFrame([_row(name, found[name]) for name in names])
    table.attrs["copies"] = {name: found[name].copies.tolist() for name in names}
    return table


def _row(name: str, found: Scores) -> dict[str, Any]:
    return {
        "space": name,
        "statistic": found.statistic,
        "score": float(found.real),
        "score_low": float(found.low),
        "score_high": float(found.high),
        "r2": found.r2,
        "null_mean": float(found.copies.mean()),
        "null_high": float(np.quantile(found.copies, 0.95)),
        "shifts": len(found.copies),
        "p": found.p,
    }
