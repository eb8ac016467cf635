"""Which coordinates enter which objective, in groups, so that what objectives share is summed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from .similarity_terms import Term

__all__ = ["Plan", "make_plan"]


@dataclass(frozen=True)
class Plan:
    """Groups of coordinates that enter the same objectives by the same similarity. All fields are flat tuples of
    numbers, as compile-time constants of a kernel must be.

    skip, last : the coordinates used are skip:last; the others are not read.
    firsts, lasts : by group, its coordinates, counted from `skip`.
    powers : by group, p of -Σ|a - b|ᵖ; 0 for the dot product.
    members, leads : by group, the objectives that hold it as bits, and the first of them.
    opens : by objective, its first group.
    """

    skip: int
    last: int
    firsts: tuple[int, ...]
    lasts: tuple[int, ...]
    powers: tuple[float, ...]
    members: tuple[int, ...]
    leads: tuple[int, ...]
    opens: tuple[int, ...]

    def covers(self, dim: int) -> bool:
        """Whether a kernel that writes skip:last writes all of `dim` coordinates."""
        return self.skip == 0 and self.last == dim


def make_plan(objectives: Sequence[Sequence[Term]], dim: int) -> Plan:
    """The plan of some objectives (lists of terms) on `dim` coordinates.

    >>> from ascribo.spaces.similarities import SquaredL2
    >>> plan = make_plan([[(SquaredL2(), slice(0, 3))], [(SquaredL2(), slice(0, 6))]], 6)
    >>> plan.firsts, plan.lasts, plan.members  # 0:3 is in both (bits 01 and 10), 3:6 in the second alone
    ((0, 3), (3, 6), (3, 2))
    """
    spans = [[(s.exponent, *where.indices(dim)) for s, where in terms] for terms in objectives]  # type: ignore
    edges = sorted({edge for span in spans for _, start, stop, _ in span for edge in (start, stop)})
    groups: dict[tuple[int, int, float, int], int] = {}
    for first, last in pairwise(edges):
        for o, span in enumerate(spans):
            seen: Counter[float] = Counter()  # a piece that an objective counts twice is in two groups
            for exponent, start, stop, step in span:
                if step != 1 or stop <= start:
                    raise ValueError(f"terms: slice({start}, {stop}, {step}) must be a run of coordinates.")
                if start <= first and last <= stop:
                    key = (first, last, exponent, seen[exponent])
                    groups[key] = groups.get(key, 0) | 1 << o
                    seen[exponent] += 1
    members = tuple(groups.values())
    return Plan(
        skip=edges[0],
        last=edges[-1],
        firsts=tuple(first - edges[0] for first, *_ in groups),
        lasts=tuple(last - edges[0] for _, last, *_ in groups),
        powers=tuple(float(power) for _, _, power, _ in groups),
        members=members,
        leads=tuple((bits & -bits).bit_length() - 1 for bits in members),
        opens=tuple(next(g for g, bits in enumerate(members) if bits >> o & 1) for o in range(len(spans))),
    )
