"""What is found about a space: scores with intervals, and p-values, from what regressions leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from .diagnostics import Note
from .noise import by_chance, sizes_of_blocks
from .questions import Question
from .regression import Residuals
from .sign_flips import p_values, quadratic_form

__all__ = ["SpaceTest", "empty_test", "space_test"]

LOOKED_AT = 5_000
"""Time steps whose shares of a score are worked out at once."""
LESS = 1.5
"""Times that products may vary less from block to block than they should, before this is taken for chance."""
MISFIT = 0.002
"""Share of what is explained of a channel, below which a score may be what the regressions get wrong: no call."""


@dataclass(frozen=True)
class SpaceTest:
    """What was found about a space.

    question : "innovation", "level", or "none" where nothing could be asked (a note says why).
    score : (channel,), the share of the channel's variance (of its ranks, as normal scores) that the asked part of
        the space explains and nothing else does; ci_low and ci_high, 95%; p, that there is nothing, which is 1 for
        a score so small (`MISFIT`) that the regressions may be wrong by as much. NaN where nothing could be asked.
    level : (channel,), the share that the values of the space tell, whatever else goes with them; not tested.
    beyond_velocity : (channel,), what is left of the score if the variables' velocity is conditioned on; None where
        that was not looked at, because they have none, or it is given as a space of its own.
    notes : what may mislead, each with what to do.
    at : time steps (n,) -> what each adds to the score, (n, channel); their mean over time is the score. NaN at
        time steps that were not used.
    """

    space: str
    question: str
    score: np.ndarray
    ci_low: np.ndarray
    ci_high: np.ndarray
    p: np.ndarray
    level: np.ndarray
    beyond_velocity: np.ndarray | None = None
    notes: list[Note] = field(default_factory=list)
    at: Callable[[np.ndarray], np.ndarray] = field(default=lambda rows: np.empty((0, 0)), repr=False)

    @property
    def why_refused(self) -> str:
        """Why nothing could be asked; nothing if something could."""
        return "" if self.question != "none" else " ".join(note.text for note in self.notes)


def _as_expected(forms: np.ndarray, along: np.ndarray, left: Residuals, steps: int) -> np.ndarray:
    """By how much a statistic is too sure of itself, at most 1: (smoothness, channel).

    A cell that fires seldom may by chance never do so at any of a few events. Then its products with them are
    small and all alike, block after block, and turning signs takes this for certain, though it says little. So
    the products along the direction that was found are compared with what they would be, were channel and features
    independent: their variances multiplied. forms, along : of `space_test`.
    """
    spread = left.squares.sum(0) / steps**2  # of a mean over time of products with something of variance one
    share = np.square(along) / np.maximum(np.square(along).sum(2, keepdims=True), 1e-300)
    expected = np.einsum("scf,sf->sc", share, np.stack(left.variances)) * spread
    pulls = forms.sum(3)
    seen = np.square(pulls).sum(2) / np.maximum(pulls.sum(2), 1e-300)
    return np.minimum(1, LESS * seen / np.maximum(expected, 1e-300))


def empty_test(name: str, channels: int, notes: list[Note]) -> SpaceTest:
    """What is said of a space about which nothing could be asked: NaN for every channel. notes : why."""
    empty = np.full(channels, np.nan)
    at = lambda rows: np.full((len(rows), channels), np.nan)  # noqa: E731
    return SpaceTest(name, "none", empty, empty, empty, empty, empty, None, notes, at)


def space_test(
    name: str, question: Question, left: Residuals, blocks: list[np.ndarray], flips: int, noise: np.ndarray
) -> SpaceTest:
    """Scores, intervals and p-values of a space."""
    steps, number = sum(map(len, blocks)), len(blocks)
    by_block = left.by_block / steps
    sizes = sizes_of_blocks(left, question.parts, blocks, noise)
    forms = np.stack(
        [quadratic_form(by_block / size, each) for each, size in zip(left.whitening, sizes, strict=True)]
    )
    along = np.stack([by_block.sum(0).T @ each for each in left.whitening])  # (smoothness, channel, feature)
    found = np.square(along).sum(2)
    p = p_values(forms, found * _as_expected(forms, along, left, steps), flips)
    expected = by_chance(np.einsum("ckk->ck", forms[0]), 1 - left.explained)
    score = found[0] - expected
    pull = 2 * forms[0].sum(2)
    chance = 2 * (np.square(forms[0]).sum((1, 2)) - np.square(np.einsum("ckk->ck", forms[0])).sum(1))
    wide = stats.t.ppf(0.975, number - 1) * np.sqrt(number * pull.var(1, ddof=1) + chance)
    usable = np.zeros(len(question.first), dtype=bool)
    usable[np.concatenate(blocks)] = True
    direction = left.whitening[0] @ (left.whitening[0].T @ by_block.sum(0))  # (feature, channel)

    def at(rows: np.ndarray) -> np.ndarray:
        out = np.full((len(rows), len(score)), np.nan)
        for part in np.array_split(np.flatnonzero(usable[rows]), -(-len(rows) // LOOKED_AT)):
            if len(part):  # a variable may be missing at all of these
                out[part] = left.products(question.parts(rows[part]), direction) - expected
        return out

    return SpaceTest(
        space=name,
        question="innovation" if question.history is not None else "level",
        score=score,
        ci_low=score - wide,
        ci_high=score + wide,
        p=np.where((score > 0) & (score < MISFIT * left.explained), 1.0, np.maximum(p, left.least_p)),
        level=np.full(len(score), np.nan),
        at=at,
    )
