"""The regularized contrastive loss of a model: the InfoNCE of every space plus λ‖J_f‖² (001, equation 10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .embedder import Embedder
from .losses import Term, infonce, similarity_of
from .pairs import Pairs
from .penalty import jacobian_penalty
from .spaces import Regress, Space, Time, layout

__all__ = ["Loss", "Objective", "RegularizedLoss", "objectives_of"]


@dataclass(frozen=True)
class Objective:
    """One summand of the loss: the space that drives its pairs, and the terms of ψ it sees."""

    space: str
    terms: tuple[Term, ...]


def objectives_of(spaces: Mapping[str, Space], hybrid: str) -> list[Objective]:
    """The contrastive objectives of a model.

    With hybrid="whole" a time objective sees the dimensions of all spaces (001, equation 25), with "separate"
    only its own. Blocks that share a similarity become one term.

    >>> from ascribo import Follow, Time
    >>> [o.terms for o in objectives_of({"a": Follow("x", 2), "b": Time(3)}, "whole")]
    [((SquaredL2(), slice(0, 2, None)),), ((SquaredL2(), slice(0, 5, None)),)]
    """
    slices = layout(spaces)
    blocks = {n: similarity_of(s.similarity) for n, s in spaces.items() if not isinstance(s, Regress)}
    out = []
    for name in blocks:
        seen = list(blocks) if hybrid == "whole" and isinstance(spaces[name], Time) else [name]
        terms: list[Term] = []
        for other in seen:
            where = slices[other]
            if terms and terms[-1][0] == blocks[other] and terms[-1][1].stop == where.start:
                where = slice(terms.pop()[1].start, where.stop)
            terms.append((blocks[other], where))
        out.append(Objective(name, tuple(terms)))
    return out


class Loss(NamedTuple):
    """One step's loss: total (), and by seed the InfoNCE (seed, objective), the squared error of regressions
    (seed, regression) and the penalty (seed,), detached."""

    total: Tensor
    infonce: Tensor
    mse: Tensor
    penalty: Tensor


class RegularizedLoss:
    """The loss of a stack of models on a batch of indices.

    Parameters
    ----------
    embedder, spaces, objectives : the model.
    pairs : says which row of a batch is which (`Pairs.rows`).
    targets : name -> (time, dim) for the Regress spaces, on the device of the recording.
    exact_penalty : ‖J_f‖² by all its rows rather than by one random projection.
    """

    def __init__(
        self,
        embedder: Embedder,
        spaces: Mapping[str, Space],
        objectives: Sequence[Objective],
        pairs: Pairs,
        targets: Mapping[str, Tensor],
        exact_penalty: bool,
    ):
        self.embedder, self.objectives, self.targets = embedder, objectives, targets
        self.exact_penalty, self.slices, self.rows = exact_penalty, layout(spaces), pairs.rows
        used = {row for rows in pairs.rows.values() for row in rows if row is not None}
        self.references = sorted({rows[0] for rows in pairs.rows.values()})
        self.others = sorted(used - set(self.references))

    def __call__(
        self,
        parameters: Mapping[str, Tensor],
        x: Tensor,
        index: Tensor,
        weight: Tensor,
        noise: torch.Generator | None,
    ) -> Loss:
        """Loss on inputs x (seed, row, batch, ...) taken at steps `index` (seed, row, batch).

        weight : (seed,) λ. noise : draws the projections; None leaves the penalty out.
        """
        seeds, batch = index.shape[0], index.shape[2]
        # References are encoded apart from the rest: only they are differentiated twice.
        inputs = x[:, self.references].flatten(1, 2).requires_grad_(noise is not None)
        z = self.embedder(parameters, inputs)
        parts = dict(zip(self.references, self.embedder.tempered(parameters, z).split(batch, 1), strict=True))
        if self.others:
            rest = self.embedder(parameters, x[:, self.others].flatten(1, 2))
            rest = self.embedder.tempered(parameters, rest).split(batch, 1)
            parts |= dict(zip(self.others, rest, strict=True))
        values, errors = [], []
        for objective in self.objectives:
            reference, positive, negative = self.rows[objective.space]
            assert positive is not None and negative is not None
            values.append(infonce(parts[reference], parts[positive], parts[negative], objective.terms))
        for name, goal in self.targets.items():
            row = self.rows[name][0]
            errors.append((parts[row][..., self.slices[name]] - goal[index[:, row]]).square().mean((-1, -2)))
        total = torch.stack(values + errors).sum()
        penalty = torch.zeros(seeds, device=x.device)
        if noise is not None:
            probe = None if self.exact_penalty else torch.randn(z.shape, generator=noise, device=x.device)
            penalty = jacobian_penalty(z, inputs, probe)
            total = total + (weight * penalty).sum()
        return Loss(total, _columns(values, penalty), _columns(errors, penalty), penalty.detach())


def _columns(values: list[Tensor], like: Tensor) -> Tensor:
    """Per-seed values side by side, (seed, k), detached; k may be 0."""
    return torch.stack(values, -1).detach() if values else like.new_zeros(len(like), 0)
