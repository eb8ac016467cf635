"""A source of batches from several sessions: one encoder for each session and seed, all trained into one space.

All encoders make one step together. Those of one session are a stack (`Embedder`), with as many inputs as the
session has channels: nothing is padded, so a session's loss, penalty and gradients do not know how wide others are.
Sessions meet in the embedding alone, where the positives of one are those of another (`pairs`).

A session that is not to be trained takes part by its embedding at some time steps; see `add_session`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...data.mapped_files import is_mapped
from ...data.segments import segment_bounds
from ...networks.infonce_loss import chance, infonces
from ...networks.model_stack import LOG_TEMPERATURE, Embedder
from ...spaces.base import Space, layout
from ...spaces.similarities import as_similarity
from ...training.objective import Loss, Objective, RegularizedLoss
from ...training.random_numbers import Noise, chunk_seed
from ...training.read_ahead import Reading, read_ahead
from ...training.training_problem import Problem
from .session_pairs import SessionPairs, partners

__all__ = ["SessionBatch", "SessionSource", "learned_temperatures", "own_parameters"]


def learned_temperatures(spaces: Mapping[str, Space]) -> list[str]:
    """The spaces whose temperature is fitted, in the order of the parameter that holds them."""
    return [n for n, s in spaces.items() if s.contrastive and s.temperature == "learn"]


def own_parameters(
    parameters: Mapping[str, Tensor], session: int, spaces: Mapping[str, Space], own: Mapping[str, Space]
) -> dict[str, Tensor]:
    """The parameters of one session among those of all: its encoders', and the temperatures, which all share.

    spaces, own : of the whole model, and those that the session has.
    """
    prefix = f"{session}."
    mine = {n.removeprefix(prefix): value for n, value in parameters.items() if n.startswith(prefix)}
    columns = [k for k, name in enumerate(learned_temperatures(spaces)) if name in own]
    if columns:
        mine[LOG_TEMPERATURE] = parameters[LOG_TEMPERATURE][:, columns]
    return mine


class SessionBatch(NamedTuple):
    """The batch of one training step.

    index : for each session its time steps, (seed, row, batch).
    valid : for each shared space whether the positive of a reference counts, (session, seed, batch).
    step : the number of the training step, which says who is whose partner.
    """

    index: list[Tensor]
    valid: dict[str, Tensor]
    step: int


class SessionSource:
    """Batches of several sessions, and their loss (see `ascribo.training.batch_source.Source`).

    The loss is what each session has by itself, and what holds them together. The models of the stack are sessions
    x seeds, the seeds of a session beside each other.

    problems : for each session to train its problem. spaces, objectives : of the whole model.
    pairs : of these sessions, then of the frozen ones.
    first : number of the first session, for its initial values.
    frozen : for each session that is not trained its embedding (seed, time, dim), at temperature 1, and its spaces.
    temperature : the parameter (seed, space) if it is not to be trained.
    """

    separable = False  # sessions meet in the loss

    def __init__(
        self,
        problems: Sequence[Problem],
        spaces: Mapping[str, Space],
        objectives: Sequence[Objective],
        pairs: SessionPairs,
        seeds: Sequence[int],
        *,
        device: torch.device | str = "cpu",
        exact_penalty: bool = False,
        first: int = 0,
        frozen: Sequence[tuple[Tensor, Mapping[str, Space]]] = (),
        temperature: Tensor | None = None,
    ):
        self.device = torch.device(device)
        self.problems, self.spaces, self.pairs = problems, spaces, pairs
        self._seeds = [int(seed) for seed in seeds]
        self.seeds = [(seed, first + number) for number in range(len(problems)) for seed in self._seeds]
        self.objectives = [objective.space for objective in objectives]
        self.regressions = [name for name, space in spaces.items() if not space.contrastive]
        self.X = [problem.X.to(self.device) for problem in problems]
        self._edges = [[self._tensor(edge) for edge in segment_bounds(p.segments)] for p in problems]
        self._targets = [{name: self._tensor(value) for name, value in p.targets.items()} for p in problems]
        self._losses = [
            RegularizedLoss(Embedder(p.module, p.spaces), p.spaces, p.objectives, pairs.rows[k], exact_penalty)
            for k, p in enumerate(problems)
        ]
        self._terms = [{objective.space: objective.terms for objective in p.objectives} for p in problems]
        self._frozen = [z.to(self.device) for z, _ in frozen]
        self._slices = [layout(p.spaces) for p in problems] + [layout(own) for _, own in frozen]
        self.fixed = {} if temperature is None else {LOG_TEMPERATURE: temperature.to(self.device)}

    def initial(self) -> dict[str, Tensor]:
        """See `Source`. The parameters of session k begin with "k.", the temperatures are shared by all."""
        out = {}
        for number, (problem, loss) in enumerate(zip(self.problems, self._losses, strict=True)):
            mine = self.seeds[number * len(self._seeds) : (number + 1) * len(self._seeds)]
            own = [chunk_seed([seed], session) for seed, session in mine]
            for name, value in loss.embedder.initial(problem.module, own).items():
                if name != LOG_TEMPERATURE:
                    out[f"{number}.{name}"] = value
        count = len(learned_temperatures(self.spaces))
        if count and not self.fixed:
            out[LOG_TEMPERATURE] = torch.zeros(len(self._seeds), count)
        return out

    def draw(self, start: int, steps: int, batch: int) -> Iterable[SessionBatch | Reading[SessionBatch]]:
        """See `Source`. Channels in files are read ahead of the steps that need them."""
        batches = self.draw_index(start, steps, batch)
        if not any(not isinstance(X, Tensor) and is_mapped(X.raw) for X in self.X):
            return batches
        each = zip(self.X, batches[0].index, self._losses, strict=False)
        size = sum(4 * index.numel() * X.shape[1] * loss.embedder.window for X, index, loss in each)
        return read_ahead(batches, lambda one: [self.inputs(k, one.index[k]) for k in range(len(self.X))], size)

    def draw_index(self, start: int, steps: int, batch: int) -> list[SessionBatch]:
        """The time steps of the batches of some training steps."""
        draws = [self.pairs.draw(np.random.default_rng([s, start]), start, steps, batch) for s in self._seeds]
        index = [self._tensor(np.stack([own[s] for own, _ in draws], 1)) for s in range(len(self.pairs.rows))]
        valid = {
            name: self._tensor(np.stack([v[name] for _, v in draws], 1)).movedim(2, 0)
            for name in self.pairs.sessions
        }
        return [
            SessionBatch([i[k] for i in index], {name: v[k] for name, v in valid.items()}, start + k)
            for k in range(steps)
        ]

    def loss(
        self,
        parameters: Mapping[str, Tensor],
        batch: SessionBatch | Reading[SessionBatch],
        weight: Tensor,
        noise: Noise | None,
    ) -> Loss:
        """See `Source`."""
        count, trained = len(self._seeds), len(self.problems)
        read = None
        if isinstance(batch, Reading):
            batch, read = batch.index, batch.inputs()
        mine = [slice(session * count, (session + 1) * count) for session in range(trained)]
        done = []
        for session, own in enumerate(mine):
            x = self.inputs(session, batch.index[session]) if read is None else read[session]
            done.append(self.embed(parameters, session, x, None if noise is None else noise[own]))
        parts = [part for part, _ in done]
        for z, where in zip(self._frozen, batch.index[trained:], strict=True):
            seed = torch.arange(len(z), device=z.device)[:, None]
            parts.append({row: z[seed, where[:, row]] for row in range(where.shape[1])})
        penalty = torch.cat([value for _, value in done])
        infonce = penalty.new_full((trained * count, len(self.objectives)), chance(batch.index[0].shape[-1]))
        error = penalty.new_ones(trained * count, len(self.regressions))
        terms = []
        for column, name in enumerate(self.objectives):
            if name not in self.pairs.sessions:
                values = {s: self.alone(name, s, parts[s]) for s in range(trained) if name in self._terms[s]}
            else:
                values = self.across(name, parts, batch.valid[name], batch.step)
            for session, value in values.items():
                terms.append(value.sum())
                if session < trained:
                    infonce[mine[session], column] = value.detach()
        for session, loss in enumerate(self._losses):
            index, targets = batch.index[session], self._targets[session]
            goals = {name: goal[index[:, loss.rows[name][0]]] for name, goal in targets.items()}
            for name, value in zip(goals, loss.errors(parts[session], goals), strict=True):
                terms.append(value.sum())
                error[mine[session], self.regressions.index(name)] = value.detach()[:, 0]
        total = torch.stack(terms).sum() + (weight * penalty).sum()
        return Loss(total, infonce, error, penalty.detach())

    def inputs(self, session: int, index: Tensor) -> Tensor:
        """What the encoders of a session see at time steps (seed, row, batch), in the order of their loss."""
        loss = self._losses[session]
        return loss.embedder.gather(self.X[session], loss.ordered(index), *self._edges[session])

    def embed(
        self, parameters: Mapping[str, Tensor], session: int, x: Tensor, noise: Noise | None
    ) -> tuple[dict[int | None, Tensor], Tensor]:
        """The embedding of each row of a session's batch, and its penalty: see `RegularizedLoss.parts`."""
        own = own_parameters({**parameters, **self.fixed}, session, self.spaces, self.problems[session].spaces)
        return self._losses[session].parts(own, x, noise)

    def alone(self, name: str, session: int, parts: Mapping) -> Tensor:
        """InfoNCE of a space that follows time, within a session: (seed,)."""
        reference, positive, negative = (parts[row] for row in self.pairs.rows[session][name])
        return infonces(reference, [positive], negative, [self._terms[session][name]])[:, 0]

    def across(self, name: str, parts: Sequence[Mapping], valid: Tensor, step: int) -> dict[int, Tensor]:
        """InfoNCE of a space with variables, over all sessions that have it: session -> (seed,)."""
        sessions = self.pairs.sessions[name]
        reference, positive, negative = (
            torch.stack([parts[s][self.pairs.rows[s][name][role]][..., self._slices[s][name]] for s in sessions])
            for role in range(3)
        )  # (session, seed, batch, dim)
        count, seeds, batch, dim = reference.shape
        turn = torch.from_numpy(partners(count, batch, step)).to(reference.device)
        place = torch.arange(batch, device=reference.device)
        positive = positive[turn, :, place].transpose(1, 2)
        # each session shows the others an equal share of its negatives, so that there are as many as ever
        shown = negative[turn[0], :, place].transpose(0, 1).expand(count, -1, -1, -1)
        value = infonces(
            *(reference.flatten(0, 1), [positive.flatten(0, 1)], shown.flatten(0, 1)),
            [[(as_similarity(self.spaces[name].similarity), slice(0, dim))]],
            weight=valid.flatten(0, 1).to(reference),
        )
        return dict(zip(sessions, value.view(count, seeds), strict=True))

    def digest(self) -> str:
        """See `Source`."""
        parts = [repr((self.spaces, self.seeds)), *(problem.digest() for problem in self.problems)]
        parts += [hashlib.sha256(z.cpu().numpy().tobytes()).hexdigest() for z in self._frozen]
        return hashlib.sha256("".join(parts).encode()).hexdigest()

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.device)
