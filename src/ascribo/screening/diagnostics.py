"""Diagnostics: what about the variables may mislead, each with what to do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from scipy import spatial, special, stats

from ..support.compute import in_threads
from .features import leading_directions, trend, waves

__all__ = [
    "A_CHANGE",
    "FUNCTION",
    "HIDDEN_COMPANY",
    "ITS_CHANGE",
    "MEASURED_COARSELY",
    "MEASURED_SELDOM",
    "SLOW_RESPONSES",
    "TIME_IN_TRIAL",
    "TOO_QUIET",
    "TRIALS_NOT_GIVEN",
    "TUNING_CHANGES",
    "Hidden",
    "Note",
    "cut_off",
    "explained_by",
    "held_steps",
    "hidden_components",
    "is_coarse",
    "lost_steps",
    "moves_with_hidden",
    "note_functions",
    "regular_length",
    "table_of_functions",
    "tuning_changes",
]

NEIGHBOURS, POINTS = 5, 4_000
FUNCTION = 0.99
"""Share of a space's variance that another must tell for it to be taken as a function of it."""
NEARLY = 0.8
"""Share from which on this is said."""

CUT_OFF, BESIDE, MORE_OFTEN = 0.02, 5, 5
"""A variable is cut off at its largest value if so large a share of time steps have it, and so many times more than
each of so many values beside it."""

BLOCKS = 20
FEWEST_CHANNELS = 10
CALLED_ALIKE, SLOPES_ALIKE = 0.1, 0.1
"""p below which calls, or slopes, are said to go along with hidden loadings."""
LOOKED_AT = 5_000
"""Time steps that are looked at."""
LOST = 0.01
"""Share of time steps at one value, of a variable whose values seldom come twice, from which on it seems lost."""
CHANGED = 0.01
"""p, over all channels, below which tuning is said to change through the session."""
LEAP = 5.0
"""Usual changes by which a variable leaps when it is lost."""
COARSE, MOSTLY = 30, 0.9
"""Values of a variable that was rounded, at most, and the share of its moves that go to the next, at least."""
FEWEST_STRETCHES, ALIKE = 10, 0.1
"""Stretches of one value that are looked at, at least, and the share of them that must be the shortest."""
HELD, FEWEST_HELD, LEAP_ON = 3, 5, 2.0
"""Time steps for which a value is held at least, times that this happens, and usual changes by which the variable
leaps when it goes on."""
A_CHANGE = (
    "it is a change of {other!r}, whose path around the present tells it: only the present of {other!r} was "
    "conditioned on. Channels that carry {other!r} some time before or after may be called for it."
)
ITS_CHANGE = (
    "the path of {other!r} around the present tells what is new in it, as that of its change does: only the "
    "present of {other!r} was conditioned on. Channels that carry {other!r} some time before or after may be "
    "called for it."
)
TIME_IN_TRIAL = (
    "the time since the start of an epoch tells most of it: whatever is locked to that start goes along with it, "
    "and channels that carry that are called for it. Vary it from epoch to epoch."
)
TRIALS_NOT_GIVEN = (
    "it changes every {length} time steps or a multiple of them, as what is set for each trial does, but no trials "
    "were given: what channels do in each trial can then be taken for what another variable of the trials says. "
    "Pass the number of the trial of each time step as `epochs`."
)
MEASURED_SELDOM = (
    "it seems to have been measured every {length} time steps and {how}: what it was at the others is not known, "
    "and channels that carry it may be called for another variable that moves with it. Average the recording over "
    "{length} time steps."
)
MEASURED_COARSELY = (
    "it was rounded to few values, and moves with {other!r}: what lies between them is not known, and channels "
    "that carry it may be called for {other!r}. Measure it more finely."
)
HIDDEN_COMPANY = (
    "something hidden that channels carry seems to move with it: channels that carry the hidden thing alone may be "
    "called. No test of these data can tell the two apart; record what moves with it, or vary it at random."
)
SLOW_RESPONSES = (
    "{found} channels tell more of its averages over the time before than of what is new in it: they respond "
    "slowly, or have so much noise that what is new at a moment says little. Their scores are shares of the "
    "channel's change from step to step, and other slow things that go along with it are less surely told apart."
)
TOO_QUIET = (
    "{found} of {channels} channels are active in a few blocks of time only, as cells with a handful of spikes "
    "are: too few for a call. Leave them out, or record for longer."
)
TUNING_CHANGES = (
    "what channels tell of it changes through the session, as fields do that wander: where other spaces were asked "
    "about, it was conditioned on as it changes. Its own calls are about the whole session."
)


