"""Training the encoders of several sessions into one space: one encoder for each session and seed.

All encoders make one step together. Those of one session are a stack (`Embedder`), with as many inputs as the
session has channels: nothing is padded, so a session's loss, penalty and gradients do not know how wide others are.
Sessions meet in the embedding alone, where the positives of one are those of another (`pairs`).

A session that is not to be trained takes part by its embedding at some time steps; see `add_session`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ...data.segments import segment_bounds
from ...networks.losses import chance, infonces
from ...networks.stack import LOG_TEMPERATURE, Embedder
from ...spaces.base import Space, layout
from ...spaces.similarities import as_similarity
from ...training.adam import Adam, gradient_of
from ...training.chunks import chunk_seed
from ...training.objective import Loss, Objective, RegularizedLoss
from ...training.problem import Problem
from ...training.settings import Settings
from .pairs import SessionPairs, partners

__all__ = ["SessionLoss", "SessionSteps", "learned_temperatures", "own_parameters"]


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


class SessionLoss:
    """The loss of several sessions: what each has by itself, and what holds them together.

    losses : for each session that is trained, the parts of its loss. frozen : for each other session its embedding
    at temperature 1, (seed, time, dim), and its spaces.
    """

    def __init__(
        self,
        spaces: Mapping[str, Space],
        objectives: Sequence[Objective],
        own: Sequence[Sequence[Objective]],
        losses: Sequence[RegularizedLoss],
        frozen: Sequence[tuple[Tensor, Mapping[str, Space]]],
        pairs: SessionPairs,
    ):
        self.spaces, self.losses, self.frozen, self.pairs = spaces, losses, frozen, pairs
        self.names = [objective.space for objective in objectives]
        self.own = [{objective.space: objective for objective in part} for part in own]
        self.slices = [loss.slices for loss in losses] + [layout(part) for _, part in frozen]
        self.targets = {name: space for name, space in spaces.items() if not space.contrastive}

    def __call__(
        self,
        embed: Sequence,
        index: Sequence[Tensor],
        valid: Mapping[str, Tensor],
        weight: Tensor,
        step: int,
    ) -> Loss:
        """Loss at the time steps `index`, for each session (seed, row, batch).

        embed : for each trained session a function of its index, which returns its parts and penalty. valid : for
        each shared space (session, seed, batch). weight : (trained session · seed,) λ. step : the number of the
        training step, which says who is whose partner.
        """
        done = [function(where) for function, where in zip(embed, index, strict=False)]
        parts = [part for part, _ in done]
        for (z, _), where in zip(self.frozen, index[len(parts) :], strict=True):
            seed = torch.arange(len(z), device=z.device)[:, None]
            parts.append({row: z[seed, where[:, row]] for row in range(where.shape[1])})
        trained, (seeds, _, batch) = len(done), index[0].shape
        penalty = torch.cat([value for _, value in done])
        infonce = penalty.new_full((trained * seeds, len(self.names)), chance(batch))
        error = penalty.new_ones(trained * seeds, len(self.targets))
        terms = []
        for column, name in enumerate(self.names):
            if name not in self.pairs.sessions:
                values = {s: self._alone(name, s, parts[s]) for s in range(trained) if name in self.own[s]}
            else:
                values = self._across(name, parts, valid[name], step)
            for session, value in values.items():
                terms.append(value.sum())
                if session < trained:
                    infonce[session * seeds : (session + 1) * seeds, column] = value.detach()
        for session, loss in enumerate(self.losses):
            for name, value in zip(loss.targets, loss.errors(parts[session], index[session]), strict=True):
                terms.append(value.sum())
                mine = slice(session * seeds, (session + 1) * seeds)
                error[mine, list(self.targets).index(name)] = value.detach()[:, 0]
        total = torch.stack(terms).sum() + (weight * penalty).sum()
        return Loss(total, infonce, error, penalty.detach())

    def _alone(self, name: str, session: int, parts: Mapping) -> Tensor:
        """InfoNCE of a space that follows time, within a session: (seed,)."""
        reference, positive, negative = (parts[row] for row in self.pairs.rows[session][name])
        return infonces(reference, [positive], negative, [self.own[session][name].terms])[:, 0]

    def _across(self, name: str, parts: Sequence[Mapping], valid: Tensor, step: int) -> dict[int, Tensor]:
        """InfoNCE of a space with variables, over all sessions that have it: session -> (seed,)."""
        sessions = self.pairs.sessions[name]
        reference, positive, negative = (
            torch.stack([parts[s][self.pairs.rows[s][name][role]][..., self.slices[s][name]] for s in sessions])
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


class SessionSteps:
    """The steps of training (see `ascribo.training.chunks.Steps`) of one model per session and seed.

    The model axis of λ and of the curves is sessions x seeds, the seeds of a session beside each other.

    problems : for each session to train its problem. spaces, objectives : of the whole model.
    pairs : of these sessions, then the frozen ones. first : number of the first session, for its initial values.
    frozen : for each session that is not trained its embedding (seed, time, dim), at temperature 1, and its spaces.
    temperature : the parameter (seed, space) if it is not to be trained.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        spaces: Mapping[str, Space],
        objectives: Sequence[Objective],
        pairs: SessionPairs,
        seeds: Sequence[int],
        settings: Settings,
        *,
        first: int = 0,
        frozen: Sequence[tuple[Tensor, Mapping[str, Space]]] = (),
        temperature: Tensor | None = None,
    ):
        device = torch.device(settings.device)
        self.problems, self.spaces, self.pairs, self.first = problems, spaces, pairs, first
        self.seeds, self.settings = list(seeds), settings
        self.X = [problem.X.to(device) for problem in problems]
        self.edges = [[torch.from_numpy(e).to(device) for e in segment_bounds(p.segments)] for p in problems]
        losses, self.parameters = [], {}
        for number, problem in enumerate(problems):
            embedder = Embedder(problem.module, problem.spaces)
            targets = {name: torch.from_numpy(value).to(device) for name, value in problem.targets.items()}
            given = (problem.spaces, problem.objectives, pairs.rows[number], targets, settings.exact_penalty)
            losses.append(RegularizedLoss(embedder, *given))
            own = [chunk_seed([seed], first + number) for seed in seeds]
            for name, value in embedder.initial(problem.module, own).items():
                if name != LOG_TEMPERATURE:
                    self.parameters[f"{number}.{name}"] = value.to(device).requires_grad_()
        self.fixed: dict[str, Tensor] = {}
        if temperature is not None:
            self.fixed[LOG_TEMPERATURE] = temperature.to(device)
        elif count := len(learned_temperatures(spaces)):
            self.parameters[LOG_TEMPERATURE] = torch.zeros(len(seeds), count, device=device, requires_grad=True)
        known = [(z.to(device), own) for z, own in frozen]
        self.loss = SessionLoss(spaces, objectives, [p.objectives for p in problems], losses, known, pairs)
        self.rate = torch.tensor(settings.learning_rate, device=device)
        self.optimizer = Adam(self.parameters.values(), self.rate)
        self.noises = [[torch.Generator(device) for _ in seeds] for _ in problems]

    def run(self, start: int, weights: np.ndarray) -> dict[str, np.ndarray]:
        """See `ascribo.training.chunks.Steps`."""
        steps, batch, device = len(weights), self.settings.batch_size, self.rate.device
        draws = [self.pairs.draw(np.random.default_rng([s, start]), start, steps, batch) for s in self.seeds]
        to = lambda parts, axis: torch.from_numpy(np.stack(parts, axis=axis)).to(device)  # noqa: E731
        index = [to([own[s] for own, _ in draws], 1) for s in range(len(self.pairs.rows))]
        valid = {name: to([v[name] for _, v in draws], 1).movedim(2, 0) for name in self.pairs.sessions}
        for session, noises in enumerate(self.noises):
            for noise, seed in zip(noises, self.seeds, strict=True):
                noise.manual_seed(chunk_seed([seed, self.first + session], start))
        lambdas = torch.from_numpy(weights).to(device, torch.float32)
        kept: list[Loss] = []
        for k in range(steps):
            self.rate.fill_(self.settings.rate(start + k))
            # While λ = 0 the penalty is only measured, at the end of a chunk, for the record.
            penalised = bool(weights.any()) or k == steps - 1
            at = {name: value[k] for name, value in valid.items()}
            step = self.loss(self._embeds(penalised), [i[k] for i in index], at, lambdas[k], start + k)
            self.optimizer.step(gradient_of(step.total, self.parameters))
            kept.append(step)
        return {
            name: torch.stack([getattr(step, name) for step in kept]).cpu().numpy()
            for name in ("infonce", "mse", "penalty")
        }

    def _embeds(self, penalised: bool) -> list:
        """For each session its inputs' embedding and penalty, as a function of time steps."""
        every = {**self.parameters, **self.fixed}

        def embed(session: int):
            loss, X, edges = self.loss.losses[session], self.X[session], self.edges[session]
            own = own_parameters(every, session, self.spaces, self.problems[session].spaces)

            def directions(like: Tensor) -> Tensor:
                shape, noises = like.shape[1:], self.noises[session]
                return torch.stack([torch.randn(shape, generator=n, device=like.device) for n in noises])

            def gather(where: Tensor) -> Tensor:
                return loss.embedder.gather(X, where, *edges)

            return lambda index: loss.parts(own, gather, index, directions if penalised else None)

        return [embed(session) for session in range(len(self.problems))]
