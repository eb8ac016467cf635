"""The regularized contrastive loss: the InfoNCE of every space plus λ‖J_f‖².

Schneider et al. (2025), equation 10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..kernels.similarity_terms import Term
from ..networks.infonce_loss import infonces
from ..networks.model_stack import Embedder
from ..spaces.base import Space, layout
from ..spaces.similarities import as_similarity
from .jacobian_penalty import jacobian_penalty
from .random_numbers import Noise

__all__ = ["Loss", "Objective", "RegularizedLoss", "contrastive_objectives"]


@dataclass(frozen=True)
class Objective:
    """One summand of the loss: the space that drives its pairs, and the terms of ψ it sees."""

    space: str
    terms: tuple[Term, ...]


def contrastive_objectives(spaces: Mapping[str, Space], hybrid: str) -> list[Objective]:
    """The contrastive objectives of a model.

    With hybrid="whole" a time objective sees the dimensions of all spaces (Schneider et al., 2025, equation 25),
    with "separate" only its own. Blocks that share a similarity become one term.

    >>> from ascribo import Follow, Time
    >>> [o.terms for o in contrastive_objectives({"a": Follow("x", 2), "b": Time(3)}, "whole")]
    [((SquaredL2(), slice(0, 2, None)),), ((SquaredL2(), slice(0, 5, None)),)]
    """
    slices = layout(spaces)
    blocks = {n: as_similarity(s.similarity) for n, s in spaces.items() if s.contrastive}
    out = []
    for name in blocks:
        seen = list(blocks) if hybrid == "whole" and spaces[name].follows_time else [name]
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
    """The loss of a stack of models as a function of inputs: embeddings, their InfoNCE and the Jacobian penalty.

    Parameters
    ----------
    embedder, spaces, objectives : the model.
    rows : which row of a batch is which (`ascribo.spaces.pairs.Pairs.rows`).
    exact_penalty : ‖J_f‖² by all its rows rather than along one random direction.
    """

    def __init__(
        self,
        embedder: Embedder,
        spaces: Mapping[str, Space],
        objectives: Sequence[Objective],
        rows: Mapping[str, tuple[int, int | None, int | None]],
        exact_penalty: bool = False,
    ):
        self.embedder, self.objectives, self.exact_penalty = embedder, objectives, exact_penalty
        self.slices, self.rows = layout(spaces), rows
        self.references = sorted({row[0] for row in rows.values()})
        others = {row for part in rows.values() for row in part if row is not None} - set(self.references)
        self.order = [*self.references, *sorted(others)]
        # objectives with the same references and negatives are computed in one pass over the pairs
        shared: dict[tuple, list[Objective]] = {}
        for objective in objectives:
            reference, _, negative = rows[objective.space]
            shared.setdefault((reference, negative), []).append(objective)
        self.groups = list(shared.items())
        grouped = [objective for part in shared.values() for objective in part]
        self.columns = [grouped.index(objective) for objective in objectives]
        # the negatives (model, B, dim) of all processes, where several train one model (`data_parallel`)
        self.gather: Callable[[Tensor], Tensor] = lambda negatives: negatives

    def ordered(self, batch: Tensor) -> Tensor:
        """The rows of a batch (model, row, B, ...) one after the other, references first: (model, row·B, ...)."""
        return torch.cat([batch[:, row] for row in self.order], 1)

    def __call__(
        self,
        parameters: Mapping[str, Tensor],
        x: Tensor,
        goals: Mapping[str, Tensor],
        weight: Tensor,
        noise: Noise | None,
    ) -> Loss:
        """Loss at inputs x (model, row·B, channel[, window]), in the order of `ordered`.

        goals : for each regression what it should predict at its references, (model, B, dim). weight : (model,) λ.
        noise : for the directions of the penalty; None leaves the penalty out.
        """
        parts, penalty = self.parts(parameters, x, noise)
        values = []
        for (reference, negative), shared in self.groups:
            positives = [parts[self.rows[o.space][1]] for o in shared]
            terms = [o.terms for o in shared]
            values.append(infonces(parts[reference], positives, self.gather(parts[negative]), terms))
        errors = self.errors(parts, goals)
        total = torch.stack([value.sum() for value in values + errors]).sum()
        if noise is not None:
            total = total + (weight * penalty).sum()
        empty = penalty.new_zeros(len(penalty), 0)
        contrast = torch.cat([empty, *values], 1).detach()
        contrast = torch.cat([empty, *(contrast[:, k : k + 1] for k in self.columns)], 1)
        return Loss(total, contrast, torch.cat([empty, *errors], 1).detach(), penalty.detach())

    def parts(
        self, parameters: Mapping[str, Tensor], x: Tensor, noise: Noise | None
    ) -> tuple[dict[int | None, Tensor], Tensor]:
        """What the loss is made of: for each row its embedding (model, B, dim) at temperature 1, and the penalty
        (model,). Arguments as of the loss itself."""
        batch = x.shape[1] // len(self.order)
        z, penalty = self._encode(parameters, x, batch * len(self.references), noise)
        blocks = self.embedder.tempered(parameters, z).split(batch, 1)
        return dict(zip(self.order, blocks, strict=True)), penalty

    def errors(self, parts: Mapping[int | None, Tensor], goals: Mapping[str, Tensor]) -> list[Tensor]:
        """The squared errors of the regressions, (model, 1) each."""
        errors = []
        for name, goal in goals.items():
            error = parts[self.rows[name][0]][..., self.slices[name]] - goal
            errors.append(error.square().mean((-1, -2))[:, None])
        return errors

    def _encode(
        self, parameters: Mapping[str, Tensor], x: Tensor, references: int, noise: Noise | None
    ) -> tuple[Tensor, Tensor]:
        """Embedding (model, rows, dim) and the penalty at the references (model,), 0 without noise."""
        if noise is None:
            return self.embedder(parameters, x), x.new_zeros(len(x))
        near = x[:, :references]
        if self.exact_penalty:
            near = near.detach().requires_grad_()
            z = self.embedder(parameters, near)
            return torch.cat([z, self.embedder(parameters, x[:, references:])], 1), jacobian_penalty(z, near)
        z, tangent = self.embedder.with_tangents(parameters, x, noise.normal(near.shape[1:]))
        return z, tangent.square().sum(-1).mean(-1)