@dataclass(frozen=True)
class Note:
    """Something to know about a space: `kind` in a word or two, `text` in full with what to do."""

    space: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.space}: {self.text}"


def explained_by(source: np.ndarray, target: np.ndarray) -> float:
    """Share of the target's variance that the nearest neighbours in the source tell, from other parts of the time.

    Both (time, k). Any function shows, steps and turns too.

    >>> a = np.random.default_rng(0).uniform(-1, 1, (5000, 1))
    >>> explained_by(a, np.sign(a)) > 0.99, explained_by(np.abs(a), a) < 0.1
    (True, True)
    """
    half = np.arange(len(source)) * 20 // len(source) % 2 == 0
    train, test = np.flatnonzero(half), np.flatnonzero(~half)
    train = train[np.linspace(0, len(train) - 1, min(POINTS, len(train))).astype(int)]
    test = test[np.linspace(0, len(test) - 1, min(POINTS // 4, len(test))).astype(int)]
    number = min(NEIGHBOURS, len(train))
    near = spatial.KDTree(source[train]).query(source[test], number)[1].reshape(len(test), number)
    error = np.square(target[test] - target[train][near].mean(1)).sum()
    return float(1 - error / max(np.square(target[test] - target[test].mean(0)).sum(), 1e-12))


def cut_off(values: np.ndarray) -> float:
    """Share of time steps at which a variable (time,) has its largest value, or its smallest unless that is 0, if
    it seems to have been cut off there, as by a sensor that goes no further; otherwise 0.

    That is so if the value is far more frequent than any of those next to it. What cannot go below 0, as speed
    cannot, is often 0.

    >>> a = np.random.default_rng(0).standard_normal(1000)
    >>> cut_off(a), round(cut_off(np.minimum(a, 1.0)), 2), cut_off(np.maximum(a, 0.0)), cut_off(np.round(a))
    (0.0, 0.15, 0.0, 0.0)
    """
    different, count = np.unique(values, return_counts=True)
    if len(different) <= BESIDE:
        return 0.0
    ends = [(count[-1], count[-1 - BESIDE : -1])]
    if different[0] != 0:
        ends.append((count[0], count[1 : 1 + BESIDE]))
    found = [at / len(values) for at, beside in ends if at > MORE_OFTEN * beside.max()]
    return float(max([share for share in found if share > CUT_OFF], default=0.0))


def table_of_functions(values: Mapping[str, np.ndarray]) -> dict[tuple[str, str], float]:
    """(a, b) -> share of b's variance that a tells, for all pairs of spaces."""
    pairs = list(permutations(values, 2))
    return dict(zip(pairs, in_threads(lambda pair: explained_by(*(values[k] for k in pair)), pairs), strict=True))


@dataclass(frozen=True)
class Hidden:
    """What is hidden, as far as channels carry it: the leading principal components of what functions of all
    variables leave of the channels. loadings : (channel, component), orthonormal. share : (channel,), of their
    variance."""

    loadings: np.ndarray
    share: np.ndarray


def hidden_components(scores: np.ndarray, values: Mapping[str, np.ndarray]) -> Hidden:
    """Two hidden components. scores : (time, channel). values : space -> (time, k), all of them at usable time."""
    few = np.arange(0, len(scores), max(1, len(scores) // LOOKED_AT))
    known = [np.ones((len(few), 1)), trend(few, len(scores), 10)]
    for value in values.values():
        known += [value[few], waves(value[few], 12, 0.5, 4.0)]
    design, y = np.concatenate(known, axis=1, dtype=np.float32), scores[few]
    gram = design.T @ design + np.float32(1e-4 * len(few)) * np.eye(design.shape[1])
    left = y - design @ np.linalg.solve(gram, design.T @ y).astype(np.float32)
    total, direction = leading_directions(left, 2)
    return Hidden(direction, np.square(direction) @ total / len(few))


def moves_with_hidden(
    hidden: Hidden,
    scores: np.ndarray,
    values: Mapping[str, np.ndarray],
    name: str,
    lag: int,
    called: np.ndarray,
) -> bool:
    """Whether what is hidden seems to move with a space.

    Where hidden and known move on their own, what a channel carries of the one says nothing about the other. Where
    they move together, a channel that carries the hidden thing alone is called too, with a slope in proportion to
    its loading. So there are two tests over channels: are those that are `called` (channel,) the ones that carry
    more of what is hidden (Mann and Whitney)? And do the slopes of the channels' changes on the space's go along
    with the hidden loadings (F-test)?
    """
    channels = scores.shape[1]
    if channels < FEWEST_CHANNELS:
        return False
    if called.any() and not called.all():
        parts = hidden.share[called], hidden.share[~called]
        if stats.mannwhitneyu(*parts, alternative="greater").pvalue < CALLED_ALIKE:
            return True
    few = np.arange(0, len(scores), max(1, len(scores) // LOOKED_AT))
    back = np.maximum(few - max(lag, 1), 0)
    change = {key: value[few] - value[back] for key, value in values.items()}
    moved = np.concatenate([change[name], *(each for key, each in change.items() if key != name)], axis=1)
    slopes = np.linalg.lstsq(moved.T @ moved, moved.T @ (scores[few] - scores[back]), rcond=None)[0]
    slopes = slopes[: change[name].shape[1]]
    common = np.square(slopes @ hidden.loadings).sum(1) / np.maximum(np.square(slopes).sum(1), 1e-300)
    p = special.fdtrc(2, channels - 2, common / 2 / ((1 - common) / (channels - 2)))
    return bool(p.min() * len(p) < SLOPES_ALIKE)


def tuning_changes(functions: np.ndarray, changing: np.ndarray, scores: np.ndarray, steps: np.ndarray) -> bool:
    """Whether some channel's tuning to a variable changes through the session, as fields do that wander.

    Channels are regressed on functions of the variable, and on these and `changing` ones, which are the same times
    slow functions of time. Fits to every other block of time are compared in the blocks between, and the other way
    round: for a channel whose tuning stays the second is the worse. functions : (n, k) and changing : (n, m) at
    some time steps, `steps` (n,). scores : (n, channel).
    """
    drift = trend(steps - steps[0], int(steps[-1] - steps[0]) + 1, 10)
    design = np.concatenate([np.ones((len(steps), 1)), drift, functions, changing], axis=1, dtype=np.float32)
    plain = design.shape[1] - changing.shape[1]
    parts = np.array_split(np.arange(len(steps)), BLOCKS)
    gram = np.stack([design[rows].T @ design[rows] for rows in parts]).astype(float)
    cross = np.stack([design[rows].T @ scores[rows] for rows in parts]).astype(float)
    gains = np.zeros((BLOCKS, scores.shape[1]))
    for sign, width in ((1, plain), (-1, design.shape[1])):
        for k in range(2):
            fitted, other = slice(k, None, 2), slice(1 - k, None, 2)
            G, c = gram[:, :width, :width], cross[:, :width]
            fit = np.linalg.solve(G[fitted].sum(0) + 1e-3 * len(steps) * np.eye(width), c[fitted].sum(0))
            gains[other] += sign * (fit * (G[other] @ fit - 2 * c[other])).sum(1)
    error = gains.std(0, ddof=1) / np.sqrt(BLOCKS)
    p = special.stdtr(BLOCKS - 1, -gains.mean(0) / np.maximum(error, 1e-12))
    return bool(p.min() * len(p) < CHANGED)


def lost_steps(values: np.ndarray) -> np.ndarray:
    """Time steps at which a tracker seems to have lost its object and reports one and the same value: (time,).

    So it seems if one value comes again and again in a variable whose values otherwise come once, and if the
    variable leaps there: a speed of zero is reached step by step. values : (time, k), NaN where missing.

    >>> walk = np.cumsum(np.random.default_rng(0).normal(size=1000)) + 50
    >>> walk[::50] = 0
    >>> lost_steps(walk[:, None]).sum()
    np.int64(20)
    """
    lost = np.zeros(len(values), dtype=bool)
    for column in values.T:
        different, where, counts = np.unique(column[np.isfinite(column)], return_inverse=True, return_counts=True)
        if len(different) <= where.size / 2 or counts.max() <= LOST * where.size:
            continue
        there = column == different[counts.argmax()]
        into = np.flatnonzero(~there[:-1] & there[1:])
        change = np.abs(np.diff(column))
        usual = np.nanmedian(change[~there[:-1] & ~there[1:]])
        if len(into) and np.nanmedian(change[into]) > LEAP * usual:
            lost |= there
    return lost


def held_steps(values: np.ndarray) -> np.ndarray:
    """Time steps at which a tracker seems to have lost its object and reports the last value that it had: (time,).

    So it seems if values that otherwise come once stay the same for a few steps, and the variable leaps when it
    goes on: what had stood still goes on by its usual change. values : (time, k), NaN where missing.

    >>> walk = np.cumsum(np.random.default_rng(0).normal(size=1000))
    >>> walk[np.arange(1000) % 50 > 29] = np.repeat(walk[29::50], 20)
    >>> held_steps(walk[:, None]).sum(), held_steps(np.repeat(walk[::50], 50)[:, None]).sum()
    (np.int64(400), np.int64(0))
    """
    held = np.zeros(len(values), dtype=bool)
    for column in values.T:
        change = np.diff(column)
        same = np.r_[False, change == 0]
        edges = np.diff(np.r_[False, same, False].astype(int))
        begin, end = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        long = end - begin >= HELD
        begin, end = begin[long], end[long]
        ended = end < len(column)
        moves = np.abs(change[np.isfinite(change) & (change != 0)])
        different = len(np.unique(column[begin]))
        if ended.sum() < FEWEST_HELD or len(moves) < len(column) / 2:
            continue
        if different < len(begin) / 2:  # one and the same value, as at the end of a scale, is no last one
            continue
        leaps = np.abs(column[end[ended]] - column[end[ended] - 1])
        if np.nanmedian(leaps) > LEAP_ON * np.median(moves):
            steps = np.zeros(len(column) + 1, int)
            steps[begin], steps[end] = 1, -1
            held |= np.cumsum(steps)[:-1] > 0
    return held


def is_coarse(values: np.ndarray) -> bool:
    """Whether a variable (time, k) seems to be something smooth that was rounded to few values: it goes from each
    to those next to it.

    >>> walk = np.cumsum(np.random.default_rng(0).normal(size=1000))[:, None]
    >>> is_coarse(np.round(walk / 5)), is_coarse(walk), is_coarse(np.random.default_rng(0).integers(0, 9, (99, 1)))
    (True, False, False)
    """
    for column in values.T:
        different, place = np.unique(column, return_inverse=True)
        moves = np.abs(np.diff(place))
        if len(different) <= COARSE and np.mean(moves[moves > 0] == 1) > MOSTLY:
            return True
    return False


def regular_length(begin: np.ndarray) -> int:
    """The time steps that a variable keeps a value for, or a multiple of them, if there is such a number; else 0.

    Some keep it for just so long, others for twice as long or more: so it is with what is set for each trial or
    measured now and then, where the next value may be the same. begin : first steps of its stretches of one value.

    >>> regular_length(np.array([0, 50, 100, 200, 250, 350, 400, 450, 500, 600]))
    50
    >>> regular_length(np.array([0, 50, 110, 200, 250, 350, 400, 450, 500, 600]))
    0
    """
    lasts = np.diff(begin)[1:]  # the first may have begun before the recording
    if len(begin) < FEWEST_STRETCHES:
        return 0
    length = int(np.gcd.reduce(lasts))
    alike = np.mean(lasts == length)
    return length if 1 < length == lasts.min() and alike >= ALIKE else 0


def note_functions(
    name: str, functions: Mapping[tuple[str, str], float], noisy: Collection[str], notes: list[Note]
) -> None:
    """Say so if other spaces tell a space, or nearly. noisy : spaces that were measured with error."""
    for (source, target), share in functions.items():
        if target != name or share < NEARLY:
            continue
        if share > FUNCTION:
            text = (
                f"it is a function of {source!r} ({share:.1%}): neither was conditioned on the other, and channels "
                "of one are called for both."
            )
            notes.append(Note(name, "redundant", text))
        else:
            text = (
                f"{source!r} tells {share:.0%} of it: it is nearly a function of that, and the call rests on the "
                "little that is its own. Read the two together, or vary them apart."
            )
            notes.append(Note(name, "nearly a function", text))
            if source in noisy and target in noisy and functions[target, source] > NEARLY:
                text = (
                    f"it and {source!r} were both measured with error and tell most of each other: they may be two "
                    "measurements of one thing, and then channels of either are those of both. Take their mean."
                )
                notes.append(Note(name, "one thing twice", text))
